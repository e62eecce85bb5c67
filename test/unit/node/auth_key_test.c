#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/auth_key.h"

static char path[] = "/tmp/auth-key-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_key(const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Proof: a line's end and blanks around the key are no part of it. */
static void the_key_is_the_line(void **state)
{
    (void)state;
    struct buf key;
    write_key("secret \r\n", 9);
    assert_int_equal(node_auth_key_read(path, NULL, &key), OK);
    assert_true(span_equals_string(buf_span(&key), "secret"));
    buf_finish(&key);
    assert_int_equal(node_auth_key_read("", NULL, &key), OK);
    assert_int_equal(key.size, 0);
    buf_finish(&key);
}

static void refused(const char *name, const char *part)
{
    struct buf key;
    struct why why = {{0}};
    assert_int_not_equal(node_auth_key_read(name, &why, &key), OK);
    assert_non_null(strstr(why.text, "auth_key_file"));
    assert_non_null(strstr(why.text, part));
    buf_finish(&key);
}

/* Proof: no file, nothing in it, too much in it: each is said by name. */
static void what_is_no_key_is_named(void **state)
{
    (void)state;
    static char longest[5000];
    refused("/nowhere/at/all", "/nowhere/at/all");
    write_key(" \n", 2);
    refused(path, "is empty");
    memset(longest, 'x', sizeof(longest));
    write_key(longest, sizeof(longest));
    refused(path, "more than 4096 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_is_the_line),
        cmocka_unit_test(what_is_no_key_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
