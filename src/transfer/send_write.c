#include "agree/word.h"
#include "base/check.h"
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

/* The receiver counts life cycles by its own indices. */
static uint32_t own_group(const struct link *link, uint32_t index)
{
    uint32_t own = 0;
    while (own < link->group_count && link->groups[own].index != index) {
        own++;
    }
    CHECK(own < link->group_count);
    return own;
}

static void send_digests(struct send_side *side, const struct send_slot *slot)
{
    for (uint32_t i = 0; i < slot->link->group_count; i++) {
        uint32_t own = own_group(slot->link, i);
        uint32_t first = 0;
        for (uint32_t before = 0; before < own; before++) {
            first += slot->pair_counts[before];
        }
        for (uint32_t k = first; k < first + slot->pair_counts[own]; k++) {
            struct wire_digest digest = {slot->pairs[k].ordinal,
                                         send_pieces_digest(slot, k)};
            wire_result_digest_encode(digest, &side->body);
        }
    }
}

void send_side_tell(struct send_side *side, struct send_slot *slot,
                    const struct tx_action *action)
{
    const struct tx_session *session = &slot->session;
    const struct transfer_advert *advert = slot->advert;
    bool is_success = action->code == WIRE_RESULT_SUCCESS;
    if (slot->link == NULL) {
        return;
    }
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
        uint32_t own = own_group(slot->link, i);
        result.groups[i].blocks_so_far = slot->group_blocks[own];
        result.groups[i].digest_count = is_success ? slot->pair_counts[own] : 0;
    }
    buf_reset(&side->body);
    wire_result_encode(&result, &side->body);
    if (is_success) {
        send_digests(side, slot);
    }
    send_body(side, slot->link, WIRE_KV_RESULT, session->rid, advert->attempt);
}

void send_side_tell_aux(struct send_side *side, struct send_slot *slot)
{
    CHECK(slot->aux != NULL);
    buf_reset(&side->body);
    transfer_aux_encode(slot->aux, &side->body);
    if (slot->link != NULL) { /* the last result follows at once */
        CHECK(!buf_error(&side->body));
        control_hold(slot->link, WIRE_AUX_RESULT, slot->session.rid,
                     slot->advert->attempt, buf_span(&side->body));
    }
}

/* -------- writing -------- */

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

/* The next step of the batch that send_pieces_next made. */
static void submit(struct send_side *side, struct send_slot *slot, uint64_t now)
{
    send_pieces_step(slot);
    slot->step_begun_ns = now;
    slot->write.peer = slot->link->backend_peer;
    slot->write.token =
        (struct transfer_token){slot->session.rid, slot->advert->attempt};
    slot->write.context = slot;
    transfer_backend_write(side->options.transfer->backend, &slot->write);
    side->options.wake(side->options.context);
}

static bool has_way(const struct send_slot *slot)
{
    return slot->link != NULL && !slot->link->is_closing &&
           slot->link->backend_peer != NULL;
}

/* True: it goes through the arenas. What does not fit into one batch of pieces
 * goes plainly. */
static bool bounce(struct send_side *side, struct send_slot *slot, uint64_t now)
{
    const struct bounce_job job = {
        .link = &slot->link,
        .token = {slot->session.rid, slot->advert->attempt},
        .write = slot->session.write_count - 1,
        .pieces = slot->pieces,
        .piece_count = slot->piece_count,
        .owner = slot,
    };
    return side->options.bounce != NULL &&
           slot->next_pair == slot->pair_count &&
           bounce_begin(side->options.bounce, &job, now);
}

void send_side_write(struct send_side *side, struct send_slot *slot,
                     uint64_t now)
{
    if (!has_way(slot) || send_pieces_plan(side, slot)) {
        struct tx_event event = {
            .kind = TX_REFUSED, .now = now, .reason = AGREE_REASON_TRANSPORT};
        send_side_step(side, slot, &event);
        return;
    }
    slot->lane = transfer_backend_peer_lane(slot->link->backend_peer);
    send_pieces_next(side, slot);
    slot->is_bounced = bounce(side, slot, now);
    if (slot->is_bounced) {
        send_pieces_step_all(slot);
        side->options.wake(side->options.context);
    } else {
        submit(side, slot, now);
    }
    struct tx_event event = {.kind = TX_SUBMITTED, .now = now};
    send_side_step(side, slot, &event);
}

/* Whether another step is on its way. One that was given up meanwhile ends with
 * the step that was. */
static bool go_on(struct send_side *side, struct send_slot *slot,
                  enum transfer_outcome *outcome, uint64_t now)
{
    if (*outcome != TRANSFER_DONE || !send_pieces_have_more(slot)) {
        return false;
    }
    if ((slot->session.word & AGREE_TERMINAL) || !has_way(slot)) {
        *outcome = TRANSFER_STOPPED;
        return false;
    }
    if (slot->next_piece == slot->piece_count) {
        send_pieces_next(side, slot);
    }
    submit(side, slot, now);
    return true;
}

static void end_write(struct send_side *side, struct send_slot *slot,
                      enum transfer_outcome outcome, uint64_t now)
{
    if (outcome == TRANSFER_DONE) {
        uint64_t bytes = send_pieces_note(side, slot);
        if (!slot->is_bounced) {
            pace_note(&slot->pace, bytes, now - slot->step_begun_ns);
        }
    }
    if (go_on(side, slot, &outcome, now)) {
        return;
    }
    struct tx_event event = {.kind = TX_WRITTEN,
                             .now = now,
                             .outcome = outcome,
                             .blocks = slot->pair_count,
                             .bytes = slot->moved_bytes};
    if (outcome == TRANSFER_DONE) {
        for (uint32_t i = 0; i < side->options.transfer->group_count; i++) {
            slot->group_blocks[i] += slot->pair_counts[i];
        }
        side->options.stats->sent_slices++;
        slot->bounced_bytes += slot->is_bounced ? event.bytes : 0;
    }
    slot->is_bounced = false;
    send_side_step(side, slot, &event);
}

void send_side_written(struct send_side *side, struct transfer_write *write,
                       uint64_t now)
{
    end_write(side, write->context, write->outcome, now);
}

void send_side_bounced(struct send_side *side, void *owner,
                       enum bounce_outcome outcome, uint64_t now)
{
    struct send_slot *slot = owner;
    bool is_wanted = !(slot->session.word & AGREE_TERMINAL) &&
                     slot->link != NULL && !slot->link->is_closing;
    if (outcome == BOUNCE_UNSERVED && is_wanted) {
        slot->is_bounced = false;
        slot->next_piece = 0;
        submit(side, slot, now);
        return;
    }
    end_write(side, slot,
              outcome == BOUNCE_DONE       ? TRANSFER_DONE
              : outcome == BOUNCE_IN_DOUBT ? TRANSFER_IN_DOUBT
                                           : TRANSFER_STOPPED,
              now);
}
