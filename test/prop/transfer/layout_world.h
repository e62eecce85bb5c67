#pragma once
/* Two instances of a few ranks each, with memory: what the mapper plans between
 * them is done by memcpy and judged byte by byte. Each byte of a cache has a
 * value of its own, by (layer, role, ordinal, and where it stands in the whole
 * uncut entry), so that no misplaced byte looks right. The judge reckons
 * addresses an element at a time and knows nothing of runs or owners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "transfer/layout_check.h"
#include "transfer/layout_helix.h"
#include "transfer/layout_map.h"

enum {
    RANKS_MAX = 16,
    LAYERS_MAX = 8,
    VIEWS_MAX = 3,
    SECTIONS_MAX = 4,
    BLOCKS_MAX = 7,
    SLOTS_MAX = 9,
    MEMORY_MAX = 1 << 18,
    UNTOUCHED = 0xA5
};

/* The model and the prompt, the same for both. */
struct world_model {
    enum transfer_view_kind kind; /* of the attention's cache */
    bool is_latent, has_index_keys, has_states;
    uint32_t heads, dim, tokens, blocks;
    uint32_t section_count;
    uint32_t section_units[SECTIONS_MAX]; /* whole, of 4 bytes */
    uint32_t state_shards; /* most that a state is cut into */
};

struct world_rank {
    struct transfer_entry entries[VIEWS_MAX][LAYERS_MAX * 2];
    struct transfer_section sections[SECTIONS_MAX];
    struct transfer_view views[VIEWS_MAX];
    struct transfer_party party;
    struct transfer_slots slots[2]; /* a life cycle each: blocks, states */
    kv_page_id blocks[BLOCKS_MAX]; /* by ordinal */
    kv_page_id state;
    uint8_t *memory; /* (MEMORY_MAX) */
};

struct world_side {
    uint16_t ids[LAYERS_MAX];
    struct transfer_layers stages[LAYERS_MAX];
    struct transfer_layout layout;
    struct kv_life lives[2];
    uint32_t shards; /* of the heads */
    bool whole_sections[SECTIONS_MAX];
    struct world_rank ranks[RANKS_MAX];
};

struct world {
    struct rng rng;
    struct world_model model;
    struct world_side sides[2]; /* sender, receiver */
    uint8_t *expected, *writes; /* (MEMORY_MAX) */
    uint32_t sender_dp, receiver_dp;
};

static inline uint32_t world_chance(struct world *world, uint32_t bound)
{
    return (uint32_t)rng_below(&world->rng, bound);
}

/* -------- building -------- */

/* Layers [first, end) without `hole`, in pp_size stages of random sizes. */
static inline void world_split(struct world *world, struct world_side *side,
                               uint32_t pp_size, uint32_t first, uint32_t end,
                               uint32_t hole)
{
    uint32_t count = 0;
    for (uint32_t id = first; id < end; id++) {
        if (id != hole) {
            side->ids[count++] = (uint16_t)id;
        }
    }
    assert_true(count >= pp_size);
    uint32_t at = 0;
    for (uint32_t i = 0; i < pp_size; i++) {
        uint32_t spare = count - at - (pp_size - i);
        uint32_t size =
            i + 1 == pp_size ? count - at : 1 + world_chance(world, spare + 1);
        side->stages[i] = (struct transfer_layers){side->ids + at, size};
        at += size;
    }
}

static inline void world_shape(struct world_side *side, uint32_t tp,
                               uint32_t pp, uint32_t cp, uint32_t dp)
{
    side->layout = (struct transfer_layout){tp, pp, cp, dp, side->stages};
    assert_true(transfer_layout_rank_count(&side->layout) <= RANKS_MAX);
}

/* Entries of all layers of the stage, in shuffled order with gaps between. */
static inline uint64_t world_place(struct world *world,
                                   const struct transfer_layers *stage,
                                   struct transfer_view *view,
                                   struct transfer_entry *entries, uint64_t at)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < stage->count; i++) {
        for (uint32_t role = 1; role <= view->roles; role *= 2) {
            if ((view->roles & role) != 0) {
                entries[count++] =
                    (struct transfer_entry){stage->ids[i], (uint16_t)role, 0};
            }
        }
    }
    bool is_packed = world_chance(world, 2) == 0;
    uint32_t order[LAYERS_MAX * 2];
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
        uint32_t j = is_packed ? i : world_chance(world, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        at += is_packed ? 0 : world_chance(world, 9);
        entries[order[i]].offset = at;
        at += transfer_view_entry_bytes(view);
    }
    view->entries = entries;
    view->entry_count = count;
    return at;
}

static inline void world_add_heads(struct world *world, struct world_side *side,
                                   struct world_rank *rank,
                                   const struct transfer_place *place)
{
    const struct world_model *model = &world->model;
    bool is_whole = model->kind == TRANSFER_VIEW_WHOLE;
    struct transfer_view *view = &rank->views[rank->party.view_count++];
    *view = (struct transfer_view){
        .kind = model->kind,
        .element = TRANSFER_ELEMENT_F16,
        .roles = is_whole ? TRANSFER_ROLE_LATENT
                          : TRANSFER_ROLE_KEY | TRANSFER_ROLE_VALUE,
        .tokens_per_block = model->tokens,
        .head_count = is_whole ? 1 : model->heads / side->shards,
        .head_dim = model->dim,
    };
    assert_int_equal(transfer_share_of(&side->layout, place,
                                       is_whole ? 1 : side->shards, NULL,
                                       &view->share),
                     OK);
}

static inline void world_add_index_keys(const struct world *world,
                                        struct world_side *side,
                                        struct world_rank *rank,
                                        const struct transfer_place *place)
{
    struct transfer_view *view = &rank->views[rank->party.view_count++];
    *view = (struct transfer_view){
        .kind = TRANSFER_VIEW_WHOLE,
        .element = TRANSFER_ELEMENT_I8,
        .roles = TRANSFER_ROLE_INDEX_KEY,
        .tokens_per_block = world->model.tokens,
        .head_count = 1,
        .head_dim = 3,
    };
    assert_int_equal(
        transfer_share_of(&side->layout, place, 1, NULL, &view->share), OK);
}

static inline void world_add_state(const struct world *world,
                                   struct world_side *side,
                                   struct world_rank *rank,
                                   const struct transfer_place *place)
{
    const struct world_model *model = &world->model;
    struct transfer_view *view = &rank->views[rank->party.view_count++];
    *view = (struct transfer_view){
        .kind = TRANSFER_VIEW_SECTIONED,
        .element = TRANSFER_ELEMENT_F32,
        .roles = TRANSFER_ROLE_STATE,
        .life = 1,
        .head_dim = 1,
        .section_count = model->section_count,
        .sections = rank->sections,
    };
    uint32_t parts = transfer_layout_part_count(&side->layout);
    uint32_t shards = parts < model->state_shards ? parts : model->state_shards;
    assert_int_equal(
        transfer_share_of(&side->layout, place, shards, NULL, &view->share),
        OK);
    for (uint32_t i = 0; i < model->section_count; i++) {
        bool is_whole = side->whole_sections[i];
        rank->sections[i] = (struct transfer_section){
            4 * model->section_units[i] / (is_whole ? 1 : shards), is_whole};
    }
}

static inline void world_build_rank(struct world *world,
                                    struct world_side *side, uint32_t index)
{
    struct world_rank *rank = &side->ranks[index];
    struct transfer_place place = transfer_layout_place(&side->layout, index);
    rank->party = (struct transfer_party){
        .layout = &side->layout,
        .rank = index,
        .life_count = 2,
        .lives = side->lives,
        .views = rank->views,
        .is_mla = world->model.is_latent,
        .is_recurrent = world->model.has_states,
        .beam_width = 1,
    };
    world_add_heads(world, side, rank, &place);
    if (world->model.has_index_keys) {
        world_add_index_keys(world, side, rank, &place);
    }
    if (world->model.has_states) {
        world_add_state(world, side, rank, &place);
    }
    uint64_t sizes[2] = {0, 0};
    for (uint32_t i = 0; i < rank->party.view_count; i++) {
        struct transfer_view *view = &rank->views[i];
        sizes[view->life] = world_place(world, &side->stages[place.pp], view,
                                        rank->entries[i], sizes[view->life]);
    }
    uint64_t at = world_chance(world, 64);
    for (uint32_t life = 0; life < 2; life++) {
        sizes[life] += world_chance(world, 2) * world_chance(world, 16);
        rank->slots[life] = (struct transfer_slots){at, sizes[life]};
        at += sizes[life] * SLOTS_MAX;
    }
    assert_true(at <= MEMORY_MAX);
    for (uint32_t i = 0; i < rank->party.view_count; i++) {
        rank->views[i].slot_bytes = sizes[rank->views[i].life];
    }
    struct why why = {{0}};
    IGNORE(transfer_party_validate(&rank->party, &why));
    assert_string_equal(why.text, "");
}

/* Which slots a request has; the first `cached` ordinals are not wanted. */
static inline void world_lend(struct world *world, struct world_side *side,
                              uint32_t index, uint32_t cached)
{
    struct world_rank *rank = &side->ranks[index];
    uint32_t cp = transfer_layout_place(&side->layout, index).cp;
    kv_page_id slots[SLOTS_MAX];
    bool is_run = world_chance(world, 2) == 0;
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        uint32_t j = is_run ? i : world_chance(world, i + 1);
        slots[i] = slots[j];
        slots[j] = (kv_page_id)i;
    }
    kv_page_id own[BLOCKS_MAX];
    uint32_t cp_size = side->layout.cp_size;
    uint32_t count = transfer_helix_count(cp_size, cp, world->model.blocks);
    memcpy(own, slots, count * sizeof(own[0]));
    assert_int_equal(transfer_helix_spread(cp_size, cp, own, count,
                                           world->model.blocks, NULL,
                                           rank->blocks),
                     OK);
    for (uint32_t i = 0; i < cached; i++) {
        rank->blocks[i] = KV_PAGE_NONE;
    }
    rank->state = slots[0];
}

static inline void world_build(struct world *world, uint32_t cached)
{
    for (int s = 0; s < 2; s++) {
        struct world_side *side = &world->sides[s];
        assert_int_equal(transfer_layout_validate(&side->layout, NULL), OK);
        uint32_t count = transfer_layout_rank_count(&side->layout);
        for (uint32_t i = 0; i < count; i++) {
            world_build_rank(world, side, i);
            world_lend(world, side, i, s == 1 ? cached : 0);
        }
    }
}

static inline struct world *world_create(uint64_t seed)
{
    struct world *world = calloc(1, sizeof(*world));
    world->rng = rng_from_seed(seed);
    world->expected = malloc(MEMORY_MAX);
    world->writes = malloc(MEMORY_MAX);
    for (int i = 0; i < 2 * RANKS_MAX; i++) {
        world->sides[i / RANKS_MAX].ranks[i % RANKS_MAX].memory =
            malloc(MEMORY_MAX);
    }
    return world;
}

static inline void world_destroy(struct world *world)
{
    for (int i = 0; i < 2 * RANKS_MAX; i++) {
        free(world->sides[i / RANKS_MAX].ranks[i % RANKS_MAX].memory);
    }
    free(world->expected);
    free(world->writes);
    free(world);
}

/* -------- the judge -------- */

static inline uint8_t world_value(uint32_t layer, uint32_t role,
                                  uint32_t ordinal, uint64_t place)
{
    uint64_t value = rng_at(layer * 64 + role, ordinal, place);
    return (uint8_t)value == UNTOUCHED ? 1 : (uint8_t)value;
}

/* Where byte `at` of a local entry stands in the whole, uncut one. */
static inline uint64_t world_whole_place(const struct transfer_view *view,
                                         uint64_t at)
{
    if (view->kind == TRANSFER_VIEW_SECTIONED) {
        uint64_t section = 0;
        uint64_t whole = 0;
        while (at >= view->sections[section].size) {
            at -= view->sections[section].size;
            bool is_whole = view->sections[section].is_whole;
            whole += view->sections[section].size *
                     (is_whole ? 1 : view->share.shard_count);
            section++;
        }
        bool is_whole = view->sections[section].is_whole;
        uint64_t shard = is_whole ? 0 : view->share.shard_index;
        return whole + shard * view->sections[section].size + at;
    }
    uint64_t unit = transfer_view_unit_bytes(view);
    uint64_t byte = at % unit;
    uint64_t outer = at / unit;
    uint64_t token, head;
    if (view->kind == TRANSFER_VIEW_TOKENS_FIRST) {
        token = outer / view->head_count;
        head = outer % view->head_count;
    } else {
        token = outer % view->tokens_per_block;
        head = outer / view->tokens_per_block;
    }
    head += (uint64_t)view->share.shard_index * view->head_count;
    return (head * view->tokens_per_block + token) * unit + byte;
}

/* Sets all bytes of one slot that belong to layers of `stages`; NULL: all. */
static inline void world_write_slot(const struct world_rank *rank,
                                    const struct transfer_view *view,
                                    kv_page_id slot, uint32_t ordinal,
                                    const struct transfer_layout *only,
                                    uint8_t *values, uint8_t *marks)
{
    const struct transfer_slots *slots = &rank->slots[view->life];
    uint64_t base = slots->base_offset + (uint64_t)slot * slots->slot_bytes;
    uint64_t size = transfer_view_entry_bytes(view);
    for (uint32_t i = 0; i < view->entry_count; i++) {
        const struct transfer_entry *entry = &view->entries[i];
        bool has = only == NULL;
        for (uint32_t s = 0; !has && s < only->pp_size; s++) {
            has = transfer_layers_have(&only->stages[s], entry->layer);
        }
        for (uint64_t at = 0; has && at < size; at++) {
            uint64_t byte = base + entry->offset + at;
            values[byte] = world_value(entry->layer, entry->role, ordinal,
                                       world_whole_place(view, at));
            if (marks != NULL) {
                marks[byte]++;
            }
        }
    }
}

static inline void world_write_rank(const struct world *world,
                                    const struct world_rank *rank,
                                    const struct transfer_layout *only,
                                    uint8_t *values, uint8_t *marks)
{
    for (uint32_t v = 0; v < rank->party.view_count; v++) {
        const struct transfer_view *view = &rank->views[v];
        if (view->life == 1) {
            world_write_slot(rank, view, rank->state, 0, only, values, marks);
            continue;
        }
        for (uint32_t i = 0; i < world->model.blocks; i++) {
            if (rank->blocks[i] != KV_PAGE_NONE) {
                world_write_slot(rank, view, rank->blocks[i], i, only, values,
                                 marks);
            }
        }
    }
}

/* -------- transfers -------- */

/* Plans by parts of the walk, copies, counts writes a byte. */
static inline uint64_t world_copy(const struct transfer_map *map,
                                  const struct transfer_pair *pairs,
                                  uint32_t pair_count, bool joins_slots,
                                  const uint8_t *source, uint8_t *target,
                                  uint8_t *writes)
{
    struct transfer_piece pieces[13];
    struct transfer_map_cursor cursor = {0};
    uint64_t bytes = 0;
    for (;;) {
        size_t count = transfer_map_pieces(map, pairs, pair_count, joins_slots,
                                           &cursor, 13, pieces);
        for (size_t i = 0; i < count; i++) {
            const struct transfer_piece *piece = &pieces[i];
            assert_true(piece->source_offset + piece->size <= MEMORY_MAX);
            assert_true(piece->target_offset + piece->size <= MEMORY_MAX);
            memcpy(target + piece->target_offset, source + piece->source_offset,
                   piece->size);
            for (uint64_t at = 0; at < piece->size; at++) {
                writes[piece->target_offset + at]++;
            }
            bytes += piece->size;
        }
        if (count == 0) {
            return bytes;
        }
    }
}

static inline void world_map(const struct world *world,
                             const struct world_rank *from,
                             const struct world_rank *to, uint32_t life,
                             struct transfer_run *runs, uint32_t capacity,
                             struct transfer_map *map)
{
    transfer_map_init(map, &from->slots[life], &to->slots[life], runs,
                      capacity);
    for (uint32_t i = 0; i < from->party.view_count; i++) {
        for (uint32_t j = 0; j < to->party.view_count; j++) {
            if (from->views[i].life == life) {
                assert_int_equal(transfer_map_add(map, &from->views[i],
                                                  &to->views[j], NULL,
                                                  world->receiver_dp),
                                 OK);
            }
        }
    }
    transfer_map_finish(map);
}

/* All that one sender sends to one receiver; its bytes. */
static inline uint64_t world_send(struct world *world,
                                  const struct world_rank *from,
                                  struct world_rank *to)
{
    static struct transfer_run runs[VIEWS_MAX * LAYERS_MAX * 2 * SECTIONS_MAX];
    struct transfer_map map;
    struct transfer_pair pairs[BLOCKS_MAX];
    uint64_t bytes = 0;
    for (uint32_t life = 0; life < 2; life++) {
        world_map(world, from, to, life, runs, sizeof(runs) / sizeof(runs[0]),
                  &map);
        const struct transfer_blocks source = {from->blocks, 0,
                                               world->model.blocks};
        const struct transfer_blocks target = {to->blocks, 0,
                                               world->model.blocks};
        uint32_t count = transfer_pair_blocks(&source, &target, pairs);
        if (life == 1) {
            pairs[0] = (struct transfer_pair){0, from->state, to->state};
            count = 1;
        }
        uint64_t got =
            world_copy(&map, pairs, count, world_chance(world, 2) == 0,
                       from->memory, to->memory, world->writes);
        assert_int_equal(got, map.bytes_a_slot * count);
        bytes += got;
    }
    return bytes;
}

/* Bytes that a rank waits for from one stage, by what it can reckon itself from
 * the description of any rank of it. */
static inline uint64_t world_awaited(const struct world *world,
                                     const struct world_rank *from,
                                     const struct world_rank *to)
{
    const struct transfer_blocks blocks = {to->blocks, 0, world->model.blocks};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < from->party.view_count; i++) {
        for (uint32_t j = 0; j < to->party.view_count; j++) {
            uint64_t common =
                transfer_views_pair(&to->views[j], &from->views[i])
                    ? transfer_view_common_bytes(&to->views[j], &from->views[i])
                    : 0;
            bytes +=
                common *
                (to->views[j].life == 1 ? 1 : transfer_blocks_count(&blocks));
        }
    }
    return bytes;
}

/* Do [i / a, (i + 1) / a) and [j / b, (j + 1) / b) overlap? */
static inline bool world_axes_meet(uint32_t a, uint32_t i, uint32_t b,
                                   uint32_t j)
{
    return i * b < (j + 1) * a && j * a < (i + 1) * b;
}

/* By the definition: every axis overlaps. */
static inline bool world_ranks_meet(const struct world *world, uint32_t from,
                                    uint32_t to)
{
    const struct transfer_layout *a = &world->sides[0].layout;
    const struct transfer_layout *b = &world->sides[1].layout;
    uint32_t tp_a = from / a->cp_size % a->tp_size;
    uint32_t tp_b = to / b->cp_size % b->tp_size;
    uint32_t parts_a = a->tp_size / a->dp_size;
    uint32_t parts_b = b->tp_size / b->dp_size;
    const struct transfer_layers *stage_a =
        &a->stages[from / a->cp_size / a->tp_size];
    const struct transfer_layers *stage_b =
        &b->stages[to / b->cp_size / b->tp_size];
    bool is_common = false;
    for (uint32_t i = 0; i < stage_a->count * stage_b->count; i++) {
        is_common |= stage_a->ids[i / stage_b->count] ==
                     stage_b->ids[i % stage_b->count];
    }
    return is_common &&
           world_axes_meet(parts_a, tp_a % parts_a, parts_b, tp_b % parts_b) &&
           world_axes_meet(a->cp_size, from % a->cp_size, b->cp_size,
                           to % b->cp_size);
}

/* Sends all, to one receiver, from the group that serves the request. Sender
 * ranks that the receiver does not meet are tried too: they own nothing. */
static inline void world_receive(struct world *world, uint32_t to)
{
    struct world_side *senders = &world->sides[0];
    struct world_side *receivers = &world->sides[1];
    struct world_rank *rank = &receivers->ranks[to];
    struct transfer_overlap met = transfer_layout_overlap(
        &receivers->layout, to, &senders->layout, world->sender_dp);
    uint32_t found = 0;
    uint32_t aux_writers = 0;
    uint64_t bytes = 0;
    uint64_t awaited = 0;
    uint64_t stages = 0;
    memset(rank->memory, UNTOUCHED, MEMORY_MAX);
    memset(world->writes, 0, MEMORY_MAX);
    for (uint32_t i = 0; i < transfer_layout_rank_count(&senders->layout);
         i++) {
        struct transfer_place place =
            transfer_layout_place(&senders->layout, i);
        if (place.dp != world->sender_dp) {
            assert_false(transfer_overlap_has(&met, i));
            continue;
        }
        struct transfer_overlap back = transfer_layout_overlap(
            &senders->layout, i, &receivers->layout, world->receiver_dp);
        bool do_meet = world_ranks_meet(world, i, to);
        assert_int_equal(transfer_overlap_has(&met, i), do_meet);
        assert_int_equal(transfer_overlap_has(&back, to), do_meet);
        uint64_t sent = world_send(world, &senders->ranks[i], rank);
        assert_true(do_meet || sent == 0);
        if (do_meet && (stages >> place.pp & 1) == 0) {
            stages |= UINT64_C(1) << place.pp;
            awaited += world_awaited(world, &senders->ranks[i], rank);
        }
        bytes += sent;
        found += do_meet;
        aux_writers += transfer_layout_writes_aux(&senders->layout, i,
                                                  &receivers->layout, to);
    }
    assert_true(found > 0);
    assert_int_equal(found, transfer_overlap_expected(&met));
    assert_int_equal(aux_writers, 1);
    static uint8_t marks[MEMORY_MAX];
    memset(marks, 0, sizeof(marks));
    memset(world->expected, UNTOUCHED, MEMORY_MAX);
    world_write_rank(world, rank, &senders->layout, world->expected, marks);
    assert_memory_equal(world->writes, marks, MEMORY_MAX);
    assert_memory_equal(rank->memory, world->expected, MEMORY_MAX);
    uint64_t expected = 0;
    for (uint32_t at = 0; at < MEMORY_MAX; at++) {
        expected += marks[at];
    }
    assert_int_equal(bytes, expected);
    assert_int_equal(bytes, awaited);
}

/* One request, of group sender_dp there and receiver_dp here. */
static inline void world_transfer(struct world *world)
{
    struct world_side *senders = &world->sides[0];
    struct world_side *receivers = &world->sides[1];
    for (uint32_t i = 0; i < transfer_layout_rank_count(&senders->layout);
         i++) {
        struct world_rank *rank = &senders->ranks[i];
        memset(rank->memory, UNTOUCHED, MEMORY_MAX);
        world_write_rank(world, rank, NULL, rank->memory, NULL);
    }
    for (uint32_t i = 0; i < transfer_layout_rank_count(&receivers->layout);
         i++) {
        if (transfer_layout_place(&receivers->layout, i).dp ==
            world->receiver_dp) {
            world_receive(world, i);
        }
    }
}

/* What any two ranks say when they meet; the first reason against. */
static inline enum err world_check(const struct world *world, struct why *why)
{
    const struct world_side *a = &world->sides[0];
    const struct world_side *b = &world->sides[1];
    enum err err = OK;
    uint32_t senders = transfer_layout_rank_count(&a->layout);
    uint32_t receivers = transfer_layout_rank_count(&b->layout);
    for (uint32_t i = 0; !err && i < senders * receivers; i++) {
        struct transfer_check result;
        err = transfer_parties_check(&a->ranks[i / receivers].party,
                                     &b->ranks[i % receivers].party, false, why,
                                     &result);
    }
    return err;
}
