#include "transfer/tx_session.h"

#include <string.h>

#include "agree/word.h"
#include "base/check.h"
#include "wire/result.h"

void tx_session_init(struct tx_session *session, uint64_t request, int64_t rid,
                     uint64_t now, uint64_t deadline_ns, uint64_t grace_ns,
                     uint32_t prompt_tokens)
{
    *session = (struct tx_session){
        .request = request,
        .rid = rid,
        .deadline_ns = deadline_ns,
        .started_ns = now,
        .grace_ns = grace_ns,
        .prompt_tokens = prompt_tokens,
    };
}

static struct tx_action *act(struct tx_actions *actions,
                             enum tx_action_kind kind)
{
    CHECK(actions->count < TX_ACTION_COUNT_MAX);
    struct tx_action *action = &actions->items[actions->count++];
    *action = (struct tx_action){.kind = kind};
    return action;
}

static void move_task(struct tx_slice *slice, enum send_task_event event)
{
    slice->task =
        transfer_state_next(&transfer_send_task, slice->task, (uint8_t)event);
}

static void move_operation(struct tx_slice *slice, enum operation_event event)
{
    slice->operation = transfer_state_next(&transfer_operation,
                                           slice->operation, (uint8_t)event);
}

static bool is_over(const struct tx_session *session)
{
    return session->word & AGREE_TERMINAL;
}

/* The first reason to stop wins; what has not started never will. */
static void latch(struct tx_session *session, uint64_t now, uint8_t reason,
                  bool is_cancel)
{
    if (is_over(session)) {
        return;
    }
    session->is_cancelled = is_cancel;
    session->is_failed = !is_cancel;
    session->reason = reason;
    session->latched_ns = now;
    session->word |= AGREE_TERMINAL | AGREE_FAILED;
    session->word |= is_cancel ? AGREE_CANCEL : 0;
    for (uint32_t i = 0; i < session->slice_count; i++) {
        move_task(&session->slices[i], SEND_TASK_FAIL);
    }
}

bool tx_session_is_quiet(const struct tx_session *session)
{
    for (uint32_t i = 0; i < session->slice_count; i++) {
        if (!transfer_operation_is_drained(session->slices[i].operation)) {
            return false;
        }
    }
    return true;
}

static void on_slice(struct tx_session *session, const struct tx_event *event)
{
    bool is_extra =
        session->has_last_slice || session->slice_count == TX_SLICE_COUNT_MAX;
    if (is_extra || is_over(session)) {
        latch(session, event->now, AGREE_REASON_INTERNAL, false);
        return;
    }
    struct tx_slice *slice = &session->slices[session->slice_count++];
    *slice = event->slice;
    slice->task = SEND_TASK_INIT;
    slice->operation = OPERATION_NONE;
    session->has_last_slice = event->is_last;
}

static void tell(struct tx_session *session, struct tx_actions *actions,
                 uint32_t slice, uint8_t code, bool is_last, uint64_t bytes)
{
    if (!session->can_tell) {
        return;
    }
    struct tx_action *action = act(actions, TX_RESULT);
    action->slice = slice;
    action->code = code;
    action->is_last = is_last;
    action->is_drained = is_last && code != WIRE_RESULT_IN_DOUBT;
    action->bytes = bytes;
    session->can_tell = !is_last;
}

static void on_done(struct tx_session *session, const struct tx_event *event,
                    struct tx_actions *actions)
{
    uint32_t index = session->next_slice - 1;
    struct tx_slice *slice = &session->slices[index];
    move_operation(slice, OPERATION_DONE);
    session->is_writing = false;
    move_task(slice, SEND_TASK_ALL_DONE);
    session->blocks_so_far += event->blocks;
    session->bytes_so_far += event->bytes;
    if (is_over(session)) {
        return;
    }
    bool is_last =
        session->has_last_slice && session->next_slice == session->slice_count;
    tell(session, actions, index, WIRE_RESULT_SUCCESS, is_last, event->bytes);
    if (is_last) {
        session->word |= AGREE_TERMINAL | AGREE_QUIET;
    }
    act(actions, TX_REPORT);
}

static void on_written(struct tx_session *session, const struct tx_event *event,
                       struct tx_actions *actions)
{
    CHECK(session->is_writing);
    CHECK(!session->is_in_doubt);
    struct tx_slice *slice = &session->slices[session->next_slice - 1];
    switch (event->outcome) {
    case TRANSFER_DONE:
        on_done(session, event, actions);
        break;
    case TRANSFER_STOPPED:
        move_operation(slice, OPERATION_DONE);
        session->is_writing = false;
        latch(session, event->now, AGREE_REASON_TRANSPORT, false);
        break;
    case TRANSFER_IN_DOUBT:
        move_operation(slice, OPERATION_DOUBT);
        session->is_in_doubt = true;
        latch(session, event->now, AGREE_REASON_TRANSPORT, false);
        tell(session, actions, session->next_slice - 1, WIRE_RESULT_IN_DOUBT,
             true, 0);
        break;
    }
}

static void on_submitted(struct tx_session *session)
{
    CHECK(session->is_writing);
    struct tx_slice *slice = &session->slices[session->next_slice - 1];
    move_operation(slice, OPERATION_SUBMIT);
    move_operation(slice, OPERATION_ACCEPTED);
}

static void on_refused(struct tx_session *session, const struct tx_event *event)
{
    CHECK(session->is_writing);
    struct tx_slice *slice = &session->slices[session->next_slice - 1];
    move_operation(slice, OPERATION_REJECT);
    session->is_writing = false;
    latch(session, event->now, event->reason, false);
}

static void on_time(struct tx_session *session, const struct tx_event *event,
                    struct tx_actions *actions)
{
    if (session->deadline_ns != 0 && event->now >= session->deadline_ns) {
        latch(session, event->now, AGREE_REASON_DEADLINE, false);
    }
    bool is_late = is_over(session) && !(session->word & AGREE_UNSAFE) &&
                   event->now - session->latched_ns >= session->grace_ns;
    if (is_late && !tx_session_is_quiet(session)) {
        session->word |= AGREE_UNSAFE;
        act(actions, TX_REPORT);
    }
}

static void apply(struct tx_session *session, const struct tx_event *event,
                  struct tx_actions *actions)
{
    switch (event->kind) {
    case TX_SLICE:
        on_slice(session, event);
        break;
    case TX_ADVERTISED:
        CHECK(!session->is_advertised);
        session->is_advertised = true;
        session->can_tell = true;
        break;
    case TX_SUBMITTED:
        on_submitted(session);
        break;
    case TX_WRITTEN:
        on_written(session, event, actions);
        break;
    case TX_REFUSED:
        on_refused(session, event);
        break;
    case TX_CANCEL:
        latch(session, event->now, AGREE_REASON_USER_CANCEL, true);
        break;
    case TX_PEER_CANCEL:
        latch(session, event->now, AGREE_REASON_PEER_CANCEL, true);
        break;
    case TX_PEER_LOST:
        session->can_tell = false;
        latch(session, event->now, AGREE_REASON_WORKER_DEAD, false);
        break;
    case TX_PEER_BACK:
        session->can_tell = is_over(session) && !session->is_in_doubt;
        break;
    case TX_TIME:
        on_time(session, event, actions);
        break;
    }
}

static void start_next(struct tx_session *session, struct tx_actions *actions)
{
    struct tx_slice *slice = &session->slices[session->next_slice];
    move_task(slice, SEND_TASK_ADMIT);
    move_operation(slice, OPERATION_DISPATCH);
    session->is_writing = true;
    act(actions, TX_WRITE)->slice = session->next_slice++;
}

/* What follows from the state, whatever led to it. */
static void settle(struct tx_session *session, bool was_over,
                   struct tx_actions *actions)
{
    if (!is_over(session)) {
        bool has_slice = session->next_slice < session->slice_count;
        if (session->is_advertised && has_slice && !session->is_writing) {
            start_next(session, actions);
        }
        return;
    }
    bool is_quiet = tx_session_is_quiet(session);
    bool is_success = !(session->word & AGREE_FAILED);
    if (is_quiet && !is_success) {
        tell(session, actions, session->next_slice, WIRE_RESULT_FAILED, true,
             0);
        session->word |= AGREE_QUIET;
    }
    if (!is_success && (is_quiet || !was_over)) {
        act(actions, TX_REPORT);
    }
    if (is_quiet) {
        act(actions, TX_END);
    }
}

void tx_session_step(struct tx_session *session, const struct tx_event *event,
                     struct tx_actions *actions_out)
{
    CHECK(!(session->word & AGREE_QUIET));
    actions_out->count = 0;
    bool was_over = is_over(session);
    apply(session, event, actions_out);
    settle(session, was_over, actions_out);
    CHECK(tx_session_is_valid(session));
}

enum send_status tx_session_status(const struct tx_session *session)
{
    struct send_facts facts = {
        .is_error = session->is_failed,
        .is_cancelled = session->is_cancelled,
        .has_last_slice = session->has_last_slice,
        .is_advertised = session->is_advertised,
        .task_count = session->slice_count,
    };
    for (uint32_t i = 0; i < session->slice_count; i++) {
        uint8_t task = session->slices[i].task;
        facts.transferred_count += task == SEND_TASK_TRANSFERRED;
        facts.transferring_count += task == SEND_TASK_TRANSFERRING;
        facts.error_count += task == SEND_TASK_ERROR;
    }
    return transfer_send_status(&facts);
}

bool tx_session_is_valid(const struct tx_session *session)
{
    bool is_quiet = tx_session_is_quiet(session);
    return session->next_slice <= session->slice_count &&
           !(session->is_cancelled && session->is_failed) &&
           (!(session->word & AGREE_QUIET) || is_quiet) &&
           session->is_writing == !is_quiet &&
           agree_word_is_legal(session->word);
}
