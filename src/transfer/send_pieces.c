/* What one write of a session carries: the parts that both sides have a page
 * for, and the pieces that these are (transfer.md 3.8, 4.5). */
#include "base/check.h"
#include "base/mem.h"
#include "transfer/send_slot.h"
#include "transfer/slice.h"

/* Of one batch, where a part is several; one part may be more. */
enum { BATCH_PIECES_MAX = 16384 };

static enum err reserve_pairs(struct send_slot *slot, uint32_t count)
{
    if (count <= slot->capacity) {
        return OK;
    }
    void *pairs = mem_try_resize(slot->pairs, count * sizeof(slot->pairs[0]));
    slot->pairs = pairs != NULL ? pairs : slot->pairs;
    void *digests =
        mem_try_resize(slot->digests, count * sizeof(slot->digests[0]));
    slot->digests = digests != NULL ? digests : slot->digests;
    if (pairs == NULL || digests == NULL) {
        return ERR_NO_MEMORY;
    }
    slot->capacity = count;
    return OK;
}

static enum err reserve_pieces(struct send_slot *slot, uint32_t count)
{
    if (count <= slot->piece_capacity) {
        return OK;
    }
    void *pieces =
        mem_try_resize(slot->pieces, count * sizeof(slot->pieces[0]));
    if (pieces == NULL) {
        return ERR_NO_MEMORY;
    }
    slot->pieces = pieces;
    slot->piece_capacity = count;
    return OK;
}

static uint64_t pieces_of(const struct send_side *side,
                          const struct send_slot *slot, uint32_t group)
{
    return transfer_part_piece_count(
        &slot->grain, &side->options.transfer->groups[group].pool.layout);
}

/* A part at least, and no more than a batch: what a batch takes. */
static uint64_t batch_pieces(const struct send_side *side,
                             const struct send_slot *slot)
{
    if (transfer_grain_is_block(&slot->grain)) {
        return slot->pair_count;
    }
    uint64_t all = 0, largest = 0;
    for (uint32_t i = 0; i < side->options.transfer->group_count; i++) {
        uint64_t each = pieces_of(side, slot, i);
        all += each * slot->pair_counts[i];
        largest = each > largest ? each : largest;
    }
    uint64_t most = largest > BATCH_PIECES_MAX ? largest : BATCH_PIECES_MAX;
    return all < most ? all : most;
}

enum err send_pieces_plan(struct send_side *side, struct send_slot *slot)
{
    const struct tx_session *session = &slot->session;
    const struct transfer_options *transfer = side->options.transfer;
    struct transfer_blocks sources[TRANSFER_GROUP_COUNT_MAX];
    uint64_t most = 0;
    CHECK(transfer_grain_of(transfer->groups[0].pool.layout.tokens_per_block,
                            slot->link->tokens_per_block, &slot->grain));
    uint32_t part_count =
        transfer_blocks_of(session->prompt_tokens, slot->grain.tokens);
    for (uint32_t i = 0; i < transfer->group_count; i++) {
        sources[i] =
            send_side_blocks(side, session, slot->pages, &session->run, i);
        uint64_t parts = (uint64_t)sources[i].count * slot->grain.source_parts;
        most += parts < part_count ? parts : part_count;
    }
    if (most > WIRE_BLOCK_COUNT_MAX) {
        return ERR_FULL;
    }
    enum err err = reserve_pairs(slot, (uint32_t)most);
    if (err) {
        return err;
    }
    slot->pair_count = slot->next_pair = 0;
    slot->moved_bytes = 0;
    for (uint32_t i = 0; i < transfer->group_count; i++) {
        const struct transfer_blocks *target =
            &slot->advert->blocks[slot->link->groups[i].index];
        slot->pair_counts[i] =
            transfer_pair_parts(&slot->grain, part_count, &sources[i], target,
                                slot->pairs + slot->pair_count);
        slot->pair_count += slot->pair_counts[i];
    }
    uint64_t pieces = batch_pieces(side, slot);
    return pieces > UINT32_MAX ? ERR_FULL
                               : reserve_pieces(slot, (uint32_t)pieces);
}

static struct transfer_place own_place(const struct transfer_options *transfer,
                                       uint32_t group)
{
    const struct kv_pool_view *pool = &transfer->groups[group].pool;
    return (struct transfer_place){
        .layout = pool->layout,
        .base_offset = (uint64_t)(pool->base - transfer->memory),
        .page_bytes = pool->page_bytes,
    };
}

static struct transfer_place peer_place(const struct send_slot *slot,
                                        const struct transfer_place *own,
                                        uint32_t group)
{
    struct transfer_place place = {
        .layout = own->layout,
        .base_offset = slot->link->groups[group].base_offset,
        .page_bytes = slot->link->groups[group].page_bytes,
    };
    place.layout.tokens_per_block = slot->link->tokens_per_block;
    return place;
}

/* Pairs below `end`, all of one group, as long as there is room. */
static uint32_t add_group(const struct send_side *side, struct send_slot *slot,
                          uint32_t group, uint32_t end, uint32_t piece_count)
{
    struct transfer_place from = own_place(side->options.transfer, group);
    struct transfer_place to = peer_place(slot, &from, group);
    uint32_t each = (uint32_t)pieces_of(side, slot, group);
    while (slot->next_pair < end &&
           each <= slot->piece_capacity - piece_count) {
        const struct transfer_pair *pair = &slot->pairs[slot->next_pair++];
        uint32_t tokens = transfer_part_tokens(
            &slot->grain, slot->session.prompt_tokens, pair->ordinal);
        piece_count += transfer_part_pieces(&slot->grain, pair, tokens, &from,
                                            &to, slot->pieces + piece_count);
    }
    return piece_count;
}

void send_pieces_next(struct send_side *side, struct send_slot *slot)
{
    uint32_t begin = 0, count = 0;
    slot->batch_pair = slot->next_pair;
    for (uint32_t i = 0; i < side->options.transfer->group_count; i++) {
        uint32_t end = begin + slot->pair_counts[i];
        if (slot->next_pair >= begin) {
            count = add_group(side, slot, i, end, count);
        }
        begin = end;
    }
    slot->piece_count = count;
    slot->step_piece = slot->next_piece = 0;
}

static void take_step(struct send_slot *slot, uint64_t bytes_max)
{
    uint64_t bytes = 0;
    uint32_t at = slot->next_piece;
    slot->step_piece = at;
    while (at < slot->piece_count &&
           (at == slot->step_piece ||
            slot->pieces[at].size <= bytes_max - bytes)) {
        bytes += slot->pieces[at++].size;
        bytes = bytes < bytes_max ? bytes : bytes_max;
    }
    slot->next_piece = at;
    slot->write = (struct transfer_write){
        .pieces = slot->piece_count == 0 ? NULL /* an empty last slice */
                                         : slot->pieces + slot->step_piece,
        .piece_count = at - slot->step_piece};
}

void send_pieces_step(struct send_slot *slot)
{
    take_step(slot, slot->pace.step_bytes);
}

void send_pieces_step_all(struct send_slot *slot)
{
    take_step(slot, UINT64_MAX);
}

bool send_pieces_have_more(const struct send_slot *slot)
{
    return slot->next_piece < slot->piece_count ||
           slot->next_pair < slot->pair_count;
}

/* The digests of pairs that are several pieces; else a piece has its pair's. */
static void join_digests(const struct send_side *side, struct send_slot *slot)
{
    const struct transfer_piece *pieces = slot->pieces;
    uint32_t pair = slot->batch_pair, end = 0;
    for (uint32_t i = 0; i < side->options.transfer->group_count; i++) {
        uint32_t each = (uint32_t)pieces_of(side, slot, i);
        end += slot->pair_counts[i];
        for (; pair < end && pair < slot->next_pair; pair++, pieces += each) {
            slot->digests[pair] = transfer_part_join(pieces, each);
        }
    }
}

uint64_t send_pieces_note(struct send_side *side, struct send_slot *slot)
{
    uint64_t bytes = 0;
    for (uint32_t i = slot->step_piece; i < slot->next_piece; i++) {
        bytes += slot->pieces[i].size;
    }
    slot->moved_bytes += bytes;
    if (slot->next_piece == slot->piece_count &&
        !transfer_grain_is_block(&slot->grain)) {
        join_digests(side, slot);
    }
    return bytes;
}

uint32_t send_pieces_digest(const struct send_slot *slot, uint32_t index)
{
    return transfer_grain_is_block(&slot->grain) ? slot->pieces[index].crc32c
                                                 : slot->digests[index];
}
