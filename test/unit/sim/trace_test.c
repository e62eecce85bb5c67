/* The hash over a trace: by small traces that differ in one thing. */
#include <stdio.h>
#include <string.h>

#include "unit/base/test.h"

#include "sim/trace.h"

static uint64_t hash_of(const char *first, const char *second)
{
    struct sim_trace trace;
    sim_trace_init(&trace, NULL, NULL);
    sim_trace_say(&trace, "%s", first);
    sim_trace_say(&trace, "%s", second);
    return trace.hash;
}

/* The same lines twice, then the order, a letter and a border changed. */
static void a_hash_knows_each_line_and_its_place(void **state)
{
    (void)state;
    uint64_t hash = hash_of("one", "two");
    assert_int_equal(hash, hash_of("one", "two"));
    assert_true(hash != hash_of("two", "one"));
    assert_true(hash != hash_of("one", "twp"));
    assert_true(hash != hash_of("onet", "wo"));
    assert_true(hash != 0);
}

/* The number was computed once; another machine or compiler gives the same. */
static void a_hash_is_the_same_everywhere(void **state)
{
    (void)state;
    assert_int_equal(hash_of("one", "two"), 0x246ab4eb51c548ac);
}

struct heard {
    uint32_t count;
    char first[SIM_TRACE_LINE_SIZE], last[SIM_TRACE_LINE_SIZE];
};

static void hear(void *context, const char *line)
{
    struct heard *heard = context;
    if (heard->count++ == 0) {
        snprintf(heard->first, sizeof(heard->first), "%s", line);
    }
    snprintf(heard->last, sizeof(heard->last), "%s", line);
}

/* 100 lines: the listener hears all, the tail has the last ones in order. */
static void the_tail_holds_the_last_lines(void **state)
{
    (void)state;
    struct heard all = {0};
    struct heard tail = {0};
    struct sim_trace trace;
    sim_trace_init(&trace, hear, &all);
    for (int i = 0; i < 100; i++) {
        sim_trace_say(&trace, "line %d", i);
    }
    sim_trace_visit_tail(&trace, hear, &tail);
    assert_int_equal(all.count, 100);
    assert_string_equal(all.first, "line 0");
    assert_int_equal(tail.count, SIM_TRACE_TAIL);
    assert_string_equal(tail.first, "line 60");
    assert_string_equal(tail.last, "line 99");
}

/* A line of 1000 letters is cut, and the next one is whole. */
static void a_long_line_is_cut(void **state)
{
    (void)state;
    struct heard all = {0};
    struct sim_trace trace;
    sim_trace_init(&trace, hear, &all);
    sim_trace_say(&trace, "%01000d", 7);
    assert_int_equal(strlen(all.last), SIM_TRACE_LINE_SIZE - 1);
    sim_trace_say(&trace, "short");
    assert_string_equal(all.last, "short");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hash_knows_each_line_and_its_place),
        cmocka_unit_test(a_hash_is_the_same_everywhere),
        cmocka_unit_test(the_tail_holds_the_last_lines),
        cmocka_unit_test(a_long_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
