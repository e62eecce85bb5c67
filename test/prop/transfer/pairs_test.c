/* Slices and pairs of random prompts: in chunks as in one piece, dense lists as
 * the suffixes of the first revision where those are well defined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "transfer/slice.h"
#include "unit/transfer/old_lists.h"

enum { BLOCK_MAX = 33, GRID_ROUNDS = 12 };

struct world {
    struct rng rng;
    uint32_t each, tokens, blocks;
    struct kv_life life; /* of both sides */
    bool has_holes;
    uint32_t source_first, target_first; /* without holes: suffixes */
    kv_page_id source[BLOCK_MAX], target[BLOCK_MAX];
};

static void draw(struct world *world, uint32_t each, uint32_t blocks,
                 uint32_t window_blocks, uint32_t cached)
{
    world->each = each;
    world->blocks = blocks;
    world->tokens =
        (blocks - 1) * each + 1 + (uint32_t)rng_below(&world->rng, each);
    world->life.window = window_blocks * each;
    uint32_t stale = transfer_stale_end(&world->life, world->tokens, each);
    world->has_holes = rng_below(&world->rng, 2);
    world->source_first = stale;
    world->target_first = cached > stale ? cached : stale;
    for (uint32_t i = 0; i < blocks; i++) {
        bool is_hole = world->has_holes && rng_below(&world->rng, 4) == 0;
        world->source[i] =
            i < world->source_first || is_hole ? KV_PAGE_NONE : 1000 + (int)i;
        is_hole = world->has_holes && rng_below(&world->rng, 4) == 0;
        world->target[i] =
            i < world->target_first || is_hole ? KV_PAGE_NONE : 2000 + (int)i;
    }
}

/* The pairs of one slice, as the product makes them. Entries behind the slice
 * are what the manager happens to have there: nothing yet, or reserved pages.
 */
static uint32_t dense_pairs(struct world *world,
                            const struct transfer_slice *slice,
                            struct transfer_pair *pairs_out)
{
    kv_page_id grown[BLOCK_MAX];
    bool is_reserved = rng_below(&world->rng, 2);
    uint32_t first = slice->first_block, end = slice->end_block;
    if (!transfer_life_streams(&world->life, world->tokens, world->each)) {
        first = 0;
        end = slice->is_last ? world->blocks : 0;
    }
    for (uint32_t i = 0; i < world->blocks; i++) {
        bool is_there = i < end || is_reserved;
        grown[i] = is_there ? world->source[i] : KV_PAGE_NONE;
    }
    struct transfer_blocks source = {grown + first, first, end - first};
    struct transfer_blocks target = {world->target, 0, world->blocks};
    return end == first ? 0 : transfer_pair_blocks(&source, &target, pairs_out);
}

static void expect_same_as_old(struct world *world,
                               const struct transfer_slice *slice,
                               const struct transfer_pair *pairs,
                               uint32_t count)
{
    struct transfer_pair old[BLOCK_MAX];
    bool is_windowed =
        !transfer_life_streams(&world->life, world->tokens, world->each);
    if (is_windowed && !slice->is_last) {
        assert_int_equal(count, 0);
        return;
    }
    uint32_t first = is_windowed ? world->source_first : slice->first_block;
    struct old_list source = {world->source + first, slice->end_block - first};
    uint32_t begin = world->target_first < world->blocks ? world->target_first
                                                         : world->blocks;
    struct old_list target = {world->target + begin, world->blocks - begin};
    uint32_t old_count =
        old_pairs(source, target, slice->first_block, slice->end_block,
                  world->blocks, is_windowed, world->each, old);
    assert_int_equal(old_count, count);
    assert_memory_equal(old, pairs, count * sizeof(old[0]));
}

/* Runs the chunks; counts in `seen` how often each ordinal was paired. */
static void run_chunks(struct world *world, uint32_t *seen)
{
    uint32_t cursor = 0,
             start = (uint32_t)rng_below(&world->rng, world->tokens);
    uint32_t most = 1 + (uint32_t)rng_below(&world->rng, world->tokens);
    bool has_last = false;
    while (start < world->tokens) {
        uint32_t left = world->tokens - start;
        uint32_t size = 1 + (uint32_t)rng_below(&world->rng, most);
        struct transfer_chunk chunk = {start,
                                       start + (size < left ? size : left),
                                       world->tokens, world->each};
        struct transfer_slice slice;
        struct transfer_pair pairs[BLOCK_MAX];
        start = chunk.end;
        enum transfer_slice_kind kind =
            transfer_slice_next(&chunk, cursor, &slice);
        assert_int_not_equal(kind, TRANSFER_SLICE_REWOUND);
        if (kind == TRANSFER_SLICE_NONE) {
            continue;
        }
        assert_int_equal(slice.first_block, cursor);
        assert_true(slice.end_block > cursor);
        assert_false(has_last);
        has_last = slice.is_last;
        cursor = slice.end_block;
        uint32_t count = dense_pairs(world, &slice, pairs);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t ordinal = pairs[i].ordinal;
            assert_int_equal(pairs[i].source, 1000 + (int)ordinal);
            assert_int_equal(pairs[i].target, 2000 + (int)ordinal);
            seen[ordinal]++;
        }
        if (!world->has_holes) {
            expect_same_as_old(world, &slice, pairs, count);
        }
    }
    assert_true(has_last);
    assert_int_equal(cursor, world->blocks);
}

static void check(struct world *world)
{
    uint32_t seen[BLOCK_MAX] = {0};
    struct transfer_pair whole[BLOCK_MAX];
    struct transfer_slice all = {0, world->blocks, true};
    run_chunks(world, seen);
    uint32_t count = dense_pairs(world, &all, whole), total = 0;
    for (uint32_t i = 0; i < world->blocks; i++) {
        bool is_both = world->source[i] != KV_PAGE_NONE &&
                       world->target[i] != KV_PAGE_NONE;
        assert_int_equal(seen[i], is_both);
        total += is_both;
    }
    assert_int_equal(count, total);
}

/* The whole grid of block sizes, prompts, windows and cached heads, each with
 * random chunks, holes and ways to allocate: chunks pair what one piece pairs,
 * which is what both sides have, each ordinal once and with itself; without
 * holes the old functions agree. [transfer T7 T31 I2 I3 I4 I5 I27] */
static void chunks_pair_what_one_piece_pairs(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1, 4, 16, 32, 64, 128};
    const uint32_t counts[] = {1, 3, 8, 33};
    const uint32_t windows[] = {0, 2, 5};
    const uint32_t cached[] = {0, 1, 4};
    struct world world = {.rng = rng_from_seed(31)};
    for (uint32_t i = 0; i < 6 * 4 * 3 * 3 * GRID_ROUNDS; i++) {
        uint32_t at = i / GRID_ROUNDS;
        draw(&world, sizes[at % 6], counts[at / 6 % 4], windows[at / 24 % 3],
             cached[at / 72]);
        check(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_pair_what_one_piece_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
