#include "transfer/rx_session.h"

#include "agree/word.h"
#include "base/check.h"

static bool is_needed(const struct rx_group *group, uint32_t ordinal)
{
    return ordinal < group->sink_end || ordinal >= group->stale_end;
}

static bool is_wanted(const struct rx_group *group, uint32_t part)
{
    return part < group->part_count &&
           transfer_blocks_page(&group->blocks, part / group->block_parts) !=
               KV_PAGE_NONE;
}

static void count_needed(struct rx_group *group)
{
    if (group->block_parts == 0) {
        group->block_parts = 1;
        group->part_count = group->blocks.first + group->blocks.count;
    }
    group->want_count = group->need_count = 0;
    for (uint32_t i = 0; i < group->part_count; i++) {
        bool is_meant = is_wanted(group, i);
        group->want_count += is_meant;
        group->need_count += is_meant && is_needed(group, i);
    }
}

void rx_session_regroup(struct rx_session *session)
{
    for (uint32_t i = 0; i < session->group_count; i++) {
        count_needed(&session->groups[i]);
    }
}

void rx_session_init(struct rx_session *session)
{
    rx_session_regroup(session);
    session->task = RECEIVE_TASK_INIT;
    session->owner = OWNER_NEW;
    session->exposure = EXPOSURE_NONE;
}

static void act(struct rx_actions *actions, enum rx_action_kind kind)
{
    CHECK(actions->count < RX_ACTION_COUNT_MAX);
    actions->items[actions->count++] = kind;
}

static void move_task(struct rx_session *session, enum receive_task_event event)
{
    session->task = transfer_state_next(&transfer_receive_task, session->task,
                                        (uint8_t)event);
}

static void move_owner(struct rx_session *session, enum owner_event event)
{
    session->owner =
        transfer_state_next(&transfer_owner, session->owner, (uint8_t)event);
}

static void move_exposure(struct rx_session *session, enum exposure_event event)
{
    session->exposure = transfer_state_next(&transfer_exposure,
                                            session->exposure, (uint8_t)event);
}

static bool is_over(const struct rx_session *session)
{
    return session->word & AGREE_TERMINAL;
}

static bool is_exposed(const struct rx_session *session)
{
    return session->exposure == EXPOSURE_POSSIBLE ||
           session->exposure == EXPOSURE_PUBLISHED;
}

/* The logical end; it says nothing about the pages. The first one wins. */
static void fail(struct rx_session *session, const struct rx_event *event,
                 uint8_t reason, bool is_cancel)
{
    if (is_over(session)) {
        return;
    }
    move_task(session, RECEIVE_TASK_FAIL);
    session->word |= AGREE_TERMINAL | AGREE_FAILED;
    session->word |= is_cancel ? AGREE_CANCEL : 0;
    session->reason = reason;
    session->latched_ns = event->now;
    if (session->exposure == EXPOSURE_NONE) {
        move_exposure(session, EXPOSURE_WITHDRAW);
        move_owner(session, OWNER_CANCEL);
    }
    /* Digests need no more looking at, and nobody writes any more. */
    if (session->owner == OWNER_LOCAL_PENDING) {
        move_owner(session, OWNER_LOCAL_DONE);
    }
}

/* A local end: who may still write is asked to stop. */
static void stop(struct rx_session *session, const struct rx_event *event,
                 uint8_t reason, bool is_cancel, struct rx_actions *actions)
{
    if (is_over(session)) {
        return;
    }
    fail(session, event, reason, is_cancel);
    if (!transfer_owner_is_drained(session->owner)) {
        act(actions, RX_CANCEL_PEER);
    }
}

/* One that goes on has another link to its sender, and needs no second. */
static void on_connected(struct rx_session *session, struct rx_actions *actions)
{
    if (session->exposure == EXPOSURE_NONE) {
        move_owner(session, OWNER_BEGIN);
        move_owner(session, OWNER_SEAL);
        move_exposure(session, EXPOSURE_AUTHORISE);
        move_task(session, RECEIVE_TASK_PUBLISH);
        act(actions, RX_ADVERTISE);
    } else if (is_over(session) && is_exposed(session) &&
               !transfer_owner_is_drained(session->owner)) {
        act(actions, RX_CANCEL_PEER);
    }
}

static void on_sent(struct rx_session *session)
{
    move_exposure(session, EXPOSURE_SENT);
    move_owner(session, OWNER_QUEUED);
}

/* Notes the parts of one slice. False: a part that is not ours, not wanted,
 * or was there before. */
static bool take_digests(struct rx_group *group,
                         const struct wire_result *result, uint32_t index)
{
    for (uint32_t i = 0; i < result->groups[index].digest_count; i++) {
        struct wire_digest digest = wire_result_digest(result, index, i);
        if (!is_wanted(group, digest.ordinal)) {
            return false;
        }
        struct rx_block *block = &group->seen[digest.ordinal];
        if (block->is_seen) {
            return false;
        }
        *block = (struct rx_block){digest.crc32c, true};
        group->seen_count++;
        group->needed_count += is_needed(group, digest.ordinal);
    }
    return group->seen_count == result->groups[index].blocks_so_far;
}

/* The sender counts as we do, slice by slice. */
static bool take_slice(struct rx_session *session,
                       const struct wire_result *result)
{
    bool is_next = result->slice_index == session->slice_count &&
                   result->group_count == session->group_count;
    session->slice_count++;
    session->moved_bytes += (uint64_t)result->prefix.bytes;
    for (uint32_t i = 0; is_next && i < session->group_count; i++) {
        is_next = take_digests(&session->groups[i], result, i);
    }
    return is_next && result->bytes_so_far == session->moved_bytes;
}

/* All blocks that will be read, and the first tokens. */
static bool has_all(const struct rx_session *session)
{
#ifdef MUTATION_LAST_SLICE_OVERTAKES
    return true;
#endif
    bool has = session->has_aux || !session->wants_aux;
    for (uint32_t i = 0; i < session->group_count; i++) {
        has &= session->groups[i].needed_count == session->groups[i].need_count;
    }
    return has;
}

static void on_success(struct rx_session *session, const struct rx_event *event,
                       struct rx_actions *actions)
{
    const struct wire_result *result = event->result;
    bool is_right = take_slice(session, result);
    if (!result->prefix.is_last) {
        move_owner(session, OWNER_REPORT);
        if (!is_right) {
            stop(session, event, AGREE_REASON_INTEGRITY, false, actions);
        }
        return;
    }
#ifdef MUTATION_LAST_SLICE_OVERTAKES
    is_right = true;
    session->slice_count = result->slices_total;
#endif
    if (!is_right || session->slice_count != result->slices_total ||
        !has_all(session)) {
        fail(session, event, AGREE_REASON_INTEGRITY, false);
    }
    if (is_over(session)) {
        move_owner(session, OWNER_REPORT_LAST);
        return;
    }
    move_owner(session, OWNER_REPORT_LOCAL);
    act(actions, RX_VERIFY);
}

static uint8_t reason_of(const struct wire_result *result)
{
    bool is_known = result->reason > AGREE_REASON_NONE &&
                    result->reason < AGREE_REASON_COUNT;
    return is_known ? result->reason : (uint8_t)AGREE_REASON_TRANSPORT;
}

/* Whoever left there is the sender's caller, and what broke there is not ours:
 * for us the sender gave it up. */
static void fail_as_told(struct rx_session *session,
                         const struct rx_event *event)
{
    uint8_t reason = reason_of(event->result);
    bool is_cancel =
        agree_reason_is_cancel(reason) || reason == AGREE_REASON_INTERNAL;
    if (is_cancel && reason != AGREE_REASON_PEER_CANCEL && !is_over(session)) {
        session->peer_reason = reason;
    }
    fail(session, event, is_cancel ? (uint8_t)AGREE_REASON_PEER_CANCEL : reason,
         is_cancel);
}

static void on_result(struct rx_session *session, const struct rx_event *event,
                      struct rx_actions *actions)
{
    const struct wire_result *result = event->result;
    bool is_drained =
        result->prefix.is_last && (result->flags & WIRE_RESULT_DRAINED);
    if (!is_exposed(session) || session->owner == OWNER_LOCAL_PENDING) {
        return; /* one result too many, of a sender that lost count */
    }
    if (result->prefix.receiver_slice != 0) {
        stop(session, event, AGREE_REASON_INTEGRITY, false, actions);
        return;
    }
    if (result->prefix.code == WIRE_RESULT_IN_DOUBT) {
        fail(session, event, reason_of(result), false);
        move_owner(session, OWNER_CONTRADICTION);
        return;
    }
    if (session->owner == OWNER_IN_DOUBT) {
        return;
    }
    bool is_success = result->prefix.code == WIRE_RESULT_SUCCESS;
    if (is_success && (is_drained || !result->prefix.is_last)) {
        on_success(session, event, actions);
        return;
    }
    fail_as_told(session, event);
    move_owner(session, is_drained ? OWNER_REPORT_LAST : OWNER_REPORT);
}

bool rx_session_awaits_aux(const struct rx_session *session)
{
    return session->wants_aux && !session->has_aux && !is_over(session) &&
           session->owner == OWNER_OPEN;
}

static void on_verified(struct rx_session *session,
                        const struct rx_event *event)
{
    if (session->owner != OWNER_LOCAL_PENDING) {
        return; /* failed while we looked */
    }
    if (!event->is_right) {
        fail(session, event, AGREE_REASON_INTEGRITY, false);
        return;
    }
    move_owner(session, OWNER_LOCAL_DONE);
    move_task(session, RECEIVE_TASK_COMPLETE);
    session->word |= AGREE_TERMINAL | AGREE_QUIET;
}

static void on_gone(struct rx_session *session, const struct rx_event *event)
{
    if (session->owner == OWNER_LOCAL_PENDING) {
        return; /* all is here already */
    }
    fail(session, event, AGREE_REASON_WORKER_DEAD, false);
    move_owner(session, OWNER_WRITER_GONE);
}

static void on_time(struct rx_session *session, const struct rx_event *event,
                    struct rx_actions *actions)
{
    bool is_checking = session->owner == OWNER_LOCAL_PENDING;
    bool is_due =
        session->deadline_ns != 0 && event->now >= session->deadline_ns;
    if (is_due && !is_checking) {
        stop(session, event, AGREE_REASON_DEADLINE, false, actions);
    }
    bool is_late = is_over(session) && !(session->word & AGREE_UNSAFE) &&
                   event->now - session->latched_ns >= session->grace_ns;
    if (is_late && !transfer_owner_is_drained(session->owner)) {
        session->word |= AGREE_UNSAFE;
        act(actions, RX_REPORT);
    }
}

static void on_lost(struct rx_session *session, const struct rx_event *event)
{
    if (session->owner != OWNER_LOCAL_PENDING) {
        fail(session, event, AGREE_REASON_TRANSPORT, false);
    }
#ifdef MUTATION_QUIET_WHEN_LOST
    if (!transfer_owner_is_drained(session->owner)) {
        on_gone(session, event);
    }
#endif
}

static void apply(struct rx_session *session, const struct rx_event *event,
                  struct rx_actions *actions)
{
    switch (event->kind) {
    case RX_START:
        act(actions, RX_CONNECT);
        break;
    case RX_CONNECTED:
        on_connected(session, actions);
        break;
    case RX_UNREACHABLE:
        fail(session, event, event->reason, false);
        break;
    case RX_SENT:
        on_sent(session);
        break;
    case RX_RESULT:
        on_result(session, event, actions);
        break;
    case RX_AUX:
        CHECK(rx_session_awaits_aux(session));
        session->has_aux = true;
        break;
    case RX_VERIFIED:
        on_verified(session, event);
        break;
    case RX_BROKEN:
        stop(session, event, AGREE_REASON_INTEGRITY, false, actions);
        break;
    case RX_CANCEL:
        stop(session, event, event->reason, true, actions);
        break;
    case RX_PEER_CANCEL:
        fail(session, event, AGREE_REASON_PEER_CANCEL, true);
        break;
    case RX_LOST:
        on_lost(session, event);
        break;
    case RX_GONE:
        on_gone(session, event);
        break;
    case RX_TIME:
        on_time(session, event, actions);
        break;
    }
}

void rx_session_step(struct rx_session *session, const struct rx_event *event,
                     struct rx_actions *actions_out)
{
    CHECK(!(session->word & AGREE_QUIET));
    actions_out->count = 0;
    bool was_over = is_over(session);
    apply(session, event, actions_out);
    bool is_failed = session->word & AGREE_FAILED;
    bool is_drained = transfer_owner_is_drained(session->owner);
    if (is_failed && is_drained) {
        session->word |= AGREE_QUIET;
    }
    bool is_quiet = session->word & AGREE_QUIET;
    if (is_quiet || (is_over(session) && !was_over)) {
        act(actions_out, RX_REPORT);
    }
    if (is_quiet) {
        act(actions_out, RX_END);
    }
    CHECK(rx_session_is_valid(session));
}

enum receive_status rx_session_status(const struct rx_session *session)
{
    return transfer_receive_status(session->word & AGREE_CANCEL, session->task,
                                   session->wants_aux, session->has_aux);
}

uint32_t rx_session_seen_count(const struct rx_session *session)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < session->group_count; i++) {
        count += session->groups[i].seen_count;
    }
    return count;
}

bool rx_session_has_holes(const struct rx_session *session)
{
    for (uint32_t i = 0; i < session->group_count; i++) {
        if (session->groups[i].seen_count < session->groups[i].want_count) {
            return true;
        }
    }
    return false;
}

bool rx_session_is_valid(const struct rx_session *session)
{
    bool is_drained = transfer_owner_is_drained(session->owner);
    bool is_success =
        (session->word & AGREE_TERMINAL) && !(session->word & AGREE_FAILED);
    return (!(session->word & AGREE_QUIET) || is_drained) &&
           (!is_success || has_all(session)) &&
           (session->word == 0 || agree_word_is_legal(session->word));
}
