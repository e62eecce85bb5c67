#include "transfer/receive_slot.h"

#include <stdio.h>
#include <string.h>

#include "agree/word.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "transfer/slice.h"
#include "wire/bytes.h"
#include "wire/cancel.h"
#include "wire/recv_request.h"

struct receive_side *receive_side_create(
    const struct receive_side_options *options)
{
    struct receive_side *side = mem_new(sizeof(*side));
    side->options = *options;
    side->slot_count = options->transfer->receive_count_max;
    side->slots = mem_new_array(side->slot_count, sizeof(side->slots[0]));
    mourners_init(&side->mourners,
                  side->slot_count + options->transfer->peer_count_max);
    buf_init(&side->list, (size_t)8 * WIRE_BLOCK_COUNT_MAX);
    buf_init(&side->body, WIRE_BODY_SIZE_MAX);
    buf_init(&side->ranges,
             sizeof(struct transfer_range) * WIRE_BLOCK_COUNT_MAX);
    return side;
}

void receive_side_set_control(struct receive_side *side,
                              struct control *control)
{
    side->control = control;
}

void receive_side_destroy(struct receive_side *side)
{
    if (side == NULL) {
        return;
    }
    CHECK(receive_side_count(side) == 0);
    for (uint32_t i = 0; i < side->slot_count; i++) {
        mem_free(side->slots[i].seen);
    }
    mourners_finish(&side->mourners);
    buf_finish(&side->list);
    buf_finish(&side->body);
    buf_finish(&side->ranges);
    mem_free(side->slots);
    mem_free(side);
}

void receive_side_abandon(struct receive_side *side)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        mem_free(slot->aux);
        slot->aux = NULL;
        if (slot->is_used && slot->reporter.is_due) {
            mem_free(slot->reporter.report.aux);
        }
        slot->is_used = false;
    }
}

uint32_t receive_side_count(const struct receive_side *side)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        count += side->slots[i].is_used;
    }
    return count;
}

struct receive_slot *receive_side_find(struct receive_side *side,
                                       uint64_t incarnation, int64_t rid)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (receive_slot_is_live(slot) && slot->session.rid == rid &&
            slot->session.sender_incarnation == incarnation) {
            return slot;
        }
    }
    return NULL;
}

/* -------- carrying out -------- */

void receive_side_simple_step(struct receive_side *side,
                              struct receive_slot *slot,
                              enum rx_event_kind kind, uint64_t now)
{
    struct rx_event event = {.kind = kind, .now = now};
    receive_side_step(side, slot, &event);
}

void receive_side_fail(struct receive_side *side, struct receive_slot *slot,
                       uint8_t reason, const char *text, uint64_t now)
{
    snprintf(slot->text, sizeof(slot->text), "%.95s", text);
    struct rx_event event = {
        .kind = RX_UNREACHABLE, .now = now, .reason = reason};
    receive_side_step(side, slot, &event);
}

static void connect_sender(struct receive_side *side, struct receive_slot *slot,
                           uint64_t now)
{
    struct why why = {0};
    struct link *link;
    uint64_t wanted = slot->session.sender_incarnation;
    enum err err =
        control_connect(side->control, slot->endpoint, wanted, &why, &link);
    if (err) {
        receive_side_fail(side, slot, AGREE_REASON_TRANSPORT, why.text, now);
    } else if (link->state == PEER_REGISTERED) {
        receive_side_connected(side, slot, link, now);
    }
}

/* Dense lists, group after group, in one buffer. */
static void build_lists(struct receive_side *side,
                        const struct receive_slot *slot,
                        struct wire_recv_request *request)
{
    const struct rx_session *session = &slot->session;
    buf_reset(&side->list);
    for (uint32_t i = 0; i < session->group_count * request->block_count; i++) {
        int64_t page = transfer_blocks_page(
            &session->groups[i / request->block_count].blocks,
            i % request->block_count);
        wire_write_u64(&side->list, (uint64_t)page);
    }
    CHECK(!buf_error(&side->list));
    size_t size = (size_t)8 * request->block_count;
    request->group_count = session->group_count;
    for (uint32_t i = 0; i < session->group_count; i++) {
        request->groups[i] =
            span_slice(buf_span(&side->list), size * i, size * (i + 1));
    }
}

static void advertise(struct receive_side *side, struct receive_slot *slot,
                      uint64_t now)
{
    const struct rx_session *session = &slot->session;
    struct link *link =
        control_find_sender(side->control, session->sender_incarnation);
    struct wire_recv_request request = {
        .rid = session->rid,
        .prompt_tokens = slot->prompt_tokens,
        .block_count =
            transfer_blocks_of(slot->prompt_tokens, receive_side_block(side)),
        .style = slot->style,
        .capabilities = WIRE_ACCEPTS_SLICES,
    };
    build_lists(side, slot, &request);
    snprintf(request.reply_endpoint, sizeof(request.reply_endpoint), "%s",
             control_endpoint(side->control));
    buf_reset(&side->body);
    enum err err = wire_recv_request_encode(&request, NULL, &side->body);
    CHECK(!err);
    if (link != NULL) {
        /* A failure has dropped the link, which the session hears of. */
        IGNORE(control_send(link, WIRE_REQUEST_DATA, session->rid,
                            session->attempt, buf_span(&side->body)));
    }
    receive_side_simple_step(side, slot, RX_SENT, now);
}

static void cancel_peer(struct receive_side *side, struct receive_slot *slot)
{
    const struct rx_session *session = &slot->session;
    struct link *link =
        control_find_sender(side->control, session->sender_incarnation);
    if (link == NULL) {
        return; /* asked again when there is one */
    }
    struct wire_cancel cancel = {.reason = session->reason};
    buf_reset(&side->body);
    wire_cancel_encode(&cancel, &side->body);
    /* A failure has dropped the link, and it is asked again. */
    IGNORE(control_send(link, WIRE_CANCEL_SESSION, session->rid,
                        session->attempt, buf_span(&side->body)));
}

static const char *detail_of(const struct receive_slot *slot)
{
    uint8_t peer = slot->session.peer_reason;
    bool is_told = peer != AGREE_REASON_NONE && slot->text[0] == 0;
    return is_told ? agree_reason_name(peer) : slot->text;
}

static void report(struct receive_side *side, struct receive_slot *slot,
                   uint64_t now)
{
    const struct rx_session *session = &slot->session;
    slot->reporter.report = (struct transfer_report){
        .request = session->request,
        .word = session->word,
        .reason = session->reason,
        .moved_bytes = session->moved_bytes,
        .moved_blocks = rx_session_seen_count(session),
        .has_holes = rx_session_has_holes(session),
        .bounced_bytes = slot->bounced_bytes,
        .started_ns = session->started_ns,
        .ended_ns = now,
        .backend = transfer_backend_name(side->options.transfer->backend),
        .lane = slot->lane,
    };
    struct transfer_report *out = &slot->reporter.report;
    if (session->word & AGREE_FAILED) {
        const char *detail = detail_of(slot);
        snprintf(out->text, sizeof(out->text), "receiving KV: %s%s%.80s",
                 agree_reason_name(session->reason), detail[0] != 0 ? ": " : "",
                 detail);
    } else if (session->word & AGREE_TERMINAL) {
        out->aux = slot->aux; /* the engine's now */
        slot->aux = NULL;
    }
    slot->reporter.is_due = true;
    /* What does not fit now is tried again at the next tick. */
    IGNORE(
        !reporter_flush(&slot->reporter, side->options.transfer->port.reports));
}

static void free_if_told(struct receive_side *side, struct receive_slot *slot)
{
    if (slot->has_ended &&
        reporter_flush(&slot->reporter, side->options.transfer->port.reports)) {
        slot->is_used = false;
    }
}

static void end(struct receive_side *side, struct receive_slot *slot,
                uint64_t now)
{
    const struct rx_session *session = &slot->session;
    struct transfer_stats *stats = side->options.stats;
    bool is_failed = session->word & AGREE_FAILED;
    stats->receives_failed += is_failed;
    stats->receives_done += !is_failed;
    stats->received_bytes += session->moved_bytes;
    stats->integrity_failures +=
        is_failed && session->reason == AGREE_REASON_INTEGRITY;
    mem_free(slot->aux);
    slot->aux = NULL;
    IGNORE(receive_grant_revoke(side, slot));
    receive_bounce_end(side, slot, now, true);
    slot->is_verifying = false;
    slot->has_ended = true;
    free_if_told(side, slot);
}

static void start_verify(struct receive_side *side, struct receive_slot *slot,
                         uint64_t now)
{
    /* All are there: what is checked must not change any more. */
    IGNORE(receive_grant_revoke(side, slot));
    receive_bounce_end(side, slot, now, false);
    slot->is_verifying = true;
    slot->verify_group = slot->verify_next = 0;
    side->options.wake(side->options.context);
}

void receive_side_step(struct receive_side *side, struct receive_slot *slot,
                       const struct rx_event *event)
{
    struct rx_actions actions;
    rx_session_step(&slot->session, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        switch (actions.items[i]) {
        case RX_CONNECT:
            connect_sender(side, slot, event->now);
            break;
        case RX_ADVERTISE:
            advertise(side, slot, event->now);
            break;
        case RX_CANCEL_PEER:
            cancel_peer(side, slot);
            break;
        case RX_VERIFY:
            start_verify(side, slot, event->now);
            break;
        case RX_REPORT:
            report(side, slot, event->now);
            break;
        case RX_END:
            end(side, slot, event->now);
            break;
        }
    }
    bool is_failed = slot->session.word & AGREE_FAILED;
    if (!is_failed || slot->has_ended) {
        return;
    }
    receive_bounce_end(side, slot, event->now, false);
    if (receive_grant_revoke(side, slot)) {
        receive_side_simple_step(side, slot, RX_GONE, event->now);
    }
}

/* -------- commands -------- */

static void reject(struct receive_side *side,
                   const struct transfer_command *command, const char *text)
{
    struct transfer_report report = {
        .request = command->request,
        .word = AGREE_TERMINAL | AGREE_FAILED | AGREE_QUIET,
        .reason = AGREE_REASON_REFUSED,
        .backend = transfer_backend_name(side->options.transfer->backend),
        .lane = "",
    };
    snprintf(report.text, sizeof(report.text), "receiving KV: %s", text);
    side->options.stats->receives_failed++;
    if (io_mailbox_post(side->options.transfer->port.reports, &report)) {
        log_error("transfer", "no place for the report of a refused receive");
    }
}

static struct receive_slot *find_free(struct receive_side *side)
{
    struct receive_slot *slot = NULL;
    for (uint32_t i = 0; i < side->slot_count && slot == NULL; i++) {
        slot = side->slots[i].is_used ? NULL : &side->slots[i];
    }
    return slot;
}

/* Blocks past the prompt's end are the receiver's own affair. */
static void fill_groups(struct receive_side *side, struct receive_slot *slot,
                        const struct transfer_command *command, uint32_t count)
{
    struct rx_session *session = &slot->session;
    const struct transfer_options *transfer = side->options.transfer;
    session->group_count = transfer->group_count;
    for (uint32_t i = 0; i < transfer->group_count; i++) {
        session->groups[i] =
            (struct rx_group){.blocks = {command->pages[i], 0, count}};
        CHECK(transfer_blocks_are_valid(&session->groups[i].blocks,
                                        transfer->groups[i].pool.page_count));
    }
}

static void fill_slot(struct receive_side *side, struct receive_slot *slot,
                      const struct transfer_command *command, uint64_t now)
{
    slot->has_ended = false;
    slot->prompt_tokens = command->prompt_tokens;
    slot->style = command->is_generation_first ? WIRE_GENERATION_FIRST
                                               : WIRE_CONTEXT_FIRST;
    slot->reporter = (struct reporter){0};
    slot->lane = "";
    slot->text[0] = 0;
    slot->aux = NULL;
    slot->is_authorised = false;
    slot->bounced_bytes = 0;
    slot->is_verifying = false;
    memcpy(slot->endpoint, command->sender_endpoint, sizeof(slot->endpoint));
    slot->endpoint[sizeof(slot->endpoint) - 1] = 0;
    slot->session = (struct rx_session){
        .request = command->request,
        .rid = command->rid,
        .sender_incarnation = command->sender_incarnation,
        .attempt = ++side->attempt,
        .deadline_ns = command->deadline_ns,
        .started_ns = now,
        .grace_ns = side->options.transfer->grace_ns,
        .wants_aux = command->is_generation_first,
    };
}

/* One that may meet any process at its endpoint counts for that endpoint. */
static bool is_being_received(struct receive_side *side,
                              const struct transfer_command *command)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        const struct receive_slot *slot = &side->slots[i];
        if (!receive_slot_is_live(slot) || slot->session.rid != command->rid) {
            continue;
        }
        uint64_t other = slot->session.sender_incarnation;
        bool is_same = other == command->sender_incarnation;
        bool is_open = other == 0 || command->sender_incarnation == 0;
        if ((is_same && other != 0) ||
            (is_open &&
             strcmp(slot->endpoint, command->sender_endpoint) == 0)) {
            return true;
        }
    }
    return false;
}

void receive_side_command(struct receive_side *side,
                          const struct transfer_command *command, uint64_t now)
{
    uint32_t group_count = side->options.transfer->group_count;
    uint32_t whole =
        transfer_blocks_of(command->prompt_tokens, receive_side_block(side));
    CHECK(command->rid >= 0);
    CHECK(command->prompt_tokens > 0);
    CHECK(command->group_count == group_count);
    if ((uint64_t)whole * group_count > WIRE_BLOCK_COUNT_MAX) {
        reject(side, command, "the prompt has too many blocks");
        return;
    }
    if (is_being_received(side, command)) {
        reject(side, command, "this rid is being received");
        return;
    }
    uint32_t count =
        command->block_count < whole ? command->block_count : whole;
    struct receive_slot *slot = find_free(side);
    if (slot == NULL) {
        reject(side, command, "too many at once");
        return;
    }
    fill_slot(side, slot, command, now);
    fill_groups(side, slot, command, count);
    if (receive_parts(side, slot, receive_side_block(side))) {
        reject(side, command, "too many at once");
        return;
    }
    slot->is_used = true;
    rx_session_init(&slot->session);
    side->options.stats->receives_started++;
    receive_side_simple_step(side, slot, RX_START, now);
}

void receive_side_cancel(struct receive_side *side, uint64_t request,
                         uint8_t reason, uint64_t now)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (receive_slot_is_live(slot) && slot->session.request == request) {
            struct rx_event event = {
                .kind = RX_CANCEL, .now = now, .reason = reason};
            receive_side_step(side, slot, &event);
            return;
        }
    }
}

/* -------- time -------- */

void receive_side_tick(struct receive_side *side, uint64_t now)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (!slot->is_used) {
            continue;
        }
        if (receive_slot_is_live(slot)) {
            receive_side_simple_step(side, slot, RX_TIME, now);
        }
        IGNORE(!reporter_flush(&slot->reporter,
                               side->options.transfer->port.reports));
        free_if_told(side, slot);
    }
    for (uint32_t i = 0; i < side->mourners.capacity; i++) {
        if (side->mourners.items[i].is_used) {
            receive_side_tick_mourner(side, &side->mourners.items[i], now);
        }
    }
    side->options.stats->receives = receive_side_count(side);
}
