#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/state.h"

struct session *session_reserve(struct engine_core *core, struct item *item)
{
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        struct session *session = &core->sessions[i];
        if (session->item == NULL) {
            *session = (struct session){.item = item,
                                        .pages = session->pages,
                                        .leased = session->leased};
            item->session = session;
            return session;
        }
    }
    return NULL;
}

void session_free(struct engine_core *core, struct session *session)
{
    (void)core;
    CHECK(session->ticket == 0);
    session->item->session = NULL;
    *session =
        (struct session){.pages = session->pages, .leased = session->leased};
}

/* The attempt is over; the session stays reserved. With the attempt goes a
 * cancel that nobody has posted yet: a session has at most two orders in the
 * outbox, which is what bounds it. */
static void end_attempt(struct engine_core *core, struct session *session)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < core->order_count; i++) {
        if (core->orders[i].request != session->ticket) {
            core->orders[kept++] = core->orders[i];
        }
    }
    core->order_count = kept;
    session->ticket = 0;
}

static struct transfer_command *order(struct engine_core *core,
                                      const struct session *session,
                                      enum transfer_command_kind kind)
{
    CHECK(core->order_count < core->order_max);
    struct transfer_command *command = &core->orders[core->order_count++];
    *command = (struct transfer_command){
        .kind = kind, .request = session->ticket, .rid = session->item->rid};
    return command;
}

/* Leases blocks [first, end of the prompt) and orders the transfer. */
static struct transfer_command *open_session(struct engine_core *core,
                                             struct item *item,
                                             uint32_t first_block,
                                             enum transfer_command_kind kind,
                                             uint64_t now_ns)
{
    struct session *session = item->session;
    struct kv_seq *seq = item->seq;
    uint32_t index = (uint32_t)(session - core->sessions);
    CHECK(agree_domain_start(core->domain, index, &session->ticket) == OK);
    for (uint32_t i = 0; i < seq->block_count; i++) {
        session->pages[i] = i < first_block ? KV_PAGE_NONE : seq->tables[0][i];
    }
    session->block_count = seq->block_count - first_block;
    session->started_ns = now_ns;
    kv_seq_lease(core->cache, seq, 0, first_block, session->block_count,
                 session->leased);
    struct transfer_command *command = order(core, session, kind);
    command->deadline_ns = now_ns + core->options.kv_transfer_timeout_ns;
    command->pages[0] = session->pages;
    command->group_count = 1;
    command->block_count = command->end_block = seq->block_count;
    command->prompt_tokens = item->request->prompt_count;
    return command;
}

void session_receive(struct engine_core *core, struct item *item,
                     uint64_t now_ns)
{
    const struct engine_request *request = item->request;
    uint32_t cached = item->seq->reused / core->options.tokens_per_block;
    struct transfer_command *command =
        open_session(core, item, cached, TRANSFER_RECEIVE, now_ns);
    if (request->deadline_ns != 0 &&
        request->deadline_ns < command->deadline_ns) {
        command->deadline_ns = request->deadline_ns;
    }
    command->sender_incarnation = request->sender_incarnation;
    memcpy(command->sender_endpoint, request->sender_endpoint,
           sizeof(command->sender_endpoint));
    item->state = ITEM_RECEIVING;
}

/* The sequence is closed at once: leases keep its pages until the transfer is
 * quiet, its blocks stay in the tree after that. */
void session_send(struct engine_core *core, struct item *item, uint64_t now_ns)
{
    struct transfer_command *command =
        open_session(core, item, 0, TRANSFER_SEND, now_ns);
    command->is_last = true;
    kv_seq_close(core->cache, item->seq);
    item->seq = NULL;
    prefix_wait_remove(core->waits, &item->prefix);
    item->state = ITEM_SENDING;
    engine_request_free(item->request);
    item->request = NULL;
}

void session_cancel(struct engine_core *core, struct session *session,
                    uint8_t agree_bit, uint8_t agree_reason)
{
    CHECK(agree_domain_publish(core->domain, session->ticket, 0, agree_bit,
                               agree_reason) == OK);
    if (!session->is_cancel_posted) {
        session->is_cancel_posted = true;
        order(core, session, TRANSFER_CANCEL);
    }
}

static struct session *find(struct engine_core *core, agree_ticket ticket)
{
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        if (core->sessions[i].item != NULL &&
            core->sessions[i].ticket == ticket) {
            return &core->sessions[i];
        }
    }
    return NULL;
}

static void note(struct session *session, const struct transfer_report *report)
{
    struct engine_journey *journey = &session->item->journey;
    journey->moved_bytes = report->moved_bytes;
    journey->moved_blocks = report->moved_blocks;
    snprintf(journey->backend, sizeof(journey->backend), "%s",
             report->backend == NULL ? "" : report->backend);
    snprintf(journey->lane, sizeof(journey->lane), "%s",
             report->lane == NULL ? "" : report->lane);
    if (report->word & AGREE_FAILED) {
        snprintf(session->text, sizeof(session->text), "%s", report->text);
    }
}

/* Only sets bits; what follows from them follows at the head of a turn. A word
 * that contradicts itself is a broken promise of our own transfer loop. */
void session_report(struct engine_core *core,
                    const struct transfer_report *report)
{
    enum err err = agree_domain_publish(core->domain, report->request, 0,
                                        report->word, report->reason);
    if (err != OK) {
        log_error("engine", "transfer %llx reports 0x%02x reason %u: %s",
                  (unsigned long long)report->request, report->word,
                  report->reason, err_name(err));
    }
    CHECK(err == OK);
    struct session *session =
        report->request == 0 ? NULL : find(core, report->request);
    if (session != NULL) {
        note(session, report);
    }
}

static enum err error_of(uint8_t reason)
{
    static const enum err ERRORS[AGREE_REASON_COUNT] = {
        [AGREE_REASON_NONE] = ERR_INTERNAL,
        [AGREE_REASON_USER_CANCEL] = ERR_CANCELLED,
        [AGREE_REASON_PEER_CANCEL] = ERR_CANCELLED,
        [AGREE_REASON_DEADLINE] = ERR_TIMEOUT,
        [AGREE_REASON_TRANSPORT] = ERR_IO,
        [AGREE_REASON_INTEGRITY] = ERR_CORRUPT,
        [AGREE_REASON_REFUSED] = ERR_NOT_FOUND,
        [AGREE_REASON_PEER_EPOCH] = ERR_CLOSED,
        [AGREE_REASON_WORKER_DEAD] = ERR_CLOSED,
        [AGREE_REASON_INTERNAL] = ERR_INTERNAL,
        [AGREE_REASON_EXPIRED] = ERR_TIMEOUT,
    };
    return reason < AGREE_REASON_COUNT ? ERRORS[reason] : ERR_INTERNAL;
}

static void say_transfer_failed(struct engine_core *core, struct item *item,
                                const struct agree_op *op, uint64_t now_ns)
{
    char reason[200];
    const char *text = item->session->text;
    snprintf(reason, sizeof(reason), "KV transfer failed: %s",
             text[0] == 0 ? agree_reason_name(op->reason) : text);
    item_say_failed(core, item, now_ns, error_of(op->reason), reason);
}

/* The logical state changes; no memory moves. */
static void decide(struct engine_core *core, struct item *item,
                   const struct agree_op *op, uint64_t now_ns)
{
    item->journey.handoff_ns = now_ns - item->session->started_ns;
    if (item->state == ITEM_RECEIVING && op->outcome == AGREE_COMPLETED) {
        item->state = ITEM_RECEIVED;
        return;
    }
    if (item->state == ITEM_RECEIVING) {
        say_transfer_failed(core, item, op, now_ns);
        kv_seq_close(core->cache, item->seq);
        item->seq = NULL;
        core->lanes_free += item->lanes_held;
        item->lanes_held = 0;
        engine_request_free(item->request);
        item->request = NULL;
    }
    if (op->outcome != AGREE_COMPLETED) {
        log_info("engine", "KV of request %lld did not move: %s",
                 (long long)item->rid, agree_reason_name(op->reason));
    }
    item->state = ITEM_DRAINING;
}

/* Nobody touches the pages any more: the lease ends. A received sequence goes
 * on with its pages and keeps the session until it has lanes, so that sequences
 * stay within lanes + sessions; any other was closed and ends with the lease.
 */
static void release(struct engine_core *core, struct item *item)
{
    struct session *session = item->session;
    kv_manager_unlease(core->cache, session->leased, session->block_count);
    session->block_count = 0;
    end_attempt(core, session);
    if (item->state == ITEM_DRAINING) {
        session_free(core, session);
        item_free(core, item);
    }
}

void session_apply_agreed(struct engine_core *core, uint64_t now_ns)
{
    struct agree_op op;
    while (core->domain != NULL && item_room(core) >= STEP_EVENTS &&
           agree_domain_next(core->domain, &op)) {
        struct item *item = core->sessions[op.owner].item;
        switch (op.kind) {
        case AGREE_DECIDE:
            decide(core, item, &op, now_ns);
            break;
        case AGREE_QUARANTINE:
            log_warn("engine",
                     "KV pages of request %lld are withheld: no proof that "
                     "the transfer has stopped",
                     (long long)item->rid);
            break;
        case AGREE_RELEASE:
            release(core, item);
            break;
        }
    }
}
