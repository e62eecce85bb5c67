#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/state.h"

/* The arrays stay. */
static void reset(struct session *session, struct item *item)
{
    struct session empty = {.item = item};
    memcpy(empty.pages, session->pages, sizeof(empty.pages));
    memcpy(empty.leased, session->leased, sizeof(empty.leased));
    *session = empty;
}

struct session *session_reserve(struct engine_core *core, struct item *item)
{
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        struct session *session = &core->sessions[i];
        if (session->item == NULL) {
            reset(session, item);
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
    mem_free(session->aux);
    session->item->session = NULL;
    reset(session, NULL);
}

bool session_is_live(const struct item *item)
{
    return item->session != NULL && item->session->ticket != 0;
}

/* Orders of this session that nobody has posted, all or its slices alone. */
static void drop_orders(struct engine_core *core, const struct session *session,
                        bool is_slice)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < core->order_count; i++) {
        struct transfer_command *order = &core->orders[i];
        bool is_meant = !is_slice || order->kind == TRANSFER_SEND;
        if (order->request == session->ticket && is_meant) {
            mem_free(order->aux);
        } else {
            core->orders[kept++] = *order;
        }
    }
    core->order_count = kept;
}

void session_drop_slices(struct engine_core *core,
                         const struct session *session)
{
    drop_orders(core, session, true);
}

/* The attempt is over; the session stays reserved. With the attempt goes a
 * cancel that nobody has posted yet: a session has at most three orders in the
 * outbox, which is what bounds it. */
static void end_attempt(struct engine_core *core, struct session *session)
{
    drop_orders(core, session, false);
    session->ticket = 0;
}

struct transfer_command *session_order(struct engine_core *core,
                                       const struct session *session,
                                       enum transfer_command_kind kind)
{
    CHECK(core->order_count < core->order_max);
    struct transfer_command *command = &core->orders[core->order_count++];
    *command = (struct transfer_command){
        .kind = kind, .request = session->ticket, .rid = session->item->rid};
    return command;
}

/* Full attention, and windows that a prompt of this length does not fill: their
 * blocks stay once they are computed (transfer.md 3.4). */
static uint32_t streaming_lives(const struct engine_core *core,
                                uint32_t prompt_count)
{
    uint32_t lives = 0;
    for (uint32_t i = 0; i < core->options.life_count; i++) {
        struct kv_range stale =
            kv_life_stale(&core->options.lives[i],
                          core->options.tokens_per_block, prompt_count);
        lives |= kv_range_count(stale) == 0 ? 1u << i : 0;
    }
    return lives;
}

void session_begin(struct engine_core *core, struct item *item, uint64_t now_ns)
{
    struct session *session = item->session;
    uint32_t index = (uint32_t)(session - core->sessions);
    uint32_t prompt = item->request->prompt_count;
    CHECK(agree_domain_start(core->domain, index, &session->ticket) == OK);
    session->block_count = kv_blocks_of(prompt, core->options.tokens_per_block);
    session->streaming_lives = streaming_lives(core, prompt);
    session->started_ns = now_ns;
    for (uint32_t life = 0; life < core->options.life_count; life++) {
        for (uint32_t i = 0; i < session->block_count; i++) {
            session->pages[life][i] = KV_PAGE_NONE;
            session->leased[life][i] = KV_REF_NONE;
        }
    }
}

void session_lease(struct engine_core *core, struct session *session,
                   uint32_t life, uint32_t first, uint32_t end)
{
    const struct kv_seq *seq = session->item->seq;
    kv_seq_lease(core->cache, seq, life, first, end - first,
                 session->leased[life] + first);
    for (uint32_t i = first; i < end; i++) {
        session->pages[life][i] = seq->tables[life][i];
        session->leased_pages[core->options.group_of[life]] +=
            session->leased[life][i] != KV_REF_NONE;
    }
}

void session_unlease(struct engine_core *core, struct session *session,
                     uint32_t life, uint32_t first, uint32_t end)
{
    kv_manager_unlease(core->cache, session->leased[life] + first, end - first);
    for (uint32_t i = first; i < end; i++) {
        session->leased_pages[core->options.group_of[life]] -=
            session->leased[life][i] != KV_REF_NONE;
        session->leased[life][i] = KV_REF_NONE;
    }
}

static void fill_receive(const struct engine_core *core,
                         const struct item *item, uint64_t now_ns,
                         struct transfer_command *command)
{
    const struct engine_request *request = item->request;
    const struct session *session = item->session;
    command->deadline_ns = now_ns + core->options.kv_transfer_timeout_ns;
    if (request->deadline_ns != 0 &&
        request->deadline_ns < command->deadline_ns) {
        command->deadline_ns = request->deadline_ns;
    }
    for (uint32_t i = 0; i < core->options.life_count; i++) {
        command->pages[i] = session->pages[i];
    }
    command->group_count = core->options.life_count;
    command->block_count = session->block_count;
    command->prompt_tokens = request->prompt_count;
    command->is_generation_first = request->is_generation_first;
    command->sender_incarnation = request->sender_incarnation;
    memcpy(command->sender_endpoint, request->sender_endpoint,
           sizeof(command->sender_endpoint));
}

/* All that is not found here, whole blocks of every life cycle. */
void session_receive(struct engine_core *core, struct item *item,
                     uint64_t now_ns)
{
    uint32_t cached = item->seq->reused / core->options.tokens_per_block;
    session_begin(core, item, now_ns);
    for (uint32_t i = 0; i < core->options.life_count; i++) {
        session_lease(core, item->session, i, cached,
                      item->session->block_count);
    }
    fill_receive(core, item, now_ns,
                 session_order(core, item->session, TRANSFER_RECEIVE));
    item->state = ITEM_RECEIVING;
}

/* The sequence is closed at once: leases keep its pages until the transfer is
 * quiet, its blocks stay in the tree after that. */
void session_send(struct engine_core *core, struct item *item,
                  const struct first_token *firsts, uint32_t count,
                  uint64_t now_ns)
{
    struct transfer_aux *aux = NULL;
    if (item_streams(item)) {
        aux = first_aux_make(item, firsts, count);
    } else {
        session_begin(core, item, now_ns);
    }
    slices_send_last(core, item, aux, now_ns);
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
    if (session->is_cancel_posted) {
        return;
    }
    session->is_cancel_posted = true;
    if (item_streams(session->item)) {
        session_drop_slices(core, session);
    }
    session_order(core, session, TRANSFER_CANCEL)->reason = agree_reason;
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
    journey->bounced_bytes = report->bounced_bytes;
    snprintf(journey->backend, sizeof(journey->backend), "%s",
             report->backend == NULL ? "" : report->backend);
    snprintf(journey->lane, sizeof(journey->lane), "%s",
             report->lane == NULL ? "" : report->lane);
    if (report->word & AGREE_FAILED) {
        snprintf(session->text, sizeof(session->text), "%s", report->text);
    }
    session->is_awaited |= report->is_awaited;
    session->is_withdrawn |= report->is_withdrawn;
    session->has_holes |= report->has_holes;
    if (report->slice_index > session->drained_count) {
        CHECK(report->slice_index <= session->slice_count);
        session->drained_count = report->slice_index;
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
    if (session == NULL) {
        mem_free(report->aux);
        return;
    }
    note(session, report);
    if (report->aux != NULL) {
        mem_free(session->aux);
        session->aux = report->aux;
    }
}

static enum err error_of(uint8_t reason)
{
    static const enum err ERRORS[AGREE_REASON_COUNT] = {
        [AGREE_REASON_NONE] = ERR_INTERNAL,
        [AGREE_REASON_CALLER_LEFT] = ERR_CANCELLED,
        [AGREE_REASON_PEER_CANCEL] = ERR_CANCELLED,
        [AGREE_REASON_DEADLINE] = ERR_TIMEOUT,
        [AGREE_REASON_TRANSPORT] = ERR_IO,
        [AGREE_REASON_INTEGRITY] = ERR_CORRUPT,
        [AGREE_REASON_REFUSED] = ERR_NOT_FOUND,
        [AGREE_REASON_PEER_EPOCH] = ERR_CLOSED,
        [AGREE_REASON_WORKER_DEAD] = ERR_CLOSED,
        [AGREE_REASON_INTERNAL] = ERR_INTERNAL,
        [AGREE_REASON_EXPIRED] = ERR_TIMEOUT,
        [AGREE_REASON_ABORTED] = ERR_CANCELLED,
        [AGREE_REASON_NOT_NEEDED] = ERR_CANCELLED,
        [AGREE_REASON_SHUTDOWN] = ERR_CLOSED,
    };
    return reason < AGREE_REASON_COUNT ? ERRORS[reason] : ERR_INTERNAL;
}

/* The transfer's own words, which know more, where it had any. */
static const char *cause_of(const struct item *item, const struct agree_op *op)
{
    const char *text = item->session->text;
    return text[0] == 0 ? agree_reason_name(op->reason) : text;
}

static void say_transfer_failed(struct engine_core *core, struct item *item,
                                const struct agree_op *op, uint64_t now_ns)
{
    char reason[200];
    snprintf(reason, sizeof(reason), "KV transfer failed: %s",
             cause_of(item, op));
    item_say_failed(core, item, now_ns, error_of(op->reason), reason);
}

/* Whatever it was doing, it does no more: leases keep the pages that the
 * transfer may still touch, all others go now. */
static void give_up(struct engine_core *core, struct item *item)
{
    bool is_queued =
        item->state == ITEM_WAITING || item->state == ITEM_CONTEXT_WAIT;
    core->waiting_count -= is_queued;
    overlap_forget_item(core, item);
    core->lanes_free += item->lanes_held;
    item->lanes_held = 0;
    prefix_wait_remove(core->waits, &item->prefix);
    if (item->seq != NULL) {
        kv_seq_close(core->cache, item->seq);
        item->seq = NULL;
    }
    engine_request_free(item->request);
    item->request = NULL;
}

static void decide_receive(struct engine_core *core, struct item *item,
                           const struct agree_op *op, uint64_t now_ns)
{
    struct why why = {.text = ""};
    if (op->outcome != AGREE_COMPLETED) {
        say_transfer_failed(core, item, op, now_ns);
    } else if (item->request->is_generation_first &&
               first_aux_check(core, item, item->session->aux, &why) != OK) {
        log_warn("engine", "request %lld: %s", (long long)item->rid, why.text);
        item_say_failed(core, item, now_ns, ERR_CORRUPT, why.text);
    } else {
        item->state = ITEM_RECEIVED;
        return;
    }
    give_up(core, item);
    item->state = ITEM_DRAINING;
}

/* It waits for another turn, not failed. */
static bool is_offered_again(const struct item *item)
{
    return item->state == ITEM_CONTEXT_WAIT && item->session->is_withdrawn;
}

/* The logical state changes; no memory moves. */
static void decide(struct engine_core *core, struct item *item,
                   const struct agree_op *op, uint64_t now_ns)
{
    bool is_under_way = item->state == ITEM_CONTEXT_WAIT ||
                        item->state == ITEM_WAITING ||
                        item->state == ITEM_PREFILL;
    if (is_offered_again(item)) {
        return;
    }
    item->journey.handoff_ns = now_ns - item->session->started_ns;
    if (item->state == ITEM_RECEIVING) {
        decide_receive(core, item, op, now_ns);
        return;
    }
    if (is_under_way) {
        CHECK(op->outcome != AGREE_COMPLETED);
        say_transfer_failed(core, item, op, now_ns);
        session_drop_slices(core, item->session);
        give_up(core, item);
    }
    if (op->outcome != AGREE_COMPLETED) {
        log_info_rare("engine", "KV of request %lld did not move: %s",
                      (long long)item->rid, cause_of(item, op));
    }
    if (!is_under_way && item->kind == ENGINE_CONTEXT_ONLY) {
        bool is_sent = op->outcome == AGREE_COMPLETED;
        item_say_sent(core, item, now_ns, is_sent ? OK : error_of(op->reason),
                      is_sent ? "" : cause_of(item, op));
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
    for (uint32_t i = 0; i < core->options.life_count; i++) {
        session_unlease(core, session, i, 0, session->block_count);
    }
    bool is_back = is_offered_again(item);
    end_attempt(core, session);
    if (is_back) {
        session_free(core, session);
    } else if (item->state == ITEM_DRAINING) {
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
