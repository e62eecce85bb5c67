#pragma once
/* transfer/rx_session: one rid at its receiver, as a step function: an event
 * with its time in, actions out (transfer.md 1.6.5, 1.6.6, 6.3).
 *
 *   CONNECT -> CONNECTED -> ADVERTISE -> SENT
 *     -> RESULT ... AUX, RESULT(last) -> VERIFY -> VERIFIED -> REPORT T|Q, END
 *
 * Results come in order on one connection, so what is kept of them is a count:
 * one out of turn is a contradiction and ends the request. The last one must
 * find all slices, all blocks that decoding needs and, generation-first, the
 * first tokens.
 *
 * From ADVERTISE on the sender may write. A cancel, deadline or lost sender
 * ends the request at once (T|F), but its pages are quiet (Q) only with proof:
 * a last result that says DRAINED, or the sender's process proven gone. Until
 * then each new connection to the sender asks again (CANCEL_PEER). */
#include <stdbool.h>
#include <stdint.h>

#include "transfer/pairing.h"
#include "transfer/port.h"
#include "transfer/state.h"
#include "wire/result.h"

enum { RX_ACTION_COUNT_MAX = 8 };

/* What results said of one part, by its ordinal: of a block, where the sender's
 * are of the same size (transfer/regrain.h). */
struct rx_block {
    uint32_t crc32c;
    bool is_seen;
};

struct rx_session {
    uint64_t request;
    int64_t rid;
    uint64_t sender_incarnation;
    uint32_t attempt;
    uint64_t deadline_ns; /* 0: none */
    uint64_t started_ns;
    uint64_t grace_ns;
    uint32_t group_count;
    struct rx_group {
        struct transfer_blocks blocks; /* the engine's, until Q */
        uint32_t block_parts; /* parts a block; 0: 1, and the next is not set */
        uint32_t part_count; /* that the prompt has in `blocks` */
        struct rx_block *seen; /* (part_count), the caller's, zeroed */
        /* Of the parts that are wanted, [sink_end, stale_end) may stay away:
         * nobody will read them (transfer.md 3.8). */
        uint32_t sink_end, stale_end;
        uint32_t want_count, need_count; /* wanted; and not of those */
        uint32_t needed_count, seen_count; /* of what arrived */
    } groups[TRANSFER_GROUP_COUNT_MAX];
    bool wants_aux; /* generation-first */

    uint8_t task, owner, exposure; /* transfer/state.h */
    uint32_t slice_count; /* results so far */
    bool has_aux;
    uint64_t moved_bytes;

    uint8_t word; /* AGREE_* */
    uint8_t reason; /* enum agree_reason */
    uint8_t peer_reason; /* of a PEER_CANCEL: why, as it says; 0: not said */
    uint64_t latched_ns;
};

enum rx_event_kind {
    RX_START,
    RX_CONNECTED, /* the sender is registered; also each time again */
    RX_UNREACHABLE, /* no use: reason */
    RX_SENT, /* answers ADVERTISE */
    RX_RESULT, /* result, of this rid and attempt */
    RX_AUX, /* the first tokens; only while rx_session_awaits_aux */
    RX_VERIFIED, /* answers VERIFY: is_right */
    RX_BROKEN, /* what came so far cannot be right */
    RX_CANCEL, /* by our engine; reason */
    RX_PEER_CANCEL, /* the sender's engine gave up; its result follows */
    RX_LOST, /* the connection ended; its process may live on */
    RX_GONE, /* the sender's process is proven gone */
    RX_TIME
};

struct rx_event {
    enum rx_event_kind kind;
    uint64_t now;
    const struct wire_result *result;
    bool is_right;
    uint8_t reason;
};

enum rx_action_kind {
    RX_CONNECT,
    RX_ADVERTISE, /* REQUEST_DATA, then SENT */
    RX_CANCEL_PEER, /* CANCEL_SESSION, if connected */
    RX_VERIFY, /* compare the pages with `seen`, then VERIFIED */
    RX_REPORT,
    RX_END
};

struct rx_actions {
    uint32_t count;
    enum rx_action_kind items[RX_ACTION_COUNT_MAX];
};

/* The caller fills request, rid, sender_incarnation, attempt, deadline_ns,
 * started_ns, grace_ns, wants_aux, group_count and of each group blocks, seen,
 * sink_end and stale_end, perhaps the parts; the rest is 0. */
void rx_session_init(struct rx_session *session);
/* The same for the groups alone, which the caller has filled anew: the sender's
 * blocks are known, and nothing has been said yet. */
void rx_session_regroup(struct rx_session *session);
void rx_session_step(struct rx_session *session, const struct rx_event *event,
                     struct rx_actions *actions_out);
/* Not there yet, and it may still come. */
bool rx_session_awaits_aux(const struct rx_session *session);
uint32_t rx_session_seen_count(const struct rx_session *session);
/* Something that was wanted has not come, and nobody needs it for decoding. */
bool rx_session_has_holes(const struct rx_session *session);
enum receive_status rx_session_status(const struct rx_session *session);
bool rx_session_is_valid(const struct rx_session *session);
