#pragma once
/* transfer/state: the life cycles of transfer.md 1.6 as tables. A move that
 * the table does not have is a bug of ours and ends the process: whoever feeds
 * peer input in has sorted out what a peer may do wrong before. Pure. */
#include <stdbool.h>
#include <stdint.h>

enum { TRANSFER_STATE_ILLEGAL = -1 };

struct transfer_state_table {
    const char *name;
    uint8_t state_count, event_count;
    const int8_t *next; /* (state, event) */
};

bool transfer_state_can(const struct transfer_state_table *table, uint8_t state,
                        uint8_t event);
/* CHECKs that the move exists. */
uint8_t transfer_state_next(const struct transfer_state_table *table,
                            uint8_t state, uint8_t event);

/* Send task, logical (1.6.3). */
enum send_task {
    SEND_TASK_INIT,
    SEND_TASK_TRANSFERRING,
    SEND_TASK_TRANSFERRED,
    SEND_TASK_ERROR,
    SEND_TASK_STATE_COUNT
};
enum send_task_event {
    SEND_TASK_ADMIT,
    SEND_TASK_FAIL, /* cancel, error, a peer failed */
    SEND_TASK_ALL_DONE,
    SEND_TASK_EVENT_COUNT
};
extern const struct transfer_state_table transfer_send_task;

/* Physical operation, one per task and peer (1.6.4). May the source still be
 * read? `transfer_operation_is_drained` is the only answer. */
enum operation {
    OPERATION_NONE,
    OPERATION_ADMITTED,
    OPERATION_NOT_SUBMITTED,
    OPERATION_SUBMITTING,
    OPERATION_SUBMITTED,
    OPERATION_BACKEND_DONE,
    OPERATION_IN_DOUBT,
    OPERATION_STATE_COUNT
};
enum operation_event {
    OPERATION_DISPATCH,
    OPERATION_REJECT,
    OPERATION_SUBMIT,
    OPERATION_ACCEPTED,
    OPERATION_RAISED,
    OPERATION_DONE, /* done or stopped: the backend touches nothing any more */
    OPERATION_DOUBT,
    OPERATION_EVENT_COUNT
};
extern const struct transfer_state_table transfer_operation;
bool transfer_operation_is_drained(uint8_t operation);

/* TxSession: derived, first matching row wins (1.6.2). */
enum send_status {
    SEND_INIT,
    SEND_READY,
    SEND_TRANSFERRING,
    SEND_KV_TRANSFERRED,
    SEND_FULLY_TRANSFERRED,
    SEND_ERROR,
    SEND_CANCELLED
};
struct send_facts {
    bool is_error, is_cancelled; /* latched: never both */
    bool has_last_slice, is_advertised;
    bool has_aux, is_aux_done, is_aux_failed;
    uint32_t task_count;
    uint32_t transferred_count, transferring_count, error_count;
};
enum send_status transfer_send_status(const struct send_facts *facts);

/* Receive task (1.6.5). */
enum receive_task {
    RECEIVE_TASK_INIT,
    RECEIVE_TASK_TRANSFERRING,
    RECEIVE_TASK_TRANSFERRED,
    RECEIVE_TASK_ERROR,
    RECEIVE_TASK_STATE_COUNT
};
enum receive_task_event {
    RECEIVE_TASK_PUBLISH,
    RECEIVE_TASK_COMPLETE,
    RECEIVE_TASK_FAIL,
    RECEIVE_TASK_EVENT_COUNT
};
extern const struct transfer_state_table transfer_receive_task;

/* RxSession: derived (1.6.5). */
enum receive_status {
    RECEIVE_INIT,
    RECEIVE_TRANSFERRING,
    RECEIVE_KV_TRANSFERRED,
    RECEIVE_FULLY_TRANSFERRED,
    RECEIVE_ERROR,
    RECEIVE_CANCELLED
};
enum receive_status transfer_receive_status(bool is_cancelled, uint8_t task,
                                            bool has_aux, bool is_aux_done);

/* Receive owner: who may still write into the pages (1.6.6). The check of the
 * digests stands where the specification has the scatter. */
enum owner {
    OWNER_NEW,
    OWNER_PUBLISHING,
    OWNER_SEALED,
    OWNER_OPEN,
    OWNER_LOCAL_PENDING,
    OWNER_DRAINED,
    OWNER_CLOSED, /* no address ever left: nobody to wait for */
    OWNER_IN_DOUBT,
    OWNER_STATE_COUNT
};
enum owner_event {
    OWNER_BEGIN,
    OWNER_SEAL,
    OWNER_CANCEL, /* before anything left */
    OWNER_QUEUED,
    OWNER_REPORT, /* of a member, more to come */
    OWNER_REPORT_LAST, /* the last one, nothing left to do here */
    OWNER_REPORT_LOCAL, /* the last one, and digests to check */
    OWNER_LOCAL_DONE,
    OWNER_CONTRADICTION,
    OWNER_WRITER_GONE, /* its process is proven gone: it writes no more */
    OWNER_EVENT_COUNT
};
extern const struct transfer_state_table transfer_owner;
bool transfer_owner_is_drained(uint8_t owner);

/* Has the address of the pages left this process? */
enum exposure {
    EXPOSURE_NONE,
    EXPOSURE_POSSIBLE, /* authorised: set before the bytes go out */
    EXPOSURE_PUBLISHED,
    EXPOSURE_NEVER, /* proven */
    EXPOSURE_STATE_COUNT
};
enum exposure_event {
    EXPOSURE_AUTHORISE,
    EXPOSURE_SENT,
    EXPOSURE_WITHDRAW, /* before it was authorised */
    EXPOSURE_EVENT_COUNT
};
extern const struct transfer_state_table transfer_exposure;

/* Advertisement at the sender, key (rid, receiver) (1.6.7). */
enum advert_state {
    ADVERT_ABSENT,
    ADVERT_STORED,
    ADVERT_BOUND,
    ADVERT_STATE_COUNT
};
enum advert_event {
    ADVERT_ARRIVE,
    ADVERT_BIND,
    ADVERT_CLOSE,
    ADVERT_EXPIRE,
    ADVERT_EVENT_COUNT
};
extern const struct transfer_state_table transfer_advert_moves;

/* Peer at the end of a control connection (1.6.7). */
enum peer_state {
    PEER_UNKNOWN,
    PEER_FETCHING,
    PEER_INCOMPATIBLE,
    PEER_VALIDATED,
    PEER_REGISTERED,
    PEER_GONE,
    PEER_STATE_COUNT
};
enum peer_event {
    PEER_START,
    PEER_REFUSE,
    PEER_VALIDATE,
    PEER_REGISTER,
    PEER_LOSE,
    PEER_FORGET,
    PEER_EVENT_COUNT
};
extern const struct transfer_state_table transfer_peer_moves;
