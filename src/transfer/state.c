#include "transfer/state.h"

#include "base/check.h"

#define NO TRANSFER_STATE_ILLEGAL
#define TABLE(variable, words, NAME, rows)         \
    const struct transfer_state_table variable = { \
        words, NAME##_STATE_COUNT, NAME##_EVENT_COUNT, &rows[0][0]}

bool transfer_state_can(const struct transfer_state_table *table, uint8_t state,
                        uint8_t event)
{
    CHECK(state < table->state_count);
    CHECK(event < table->event_count);
    return table->next[state * table->event_count + event] != NO;
}

uint8_t transfer_state_next(const struct transfer_state_table *table,
                            uint8_t state, uint8_t event)
{
    CHECK(transfer_state_can(table, state, event));
    return (uint8_t)table->next[state * table->event_count + event];
}

static const int8_t
    send_task_rows[SEND_TASK_STATE_COUNT][SEND_TASK_EVENT_COUNT] = {
        /*                         ADMIT, FAIL, ALL_DONE */
        [SEND_TASK_INIT] = {SEND_TASK_TRANSFERRING, SEND_TASK_ERROR, NO},
        [SEND_TASK_TRANSFERRING] = {NO, SEND_TASK_ERROR, SEND_TASK_TRANSFERRED},
        [SEND_TASK_TRANSFERRED] = {SEND_TASK_TRANSFERRED, SEND_TASK_TRANSFERRED,
                                   SEND_TASK_TRANSFERRED},
        [SEND_TASK_ERROR] = {SEND_TASK_ERROR, SEND_TASK_ERROR, SEND_TASK_ERROR},
};
TABLE(transfer_send_task, "send task", SEND_TASK, send_task_rows);

static const int8_t
    operation_rows[OPERATION_STATE_COUNT][OPERATION_EVENT_COUNT] = {
        /* DISPATCH, REJECT, SUBMIT, ACCEPTED, RAISED, DONE, DOUBT */
        [OPERATION_NONE] = {OPERATION_ADMITTED, NO, NO, NO, NO, NO, NO},
        [OPERATION_ADMITTED] = {NO, OPERATION_NOT_SUBMITTED,
                                OPERATION_SUBMITTING, NO, NO, NO, NO},
        [OPERATION_NOT_SUBMITTED] = {NO, OPERATION_NOT_SUBMITTED, NO, NO, NO,
                                     NO, NO},
        [OPERATION_SUBMITTING] = {NO, NO, NO, OPERATION_SUBMITTED,
                                  OPERATION_IN_DOUBT, NO, NO},
        [OPERATION_SUBMITTED] = {NO, NO, NO, NO, NO, OPERATION_BACKEND_DONE,
                                 OPERATION_IN_DOUBT},
        [OPERATION_BACKEND_DONE] = {NO, NO, NO, NO, NO, OPERATION_BACKEND_DONE,
                                    NO},
        [OPERATION_IN_DOUBT] = {NO, NO, NO, NO, OPERATION_IN_DOUBT, NO,
                                OPERATION_IN_DOUBT},
};
TABLE(transfer_operation, "operation", OPERATION, operation_rows);

bool transfer_operation_is_drained(uint8_t operation)
{
    return operation == OPERATION_NONE ||
           operation == OPERATION_NOT_SUBMITTED ||
           operation == OPERATION_BACKEND_DONE;
}

enum send_status transfer_send_status(const struct send_facts *facts)
{
    bool is_all_done = facts->has_last_slice && facts->task_count > 0 &&
                       facts->transferred_count == facts->task_count;
    if (facts->is_cancelled) {
        return SEND_CANCELLED;
    }
    if (facts->is_error || facts->error_count > 0 || facts->is_aux_failed) {
        return SEND_ERROR;
    }
    if (is_all_done && facts->has_aux && facts->is_aux_done) {
        return SEND_FULLY_TRANSFERRED;
    }
    if (is_all_done) {
        return SEND_KV_TRANSFERRED;
    }
    if (facts->transferring_count > 0) {
        return SEND_TRANSFERRING;
    }
    return facts->is_advertised ? SEND_READY : SEND_INIT;
}

static const int8_t
    receive_task_rows[RECEIVE_TASK_STATE_COUNT][RECEIVE_TASK_EVENT_COUNT] = {
        /*                      PUBLISH, COMPLETE, FAIL */
        [RECEIVE_TASK_INIT] = {RECEIVE_TASK_TRANSFERRING, NO,
                               RECEIVE_TASK_ERROR},
        [RECEIVE_TASK_TRANSFERRING] = {NO, RECEIVE_TASK_TRANSFERRED,
                                       RECEIVE_TASK_ERROR},
        [RECEIVE_TASK_TRANSFERRED] = {NO, RECEIVE_TASK_TRANSFERRED,
                                      RECEIVE_TASK_TRANSFERRED},
        [RECEIVE_TASK_ERROR] = {NO, RECEIVE_TASK_ERROR, RECEIVE_TASK_ERROR},
};
TABLE(transfer_receive_task, "receive task", RECEIVE_TASK, receive_task_rows);

enum receive_status transfer_receive_status(bool is_cancelled, uint8_t task,
                                            bool has_aux, bool is_aux_done)
{
    if (is_cancelled) {
        return RECEIVE_CANCELLED;
    }
    switch (task) {
    case RECEIVE_TASK_ERROR:
        return RECEIVE_ERROR;
    case RECEIVE_TASK_TRANSFERRED:
        return has_aux && is_aux_done ? RECEIVE_FULLY_TRANSFERRED
                                      : RECEIVE_KV_TRANSFERRED;
    case RECEIVE_TASK_TRANSFERRING:
        return RECEIVE_TRANSFERRING;
    default:
        return RECEIVE_INIT;
    }
}

#define DOUBT OWNER_IN_DOUBT
static const int8_t owner_rows[OWNER_STATE_COUNT][OWNER_EVENT_COUNT] = {
    /* BEGIN, SEAL, CANCEL, QUEUED, REPORT, REPORT_LAST, REPORT_LOCAL,
     * LOCAL_DONE, CONTRADICTION, WRITER_GONE */
    [OWNER_NEW] = {OWNER_PUBLISHING, NO, OWNER_CLOSED, NO, DOUBT, DOUBT, DOUBT,
                   NO, DOUBT, NO},
    [OWNER_PUBLISHING] = {NO, OWNER_SEALED, OWNER_CLOSED, NO, DOUBT, DOUBT,
                          DOUBT, NO, DOUBT, NO},
    [OWNER_SEALED] = {NO, NO, NO, OWNER_OPEN, DOUBT, DOUBT, DOUBT, NO, DOUBT,
                      OWNER_DRAINED},
    [OWNER_OPEN] = {NO, NO, NO, NO, OWNER_OPEN, OWNER_DRAINED,
                    OWNER_LOCAL_PENDING, NO, DOUBT, OWNER_DRAINED},
    [OWNER_LOCAL_PENDING] = {NO, NO, NO, NO, NO, OWNER_LOCAL_PENDING,
                             OWNER_LOCAL_PENDING, OWNER_DRAINED, DOUBT,
                             OWNER_LOCAL_PENDING},
    [OWNER_DRAINED] = {NO, NO, NO, NO, OWNER_DRAINED, OWNER_DRAINED,
                       OWNER_DRAINED, OWNER_DRAINED, DOUBT, OWNER_DRAINED},
    [OWNER_CLOSED] = {NO, NO, OWNER_CLOSED, NO, DOUBT, DOUBT, DOUBT, NO, DOUBT,
                      OWNER_CLOSED},
    [OWNER_IN_DOUBT] = {NO, NO, NO, NO, DOUBT, DOUBT, DOUBT, DOUBT, DOUBT,
                        OWNER_DRAINED},
};
TABLE(transfer_owner, "receive owner", OWNER, owner_rows);

bool transfer_owner_is_drained(uint8_t owner)
{
    return owner == OWNER_DRAINED || owner == OWNER_CLOSED;
}

static const int8_t exposure_rows[EXPOSURE_STATE_COUNT][EXPOSURE_EVENT_COUNT] =
    {
        /*                 AUTHORISE, SENT, WITHDRAW */
        [EXPOSURE_NONE] = {EXPOSURE_POSSIBLE, NO, EXPOSURE_NEVER},
        [EXPOSURE_POSSIBLE] = {NO, EXPOSURE_PUBLISHED, NO},
        [EXPOSURE_PUBLISHED] = {NO, EXPOSURE_PUBLISHED, NO},
        [EXPOSURE_NEVER] = {NO, NO, EXPOSURE_NEVER},
};
TABLE(transfer_exposure, "exposure", EXPOSURE, exposure_rows);

static const int8_t advert_rows[ADVERT_STATE_COUNT][ADVERT_EVENT_COUNT] = {
    /*                 ARRIVE, BIND, CLOSE, EXPIRE */
    [ADVERT_ABSENT] = {ADVERT_STORED, NO, NO, NO},
    [ADVERT_STORED] = {ADVERT_STORED, ADVERT_BOUND, ADVERT_ABSENT,
                       ADVERT_ABSENT},
    [ADVERT_BOUND] = {ADVERT_BOUND, NO, ADVERT_ABSENT, NO},
};
TABLE(transfer_advert_moves, "advertisement", ADVERT, advert_rows);

static const int8_t peer_rows[PEER_STATE_COUNT][PEER_EVENT_COUNT] = {
    /* START, REFUSE, VALIDATE, REGISTER, LOSE, FORGET */
    [PEER_UNKNOWN] = {PEER_FETCHING, NO, NO, NO, PEER_GONE, NO},
    [PEER_FETCHING] = {NO, PEER_INCOMPATIBLE, PEER_VALIDATED, NO, PEER_GONE,
                       NO},
    [PEER_INCOMPATIBLE] = {NO, PEER_INCOMPATIBLE, NO, NO, PEER_GONE, NO},
    [PEER_VALIDATED] = {NO, PEER_INCOMPATIBLE, NO, PEER_REGISTERED, PEER_GONE,
                        NO},
    [PEER_REGISTERED] = {NO, NO, NO, NO, PEER_GONE, NO},
    [PEER_GONE] = {NO, NO, NO, NO, PEER_GONE, PEER_UNKNOWN},
};
TABLE(transfer_peer_moves, "peer", PEER, peer_rows);
