#include "transfer/send_slot.h"

#include <stdio.h>
#include <string.h>

#include "agree/word.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "transfer/slice.h"

enum { TOMBSTONE_COUNT = 65536, ANSWERED_COUNT = 4096 };

struct send_side *send_side_create(const struct send_side_options *options)
{
    const struct transfer_options *transfer = options->transfer;
    struct send_side *side = mem_new(sizeof(*side));
    side->options = *options;
    side->slot_count = transfer->send_count_max;
    side->slots = mem_new_array(side->slot_count, sizeof(side->slots[0]));
    side->adverts = transfer_adverts_create(2 * transfer->send_count_max);
    side->tombstones =
        transfer_tombstones_create(TOMBSTONE_COUNT, 2 * transfer->grace_ns);
    side->answered =
        transfer_tombstones_create(ANSWERED_COUNT, 2 * transfer->grace_ns);
    buf_init(&side->body, WIRE_BODY_SIZE_MAX);
    return side;
}

void send_side_destroy(struct send_side *side)
{
    if (side == NULL) {
        return;
    }
    CHECK(send_side_count(side) == 0);
    for (uint32_t i = 0; i < side->slot_count; i++) {
        mem_free(side->slots[i].pairs);
        mem_free(side->slots[i].pieces);
        mem_free(side->slots[i].digests);
    }
    transfer_adverts_destroy(side->adverts);
    transfer_tombstones_destroy(side->tombstones);
    transfer_tombstones_destroy(side->answered);
    buf_finish(&side->body);
    mem_free(side->slots);
    mem_free(side);
}

void send_side_abandon(struct send_side *side)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        mem_free(side->slots[i].aux);
        side->slots[i].aux = NULL;
        side->slots[i].is_used = false;
    }
}

uint32_t send_side_count(const struct send_side *side)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        count += side->slots[i].is_used;
    }
    return count;
}

struct send_slot *send_side_find(struct send_side *side, int64_t rid)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct send_slot *slot = &side->slots[i];
        if (slot->is_used && !slot->has_ended && slot->session.rid == rid) {
            return slot;
        }
    }
    return NULL;
}

/* -------- telling the engine -------- */

static void report(struct send_side *side, struct send_slot *slot, uint64_t now)
{
    const struct tx_session *session = &slot->session;
    bool is_over = session->word & AGREE_TERMINAL;
    slot->reporter.report = (struct transfer_report){
        .request = session->request,
        .word = session->word,
        .reason = session->reason,
        .is_awaited = session->is_advertised,
        .is_withdrawn = slot->is_withdrawn,
        .slice_index = session->drained_count,
        .moved_bytes = session->bytes_so_far,
        .moved_blocks = (uint32_t)session->blocks_so_far,
        .bounced_bytes = slot->bounced_bytes,
        .started_ns = session->started_ns,
        .ended_ns = is_over ? now : 0,
        .backend = transfer_backend_name(side->options.transfer->backend),
        .lane = slot->lane,
    };
    struct transfer_report *out = &slot->reporter.report;
    if (session->word & AGREE_FAILED) {
        bool has_detail = session->peer_reason != 0;
        snprintf(out->text, sizeof(out->text), "sending KV: %s%s%s",
                 agree_reason_name(session->reason), has_detail ? ": " : "",
                 has_detail ? agree_reason_name(session->peer_reason) : "");
    }
    slot->reporter.is_due = true;
    IGNORE(
        !reporter_flush(&slot->reporter, side->options.transfer->port.reports));
}

static void free_if_told(struct send_side *side, struct send_slot *slot)
{
    if (slot->has_ended &&
        reporter_flush(&slot->reporter, side->options.transfer->port.reports)) {
        slot->is_used = false;
    }
}

static void note_answered(struct send_side *side, uint64_t request,
                          uint64_t now)
{
    transfer_tombstones_add(side->answered, (int64_t)request,
                            TRANSFER_TOMBSTONE_ENDED, now);
}

static void end(struct send_side *side, struct send_slot *slot, uint64_t now)
{
    const struct tx_session *session = &slot->session;
    struct transfer_stats *stats = side->options.stats;
    bool is_failed = session->word & AGREE_FAILED;
    stats->sends_started -= slot->is_withdrawn;
    stats->sends_failed += is_failed && !slot->is_withdrawn;
    stats->sends_done += !is_failed;
    stats->sent_bytes += session->bytes_so_far;
    if (slot->advert != NULL) {
        transfer_advert_move(slot->advert, ADVERT_CLOSE);
    }
    if (!slot->is_withdrawn) {
        transfer_tombstones_add(side->tombstones, session->rid,
                                TRANSFER_TOMBSTONE_ENDED, now);
    }
    note_answered(side, session->request, now);
    mem_free(slot->aux);
    slot->aux = NULL;
    slot->has_ended = true;
    free_if_told(side, slot);
}

void send_side_step(struct send_side *side, struct send_slot *slot,
                    const struct tx_event *event)
{
    struct tx_actions actions;
    tx_session_step(&slot->session, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct tx_action *action = &actions.items[i];
        switch (action->kind) {
        case TX_WRITE:
            send_side_write(side, slot, event->now);
            break;
        case TX_AUX:
            send_side_tell_aux(side, slot);
            break;
        case TX_RESULT:
            send_side_tell(side, slot, action);
            break;
        case TX_REPORT:
            report(side, slot, event->now);
            break;
        case TX_END:
            end(side, slot, event->now);
            break;
        }
    }
    bool is_over = slot->session.word & AGREE_TERMINAL;
    if (slot->is_bounced && is_over && !slot->has_ended) {
        bounce_stop(side->options.bounce, slot, event->now);
    }
}

/* -------- commands -------- */

void send_side_bind(struct send_side *side, struct send_slot *slot,
                    struct transfer_advert *advert, uint64_t now)
{
    transfer_advert_move(advert, ADVERT_BIND);
    slot->advert = advert;
    slot->link = advert->owner;
    struct tx_event event = {.kind = TX_ADVERTISED,
                             .now = now,
                             .wants_aux =
                                 advert->style == WIRE_GENERATION_FIRST};
    send_side_step(side, slot, &event);
}

/* An offer may not know the prompt yet; the first slice does. */
static void set_prompt(struct send_side *side, struct send_slot *slot,
                       uint32_t prompt_tokens)
{
    const struct transfer_options *transfer = side->options.transfer;
    struct tx_session *session = &slot->session;
    session->prompt_tokens = prompt_tokens;
    session->block_count = transfer_blocks_of(
        prompt_tokens, transfer->groups[0].pool.layout.tokens_per_block);
    session->is_streaming = false;
    for (uint32_t i = 0; i < transfer->group_count; i++) {
        session->is_streaming |= send_side_streams(side, i, prompt_tokens);
    }
}

static struct send_slot *open_slot(struct send_side *side,
                                   const struct transfer_command *command,
                                   uint64_t now)
{
    struct send_slot *slot = NULL;
    for (uint32_t i = 0; i < side->slot_count && slot == NULL; i++) {
        slot = side->slots[i].is_used ? NULL : &side->slots[i];
    }
    if (slot == NULL) {
        return NULL;
    }
    *slot = (struct send_slot){
        .is_used = true,
        .lane = "",
        .pace = pace_begin(),
        .pairs = slot->pairs,
        .pieces = slot->pieces,
        .digests = slot->digests,
        .capacity = slot->capacity,
        .piece_capacity = slot->piece_capacity,
        .session = {.request = command->request,
                    .rid = command->rid,
                    .deadline_ns = command->deadline_ns,
                    .started_ns = now,
                    .grace_ns = side->options.transfer->grace_ns},
    };
    set_prompt(side, slot, command->prompt_tokens);
    side->options.stats->sends_started++;
    return slot;
}

static void reject(struct send_side *side,
                   const struct transfer_command *command, uint64_t now,
                   const char *text)
{
    struct transfer_report report = {
        .request = command->request,
        .word = AGREE_TERMINAL | AGREE_FAILED | AGREE_QUIET,
        .reason = AGREE_REASON_REFUSED,
        .backend = transfer_backend_name(side->options.transfer->backend),
        .lane = "",
    };
    snprintf(report.text, sizeof(report.text), "sending KV: %s", text);
    side->options.stats->sends_failed++;
    note_answered(side, command->request, now);
    mem_free(command->aux);
    if (io_mailbox_post(side->options.transfer->port.reports, &report)) {
        log_error("transfer", "no place for the report of a refused send");
    }
}

void send_side_refuse(struct send_side *side, struct transfer_advert *advert,
                      uint8_t reason)
{
    send_side_abort(side, advert->owner, advert->rid, advert->attempt,
                    advert->receiver_slice, reason);
    transfer_advert_move(advert, ADVERT_CLOSE);
}

bool send_side_fits(const struct send_slot *slot,
                    const struct transfer_advert *advert)
{
    uint32_t prompt_tokens = slot->session.prompt_tokens;
    return prompt_tokens == 0 || advert->prompt_tokens == prompt_tokens;
}

/* What the engine says it has leased is there. */
static void check_slice(const struct send_side *side,
                        const struct send_slot *slot,
                        const struct transfer_command *command)
{
    const struct transfer_options *transfer = side->options.transfer;
    const struct tx_session *session = &slot->session;
    struct tx_run run = {.first_block = command->first_block,
                         .end_block = command->end_block,
                         .is_last = command->is_last};
    CHECK(command->group_count == transfer->group_count);
    CHECK(command->first_block <= command->end_block);
    CHECK(command->end_block <= command->block_count);
    CHECK(!command->is_last || session->block_count <= command->block_count);
    for (uint32_t i = 0; i < transfer->group_count; i++) {
        struct transfer_blocks blocks =
            send_side_blocks(side, session, command->pages, &run, i);
        CHECK(transfer_blocks_are_valid(&blocks,
                                        transfer->groups[i].pool.page_count));
    }
}

static void add_slice(struct send_side *side, struct send_slot *slot,
                      const struct transfer_command *command, uint64_t now)
{
    struct tx_session *session = &slot->session;
    bool is_misfit = false;
    if (session->deadline_ns == 0) {
        session->deadline_ns = command->deadline_ns;
    }
    if (session->prompt_tokens == 0) {
        set_prompt(side, slot, command->prompt_tokens);
        is_misfit = slot->advert != NULL && !send_side_fits(slot, slot->advert);
    }
    check_slice(side, slot, command);
    memcpy(slot->pages, command->pages, sizeof(slot->pages));
    mem_free(slot->aux);
    slot->aux = command->aux;
    struct tx_event event = {
        .kind = is_misfit ? TX_FAIL : TX_SLICE,
        .now = now,
        .reason = AGREE_REASON_REFUSED,
        .slice = {.index = command->slice_index,
                  .first_block = command->first_block,
                  .end_block = command->end_block,
                  .is_last = command->is_last,
                  .has_aux = command->aux != NULL},
    };
    send_side_step(side, slot, &event);
}

static void refuse_stored(struct send_side *side, int64_t rid, uint8_t reason)
{
    struct transfer_advert *advert;
    while ((advert = transfer_adverts_find_stored(side->adverts, rid)) !=
           NULL) {
        send_side_refuse(side, advert, reason);
    }
}

/* Serves one of the receivers that were here first; one session, one pull. */
static void match_stored(struct send_side *side, struct send_slot *slot,
                         uint64_t now)
{
    int64_t rid = slot->session.rid;
    struct transfer_advert *advert =
        transfer_adverts_find_stored(side->adverts, rid);
    if (advert != NULL && send_side_fits(slot, advert)) {
        send_side_bind(side, slot, advert, now);
    }
    refuse_stored(side, rid, AGREE_REASON_REFUSED);
}

/* The receiver gave up before there was a session: it starts dead, and whoever
 * else waits for it hears of that (transfer.md 2.8). */
static void start_cancelled(struct send_side *side, struct send_slot *slot,
                            uint64_t now)
{
    refuse_stored(side, slot->session.rid, AGREE_REASON_PEER_CANCEL);
    struct tx_event event = {.kind = TX_PEER_CANCEL, .now = now};
    send_side_step(side, slot, &event);
}

static void open_session(struct send_side *side,
                         const struct transfer_command *command, uint64_t now)
{
    enum transfer_tombstone tombstone =
        transfer_tombstones_find(side->tombstones, command->rid, now);
    if (command->slice_index != 0 || tombstone == TRANSFER_TOMBSTONE_ENDED) {
        reject(side, command, now, "the session of this rid has ended");
        return;
    }
    struct send_slot *slot = open_slot(side, command, now);
    if (slot == NULL) {
        reject(side, command, now, "too many at once");
        return;
    }
    if (command->kind == TRANSFER_SEND) {
        add_slice(side, slot, command, now);
    }
    if (slot->has_ended) {
        refuse_stored(side, command->rid, slot->session.reason);
    } else if (tombstone == TRANSFER_TOMBSTONE_CANCELLED) {
        start_cancelled(side, slot, now);
    } else {
        match_stored(side, slot, now);
    }
}

void send_side_command(struct send_side *side,
                       const struct transfer_command *command, uint64_t now)
{
    CHECK(command->rid >= 0);
    struct send_slot *slot = send_side_find(side, command->rid);
    if (slot != NULL && slot->session.request == command->request) {
        CHECK(command->kind == TRANSFER_SEND);
        add_slice(side, slot, command, now);
    } else if (transfer_tombstones_find(side->answered,
                                        (int64_t)command->request,
                                        now) != TRANSFER_TOMBSTONE_NONE) {
        mem_free(command->aux); /* it will hear of the end */
    } else if (slot != NULL) {
        reject(side, command, now, "this rid is being sent");
    } else {
        open_session(side, command, now);
    }
}

static struct send_slot *find_request(struct send_side *side, uint64_t request)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct send_slot *slot = &side->slots[i];
        if (slot->is_used && !slot->has_ended &&
            slot->session.request == request) {
            return slot;
        }
    }
    return NULL;
}

void send_side_cancel(struct send_side *side, uint64_t request, uint8_t reason,
                      uint64_t now)
{
    struct send_slot *slot = find_request(side, request);
    if (slot != NULL) {
        struct tx_event event = {
            .kind = TX_CANCEL, .now = now, .reason = reason};
        send_side_step(side, slot, &event);
    }
}

void send_side_withdraw(struct send_side *side, uint64_t request, uint64_t now)
{
    struct send_slot *slot = find_request(side, request);
    if (slot == NULL || slot->session.is_advertised) {
        return;
    }
    CHECK(slot->session.slice_count == 0);
    if ((slot->session.word & AGREE_TERMINAL) == 0) {
        slot->is_withdrawn = true;
        struct tx_event event = {
            .kind = TX_FAIL, .now = now, .reason = AGREE_REASON_REFUSED};
        send_side_step(side, slot, &event);
    }
}

/* -------- time -------- */

void send_side_tick(struct send_side *side, uint64_t now)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct send_slot *slot = &side->slots[i];
        if (!slot->is_used) {
            continue;
        }
        if (!slot->has_ended) {
            struct tx_event event = {.kind = TX_TIME, .now = now};
            send_side_step(side, slot, &event);
        }
        /* What does not fit now is tried again at the next tick. */
        IGNORE(!reporter_flush(&slot->reporter,
                               side->options.transfer->port.reports));
        free_if_told(side, slot);
    }
    struct transfer_advert *advert;
    while ((advert = transfer_adverts_find_expired(
                side->adverts, now, side->options.transfer->advert_ttl_ns)) !=
           NULL) {
        /* In silence: its receiver was told of no session yet. */
        transfer_advert_move(advert, ADVERT_EXPIRE);
    }
    side->options.stats->adverts = transfer_adverts_stored(side->adverts);
    side->options.stats->sends = send_side_count(side);
}
