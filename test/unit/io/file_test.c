#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/io/test.h"

#include "io/file.h"

static char folder[] = "/tmp/file-test-XXXXXX";
static char path[200];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/file-test-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/x", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* Any bit of group or others counts, write bits too; a folder, nothing, and a
 * file without a name are nobody's. */
static void a_file_for_others_is_told(void **state)
{
    static const mode_t OPEN[] = {0640, 0604, 0620, 0602, 0666};
    (void)state;
    assert_int_equal(io_file_write(path, span_of_string("x"), NULL), OK);
    for (size_t i = 0; i < sizeof(OPEN) / sizeof(OPEN[0]); i++) {
        assert_int_equal(chmod(path, OPEN[i]), 0);
        assert_true(io_file_is_open_to_others(path));
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_false(io_file_is_open_to_others(path));
    assert_false(io_file_is_open_to_others("/tmp"));
    assert_false(io_file_is_open_to_others("/tmp/none/none"));
    char unnamed[64];
    FILE *file = tmpfile();
    snprintf(unnamed, sizeof(unnamed), "/dev/fd/%d", fileno(file));
    assert_int_equal(fchmod(fileno(file), 0666), 0);
    assert_false(io_file_is_open_to_others(unnamed));
    fclose(file);
}

/* What was written is read and mapped; nothing else is left in the folder, or
 * it could not be removed. */
static void content_comes_back(void **state)
{
    (void)state;
    struct buf got;
    struct io_map *map;
    buf_init(&got, 100);
    assert_int_equal(io_file_write(path, span_of_string("first"), NULL), OK);
    assert_int_equal(io_file_write(path, span_of_string("one two"), NULL), OK);
    assert_int_equal(io_file_read(path, NULL, &got), OK);
    assert_string_equal(buf_string(&got), "one two");
    assert_int_equal(io_map_open(path, NULL, &map), OK);
    io_map_prefetch(map);
    assert_true(span_equals_string(io_map_span(map), "one two"));
    io_map_close(map);
    io_map_close(NULL);
    buf_finish(&got);
}

/* A cap of the very size is enough, one less is not. */
static void cap_is_exact(void **state)
{
    (void)state;
    struct buf got;
    assert_int_equal(io_file_write(path, span_of_string("12345"), NULL), OK);
    buf_init(&got, 5);
    assert_int_equal(io_file_read(path, NULL, &got), OK);
    buf_finish(&got);
    struct why why = {{0}};
    buf_init(&got, 4);
    assert_int_equal(io_file_read(path, &why, &got), ERR_FULL);
    assert_non_null(strstr(why.text, path));
    buf_finish(&got);
}

/* Each with its own code and the path in its words. */
static void failures_name_the_path(void **state)
{
    (void)state;
    struct why why = {{0}};
    struct buf got;
    struct io_map *map;
    buf_init(&got, 100);
    assert_int_equal(io_map_open(path, &why, &map), ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, path));
    assert_int_equal(io_file_read(path, &why, &got), ERR_NOT_FOUND);
    assert_int_equal(io_map_open(folder, &why, &map), ERR_INVALID);
    assert_int_equal(io_file_read(folder, &why, &got), ERR_INVALID);
    assert_non_null(strstr(why.text, folder));
    assert_int_equal(io_file_write(path, span_of(NULL, 0), NULL), OK);
    assert_int_equal(io_map_open(path, &why, &map), ERR_INVALID);
    assert_non_null(strstr(why.text, "empty"));
    assert_int_equal(io_file_write("/no/such/folder/x", span_of(NULL, 0), &why),
                     ERR_NOT_FOUND);
    buf_finish(&got);
}

/* Where the new file cannot take the name, the old one stays whole. */
static void failed_write_leaves_the_old_content(void **state)
{
    (void)state;
    struct why why = {{0}};
    char inner[250];
    snprintf(inner, sizeof(inner), "%s/inner", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(io_file_write(path, span_of_string("x"), &why), ERR_IO);
    struct stat info;
    assert_int_equal(stat(inner, &info), 0);
    rmdir(inner);
    rmdir(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_file_for_others_is_told),
        TEST(content_comes_back),
        TEST(cap_is_exact),
        TEST(failures_name_the_path),
        TEST(failed_write_leaves_the_old_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
