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

static uint32_t lines_of(const char *text)
{
    uint32_t count = 0;
    for (; *text != 0; text++) {
        count += *text == '\n';
    }
    return count;
}

static void write_strangers(int count)
{
    for (int i = 0; i < count; i++) {
        log_warn_rare("x", "stranger %d", i);
    }
}

static void write_some(void)
{
    write_strangers(20);
}

static void write_many(void)
{
    write_strangers(1000);
    log_warn_rare("x", "another place");
}

/* Ten of a thousand; another place has a count of its own. Whoever debugs gets
 * all. */
static void rare_lines_are_few(void **state)
{
    (void)state;
    log_setup(&(struct log_options){.level = LOG_INFO});
    const char *got = captured(write_many);
    assert_int_equal(lines_of(got), LOG_RARE_MAX + 1);
    assert_non_null(strstr(got, "stranger 9\n"));
    assert_null(strstr(got, "stranger 10\n"));
    assert_non_null(strstr(got, "another place\n"));
    log_setup(&(struct log_options){.level = LOG_DEBUG});
    assert_non_null(strstr(captured(write_some), "stranger 19\n"));
}

/* After its minute a gate opens again and tells what it left out, once. */
static void a_gate_counts_what_it_leaves_out(void **state)
{
    (void)state;
    struct log_gate gate = {0};
    const uint64_t minute = 60000000000u;
    uint64_t left_out = 7;
    for (int i = 0; i < LOG_RARE_MAX; i++) {
        assert_true(log_gate_pass(&gate, 5 + (uint64_t)i, &left_out));
        assert_int_equal(left_out, 0);
    }
    for (int i = 0; i < 30; i++) {
        assert_false(log_gate_pass(&gate, minute + 4, &left_out));
    }
    assert_true(log_gate_pass(&gate, minute + 5, &left_out));
    assert_int_equal(left_out, 30);
    assert_true(log_gate_pass(&gate, minute + 6, &left_out));
    assert_int_equal(left_out, 0);
}

static void left_behind(void)
{
    static struct log_gate gate;
    uint64_t unused, long_ago = 0 - (uint64_t)120000000000u;
    for (int i = 0; i < 40; i++) {
        IGNORE(log_gate_pass(&gate, long_ago, &unused));
    }
    log_rare_line(&gate, LOG_WARN, "x", "the next");
}

/* The line that says so comes before the next one. */
static void what_was_left_out_is_told(void **state)
{
    (void)state;
    log_setup(&(struct log_options){.level = LOG_INFO});
    const char *got = captured(left_behind);
    assert_int_equal(lines_of(got), 2);
    const char *told = strstr(got, "x: 30 lines like the next one were left");
    assert_non_null(told);
    assert_non_null(strstr(told, "x: the next\n"));
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

/* A pipe whose reader sleeps takes what it has room for; the rest is lost, and
 * said to be once there is room again. We never wait. */
static void a_reader_that_sleeps_costs_lines_only(void **state)
{
    (void)state;
    static char taken[1 << 20];
    int ends[2];
    log_setup(&(struct log_options){.level = LOG_INFO});
    assert_int_equal(pipe(ends), 0);
    int old = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 5000; i++) {
        log_info("engine", "%0500d", i);
    }
    ssize_t size = read(ends[0], taken, sizeof(taken) - 1);
    log_info("engine", "here again");
    dup2(old, STDERR_FILENO);
    close(old);
    close(ends[1]);
    assert_true(size > 4096);
    size = read(ends[0], taken, sizeof(taken) - 1);
    taken[size < 0 ? 0 : size] = 0;
    close(ends[0]);
    assert_non_null(strstr(taken, "lines were lost"));
    assert_non_null(strstr(taken, "here again\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_line_is_one_line),
        cmocka_unit_test(json_line_is_valid),
        cmocka_unit_test(rare_lines_are_few),
        cmocka_unit_test(a_gate_counts_what_it_leaves_out),
        cmocka_unit_test(what_was_left_out_is_told),
        cmocka_unit_test(a_reader_that_sleeps_costs_lines_only),
        cmocka_unit_test(level_is_a_floor),
        cmocka_unit_test(long_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
