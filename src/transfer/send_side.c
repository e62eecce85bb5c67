#include "transfer/send_slot.h"

#include <stdio.h>

#include "agree/word.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/result.h"

enum { TOMBSTONE_COUNT = 65536 };

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
    }
    transfer_adverts_destroy(side->adverts);
    transfer_tombstones_destroy(side->tombstones);
    buf_finish(&side->body);
    mem_free(side->slots);
    mem_free(side);
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

/* -------- telling the receiver -------- */

static void send_body(struct send_side *side, struct link *link, int64_t rid,
                      uint32_t attempt)
{
    CHECK(!buf_error(&side->body));
    /* A failure has dropped the link, which the session hears of. */
    IGNORE(control_send(link, WIRE_KV_RESULT, rid, attempt,
                        buf_span(&side->body)));
}

void send_side_abort(struct send_side *side, struct link *link, int64_t rid,
                     uint32_t attempt, int64_t receiver_slice, uint8_t reason)
{
    struct wire_result result =
        wire_result_abort(0, rid, receiver_slice, reason, WIRE_RESULT_DRAINED);
    buf_reset(&side->body);
    wire_result_encode(&result, &side->body);
    send_body(side, link, rid, attempt);
}

static void send_result(struct send_side *side, struct send_slot *slot,
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
        .slice_index = action->slice,
        .slices_total = action->is_last ? session->slice_count : 0,
        .flags = action->is_drained ? WIRE_RESULT_DRAINED : 0,
        .reason = session->reason,
        .blocks_so_far = session->blocks_so_far,
        .bytes_so_far = session->bytes_so_far,
        .digest_count = is_success ? slot->pair_count : 0,
    };
    buf_reset(&side->body);
    wire_result_encode(&result, &side->body);
    for (uint32_t i = 0; i < result.digest_count; i++) {
        struct wire_digest digest = {slot->pairs[i].ordinal,
                                     slot->pieces[i].crc32c};
        wire_result_digest_encode(digest, &side->body);
    }
    if (slot->link != NULL) {
        send_body(side, slot->link, session->rid, advert->attempt);
    }
}

/* -------- carrying out -------- */

static void report(struct send_side *side, struct send_slot *slot, uint64_t now)
{
    const struct tx_session *session = &slot->session;
    bool is_over = session->word & AGREE_TERMINAL;
    slot->reporter.report = (struct transfer_report){
        .request = session->request,
        .word = session->word,
        .reason = session->reason,
        .slice_index = session->next_slice - (session->is_writing ? 1 : 0),
        .moved_bytes = session->bytes_so_far,
        .moved_blocks = (uint32_t)session->blocks_so_far,
        .started_ns = session->started_ns,
        .ended_ns = is_over ? now : 0,
        .backend = transfer_backend_name(side->options.transfer->backend),
        .lane = slot->lane,
    };
    struct transfer_report *out = &slot->reporter.report;
    if (session->word & AGREE_FAILED) {
        snprintf(out->text, sizeof(out->text), "sending KV: %s",
                 agree_reason_name(session->reason));
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

static void end(struct send_side *side, struct send_slot *slot, uint64_t now)
{
    const struct tx_session *session = &slot->session;
    struct transfer_stats *stats = side->options.stats;
    bool is_failed = session->word & AGREE_FAILED;
    stats->sends_failed += is_failed;
    stats->sends_done += !is_failed;
    stats->sent_bytes += session->bytes_so_far;
    if (slot->advert != NULL) {
        transfer_advert_move(slot->advert, ADVERT_CLOSE);
    }
    transfer_tombstones_add(side->tombstones, session->rid,
                            TRANSFER_TOMBSTONE_ENDED, now);
    slot->has_ended = true;
    free_if_told(side, slot);
}

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

static void build_pieces(struct send_slot *slot, const struct tx_slice *slice,
                         size_t page_bytes)
{
    struct transfer_blocks source = {slice->pages, slice->first_block,
                                     slice->block_count};
    slot->pair_count =
        transfer_pair_blocks(&source, &slot->advert->blocks, slot->pairs);
    for (uint32_t i = 0; i < slot->pair_count; i++) {
        slot->pieces[i] = (struct transfer_piece){
            .source_offset = page_bytes * (size_t)slot->pairs[i].source,
            .target_offset = page_bytes * (size_t)slot->pairs[i].target,
            .size = page_bytes,
        };
    }
}

static void start_write(struct send_side *side, struct send_slot *slot,
                        uint32_t index, uint64_t now)
{
    const struct tx_slice *slice = &slot->session.slices[index];
    bool is_ready = slot->link != NULL && !slot->link->is_closing &&
                    slot->link->backend_peer != NULL;
    if (!is_ready || reserve(slot, slice->block_count)) {
        struct tx_event event = {
            .kind = TX_REFUSED, .now = now, .reason = AGREE_REASON_TRANSPORT};
        send_side_step(side, slot, &event);
        return;
    }
    build_pieces(slot, slice, side->options.transfer->pool.page_bytes);
    slot->lane = transfer_backend_peer_lane(slot->link->backend_peer);
    slot->write = (struct transfer_write){
        .peer = slot->link->backend_peer,
        .pieces = slot->pieces,
        .piece_count = slot->pair_count,
        .context = slot,
    };
    transfer_backend_write(side->options.transfer->backend, &slot->write);
    struct tx_event event = {.kind = TX_SUBMITTED, .now = now};
    send_side_step(side, slot, &event);
    side->options.wake(side->options.context);
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
            start_write(side, slot, action->slice, event->now);
            break;
        case TX_RESULT:
            send_result(side, slot, action);
            break;
        case TX_REPORT:
            report(side, slot, event->now);
            break;
        case TX_END:
            end(side, slot, event->now);
            break;
        }
    }
}

void send_side_written(struct send_side *side, struct transfer_write *write,
                       uint64_t now)
{
    struct send_slot *slot = write->context;
    uint64_t bytes = 0;
    for (size_t i = 0; i < write->piece_count; i++) {
        bytes += write->pieces[i].size;
    }
    struct tx_event event = {.kind = TX_WRITTEN,
                             .now = now,
                             .outcome = write->outcome,
                             .blocks = write->piece_count,
                             .bytes = bytes};
    send_side_step(side, slot, &event);
}

/* -------- commands -------- */

void send_side_bind(struct send_side *side, struct send_slot *slot,
                    struct transfer_advert *advert, uint64_t now)
{
    transfer_advert_move(advert, ADVERT_BIND);
    slot->advert = advert;
    slot->link = advert->owner;
    struct tx_event event = {.kind = TX_ADVERTISED, .now = now};
    send_side_step(side, slot, &event);
}

static struct send_slot *open_slot(struct send_side *side,
                                   const struct transfer_command *command,
                                   uint64_t now)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct send_slot *slot = &side->slots[i];
        if (slot->is_used) {
            continue;
        }
        slot->is_used = true;
        slot->has_ended = false;
        slot->advert = NULL;
        slot->link = NULL;
        slot->lane = "";
        slot->pair_count = 0;
        slot->reporter = (struct reporter){0};
        tx_session_init(&slot->session, command->request, command->rid, now,
                        command->deadline_ns, side->options.transfer->grace_ns,
                        command->prompt_tokens);
        side->options.stats->sends_started++;
        return slot;
    }
    return NULL;
}

static void reject(struct send_side *side,
                   const struct transfer_command *command, uint8_t reason,
                   const char *text)
{
    struct transfer_report report = {
        .request = command->request,
        .word = AGREE_TERMINAL | AGREE_FAILED | AGREE_QUIET,
        .reason = reason,
        .backend = transfer_backend_name(side->options.transfer->backend),
        .lane = "",
    };
    snprintf(report.text, sizeof(report.text), "sending KV: %s", text);
    side->options.stats->sends_failed++;
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

static void add_slice(struct send_side *side, struct send_slot *slot,
                      const struct transfer_command *command, uint64_t now)
{
    struct tx_event event = {
        .kind = TX_SLICE,
        .now = now,
        .slice = {.pages = command->pages,
                  .first_block = command->first_block,
                  .block_count = command->block_count},
        .is_last = command->is_last,
    };
    send_side_step(side, slot, &event);
}

/* Serves one of the receivers that were here first; one session, one pull. */
static void match_stored(struct send_side *side, struct send_slot *slot,
                         uint64_t now)
{
    struct transfer_advert *advert =
        transfer_adverts_find_stored(side->adverts, slot->session.rid);
    if (advert != NULL &&
        advert->prompt_tokens == slot->session.prompt_tokens) {
        send_side_bind(side, slot, advert, now);
    }
    while ((advert = transfer_adverts_find_stored(side->adverts,
                                                  slot->session.rid)) != NULL) {
        send_side_refuse(side, advert, AGREE_REASON_REFUSED);
    }
}

static void open_session(struct send_side *side,
                         const struct transfer_command *command, uint64_t now)
{
    enum transfer_tombstone tombstone =
        transfer_tombstones_find(side->tombstones, command->rid, now);
    if (command->slice_index != 0 || tombstone == TRANSFER_TOMBSTONE_ENDED) {
        reject(side, command, AGREE_REASON_REFUSED,
               "the session of this rid has ended");
        return;
    }
    struct send_slot *slot = open_slot(side, command, now);
    if (slot == NULL) {
        reject(side, command, AGREE_REASON_REFUSED, "too many at once");
        return;
    }
    add_slice(side, slot, command, now);
    if (tombstone == TRANSFER_TOMBSTONE_CANCELLED) {
        struct tx_event event = {.kind = TX_PEER_CANCEL, .now = now};
        send_side_step(side, slot, &event);
        return;
    }
    match_stored(side, slot, now);
}

void send_side_command(struct send_side *side,
                       const struct transfer_command *command, uint64_t now)
{
    struct transfer_blocks blocks = {command->pages, command->first_block,
                                     command->block_count};
    CHECK(command->rid >= 0);
    CHECK(command->block_count <= WIRE_BLOCK_COUNT_MAX);
    CHECK(transfer_blocks_are_valid(&blocks,
                                    side->options.transfer->pool.page_count));
    struct send_slot *slot = send_side_find(side, command->rid);
    if (slot == NULL) {
        open_session(side, command, now);
    } else if (slot->session.request != command->request) {
        reject(side, command, AGREE_REASON_REFUSED, "this rid is being sent");
    } else {
        add_slice(side, slot, command, now);
    }
}

void send_side_cancel(struct send_side *side, uint64_t request, uint64_t now)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct send_slot *slot = &side->slots[i];
        if (slot->is_used && !slot->has_ended &&
            slot->session.request == request) {
            struct tx_event event = {.kind = TX_CANCEL, .now = now};
            send_side_step(side, slot, &event);
            return;
        }
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
