#include <stdio.h>
#include <unistd.h>

#include "unit/base/test.h"

#include "base/log.h"

static char line[20000];

/* What `write_lines` put on stderr. */
static const char *captured(void (*write_lines)(void))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int old = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    write_lines();
    dup2(old, STDERR_FILENO);
    close(old);
    close(ends[1]);
    ssize_t size = read(ends[0], line, sizeof(line) - 1);
    line[size < 0 ? 0 : size] = 0;
    close(ends[0]);
    return line;
}

static void write_one(void)
{
    log_debug("engine", "not %s", "wanted");
    log_warn("engine", "a\nb \"%s\"", "c\x1b");
}

/* One line: time, level, process, part; control characters cannot forge a
 * second one. */
static void text_line_is_one_line(void **state)
{
    (void)state;
    log_setup(&(struct log_options){.level = LOG_INFO, .process = "context"});
    const char *got = captured(write_one);
    assert_int_equal(got[4], '-');
    assert_non_null(strstr(got, "Z warn  [context] engine: "
                                "a\\x0ab \"c\\x1b\"\n"));
    assert_ptr_equal(strchr(got, '\n') + 1, got + strlen(got));
    assert_null(strstr(got, "wanted"));
}

static void json_line_is_valid(void **state)
{
    (void)state;
    log_setup(&(struct log_options){
        .level = LOG_INFO, .format = LOG_JSON, .process = "front \"end\""});
    const char *got = captured(write_one);
    assert_non_null(strstr(got, ",\"level\":\"warn\",\"process\":"
                                "\"front \\\"end\\\"\",\"part\":\"engine\","
                                "\"message\":\"a\\nb \\\"c\\u001b\\\"\"}\n"));
}

static void write_all_levels(void)
{
    log_debug("x", "d");
    log_info("x", "i");
    log_warn("x", "w");
    log_error("x", "e");
}

static void level_is_a_floor(void **state)
{
    (void)state;
    log_setup(&(struct log_options){.level = LOG_ERROR});
    assert_false(log_is_on(LOG_WARN));
    const char *got = captured(write_all_levels);
    assert_non_null(strstr(got, "error x: e\n"));
    assert_null(strstr(got, "warn"));
    log_setup(&(struct log_options){.level = LOG_DEBUG});
    assert_non_null(strstr(captured(write_all_levels), "debug x: d\n"));
}

static void write_long(void)
{
    log_error("x", "%05000d", 1);
}

/* Cut, but still a line. */
static void long_line_is_cut(void **state)
{
    (void)state;
    const char *got = captured(write_long);
    assert_true(strlen(got) > 1000 && strlen(got) < 1100);
    assert_int_equal(got[strlen(got) - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_line_is_one_line),
        cmocka_unit_test(json_line_is_valid),
        cmocka_unit_test(level_is_a_floor),
        cmocka_unit_test(long_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
