#include "transfer/tx_session.h"

#include "agree/word.h"
#include "base/check.h"
#include "wire/result.h"

static struct tx_action *act(struct tx_actions *actions,
                             enum tx_action_kind kind)
{
    CHECK(actions->count < TX_ACTION_COUNT_MAX);
    struct tx_action *action = &actions->items[actions->count++];
    *action = (struct tx_action){.kind = kind};
    return action;
}

static void move_task(struct tx_session *session, enum send_task_event event)
{
    session->task =
        transfer_state_next(&transfer_send_task, session->task, (uint8_t)event);
}

static void move_operation(struct tx_session *session,
                           enum operation_event event)
{
    session->operation = transfer_state_next(
        &transfer_operation, session->operation, (uint8_t)event);
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
    move_task(session, SEND_TASK_FAIL);
}

bool tx_session_is_quiet(const struct tx_session *session)
{
    return transfer_operation_is_drained(session->operation);
}

/* Slices tile [0, N) in order, and one is last (transfer.md I4, I5). */
static bool is_next(const struct tx_session *session,
                    const struct tx_slice *slice)
{
    bool is_dense = slice->index == session->slice_count &&
                    slice->first_block == session->cursor &&
                    slice->end_block >= slice->first_block &&
                    slice->end_block <= session->block_count;
    bool is_whole = !slice->is_last || !session->is_streaming ||
                    slice->end_block == session->block_count;
    return is_dense && is_whole && !session->has_last_slice;
}

static void on_slice(struct tx_session *session, const struct tx_event *event)
{
    if (is_over(session)) {
        return; /* the engine has not heard of it yet */
    }
    if (!is_next(session, &event->slice)) {
        latch(session, event->now, AGREE_REASON_INTERNAL, false);
        return;
    }
    session->slice_count++;
#ifdef MUTATION_LAST_SLICE_OVERTAKES
    session->last_block = event->slice.first_block;
#endif
    session->cursor = event->slice.end_block;
    session->has_last_slice = event->slice.is_last;
    session->has_aux = event->slice.has_aux;
}

static void on_advertised(struct tx_session *session,
                          const struct tx_event *event,
                          struct tx_actions *actions)
{
    CHECK(!session->is_advertised);
    session->is_advertised = true;
    session->wants_aux = event->wants_aux;
    session->can_tell = true;
    act(actions, TX_REPORT);
}

static void tell(struct tx_session *session, struct tx_actions *actions,
                 uint32_t write, uint8_t code, bool is_last, uint64_t bytes)
{
    if (!session->can_tell) {
        return;
    }
    struct tx_action *action = act(actions, TX_RESULT);
    action->write = write;
    action->code = code;
    action->is_last = is_last;
    action->is_drained = is_last && code != WIRE_RESULT_IN_DOUBT;
    action->bytes = bytes;
    session->can_tell = !is_last;
}

static void on_done(struct tx_session *session, const struct tx_event *event,
                    struct tx_actions *actions)
{
    move_operation(session, OPERATION_DONE);
    session->is_writing = false;
    move_task(session, SEND_TASK_ALL_DONE);
    session->drained_count = session->run.end_slice;
#ifdef MUTATION_SLICE_COUNTED_TWICE
    session->drained_count += session->slice_count > session->run.end_slice;
#endif
    session->blocks_so_far += event->blocks;
    session->bytes_so_far += event->bytes;
    if (is_over(session)) {
        return;
    }
    bool is_last = session->run.is_last;
    if (is_last && session->wants_aux && session->can_tell) {
        act(actions, TX_AUX);
        session->is_aux_told = true;
    }
    tell(session, actions, session->write_count - 1, WIRE_RESULT_SUCCESS,
         is_last, event->bytes);
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
    switch (event->outcome) {
    case TRANSFER_DONE:
        on_done(session, event, actions);
        break;
    case TRANSFER_STOPPED:
        move_operation(session, OPERATION_DONE);
        session->is_writing = false;
        latch(session, event->now, AGREE_REASON_TRANSPORT, false);
        break;
    case TRANSFER_IN_DOUBT:
        move_operation(session, OPERATION_DOUBT);
        session->is_in_doubt = true;
        latch(session, event->now, AGREE_REASON_TRANSPORT, false);
        tell(session, actions, session->write_count - 1, WIRE_RESULT_IN_DOUBT,
             true, 0);
        break;
    }
}

static void on_submitted(struct tx_session *session)
{
    CHECK(session->is_writing);
    move_operation(session, OPERATION_SUBMIT);
    move_operation(session, OPERATION_ACCEPTED);
}

static void on_refused(struct tx_session *session, const struct tx_event *event)
{
    CHECK(session->is_writing);
    move_operation(session, OPERATION_REJECT);
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
        on_advertised(session, event, actions);
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
    case TX_FAIL:
        latch(session, event->now, event->reason, false);
        break;
    case TX_CANCEL:
        latch(session, event->now, event->reason, true);
        break;
    case TX_PEER_CANCEL:
        session->peer_reason =
            is_over(session) ? session->peer_reason : event->reason;
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

/* Where no life cycle streams, all waits for the last slice. */
static bool has_waiting(const struct tx_session *session)
{
    return session->slice_count > session->run.end_slice &&
           (session->is_streaming || session->has_last_slice);
}

/* A new write is a new task and a new operation. */
static void start_next(struct tx_session *session, struct tx_actions *actions)
{
#ifdef MUTATION_LAST_SLICE_OVERTAKES
    uint32_t first =
        session->has_last_slice ? session->last_block : session->run.end_block;
#else
    uint32_t first = session->run.end_block;
#endif
    session->run = (struct tx_run){
        .first_block = first,
        .end_block = session->cursor,
        .end_slice = session->slice_count,
        .is_last = session->has_last_slice,
    };
    session->task = SEND_TASK_INIT;
    session->operation = OPERATION_NONE;
    move_task(session, SEND_TASK_ADMIT);
    move_operation(session, OPERATION_DISPATCH);
    session->is_writing = true;
    act(actions, TX_WRITE)->write = session->write_count++;
}

/* What follows from the state, whatever led to it. */
static void settle(struct tx_session *session, uint64_t now, bool was_over,
                   struct tx_actions *actions)
{
    bool lacks_aux = session->has_last_slice && session->is_advertised &&
                     session->wants_aux && !session->has_aux;
    if (lacks_aux) {
        latch(session, now, AGREE_REASON_INTERNAL, false);
    }
    if (!is_over(session)) {
        if (session->is_advertised && has_waiting(session) &&
            !session->is_writing) {
            start_next(session, actions);
        }
        return;
    }
    bool is_quiet = tx_session_is_quiet(session);
    bool is_success = !(session->word & AGREE_FAILED);
    if (is_quiet && !is_success) {
        tell(session, actions, session->write_count, WIRE_RESULT_FAILED, true,
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
    settle(session, event->now, was_over, actions_out);
    CHECK(tx_session_is_valid(session));
}

enum send_status tx_session_status(const struct tx_session *session)
{
    uint32_t is_waiting = has_waiting(session);
    struct send_facts facts = {
        .is_error = session->is_failed,
        .is_cancelled = session->is_cancelled,
        .has_last_slice = session->has_last_slice,
        .is_advertised = session->is_advertised,
        .has_aux = session->wants_aux,
        .is_aux_done = session->is_aux_told,
        .task_count = session->write_count + is_waiting,
        .transferred_count = session->write_count - session->is_writing,
        .transferring_count = session->is_writing,
    };
    return transfer_send_status(&facts);
}

bool tx_session_is_valid(const struct tx_session *session)
{
    bool is_quiet = tx_session_is_quiet(session);
    bool is_done =
        (session->word & AGREE_TERMINAL) && !(session->word & AGREE_FAILED);
    return session->run.end_block <= session->cursor &&
           session->run.end_slice <= session->slice_count &&
           session->drained_count <= session->run.end_slice &&
           !(session->is_cancelled && session->is_failed) &&
           (!(session->word & AGREE_QUIET) || is_quiet) &&
           session->is_writing == !is_quiet &&
           (!is_done || (session->run.is_last &&
                         session->drained_count == session->slice_count)) &&
           agree_word_is_legal(session->word);
}
