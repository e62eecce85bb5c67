#include "transfer/layout_map.h"

#include "base/check.h"

/* -------- runs of one slot -------- */

uint32_t transfer_map_run_count_max(const struct transfer_view *view)
{
    uint32_t sections =
        view->kind == TRANSFER_VIEW_SECTIONED ? view->section_count : 1;
    return view->entry_count * sections;
}

void transfer_map_init(struct transfer_map *map,
                       const struct transfer_slots *source,
                       const struct transfer_slots *target,
                       struct transfer_run *runs, uint32_t run_capacity)
{
    *map = (struct transfer_map){.source = *source,
                                 .target = *target,
                                 .runs = runs,
                                 .run_capacity = run_capacity};
}

/* Repeats without a gap on either side are one longer run. */
static struct transfer_run close_gaps(struct transfer_run run)
{
    if (run.count == 1 ||
        (run.source_stride == run.size && run.target_stride == run.size)) {
        run.size *= run.count;
        run.count = 1;
        run.source_stride = run.target_stride = 0;
    }
    return run;
}

/* `run` is told relative to the entries. */
static enum err add_run(struct transfer_map *map,
                        const struct transfer_entry *from,
                        const struct transfer_entry *to,
                        const struct transfer_run *run)
{
    if (map->run_count == map->run_capacity) {
        return ERR_FULL;
    }
    struct transfer_run *added = &map->runs[map->run_count++];
    *added = close_gaps(*run);
    added->source_offset += from->offset;
    added->target_offset += to->offset;
    return OK;
}

/* The same runs for all entries that both sides have; both lists ascend. */
static enum err add_entries(struct transfer_map *map,
                            const struct transfer_view *from,
                            const struct transfer_view *to,
                            const struct transfer_run *runs, uint32_t count)
{
    enum err err = OK;
    for (uint32_t i = 0, j = 0;
         !err && i < from->entry_count && j < to->entry_count;) {
        const struct transfer_entry *a = &from->entries[i];
        const struct transfer_entry *b = &to->entries[j];
        uint32_t source = (uint32_t)a->layer << 16 | a->role;
        uint32_t target = (uint32_t)b->layer << 16 | b->role;
        for (uint32_t at = 0; !err && source == target && at < count; at++) {
            err = add_run(map, a, b, &runs[at]);
        }
        i += source <= target;
        j += target <= source;
    }
    return err;
}

/* Heads that both have, of the given tokens: first ones on either side. */
struct heads {
    uint64_t source, target, count;
};

static struct heads common_heads(const struct transfer_view *from,
                                 const struct transfer_view *to,
                                 const struct transfer_cut *cut)
{
    uint64_t count =
        from->head_count < to->head_count ? from->head_count : to->head_count;
    return (struct heads){cut->source_part * count, cut->target_part * count,
                          count};
}

/* A head's tokens are one run, the heads follow a block's tokens apart. */
static struct transfer_run run_of_heads(const struct transfer_view *from,
                                        const struct transfer_view *to,
                                        const struct transfer_tokens *tokens,
                                        const struct heads *heads)
{
    uint64_t unit = transfer_view_unit_bytes(from);
    uint64_t source_stride = from->tokens_per_block * unit;
    uint64_t target_stride = to->tokens_per_block * unit;
    return (struct transfer_run){
        .source_offset =
            heads->source * source_stride + tokens->source_first * unit,
        .target_offset =
            heads->target * target_stride + tokens->target_first * unit,
        .size = tokens->count * unit,
        .source_stride = source_stride,
        .target_stride = target_stride,
        .count = (uint32_t)heads->count,
    };
}

/* A token's heads are one run. */
static struct transfer_run run_of_tokens(const struct transfer_view *from,
                                         const struct transfer_view *to,
                                         const struct transfer_tokens *tokens,
                                         const struct heads *heads)
{
    uint64_t unit = transfer_view_unit_bytes(from);
    uint64_t source_stride = from->head_count * unit;
    uint64_t target_stride = to->head_count * unit;
    return (struct transfer_run){
        .source_offset =
            tokens->source_first * source_stride + heads->source * unit,
        .target_offset =
            tokens->target_first * target_stride + heads->target * unit,
        .size = heads->count * unit,
        .source_stride = source_stride,
        .target_stride = target_stride,
        .count = tokens->count,
    };
}

/* As it is: also what has no whole bytes a head. */
static struct transfer_run run_of_entry(const struct transfer_view *view)
{
    return (struct transfer_run){.size = transfer_view_entry_bytes(view),
                                 .count = 1};
}

static enum err add_blocks(struct transfer_map *map,
                           const struct transfer_view *from,
                           const struct transfer_view *to,
                           const struct transfer_tokens *tokens,
                           uint32_t receiver_dp)
{
    struct transfer_cut cut;
    if (!transfer_share_cut(&from->share, &to->share, receiver_dp, &cut)) {
        return OK;
    }
    CHECK(tokens->source_first + tokens->count <= from->tokens_per_block);
    CHECK(tokens->target_first + tokens->count <= to->tokens_per_block);
    bool is_all = from->head_count == to->head_count &&
                  tokens->count == from->tokens_per_block &&
                  tokens->count == to->tokens_per_block;
    CHECK(is_all || transfer_view_unit_bytes(from) > 0);
    const struct heads heads = common_heads(from, to, &cut);
    const struct transfer_run run =
        is_all ? run_of_entry(from)
        : from->kind == TRANSFER_VIEW_HEADS_FIRST
            ? run_of_heads(from, to, tokens, &heads)
            : run_of_tokens(from, to, tokens, &heads);
    return add_entries(map, from, to, &run, 1);
}

/* -------- states -------- */

static enum err add_state(struct transfer_map *map,
                          const struct transfer_view *from,
                          const struct transfer_view *to, uint32_t receiver_dp)
{
    CHECK(from->section_count == to->section_count);
    CHECK(from->section_count <= TRANSFER_SECTION_COUNT_MAX);
    struct transfer_run runs[TRANSFER_SECTION_COUNT_MAX];
    uint32_t count = 0;
    uint64_t source = 0;
    uint64_t target = 0;
    for (uint32_t i = 0; i < from->section_count; i++) {
        const struct transfer_section *a = &from->sections[i];
        const struct transfer_section *b = &to->sections[i];
        struct transfer_share sender = transfer_view_section_share(from, i);
        struct transfer_share receiver = transfer_view_section_share(to, i);
        struct transfer_cut cut;
        if (transfer_share_cut(&sender, &receiver, receiver_dp, &cut)) {
            uint64_t size = a->size < b->size ? a->size : b->size;
            runs[count++] = (struct transfer_run){
                .source_offset = source + cut.source_part * size,
                .target_offset = target + cut.target_part * size,
                .size = size,
                .count = 1,
            };
        }
        source += a->size;
        target += b->size;
    }
    return add_entries(map, from, to, runs, count);
}

enum err transfer_map_add(struct transfer_map *map,
                          const struct transfer_view *from,
                          const struct transfer_view *to,
                          const struct transfer_tokens *tokens,
                          uint32_t receiver_dp)
{
    if (!transfer_views_pair(from, to)) {
        return OK;
    }
    CHECK(from->kind == to->kind);
    if (from->kind == TRANSFER_VIEW_SECTIONED) {
        return add_state(map, from, to, receiver_dp);
    }
    CHECK(tokens != NULL || from->tokens_per_block == to->tokens_per_block);
    const struct transfer_tokens all = {.count = from->tokens_per_block};
    return add_blocks(map, from, to, tokens != NULL ? tokens : &all,
                      receiver_dp);
}

/* -------- all runs together -------- */

/* Entries mostly lie in the order they are told, so that this is one pass; a
 * sender's offsets are its own, no peer can make it long. */
static void sort_runs(struct transfer_run *runs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct transfer_run run = runs[i];
        uint32_t at = i;
        for (; at > 0 && runs[at - 1].source_offset > run.source_offset; at--) {
            runs[at] = runs[at - 1];
        }
        runs[at] = run;
    }
}

void transfer_map_finish(struct transfer_map *map)
{
    sort_runs(map->runs, map->run_count);
    uint32_t kept = 0;
    map->bytes_a_slot = map->pieces_a_slot = 0;
    for (uint32_t i = 0; i < map->run_count; i++) {
        const struct transfer_run run = map->runs[i];
        struct transfer_run *last = kept > 0 ? &map->runs[kept - 1] : NULL;
        map->bytes_a_slot += run.size * run.count;
        if (last != NULL && last->count == 1 && run.count == 1 &&
            last->source_offset + last->size == run.source_offset &&
            last->target_offset + last->size == run.target_offset) {
            last->size += run.size;
        } else {
            map->runs[kept++] = run;
            map->pieces_a_slot += run.count;
        }
    }
    map->run_count = kept;
}

/* -------- pieces -------- */

struct filling {
    struct transfer_piece *pieces;
    size_t count, capacity;
};

static bool do_adjoin(const struct transfer_piece *last, uint64_t source,
                      uint64_t target)
{
    return last->source_offset + last->size == source &&
           last->target_offset + last->size == target;
}

/* As many repeats as there is room for; how many went. */
static uint32_t fill_run(struct filling *filling,
                         const struct transfer_run *run, uint64_t source,
                         uint64_t target, uint32_t first)
{
    uint32_t count = run->count - first;
    size_t room = filling->capacity - filling->count;
    count = count < room ? count : (uint32_t)room;
    source += run->source_offset + first * run->source_stride;
    target += run->target_offset + first * run->target_stride;
    struct transfer_piece *piece = filling->pieces + filling->count;
    for (uint32_t i = 0; i < count; i++) {
        piece[i] = (struct transfer_piece){source, target, run->size, 0};
        source += run->source_stride;
        target += run->target_stride;
    }
    filling->count += count;
    return count;
}

/* The first run of a slot may go on where the slot before it ended. A slot that
 * is gone on with has no piece before it in this call. */
static bool join_slot(const struct transfer_map *map, struct filling *filling,
                      uint64_t source, uint64_t target,
                      struct transfer_map_cursor *cursor)
{
    const struct transfer_run *run = &map->runs[0];
    if (filling->count == 0 || run->count > 1) {
        return false;
    }
    struct transfer_piece *last = &filling->pieces[filling->count - 1];
    if (!do_adjoin(last, source + run->source_offset,
                   target + run->target_offset)) {
        return false;
    }
    last->size += run->size;
    cursor->run = 1;
    return true;
}

/* True: the slot is through; false: no room any more. */
static bool fill_slot(const struct transfer_map *map,
                      const struct transfer_pair *pair, bool joins_slots,
                      struct transfer_map_cursor *cursor,
                      struct filling *filling)
{
    uint64_t source = map->source.base_offset +
                      (uint64_t)pair->source * map->source.slot_bytes;
    uint64_t target = map->target.base_offset +
                      (uint64_t)pair->target * map->target.slot_bytes;
    if (joins_slots) {
        join_slot(map, filling, source, target, cursor);
    }
    for (; cursor->run < map->run_count; cursor->run++) {
        const struct transfer_run *run = &map->runs[cursor->run];
        cursor->repeat +=
            fill_run(filling, run, source, target, cursor->repeat);
        if (cursor->repeat < run->count) {
            return false;
        }
        cursor->repeat = 0;
    }
    cursor->run = 0;
    return true;
}

size_t transfer_map_pieces(const struct transfer_map *map,
                           const struct transfer_pair *pairs,
                           uint32_t pair_count, bool joins_slots,
                           struct transfer_map_cursor *cursor, size_t capacity,
                           struct transfer_piece *pieces_out)
{
    CHECK(capacity > 0);
    struct filling filling = {pieces_out, 0, capacity};
    while (
        map->run_count > 0 && cursor->pair < pair_count &&
        fill_slot(map, &pairs[cursor->pair], joins_slots, cursor, &filling)) {
        cursor->pair++;
    }
    return filling.count;
}
