/* transfer/regrain: parts and pieces of blocks of two sizes, against a table and
 * against copies of one token of one head at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/rng.h"
#include "transfer/regrain.h"
#include "transfer/slice.h"

enum { BLOCK_MAX = 64, PAGE_MAX = 70, PIECE_MAX = 64 };

/* P = 100 from blocks of 64 to blocks of 32 and back: the pairs of the
 * specification, the last of four tokens. [transfer T33] */
static void the_worked_example(void **state)
{
    (void)state;
    const kv_page_id two[] = {70, 71}, four[] = {80, 81, 82, 83};
    const struct transfer_blocks large = {two, 0, 2}, small = {four, 0, 4};
    const uint32_t tokens[] = {32, 32, 32, 4};
    struct transfer_grain down, up;
    struct transfer_pair pairs[4], back[4];
    assert_true(transfer_grain_of(64, 32, &down));
    assert_true(transfer_grain_of(32, 64, &up));
    assert_int_equal(transfer_blocks_of(100, down.tokens), 4);
    assert_int_equal(transfer_pair_parts(&down, 4, &large, &small, pairs), 4);
    assert_int_equal(transfer_pair_parts(&up, 4, &small, &large, back), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pairs[i].ordinal, i);
        assert_int_equal(pairs[i].source, two[i / 2]);
        assert_int_equal(pairs[i].target, four[i]);
        assert_int_equal(back[i].source, four[i]);
        assert_int_equal(back[i].target, two[i / 2]);
        assert_int_equal(transfer_part_tokens(&down, 100, i), tokens[i]);
        assert_int_equal(transfer_part_tokens(&up, 100, i), tokens[i]);
    }
}

/* One size must be a multiple of the other; equal ones make parts of a block. */
static void sizes_divide_or_do_not_do(void **state)
{
    (void)state;
    struct transfer_grain grain;
    assert_false(transfer_grain_of(16, 24, &grain));
    assert_false(transfer_grain_of(24, 16, &grain));
    assert_true(transfer_grain_of(48, 16, &grain));
    assert_int_equal(grain.tokens, 16);
    assert_int_equal(grain.source_parts, 3);
    assert_int_equal(grain.target_parts, 1);
    assert_false(transfer_grain_is_block(&grain));
    assert_true(transfer_grain_of(32, 32, &grain));
    assert_true(transfer_grain_is_block(&grain));
}

/* -------- against copies of one token at a time -------- */

struct side {
    uint32_t blocks;
    kv_page_id pages[BLOCK_MAX];
    struct transfer_place place;
    size_t size;
    uint8_t *memory;
};

struct world {
    struct rng rng;
    uint32_t tokens; /* the prompt */
    struct transfer_grain grain;
    struct side from, to;
};

static uint32_t below(struct world *world, uint32_t count)
{
    return (uint32_t)rng_below(&world->rng, count);
}

static void open_side(struct world *world, struct side *side,
                      struct kv_layout layout, uint32_t tokens_per_block,
                      uint64_t seed)
{
    layout.tokens_per_block = tokens_per_block;
    side->blocks = transfer_blocks_of(world->tokens, tokens_per_block);
    side->place = (struct transfer_place){
        .layout = layout,
        .base_offset = 8 * below(world, 5),
        .page_bytes = kv_layout_page_bytes(&layout) + 8 * below(world, 3),
    };
    uint32_t first = below(world, PAGE_MAX);
    for (uint32_t i = 0; i < side->blocks; i++) {
        bool is_hole = below(world, 5) == 0;
        side->pages[i] =
            is_hole ? KV_PAGE_NONE : (kv_page_id)((first + 3 * i) % PAGE_MAX);
    }
    side->size = side->place.base_offset + side->place.page_bytes * PAGE_MAX;
    side->memory = malloc(side->size);
    for (size_t i = 0; i < side->size; i++) {
        side->memory[i] = (uint8_t)rng_at(seed, 1, i);
    }
}

static void open_world(struct world *world)
{
    const uint32_t sizes[] = {1, 2, 4, 8, 16};
    uint32_t from = sizes[below(world, 5)], to = sizes[below(world, 5)];
    uint32_t least = from < to ? from : to;
    struct kv_layout layout = {.layer_count = 1 + below(world, 3),
                               .kv_head_count = 1 + below(world, 3),
                               .head_dim = 1 + below(world, 4),
                               .element_bytes = 2};
    world->tokens = 1 + below(world, 20 * least);
    assert_true(transfer_grain_of(from, to, &world->grain));
    open_side(world, &world->from, layout, from, 5);
    open_side(world, &world->to, layout, to, 6);
}

static uint8_t *element(const struct side *side, uint32_t token, uint32_t layer,
                        uint32_t is_value, uint32_t head)
{
    const struct kv_layout *layout = &side->place.layout;
    uint32_t each = layout->tokens_per_block;
    return side->memory + side->place.base_offset +
           side->place.page_bytes * (size_t)side->pages[token / each] +
           kv_layout_key_offset(layout, layer, head) +
           is_value * kv_layout_layer_bytes(layout) / 2 +
           (size_t)(token % each) * layout->head_dim * layout->element_bytes;
}

/* What is right: each token that both have, and nothing else; where the blocks
 * are of one size, the whole page, padding and tokens to come too. */
static void copy_slowly(const struct world *world)
{
    const struct kv_layout *layout = &world->from.place.layout;
    bool is_block = transfer_grain_is_block(&world->grain);
    for (uint32_t t = 0; t < world->tokens; t++) {
        uint32_t from = t / layout->tokens_per_block;
        uint32_t to = t / world->to.place.layout.tokens_per_block;
        if (world->from.pages[from] == KV_PAGE_NONE ||
            world->to.pages[to] == KV_PAGE_NONE) {
            continue;
        }
        if (is_block) {
            memcpy(
                element(&world->to, to * layout->tokens_per_block, 0, 0, 0),
                element(&world->from, to * layout->tokens_per_block, 0, 0, 0),
                world->from.place.page_bytes);
            continue;
        }
        for (uint32_t i = 0;
             i < 2 * layout->layer_count * layout->kv_head_count; i++) {
            uint32_t head = i % layout->kv_head_count;
            uint32_t layer = i / layout->kv_head_count / 2;
            uint32_t is_value = i / layout->kv_head_count % 2;
            memcpy(element(&world->to, t, layer, is_value, head),
                   element(&world->from, t, layer, is_value, head),
                   (size_t)layout->head_dim * layout->element_bytes);
        }
    }
}

/* The digest of what lies in the target's page is what the pieces say. */
static void check_digest(const struct world *world, uint8_t *memory,
                         const struct transfer_pair *pair,
                         struct transfer_piece *pieces, uint32_t count)
{
    const struct transfer_place *to = &world->to.place;
    uint32_t each = world->grain.tokens;
    uint32_t first = pair->ordinal * each % to->layout.tokens_per_block;
    uint32_t tokens =
        transfer_part_tokens(&world->grain, world->tokens, pair->ordinal);
    for (uint32_t i = 0; i < count; i++) {
        pieces[i].crc32c = digest_crc32c(
            0, span_of(world->from.memory + pieces[i].source_offset,
                       pieces[i].size));
    }
    uint8_t *page =
        memory + to->base_offset + to->page_bytes * (size_t)pair->target;
    uint32_t right = transfer_part_join(pieces, count);
    assert_int_equal(transfer_part_digest(&to->layout, page, first, tokens),
                     right);
    page[first * to->layout.head_dim * 2] ^= 4;
    assert_int_not_equal(transfer_part_digest(&to->layout, page, first, tokens),
                         right);
    page[first * to->layout.head_dim * 2] ^= 4;
}

static void copy_pair(const struct world *world, uint8_t *memory,
                      const struct transfer_pair *pair)
{
    struct transfer_piece pieces[PIECE_MAX];
    const struct kv_layout *layout = &world->from.place.layout;
    uint32_t tokens =
        transfer_part_tokens(&world->grain, world->tokens, pair->ordinal);
    uint32_t count =
        transfer_part_pieces(&world->grain, pair, tokens, &world->from.place,
                             &world->to.place, pieces);
    assert_int_equal(count, transfer_part_piece_count(&world->grain, layout));
    for (uint32_t i = 0; i < count; i++) {
        const struct transfer_piece *piece = &pieces[i], *last = piece - 1;
        assert_true(piece->source_offset + piece->size <= world->from.size);
        assert_true(piece->target_offset + piece->size <= world->to.size);
        /* In order, and no two could have been one. */
        assert_true(i == 0 || piece->source_offset > last->source_offset);
        assert_true(i == 0 || piece->target_offset > last->target_offset);
        assert_false(i > 0 &&
                     last->source_offset + last->size == piece->source_offset &&
                     last->target_offset + last->size == piece->target_offset);
        memcpy(memory + piece->target_offset,
               world->from.memory + piece->source_offset, piece->size);
    }
    if (!transfer_grain_is_block(&world->grain)) {
        check_digest(world, memory, pair, pieces, count);
    }
}

/* The run of source blocks [first, end), as one slice. */
static uint32_t copy_run(const struct world *world, uint8_t *memory,
                         uint32_t first, uint32_t end, uint32_t next_part)
{
    struct transfer_pair pairs[BLOCK_MAX];
    struct transfer_blocks source = {world->from.pages + first, first,
                                     end - first};
    struct transfer_blocks target = {world->to.pages, 0, world->to.blocks};
    uint32_t count = transfer_pair_parts(
        &world->grain, transfer_blocks_of(world->tokens, world->grain.tokens),
        &source, &target, pairs);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(pairs[i].ordinal >= next_part);
        next_part = pairs[i].ordinal + 1;
        copy_pair(world, memory, &pairs[i]);
    }
    return next_part;
}

/* Three thousand random prompts, pairs of sizes, layouts, padded pages, holes on
 * both sides, cut into random runs of the sender's blocks: all of the memory is
 * what the slow copy makes of it, each part comes once and in order, and its
 * two digests agree and see one flipped bit. [transfer T31 T33 I2 I3 I27] */
static void pieces_copy_what_tokens_copy(void **state)
{
    (void)state;
    struct world world = {.rng = rng_from_seed(45)};
    for (int round = 0; round < 3000; round++) {
        open_world(&world);
        if (transfer_grain_is_block(&world.grain)) {
            world.to.place.page_bytes = world.from.place.page_bytes;
        }
        world.to.size =
            world.to.place.base_offset + world.to.place.page_bytes * PAGE_MAX;
        world.to.memory = realloc(world.to.memory, world.to.size);
        memset(world.to.memory, 0x5a, world.to.size);
        uint8_t *got = malloc(world.to.size);
        memset(got, 0x5a, world.to.size);
        uint32_t next_part = 0;
        for (uint32_t first = 0; first < world.from.blocks;) {
            uint32_t left = world.from.blocks - first;
            uint32_t end = first + 1 + below(&world, left);
            next_part = copy_run(&world, got, first, end, next_part);
            first = end;
        }
        copy_slowly(&world);
        assert_memory_equal(got, world.to.memory, world.to.size);
        free(got);
        free(world.from.memory);
        free(world.to.memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example),
        cmocka_unit_test(sizes_divide_or_do_not_do),
        cmocka_unit_test(pieces_copy_what_tokens_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
