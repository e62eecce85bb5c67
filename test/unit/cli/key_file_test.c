/* Real files, each with one thing wrong or right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/key_file.h"

static char path[] = "/tmp/baton-test-XXXXXX";
static struct why why;

static enum err read_key(const char *content, size_t size, char key[8])
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fwrite(content, 1, size, file);
    fclose(file);
    strcpy(key, "kept");
    return cli_key_file_read("--api-key-file", path, &why, key, 8);
}

/* Proof: exactly one line end goes, blanks inside and around stay; a file that
 * everybody may read is read all the same. */
static void the_line_end_is_no_part_of_it(void **state)
{
    static const char *const CASES[][2] = {
        {"hush", "hush"},   {"hush\n", "hush"},       {"hush\r\n", "hush"},
        {" a b ", " a b "}, {"1234567\n", "1234567"}, {"\xc3\xa9", "\xc3\xa9"},
    };
    char key[8];
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        assert_int_equal(read_key(CASES[i][0], strlen(CASES[i][0]), key), OK);
        assert_string_equal(key, CASES[i][1]);
    }
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(read_key("open", 4, key), OK);
    assert_string_equal(key, "open");
}

static void assert_refused(const char *content, size_t size, const char *words)
{
    char key[8];
    assert_int_equal(read_key(content, size, key), ERR_INVALID);
    assert_string_equal(key, "kept");
    assert_int_equal(strncmp(why.text, "--api-key-file /tmp/", 20), 0);
    if (strstr(why.text, words) == NULL) {
        fail_msg("'%s' lacks '%s'", why.text, words);
    }
}

/* Proof: each says the flag, the file and what is wrong; the key stays. */
static void a_bad_file_is_named_with_its_flag(void **state)
{
    char key[8] = "kept";
    static char large[100000];
    (void)state;
    assert_refused("", 0, "is empty");
    assert_refused("\n", 1, "is empty");
    assert_refused("a\nb\n", 4, "one line");
    assert_refused("a\n\n", 3, "one line");
    assert_refused("a\0b", 3, "control");
    assert_refused("12345678", 8, "more than 7 bytes");
    memset(large, 'x', sizeof(large));
    assert_refused(large, sizeof(large), "more than 7 bytes");
    assert_int_equal(
        cli_key_file_read("--api-key-file", "/tmp/none/none", &why, key, 8),
        ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "--api-key-file: /tmp/none/none: "));
    assert_true(cli_key_file_read("--api-key-file", "/tmp", &why, key, 8) !=
                OK);
    assert_non_null(strstr(why.text, "--api-key-file: /tmp: "));
    assert_string_equal(key, "kept");
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int drop_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_end_is_no_part_of_it),
        cmocka_unit_test(a_bad_file_is_named_with_its_flag),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
