#include "unit/base/test.h"

#include "kv/life.h"

struct stale_case {
    uint32_t history, first, end;
};

static void check_stale(struct kv_life life, uint32_t block,
                        const struct stale_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kv_range range = kv_life_stale(&life, block, cases[i].history);
        assert_int_equal(range.first, cases[i].first);
        assert_int_equal(range.end, cases[i].end);
    }
}

#define CHECK_STALE(life, block, ...)                                  \
    check_stale(life, block, (const struct stale_case[]){__VA_ARGS__}, \
                sizeof((const struct stale_case[]){__VA_ARGS__}) /     \
                    sizeof(struct stale_case))

/* [engine T1] The table, row by row. */
static void stale_ranges_are_as_tabled(void **state)
{
    (void)state;
    CHECK_STALE(((struct kv_life){8, 0}), 4, {0, 0, 0}, {10, 0, 0}, {11, 0, 1},
                {15, 0, 2}, {16, 0, 2}, {24, 0, 4}, {100, 0, 23});
    CHECK_STALE(((struct kv_life){8, 5}), 4, {3, 1, 1}, {8, 2, 2}, {19, 2, 3},
                {27, 2, 5});
    CHECK_STALE(((struct kv_life){1, 0}), 4, {7, 0, 1}, {8, 0, 2}, {9, 0, 2});
    CHECK_STALE(((struct kv_life){4, 0}), 4, {4, 0, 0}, {7, 0, 1}, {8, 0, 1});
    CHECK_STALE(((struct kv_life){128, 4}), 32, {127, 1, 1}, {160, 1, 1},
                {1000, 1, 27}, {1024, 1, 28});
}

/* Nothing of full attention is ever stale, at the largest length either. */
static void full_attention_is_never_stale(void **state)
{
    (void)state;
    CHECK_STALE(((struct kv_life){0, 0}), 4, {0, 0, 0}, {1000, 0, 0},
                {UINT32_MAX, 0, 0});
    CHECK_STALE(((struct kv_life){UINT32_MAX, 0}), 4, {UINT32_MAX, 0, 0});
}

/* A block is stale exactly when no query from `history` on sees a token of it:
 * asked token by token, over small windows, sinks and blocks. */
static void stale_blocks_are_those_nobody_sees(void **state)
{
    (void)state;
    for (uint32_t block = 1; block <= 4; block *= 2) {
        for (uint32_t window = 1; window < 9; window++) {
            for (uint32_t sinks = 0; sinks < 6; sinks++) {
                struct kv_life life = {window, sinks};
                uint32_t sink_blocks = kv_blocks_of(sinks, block);
                for (uint32_t history = 0; history < 40; history++) {
                    struct kv_range stale =
                        kv_life_stale(&life, block, history);
                    for (uint32_t b = 0; b < kv_blocks_of(history, block);
                         b++) {
                        uint32_t last = b * block + block - 1;
                        bool is_seen =
                            b < sink_blocks || last + window >= history + 1;
                        assert_int_equal(kv_range_has(stale, b), !is_seen);
                    }
                }
            }
        }
    }
}

/* [engine T3] The example and its variants. */
static void scratch_is_stale_at_the_end_of_the_step(void **state)
{
    (void)state;
    struct kv_life life = {8, 0};
    struct kv_range range = kv_life_scratch(&life, 4, 8, 32, 0);
    assert_int_equal(range.first, 2);
    assert_int_equal(range.end, 6);
    range = kv_life_scratch(&life, 4, 8, 32, 6);
    assert_int_equal(range.first, 2);
    assert_int_equal(range.end, 4);
    range = kv_life_scratch(&life, 4, 0, 16, 0);
    assert_int_equal(range.first, 0);
    assert_int_equal(range.end, 2);
    assert_int_equal(kv_range_count(kv_life_scratch(&life, 4, 8, 12, 20)), 0);
    assert_int_equal(
        kv_range_count(kv_life_scratch(&(struct kv_life){0}, 4, 0, 99, 0)), 0);
}

static void blocks_round_up_without_overflow(void **state)
{
    (void)state;
    assert_int_equal(kv_blocks_of(0, 4), 0);
    assert_int_equal(kv_blocks_of(1, 4), 1);
    assert_int_equal(kv_blocks_of(4, 4), 1);
    assert_int_equal(kv_blocks_of(UINT32_MAX, 32), 1u << 27);
}

/* Steps of all lengths up to the most, from all histories: never more blocks
 * outside the stale range than promised, and once just as many. */
static void blocks_max_is_reached_and_not_passed(void **state)
{
    (void)state;
    for (uint32_t sinks = 0; sinks < 9; sinks += 4) {
        for (uint32_t window = 1; window < 12; window++) {
            struct kv_life life = {window, sinks};
            for (uint32_t step = 1; step < 9; step++) {
                uint32_t most = kv_life_blocks_max(&life, 4, 200, step);
                uint32_t seen = 0;
                for (uint32_t history = 0; history + step <= 200; history++) {
                    struct kv_range stale = kv_life_stale(&life, 4, history);
                    uint32_t count =
                        kv_blocks_of(history + step, 4) - kv_range_count(stale);
                    seen = count > seen ? count : seen;
                }
                assert_int_equal(seen, most);
            }
        }
    }
    assert_int_equal(kv_life_blocks_max(&(struct kv_life){0}, 4, 201, 8), 51);
    assert_int_equal(kv_life_blocks_max(&(struct kv_life){64, 0}, 4, 9, 8), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stale_ranges_are_as_tabled),
        cmocka_unit_test(full_attention_is_never_stale),
        cmocka_unit_test(stale_blocks_are_those_nobody_sees),
        cmocka_unit_test(scratch_is_stale_at_the_end_of_the_step),
        cmocka_unit_test(blocks_round_up_without_overflow),
        cmocka_unit_test(blocks_max_is_reached_and_not_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
