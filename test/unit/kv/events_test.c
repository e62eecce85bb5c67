#include "unit/base/test.h"

#include <stdio.h>

#include "kv/events.h"

enum { B = 4 };

static struct prefix_key key(uint8_t name)
{
    return (struct prefix_key){.bytes = {name}};
}

/* Block `name` of a chain in which the one before is name - 1. */
static void store_block(struct kv_events *events, uint8_t life, uint8_t name,
                        uint32_t ordinal)
{
    struct prefix_key ours = key(name);
    struct prefix_key above = key((uint8_t)(name - 1));
    int32_t tokens[B] = {name, name + 1, name + 2, name + 3};
    kv_events_stored(events, life, 0, 35, ordinal, &ours, &above, tokens);
}

static void remove_block(struct kv_events *events, uint8_t life, uint8_t name)
{
    struct prefix_key ours = key(name);
    kv_events_removed(events, life, &ours);
}

/* What the log holds must be `text`: a letter a record (c, s, r, u, g), the
 * name of its block, a + before those that are continued. */
static void assert_log(const struct kv_events *events, const char *text)
{
    const struct kv_event *log;
    uint32_t count = kv_events_peek(events, UINT32_MAX, &log);
    char line[512] = "";
    for (uint32_t i = 0; i < count; i++) {
        size_t at = strlen(line);
        uint64_t number =
            log[i].kind == KV_EVENT_GAP ? log[i].lost : log[i].key.bytes[0];
        snprintf(line + at, sizeof(line) - at, "%s%c%d",
                 log[i].is_continued ? "+"
                 : i > 0             ? " "
                                     : "",
                 "csrug"[log[i].kind], (int)number);
        bool is_same = i > 0 && log[i].id == log[i - 1].id;
        assert_int_equal(is_same, log[i].is_continued);
        assert_true(i == 0 || is_same || log[i].id == log[i - 1].id + 1);
    }
    assert_string_equal(line, text);
}

/* Three chained blocks of one turn are one event; a removal and then a block
 * come out in this order, apart. [engine T36] */
static void test_chained_blocks_merge_and_order_is_kept(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(16, B);
    store_block(events, 0, 1, 0);
    store_block(events, 0, 2, 1);
    store_block(events, 0, 3, 2);
    assert_log(events, "");
    kv_events_flush(events);
    assert_log(events, "s1+s2+s3");
    remove_block(events, 0, 3);
    store_block(events, 0, 9, 0);
    kv_events_flush(events);
    assert_log(events, "s1+s2+s3 r3 s9");
    kv_events_destroy(events);
}

/* Six events where four are kept: a gap of two, then the last four with their
 * ids. [engine T37] */
static void test_overflow_leaves_a_gap_and_the_latest(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(4, B);
    for (uint8_t i = 0; i < 6; i++) {
        store_block(events, 0, (uint8_t)(10 * (i + 1)), 0);
    }
    kv_events_flush(events);
    assert_log(events, "g2 s30 s40 s50 s60");
    const struct kv_event *log;
    assert_int_equal(kv_events_peek(events, 16, &log), 5);
    assert_int_equal(log[0].id, 2);
    assert_int_equal(log[4].id, 6);
    assert_int_equal(kv_events_stats(events).lost, 2);
    kv_events_taken(events, 5);
    store_block(events, 0, 70, 0);
    kv_events_flush(events);
    assert_log(events, "s70");
    kv_events_destroy(events);
}

/* The oldest event goes as a whole, however many records it has. */
static void test_overflow_drops_whole_events(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(4, B);
    store_block(events, 0, 1, 0);
    store_block(events, 0, 2, 1);
    store_block(events, 0, 3, 2);
    kv_events_flush(events);
    store_block(events, 0, 10, 0);
    store_block(events, 0, 20, 0);
    kv_events_flush(events);
    assert_log(events, "g1 s10 s20");
    kv_events_destroy(events);
}

/* One chain longer than the log: its first event goes when it is full, the rest
 * is an event of its own, with its parent named. */
static void test_an_event_never_outgrows_the_log(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(4, B);
    for (uint8_t i = 1; i <= 6; i++) {
        store_block(events, 0, i, i - 1u);
    }
    kv_events_flush(events);
    assert_log(events, "g1 s5+s6");
    const struct kv_event *log;
    assert_int_equal(kv_events_peek(events, 16, &log), 3);
    assert_true(log[1].has_parent);
    assert_int_equal(log[1].parent.bytes[0], 4);
    kv_events_destroy(events);
}

/* Two life cycles told block by block come out as one event each, both for
 * blocks stored and for removals. */
static void test_life_cycles_merge_apart(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(16, B);
    for (uint8_t i = 1; i <= 3; i++) {
        store_block(events, 1, i, i - 1u);
        store_block(events, 0, i, i - 1u);
    }
    for (uint8_t i = 3; i >= 1; i--) {
        remove_block(events, 0, i);
        remove_block(events, 1, i);
    }
    kv_events_flush(events);
    assert_log(events, "s1+s2+s3 s1+s2+s3 r3+r2+r1 r3+r2+r1");
    const struct kv_event *log;
    assert_int_equal(kv_events_peek(events, 16, &log), 12);
    assert_int_equal(log[0].life, 0);
    assert_int_equal(log[3].life, 1);
    kv_events_destroy(events);
}

/* Blocks that do not follow each other, and blocks of different turns, do not
 * merge, even where the parent fits. */
static void test_only_chains_of_one_turn_merge(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(16, B);
    store_block(events, 0, 1, 0);
    store_block(events, 0, 3, 2);
    kv_events_flush(events);
    store_block(events, 0, 4, 3);
    kv_events_flush(events);
    remove_block(events, 0, 4);
    kv_events_flush(events);
    remove_block(events, 0, 3);
    kv_events_flush(events);
    assert_log(events, "s1 s3 s4 r4 r3");
    kv_events_destroy(events);
}

/* Other kinds go out at once, after what gathered, and carry what they were
 * given. */
static void test_other_kinds_end_a_batch(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(16, B);
    uint32_t blocks[KV_LEVEL_COUNT_MAX] = {7, 5};
    struct prefix_key ours = key(1);
    kv_events_created(events, 1, blocks);
    store_block(events, 0, 1, 0);
    kv_events_updated(events, 0, &ours, 0, 1, 35, 90);
    store_block(events, 0, 2, 1);
    kv_events_flush(events);
    assert_log(events, "c0 s1 u1 s2");
    const struct kv_event *log;
    assert_int_equal(kv_events_peek(events, 16, &log), 4);
    assert_int_equal(log[0].blocks[1], 5);
    assert_int_equal(log[2].level_before, 0);
    assert_int_equal(log[2].level, 1);
    assert_int_equal(log[2].priority_before, 35);
    assert_int_equal(log[2].priority, 90);
    kv_events_destroy(events);
}

/* A reader that takes little at a time gets whole wire events, a larger one
 * still whole, and nothing twice. */
static void test_peek_hands_out_whole_events(void **state)
{
    (void)state;
    struct kv_events *events = kv_events_create(16, B);
    const struct kv_event *log;
    for (uint8_t i = 1; i <= 3; i++) {
        store_block(events, 0, i, i - 1u);
    }
    store_block(events, 0, 10, 0);
    store_block(events, 0, 20, 0);
    kv_events_flush(events);
    assert_int_equal(kv_events_peek(events, 2, &log), 3);
    kv_events_taken(events, 3);
    assert_int_equal(kv_events_peek(events, 1, &log), 1);
    assert_int_equal(log[0].key.bytes[0], 10);
    assert_int_equal(kv_events_peek(events, 5, &log), 2);
    kv_events_taken(events, 2);
    assert_int_equal(kv_events_peek(events, 5, &log), 0);
    kv_events_destroy(events);
}

/* Many turns of random work, two life cycles, a slow and forgetful reader: each
 * stored record shows the ids it was given, ids count on without a hole save
 * what gaps account for, and the log never holds more than its limit. */
static void test_tokens_and_ids_hold_over_many_turns(void **state)
{
    (void)state;
    enum { MAX = 700 };
    struct kv_events *events = kv_events_create(MAX, B);
    uint32_t name = 1, draw = 1;
    uint64_t id = 0;
    for (int turn = 0; turn < 3000; turn++) {
        draw = draw * 1664525u + 1013904223u;
        uint32_t facts = draw >> 24;
        for (uint32_t i = 0; i < facts; i++, name++) {
            struct prefix_key ours = {{0}}, above = {{0}};
            uint32_t before = name - 1 - (name % 5 == 0);
            memcpy(ours.bytes, &name, sizeof(name));
            memcpy(above.bytes, &before, sizeof(before));
            int32_t tokens[B] = {(int32_t)name, 1, 2, -(int32_t)name};
            kv_events_stored(events, (uint8_t)(name / 3 % 2), 0, 35, 1, &ours,
                             &above, tokens);
        }
        kv_events_flush(events);
        assert_true(kv_events_stats(events).records <= MAX);
        const struct kv_event *log;
        uint32_t count = kv_events_peek(events, draw >> 20 & 255, &log);
        if (turn % 50 < 20) {
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (log[i].kind == KV_EVENT_GAP) {
                assert_int_equal(log[i].id, id + log[i].lost);
            } else {
                int32_t expected;
                memcpy(&expected, log[i].key.bytes, sizeof(expected));
                const int32_t *tokens = kv_events_tokens(events, &log[i]);
                assert_int_equal(tokens[0], expected);
                assert_int_equal(tokens[3], -expected);
                assert_int_equal(log[i].id, id + !log[i].is_continued);
            }
            id = log[i].id;
        }
        kv_events_taken(events, count);
    }
    assert_true(kv_events_stats(events).lost > 0);
    assert_true(kv_events_bytes(events) > MAX * sizeof(struct kv_event));
    kv_events_destroy(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chained_blocks_merge_and_order_is_kept),
        cmocka_unit_test(test_overflow_leaves_a_gap_and_the_latest),
        cmocka_unit_test(test_overflow_drops_whole_events),
        cmocka_unit_test(test_an_event_never_outgrows_the_log),
        cmocka_unit_test(test_life_cycles_merge_apart),
        cmocka_unit_test(test_only_chains_of_one_turn_merge),
        cmocka_unit_test(test_other_kinds_end_a_batch),
        cmocka_unit_test(test_peek_hands_out_whole_events),
        cmocka_unit_test(test_tokens_and_ids_hold_over_many_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
