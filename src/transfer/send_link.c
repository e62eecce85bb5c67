#include "agree/word.h"
#include "base/log.h"
#include "transfer/send_slot.h"
#include "transfer/slice.h"
#include "wire/cancel.h"

/* A newer attempt of the same receiver takes the place of one that waits. */
static enum err store(struct send_side *side, struct link *link,
                      uint32_t attempt, const struct wire_recv_request *request,
                      uint64_t now, struct transfer_advert **advert_out)
{
    struct transfer_advert *known =
        transfer_adverts_find(side->adverts, request->rid, link->incarnation);
    if (known != NULL && known->state == ADVERT_STORED &&
        known->attempt < attempt) {
        transfer_advert_move(known, ADVERT_CLOSE);
    }
    uint32_t page_counts[TRANSFER_GROUP_COUNT_MAX];
    for (uint32_t i = 0; i < link->group_count; i++) {
        page_counts[link->groups[i].index] = link->groups[i].page_count;
    }
    return transfer_adverts_store(side->adverts, link->incarnation, attempt,
                                  request, page_counts, link->group_count, now,
                                  advert_out);
}

static void on_advert(struct send_side *side, struct transfer_advert *advert,
                      uint64_t now)
{
    struct send_slot *slot = send_side_find(side, advert->rid);
    if (advert->state == ADVERT_BOUND || slot == NULL) {
        return; /* said before, or waits for its session */
    }
    bool is_free = slot->advert == NULL && send_side_fits(slot, advert);
    if (is_free) {
        send_side_bind(side, slot, advert, now);
    } else {
        send_side_refuse(side, advert, AGREE_REASON_REFUSED);
    }
}

/* NULL while there is a session or one may come. A context-first receiver was
 * told of a session that was there, so one that is not here never comes. */
static const char *why_none_comes(struct send_side *side,
                                  const struct wire_recv_request *request,
                                  uint64_t now)
{
    if (send_side_find(side, request->rid) != NULL) {
        return NULL;
    }
    if (transfer_tombstones_find(side->tombstones, request->rid, now) !=
        TRANSFER_TOMBSTONE_NONE) {
        return "its session has ended";
    }
    return request->style == WIRE_CONTEXT_FIRST ? "it is not here" : NULL;
}

/* Blocks are the receiver's; what is told of them are the smaller of both. */
static enum err check_prompt(const struct send_side *side,
                             const struct link *link,
                             const struct wire_recv_request *request,
                             struct why *why)
{
    uint32_t own =
        side->options.transfer->groups[0].pool.layout.tokens_per_block;
    uint32_t theirs = link->tokens_per_block;
    uint32_t tokens = request->prompt_tokens;
    if (request->block_count != transfer_blocks_of(tokens, theirs)) {
        return why_say(why, ERR_INVALID,
                       "request data: block_count: %u, not that of %u tokens",
                       request->block_count, tokens);
    }
    uint64_t parts = transfer_blocks_of(tokens, own < theirs ? own : theirs);
    return parts * request->group_count <= WIRE_BLOCK_COUNT_MAX
               ? OK
               : why_say(why, ERR_INVALID,
                         "request data: prompt_tokens: %u are too many blocks "
                         "of %u",
                         tokens, own);
}

static void on_request(struct send_side *side, struct link *link,
                       const struct wire_header *header, struct span body,
                       uint64_t now)
{
    struct wire_recv_request request;
    struct why why = {0};
    enum err err = wire_recv_request_decode(body, &why, &request);
    err = err ? err : check_prompt(side, link, &request, &why);
    if (header->rid < 0 || (!err && request.rid != header->rid)) {
        control_drop(link, "request data: rid is wrong");
        return;
    }
    int64_t receiver_slice = err ? 0 : request.slice_id;
    const char *cause = err ? NULL : why_none_comes(side, &request, now);
    uint8_t reason =
        cause == NULL ? AGREE_REASON_REFUSED : AGREE_REASON_EXPIRED;
    struct transfer_advert *advert = NULL;
    if (!err && cause == NULL) {
        err = store(side, link, header->attempt, &request, now, &advert);
        if (err == ERR_FULL) {
            why_say(&why, err,
                    "too many of its requests, or of all, wait for nobody");
        } else if (err == ERR_INVALID) {
            why_say(&why, err,
                    "request data: block_ids_per_layer_groups: a page outside "
                    "its pool, or not one list a life cycle");
        }
    }
    if (err) {
        cause = why.text[0] != 0 ? why.text : err_name(err);
    }
    if (cause != NULL) {
        log_info_rare("transfer", "rid %lld cannot be pulled: %s",
                      (long long)header->rid, cause);
        send_side_abort(side, link, header->rid, header->attempt,
                        receiver_slice, reason);
        return;
    }
    advert->owner = link;
    on_advert(side, advert, now);
}

/* Answers go to the link that asked last: an older one may be dead. */
static void cancel_slot(struct send_side *side, struct send_slot *slot,
                        struct link *link, uint8_t reason, uint64_t now)
{
    bool was_lost = slot->link == NULL;
    slot->link = link;
    struct tx_event event = {.kind = was_lost ? TX_PEER_BACK : TX_PEER_CANCEL,
                             .now = now,
                             .reason = reason};
    send_side_step(side, slot, &event);
}

static void on_cancel(struct send_side *side, struct link *link,
                      const struct wire_header *header, struct span body,
                      uint64_t now)
{
    struct wire_cancel cancel;
    struct why why = {0};
    if (header->rid < 0 || wire_cancel_decode(body, &why, &cancel)) {
        control_drop(link, "cancel session: %s",
                     header->rid < 0 ? "rid is negative" : why.text);
        return;
    }
    struct send_slot *slot = send_side_find(side, header->rid);
    struct transfer_advert *advert =
        transfer_adverts_find(side->adverts, header->rid, link->incarnation);
    bool is_known = advert != NULL && advert->attempt == header->attempt;
    if (slot != NULL && is_known && slot->advert == advert) {
        cancel_slot(side, slot, link, cancel.reason, now);
        return;
    }
    if (is_known && advert->state == ADVERT_STORED) {
        transfer_advert_move(advert, ADVERT_CLOSE);
    }
    if (slot != NULL && slot->advert == NULL) {
        /* Its request may still be on its way, by an older connection: it must
         * find nothing then, for its pages are somebody else's after this
         * answer. */
        struct tx_event event = {
            .kind = TX_PEER_CANCEL, .now = now, .reason = cancel.reason};
        send_side_step(side, slot, &event);
    }
    if (slot == NULL) {
        transfer_tombstones_add(side->tombstones, header->rid,
                                TRANSFER_TOMBSTONE_CANCELLED, now);
    }
    send_side_abort(side, link, header->rid, header->attempt,
                    cancel.receiver_slice, AGREE_REASON_PEER_CANCEL);
}

void send_side_frame(struct send_side *side, struct link *link,
                     const struct wire_header *header, struct span body,
                     uint64_t now)
{
    switch (header->type) {
    case WIRE_REQUEST_DATA:
        on_request(side, link, header, body, now);
        break;
    case WIRE_CANCEL_SESSION:
        on_cancel(side, link, header, body, now);
        break;
    case WIRE_BOUNCE_GRANT:
    case WIRE_BOUNCE_ACK:
        if (side->options.bounce != NULL) {
            bounce_hear_receiver(side->options.bounce, link, header, body, now);
            break;
        }
        __attribute__((fallthrough));
    default:
        side->options.stats->frames_dropped++;
        break;
    }
}

void send_side_lost(struct send_side *side, struct link *link, uint64_t now)
{
    struct transfer_advert *advert;
    while ((advert = transfer_adverts_find_of(side->adverts, link)) != NULL) {
        transfer_advert_move(advert, ADVERT_CLOSE);
    }
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct send_slot *slot = &side->slots[i];
        if (slot->is_used && !slot->has_ended && slot->link == link) {
            slot->link = NULL;
            struct tx_event event = {.kind = TX_PEER_LOST, .now = now};
            send_side_step(side, slot, &event);
        }
    }
}
