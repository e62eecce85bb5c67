/* transfer/slice: chunks of a prefill to slices, windows, and the functions of
 * the first revision beside the dense lists, by the tables of transfer.md 3. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kv/life.h"
#include "old_lists.h"
#include "transfer/slice.h"

/* Runs the chunks and writes the slices as text: "[0,8) - [8,16)L". */
static void run(char *out, uint32_t tokens, uint32_t each,
                const uint32_t *bounds, uint32_t count)
{
    uint32_t cursor = 0;
    out[0] = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        struct transfer_chunk chunk = {bounds[i], bounds[i + 1], tokens, each};
        struct transfer_slice slice;
        char one[40] = "-";
        enum transfer_slice_kind kind =
            transfer_slice_next(&chunk, cursor, &slice);
        assert_int_not_equal(kind, TRANSFER_SLICE_REWOUND);
        if (kind == TRANSFER_SLICE_SOME) {
            assert_int_equal(slice.first_block, cursor);
            cursor = slice.end_block;
            snprintf(one, sizeof(one), "[%u,%u)%s", slice.first_block,
                     slice.end_block, slice.is_last ? "L" : "");
        }
        strcat(strcat(out, i == 0 ? "" : " "), one);
    }
    assert_int_equal(cursor, transfer_blocks_of(tokens, each));
}

static void expect(uint32_t tokens, uint32_t each, const char *slices,
                   const uint32_t *bounds, uint32_t count)
{
    char got[4096];
    run(got, tokens, each, bounds, count);
    assert_string_equal(got, slices);
}
#define EXPECT(tokens, each, slices, ...)                         \
    expect(tokens, each, slices, (const uint32_t[]){__VA_ARGS__}, \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void expect_steps(uint32_t tokens, uint32_t each, uint32_t start,
                         uint32_t step, const char *slices)
{
    uint32_t bounds[128] = {start};
    uint32_t count = 1;
    while (bounds[count - 1] < tokens) {
        uint32_t next = bounds[count - 1] + step;
        bounds[count++] = next < tokens ? next : tokens;
    }
    if (slices != NULL) {
        expect(tokens, each, slices, bounds, count);
        return;
    }
    char got[4096];
    run(got, tokens, each, bounds, count);
    assert_int_equal(count - 1, 63);
    assert_non_null(strstr(got, "[976,992) [992,1000)L"));
}

/* C1 to C13 of the table. [transfer T2] */
static void chunk_table(void **state)
{
    (void)state;
    EXPECT(1000, 32, "[0,8) [8,16) [16,24) [24,32)L", 0, 256, 512, 768, 1000);
    EXPECT(1000, 64, "[0,4) [4,9) [9,14) [14,16)L", 0, 300, 600, 900, 1000);
    EXPECT(1000, 32, "[0,21) [21,29) [29,32)L", 416, 672, 928, 1000);
    EXPECT(32, 4, "[0,3) [3,5) [5,7) [7,8)L", 6, 14, 22, 30, 32);
    EXPECT(32, 4, "[0,1) [1,3) [3,8)L", 0, 6, 12, 32);
    expect_steps(200, 64, 0, 16, "- - - [0,1) - - - [1,2) - - - [2,3) [3,4)L");
    expect_steps(200, 64, 100, 10, "[0,1) - [1,2) - - - - - - [2,4)L");
    expect_steps(8192, 32, 0, 2048, "[0,64) [64,128) [128,192) [192,256)L");
    expect_steps(8191, 128, 0, 1000,
                 "[0,7) [7,15) [15,23) [23,31) [31,39) [39,46) [46,54) [54,62) "
                 "[62,64)L");
    EXPECT(33, 32, "[0,1) [1,2)L", 0, 32, 33);
    EXPECT(1, 64, "[0,1)L", 0, 1);
    EXPECT(2047, 64, "[0,32)L", 2046, 2047);
    expect_steps(128000, 128, 0, 2048, NULL);
}

/* No whole block in a chunk: no slice, at the start and later; the next one
 * takes what waited. [transfer T3] */
static void chunk_without_a_whole_block_waits(void **state)
{
    (void)state;
    EXPECT(64, 16, "- [0,1) - - [1,4)L", 0, 10, 16, 20, 31, 64);
}

/* Only the first slice reaches back to what the cache held; one chunk after a
 * hit is the whole prompt. [transfer T4 T5] */
static void first_slice_brings_the_cached_blocks(void **state)
{
    (void)state;
    EXPECT(8, 1, "[0,6) [6,8)L", 3, 6, 8);
    EXPECT(1000, 32, "[0,32)L", 416, 1000);
    EXPECT(1000, 32, "[0,32)L", 999, 1000);
}

static enum transfer_slice_kind next(uint32_t cursor, uint32_t start,
                                     uint32_t end)
{
    struct transfer_chunk chunk = {start, end, 100, 10};
    struct transfer_slice slice;
    return transfer_slice_next(&chunk, cursor, &slice);
}

/* Blocks before the cursor computed once more: rewound, unless the chunk is the
 * one that was given last. */
static void rewound_request_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(next(4, 20, 30), TRANSFER_SLICE_REWOUND);
    assert_int_equal(next(4, 20, 60), TRANSFER_SLICE_REWOUND);
    assert_int_equal(next(4, 0, 100), TRANSFER_SLICE_REWOUND);
    assert_int_equal(next(4, 20, 40), TRANSFER_SLICE_NONE);
    assert_int_equal(next(4, 45, 48), TRANSFER_SLICE_NONE);
    assert_int_equal(next(4, 45, 50), TRANSFER_SLICE_SOME);
    assert_int_equal(next(4, 40, 100), TRANSFER_SLICE_SOME);
}

static void reversed(void)
{
    next(0, 20, 10);
}
static void past_the_prompt(void)
{
    next(0, 20, 101);
}

static void expect_trap(void (*call)(void))
{
    pid_t child = fork();
    if (child == 0) {
        close(2);
        signal(SIGABRT, SIG_DFL);
        call();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* An empty range of tokens is legal and carries nothing; a reversed one and one
 * past the prompt are broken promises. [transfer T1] */
static void ranges_of_tokens_are_checked(void **state)
{
    (void)state;
    assert_int_equal(next(0, 0, 0), TRANSFER_SLICE_NONE);
    assert_int_equal(next(3, 30, 30), TRANSFER_SLICE_NONE);
    expect_trap(reversed);
    expect_trap(past_the_prompt);
}

static void expect_window(uint32_t tokens, uint32_t each, uint32_t window,
                          uint32_t stale_end)
{
    struct kv_life life = {.window = window};
    assert_int_equal(transfer_stale_end(&life, tokens, each), stale_end);
    assert_int_equal(transfer_life_streams(&life, tokens, each),
                     stale_end == 0);
    for (uint32_t i = 0; i < transfer_blocks_of(tokens, each); i++) {
        assert_int_equal(transfer_block_is_needed(&life, tokens, each, i),
                         i >= stale_end);
    }
}

/* The table of windows, its ends and a life cycle without one. [transfer T6] */
static void window_table(void **state)
{
    (void)state;
    expect_window(1000, 32, 256, 23);
    expect_window(1000, 32, 288, 22);
    expect_window(1000, 32, 128, 27);
    expect_window(1000, 32, 970, 0);
    expect_window(1000, 32, 969, 1);
    expect_window(1000, 32, 999, 0);
    expect_window(1000, 32, 1000, 0);
    expect_window(1000, 32, 1001, 0);
    expect_window(1000, 32, 0, 0);
    expect_window(128, 8, 32, 12);
    expect_window(64, 8, 48, 2);
    expect_window(32, 4, 16, 4);
    expect_window(4096, 64, 1024, 48);
    expect_window(4095, 64, 1024, 48);
    expect_window(4097, 64, 1024, 48);
    expect_window(100, 64, 32, 1);
    expect_window(10, 1, 11, 0);
    expect_window(10, 1, 10, 1);
    expect_window(10, 1, 9, 2);
}

/* Sinks are read for ever, whatever the window has left behind. */
static void sinks_are_needed(void **state)
{
    (void)state;
    struct kv_life life = {.window = 256, .sink_tokens = 33};
    assert_true(transfer_block_is_needed(&life, 1000, 32, 0));
    assert_true(transfer_block_is_needed(&life, 1000, 32, 1));
    assert_false(transfer_block_is_needed(&life, 1000, 32, 2));
    assert_false(transfer_block_is_needed(&life, 1000, 32, 22));
    assert_true(transfer_block_is_needed(&life, 1000, 32, 23));
}

/* The engine leases by kv_life_stale what we send by our own count: whatever the
 * window and its sinks, both must stream the same life cycles and need the same
 * blocks (transfer.md I1). */
static void engine_and_transfer_agree_on_what_streams(void **state)
{
    (void)state;
    static const uint32_t SIZES[] = {1, 2, 4, 32};
    for (uint32_t at = 0; at < 4 * 40 * 50 * 12; at++) {
        uint32_t each = SIZES[at % 4];
        uint32_t tokens = 1 + at / 4 % 40;
        struct kv_life life = {.window = at / 160 % 50,
                               .sink_tokens = at / 8000};
        life.sink_tokens = life.window == 0 ? 0 : life.sink_tokens;
        struct kv_range stale = kv_life_stale(&life, each, tokens);
        assert_int_equal(transfer_life_streams(&life, tokens, each),
                         kv_range_count(stale) == 0);
        for (uint32_t i = 0; i < transfer_blocks_of(tokens, each); i++) {
            assert_int_equal(transfer_block_is_needed(&life, tokens, each, i),
                             !kv_range_has(stale, i));
        }
    }
}

static void expect_projection(uint32_t offset, uint32_t count, uint32_t first,
                              uint32_t length)
{
    static const kv_page_id ids[3] = {10, 11, 12};
    struct old_list got =
        old_project((struct old_list){ids, 3}, offset, count, 8);
    assert_int_equal(got.count, length);
    assert_true(length == 0 || got.ids[0] == (kv_page_id)first);
}

/* The table of projections. [transfer T10] */
static void projection_table(void **state)
{
    (void)state;
    expect_projection(0, 4, 0, 0);
    expect_projection(4, 4, 10, 3);
    expect_projection(5, 1, 10, 1);
    expect_projection(6, 1, 11, 1);
    expect_projection(7, 4, 12, 1);
    expect_projection(8, 4, 0, 0);
    expect_projection(4, 0, 0, 0);
    assert_int_equal(old_project((struct old_list){NULL, 0}, 0, 4, 8).count, 0);
}

/* A longer receiver's list loses its head where there is a window; where there
 * is none it is wrong. [transfer T11] */
static void trim_drops_the_head(void **state)
{
    (void)state;
    static const kv_page_id ids[4] = {1, 2, 3, 4};
    struct old_list source = {ids, 3}, target = {ids, 4};
    assert_true(old_trim(source, &target, true));
    assert_int_equal(target.count, 3);
    assert_int_equal(target.ids[0], 2);
    target = (struct old_list){ids, 4};
    assert_false(old_trim(source, &target, false));
    target = (struct old_list){ids, 2};
    assert_true(old_trim(source, &target, false));
    assert_int_equal(target.ids[0], 1);
}

/* Pages of ordinals [first, 32): page = base + ordinal. */
static struct old_list suffix(kv_page_id *ids, kv_page_id base, uint32_t first)
{
    for (uint32_t i = first; i < 32; i++) {
        ids[i - first] = base + (kv_page_id)i;
    }
    return (struct old_list){ids, 32 - first};
}

static void expect_window_pairs(uint32_t receiver_window, uint32_t cached,
                                uint32_t first, uint32_t count)
{
    kv_page_id from[32], to[32];
    struct transfer_pair pairs[32];
    struct kv_life sender = {.window = 256};
    struct kv_life receiver = {.window = receiver_window};
    uint32_t begin = transfer_stale_end(&receiver, 1000, 32);
    begin = begin < cached / 32 ? cached / 32 : begin;
    uint32_t got =
        old_pairs(suffix(from, 100, transfer_stale_end(&sender, 1000, 32)),
                  suffix(to, 200, begin), 24, 32, 32, true, 32, pairs);
    assert_int_equal(got, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pairs[i].ordinal, first + i);
        assert_int_equal(pairs[i].source, 100 + first + i);
        assert_int_equal(pairs[i].target, 200 + first + i);
    }
}

/* The worked alignments: 13 cached blocks over four chunks, then six cases of a
 * windowed life cycle. [transfer T12] */
static void alignment_tables(void **state)
{
    (void)state;
    const uint32_t expected[4] = {0, 3, 8, 8};
    kv_page_id from[32], to[32];
    struct transfer_pair pairs[32];
    for (uint32_t i = 0; i < 4; i++) {
        suffix(from, 100, 0);
        struct old_list source = {from + 8 * i, 8};
        uint32_t count = old_pairs(source, suffix(to, 200, 13), 8 * i,
                                   8 * i + 8, 32, false, 32, pairs);
        assert_int_equal(count, expected[i]);
        for (uint32_t k = 0; k < count; k++) {
            assert_int_equal(pairs[k].source - 100, pairs[k].target - 200);
            assert_int_equal(pairs[k].source - 100, pairs[k].ordinal);
        }
    }
    expect_window_pairs(256, 0, 23, 9);
    expect_window_pairs(288, 0, 23, 9);
    expect_window_pairs(128, 0, 27, 5);
    expect_window_pairs(256, 800, 25, 7);
    expect_window_pairs(288, 800, 25, 7);
    expect_window_pairs(256, 992, 31, 1);
}

/* A scratch block behind the receiver's list shifts every pair of the old form
 * by one; a dense list has it at ordinal 32, which no slice reaches.
 * [transfer T13 I3] */
static void scratch_block_cannot_shift_dense_lists(void **state)
{
    (void)state;
    kv_page_id from[32], to[33];
    struct transfer_pair pairs[32];
    struct old_list target = suffix(to, 200, 23);
    to[9] = 999;
    target.count++;
    uint32_t count =
        old_pairs(suffix(from, 100, 23), target, 24, 32, 32, true, 32, pairs);
    assert_int_equal(count, 9);
    assert_int_equal(pairs[0].source, 123);
    assert_int_equal(pairs[0].target, 224); /* one block late, no error */
    kv_page_id dense_from[32], dense_to[33];
    for (int i = 0; i < 32; i++) {
        dense_from[i] = i < 23 ? KV_PAGE_NONE : 100 + i;
        dense_to[i] = i < 23 ? KV_PAGE_NONE : 200 + i;
    }
    dense_to[32] = 999;
    count =
        transfer_pair_blocks(&(struct transfer_blocks){dense_from, 0, 32},
                             &(struct transfer_blocks){dense_to, 0, 33}, pairs);
    assert_int_equal(count, 9);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(pairs[i].source - 100, pairs[i].target - 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_table),
        cmocka_unit_test(chunk_without_a_whole_block_waits),
        cmocka_unit_test(first_slice_brings_the_cached_blocks),
        cmocka_unit_test(rewound_request_is_noticed),
        cmocka_unit_test(ranges_of_tokens_are_checked),
        cmocka_unit_test(window_table),
        cmocka_unit_test(sinks_are_needed),
        cmocka_unit_test(engine_and_transfer_agree_on_what_streams),
        cmocka_unit_test(projection_table),
        cmocka_unit_test(trim_drops_the_head),
        cmocka_unit_test(alignment_tables),
        cmocka_unit_test(scratch_block_cannot_shift_dense_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
