#include "agree/word.h"
#include "base/check.h"
#include "base/mem.h"
#include "transfer/aux.h"
#include "transfer/send_slot.h"
#include "transfer/slice.h"
#include "wire/result.h"

/* -------- telling the receiver -------- */

static void send_body(struct send_side *side, struct link *link, uint16_t type,
                      int64_t rid, uint32_t attempt)
{
    CHECK(!buf_error(&side->body));
    /* A failure has dropped the link, which the session hears of. */
    IGNORE(control_send(link, type, rid, attempt, buf_span(&side->body)));
}

void send_side_abort(struct send_side *side, struct link *link, int64_t rid,
                     uint32_t attempt, int64_t receiver_slice, uint8_t reason)
{
    struct wire_result result =
        wire_result_abort(0, rid, receiver_slice, reason, WIRE_RESULT_DRAINED);
    buf_reset(&side->body);
    wire_result_encode(&result, &side->body);
    send_body(side, link, WIRE_KV_RESULT, rid, attempt);
}

static void send_digests(struct send_side *side, const struct send_slot *slot)
{
    for (uint32_t i = 0; i < slot->pair_count; i++) {
        struct wire_digest digest = {slot->pairs[i].ordinal,
                                     slot->pieces[i].crc32c};
        wire_result_digest_encode(digest, &side->body);
    }
}

void send_side_tell(struct send_side *side, struct send_slot *slot,
                    const struct tx_action *action)
{
    const struct tx_session *session = &slot->session;
    const struct transfer_advert *advert = slot->advert;
    bool is_success = action->code == WIRE_RESULT_SUCCESS;
    struct wire_result result = {
        .prefix = {.rid = session->rid,
                   .receiver_slice = advert->receiver_slice,
                   .is_last = action->is_last,
                   .code = (enum wire_result_code)action->code,
                   .bytes = (int64_t)action->bytes},
        .slice_index = action->write,
        .slices_total = action->is_last ? session->write_count : 0,
        .flags = action->is_drained ? WIRE_RESULT_DRAINED : 0,
        .reason = session->reason,
        .group_count = (uint8_t)side->options.transfer->group_count,
        .bytes_so_far = session->bytes_so_far,
    };
    for (uint32_t i = 0; i < result.group_count; i++) {
        result.groups[i].blocks_so_far = slot->group_blocks[i];
        result.groups[i].digest_count = is_success ? slot->pair_counts[i] : 0;
    }
    buf_reset(&side->body);
    wire_result_encode(&result, &side->body);
    if (is_success) {
        send_digests(side, slot);
    }
    if (slot->link != NULL) {
        send_body(side, slot->link, WIRE_KV_RESULT, session->rid,
                  advert->attempt);
    }
}

void send_side_tell_aux(struct send_side *side, struct send_slot *slot)
{
    CHECK(slot->aux != NULL);
    buf_reset(&side->body);
    transfer_aux_encode(slot->aux, &side->body);
    if (slot->link != NULL) {
        send_body(side, slot->link, WIRE_AUX_RESULT, slot->session.rid,
                  slot->advert->attempt);
    }
}

/* -------- writing -------- */

static enum err reserve(struct send_slot *slot, uint32_t count)
{
    if (count <= slot->capacity) {
        return OK;
    }
    void *pairs = mem_try_resize(slot->pairs, count * sizeof(slot->pairs[0]));
    slot->pairs = pairs != NULL ? pairs : slot->pairs;
    void *pieces =
        mem_try_resize(slot->pieces, count * sizeof(slot->pieces[0]));
    slot->pieces = pieces != NULL ? pieces : slot->pieces;
    if (pairs == NULL || pieces == NULL) {
        return ERR_NO_MEMORY;
    }
    slot->capacity = count;
    return OK;
}

bool send_side_streams(const struct send_side *side, uint32_t group,
                       uint32_t prompt_tokens)
{
    const struct transfer_group *own = &side->options.transfer->groups[group];
    return transfer_life_streams(&own->life, prompt_tokens,
                                 own->pool.layout.tokens_per_block);
}

struct transfer_blocks send_side_blocks(const struct send_side *side,
                                        const struct tx_session *session,
                                        const kv_page_id *const *pages,
                                        const struct tx_run *run,
                                        uint32_t group)
{
    uint32_t first = run->first_block, end = run->end_block;
    if (!send_side_streams(side, group, session->prompt_tokens)) {
        first = 0;
        end = run->is_last ? session->block_count : 0;
    }
    const kv_page_id *list = end > first ? pages[group] + first : NULL;
    return (struct transfer_blocks){list, first, end - first};
}

static void add_piece(struct send_side *side, struct send_slot *slot,
                      uint32_t group, uint32_t index)
{
    const struct transfer_options *transfer = side->options.transfer;
    const struct kv_pool_view *own = &transfer->groups[group].pool;
    const struct link_group *theirs = &slot->link->groups[group];
    const struct transfer_pair *pair = &slot->pairs[index];
    slot->pieces[index] = (struct transfer_piece){
        .source_offset = (uint64_t)(own->base - transfer->memory) +
                         own->page_bytes * (uint64_t)pair->source,
        .target_offset =
            theirs->base_offset + own->page_bytes * (uint64_t)pair->target,
        .size = own->page_bytes,
    };
}

/* All pages of the run that the receiver wants, group after group. */
static enum err build_pieces(struct send_side *side, struct send_slot *slot)
{
    const struct tx_session *session = &slot->session;
    struct transfer_blocks sources[TRANSFER_GROUP_COUNT_MAX];
    uint32_t group_count = side->options.transfer->group_count;
    uint32_t most = 0;
    for (uint32_t i = 0; i < group_count; i++) {
        sources[i] =
            send_side_blocks(side, session, slot->pages, &session->run, i);
        most += sources[i].count;
    }
    enum err err = reserve(slot, most);
    if (err) {
        return err;
    }
    slot->pair_count = 0;
    for (uint32_t i = 0; i < group_count; i++) {
        uint32_t first = slot->pair_count;
        slot->pair_counts[i] = transfer_pair_blocks(
            &sources[i], &slot->advert->blocks[i], slot->pairs + first);
        slot->pair_count += slot->pair_counts[i];
        for (uint32_t k = first; k < slot->pair_count; k++) {
            add_piece(side, slot, i, k);
        }
    }
    return OK;
}

void send_side_write(struct send_side *side, struct send_slot *slot,
                     uint64_t now)
{
    bool is_ready = slot->link != NULL && !slot->link->is_closing &&
                    slot->link->backend_peer != NULL;
    if (!is_ready || build_pieces(side, slot)) {
        struct tx_event event = {
            .kind = TX_REFUSED, .now = now, .reason = AGREE_REASON_TRANSPORT};
        send_side_step(side, slot, &event);
        return;
    }
    slot->lane = transfer_backend_peer_lane(slot->link->backend_peer);
    slot->write = (struct transfer_write){
        .peer = slot->link->backend_peer,
        .pieces = slot->pieces,
        .piece_count = slot->pair_count,
        .token = {slot->session.rid, slot->advert->attempt},
        .context = slot,
    };
    transfer_backend_write(side->options.transfer->backend, &slot->write);
    struct tx_event event = {.kind = TX_SUBMITTED, .now = now};
    send_side_step(side, slot, &event);
    side->options.wake(side->options.context);
}

void send_side_written(struct send_side *side, struct transfer_write *write,
                       uint64_t now)
{
    struct send_slot *slot = write->context;
    struct tx_event event = {.kind = TX_WRITTEN,
                             .now = now,
                             .outcome = write->outcome,
                             .blocks = write->piece_count};
    for (size_t i = 0; i < write->piece_count; i++) {
        event.bytes += write->pieces[i].size;
    }
    if (write->outcome == TRANSFER_DONE) {
        for (uint32_t i = 0; i < side->options.transfer->group_count; i++) {
            slot->group_blocks[i] += slot->pair_counts[i];
        }
        side->options.stats->sent_slices++;
    }
    send_side_step(side, slot, &event);
}
