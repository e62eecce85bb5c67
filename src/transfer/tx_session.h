#pragma once
/* transfer/tx_session: one rid at its sender, as a step function: an event
 * with its time in, actions out (transfer.md 1.6.2 to 1.6.4, 6.3).
 *
 *   SLICE ... SLICE(last)          engine hands slices over, pages leased
 *   ADVERTISED                     the receiver says where they go
 *     -> WRITE 0, RESULT 0, WRITE 1, RESULT 1(last, drained), REPORT T|Q, END
 *
 * One write at a time: slices leave in order and the last result cannot
 * overtake one before it. A failure, cancel, lost peer or deadline is latched
 * once, the first one wins; the receiver is told when no write is alive (the
 * result then says DRAINED), and only then the engine gets Q. */
#include <stdbool.h>
#include <stdint.h>

#include "transfer/backend.h"
#include "transfer/state.h"
#include "transfer/port.h"

enum { TX_SLICE_COUNT_MAX = 64, TX_ACTION_COUNT_MAX = 8 };

struct tx_slice {
    const kv_page_id *pages; /* the engine's, until Q */
    uint32_t first_block;
    uint32_t block_count;
    uint8_t task; /* enum send_task */
    uint8_t operation; /* enum operation */
};

struct tx_session {
    uint64_t request;
    int64_t rid;
    uint64_t deadline_ns; /* 0: none */
    uint64_t started_ns;
    uint64_t grace_ns;
    uint32_t prompt_tokens;
    uint32_t slice_count;
    bool has_last_slice;
    uint32_t next_slice; /* not yet written */
    bool is_writing; /* slice next_slice - 1 is alive, or in doubt */
    bool is_in_doubt;

    bool is_advertised;
    bool can_tell; /* the receiver is connected and has no terminal result */

    uint8_t word; /* AGREE_* */
    uint8_t reason; /* enum agree_reason */
    bool is_cancelled, is_failed; /* latched, never both */
    uint64_t latched_ns;
    uint64_t blocks_so_far, bytes_so_far;
    struct tx_slice slices[TX_SLICE_COUNT_MAX];
};

enum tx_event_kind {
    TX_SLICE, /* slice */
    TX_ADVERTISED, /* the receiver this session serves */
    TX_SUBMITTED, /* answers WRITE: the backend has it */
    TX_WRITTEN, /* outcome, blocks, bytes */
    TX_REFUSED, /* answers WRITE: it cannot even start; reason */
    TX_CANCEL, /* by our engine */
    TX_PEER_CANCEL,
    TX_PEER_LOST, /* the advertised receiver's connection ended */
    TX_PEER_BACK, /* it asks again by a new one what became of it */
    TX_TIME
};

struct tx_event {
    enum tx_event_kind kind;
    uint64_t now;
    struct tx_slice slice;
    bool is_last;
    enum transfer_outcome outcome;
    uint64_t blocks, bytes;
    uint8_t reason;
};

enum tx_action_kind {
    TX_WRITE, /* start the write of `slice`; always the last action */
    TX_RESULT, /* tell the receiver */
    TX_REPORT, /* tell the engine: word, reason, next_slice */
    TX_END /* nothing is left of the session */
};

struct tx_action {
    enum tx_action_kind kind;
    uint32_t slice;
    uint8_t code; /* enum wire_result_code */
    bool is_last, is_drained;
    uint64_t bytes; /* of this slice */
};

struct tx_actions {
    uint32_t count;
    struct tx_action items[TX_ACTION_COUNT_MAX];
};

void tx_session_init(struct tx_session *session, uint64_t request, int64_t rid,
                     uint64_t now, uint64_t deadline_ns, uint64_t grace_ns,
                     uint32_t prompt_tokens);
void tx_session_step(struct tx_session *session, const struct tx_event *event,
                     struct tx_actions *actions_out);
enum send_status tx_session_status(const struct tx_session *session);
/* True when the pages of no slice are read any more. */
bool tx_session_is_quiet(const struct tx_session *session);
bool tx_session_is_valid(const struct tx_session *session);
