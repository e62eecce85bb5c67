#pragma once
/* transfer/tx_session: one rid at its sender, as a step function: an event
 * with its time in, actions out (transfer.md 1.6.2 to 1.6.4, 2.6, 3, 6.3).
 *
 *   SLICE ... SLICE(last)          engine hands slices over, pages leased
 *   ADVERTISED                     the receiver says where they go
 *     -> WRITE, RESULT, ... WRITE, AUX, RESULT(last, drained), REPORT T|Q, END
 *
 * What is posted and not written yet is one run of blocks, however many slices
 * it came in:
 *
 *   ordinals  0 ......... drained ........ run.end ......... cursor ....... N
 *             | written    | being written  | waits           | not computed
 *
 * The next write takes all that waits, so a late receiver is served in order
 * and a session is of one size, whatever its prompt. One write at a time: the
 * last result cannot overtake one before it. A failure, cancel, lost peer or
 * deadline is latched once, the first one wins; the receiver is told when no
 * write is alive (the result then says DRAINED), and only then the engine gets
 * Q. */
#include <stdbool.h>
#include <stdint.h>

#include "transfer/backend.h"
#include "transfer/state.h"
#include "transfer/port.h"

enum { TX_ACTION_COUNT_MAX = 8 };

/* As the engine posts it. */
struct tx_slice {
    uint32_t index;
    uint32_t first_block, end_block;
    bool is_last;
    bool has_aux;
};

/* What one write carries. */
struct tx_run {
    uint32_t first_block, end_block;
    uint32_t end_slice; /* slices of the engine below it are through then */
    bool is_last;
};

struct tx_session {
    uint64_t request;
    int64_t rid;
    uint64_t deadline_ns; /* 0: none */
    uint64_t started_ns;
    uint64_t grace_ns;
    uint32_t prompt_tokens; /* 0: not told yet */
    uint32_t block_count; /* of the prompt */
    bool is_streaming; /* some life cycle leaves slice by slice */

    uint32_t slice_count; /* posted */
    uint32_t cursor; /* where the next slice begins */
    bool has_last_slice, has_aux;
#ifdef MUTATION_LAST_SLICE_OVERTAKES
    uint32_t last_block; /* where the latest slice begins */
#endif
    struct tx_run run; /* the latest write; then next_block = run.end_block */
    uint32_t write_count; /* begun; their index is what the receiver sees */
    uint32_t drained_count; /* slices of the engine */
    uint8_t task; /* enum send_task: the latest write */
    uint8_t operation; /* enum operation */
    bool is_writing; /* it is alive, or in doubt */
    bool is_in_doubt;

    bool is_advertised;
    bool wants_aux; /* the receiver does; it must come before the last result */
    bool is_aux_told;
    bool can_tell; /* the receiver is connected and has no terminal result */

    uint8_t word; /* AGREE_* */
    uint8_t reason; /* enum agree_reason */
    uint8_t peer_reason; /* of a PEER_CANCEL: why, as it says; 0: not said */
    bool is_cancelled, is_failed; /* latched, never both */
    uint64_t latched_ns;
    uint64_t blocks_so_far, bytes_so_far;
};

enum tx_event_kind {
    TX_SLICE, /* slice */
    TX_ADVERTISED, /* the receiver this session serves; wants_aux */
    TX_SUBMITTED, /* answers WRITE: the backend has it */
    TX_WRITTEN, /* outcome, blocks, bytes */
    TX_REFUSED, /* answers WRITE: it cannot even start; reason */
    TX_FAIL, /* something around it does not fit; reason */
    TX_CANCEL, /* by our engine; reason */
    TX_PEER_CANCEL, /* reason: the receiver's, 0 where it is not known */
    TX_PEER_LOST, /* the advertised receiver's connection ended */
    TX_PEER_BACK, /* it asks again by a new one what became of it */
    TX_TIME
};

struct tx_event {
    enum tx_event_kind kind;
    uint64_t now;
    struct tx_slice slice;
    bool wants_aux;
    enum transfer_outcome outcome;
    uint64_t blocks, bytes;
    uint8_t reason;
};

enum tx_action_kind {
    TX_WRITE, /* start the write of session.run; always the last action */
    TX_AUX, /* tell the receiver the first tokens */
    TX_RESULT, /* tell the receiver */
    TX_REPORT, /* tell the engine: word, reason, drained_count, is_advertised */
    TX_END /* nothing is left of the session */
};

struct tx_action {
    enum tx_action_kind kind;
    uint32_t write; /* its index */
    uint8_t code; /* enum wire_result_code */
    bool is_last, is_drained;
    uint64_t bytes; /* of this write */
};

struct tx_actions {
    uint32_t count;
    struct tx_action items[TX_ACTION_COUNT_MAX];
};

/* The caller fills request, rid, deadline_ns, started_ns, grace_ns and, as soon
 * as they are known but before the first SLICE, prompt_tokens, block_count and
 * is_streaming; the rest is 0. */
void tx_session_step(struct tx_session *session, const struct tx_event *event,
                     struct tx_actions *actions_out);
enum send_status tx_session_status(const struct tx_session *session);
/* True when no page is read any more. */
bool tx_session_is_quiet(const struct tx_session *session);
bool tx_session_is_valid(const struct tx_session *session);
