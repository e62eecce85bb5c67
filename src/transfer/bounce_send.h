#pragma once
/* transfer/bounce_send: the sender's half of writes that go through the arenas,
 * as a step function: an event with its time in, actions out (transfer.md 5.3).
 * A flow is one write, cut into chunks by the caller:
 *
 *   open -> GATHER -> gathered -> WANT -> grant -> WRITE -> written -> DATA
 *        -> ack      ... until all chunks had theirs, then END
 *
 *   chunk   GATHERING -> GATHERED -> WRITING -> SENT -> (acknowledged)
 *   memory  |------- staging, lower half ----|
 *
 * Only what is gathered is asked for, and what is gathered lies in the lower
 * half of the arena alone. So a grant of ours to a peer waits for nothing but
 * its write, and the upper half, which holds grants only, comes free again: two
 * peers that send to each other never wait in a circle.
 *
 * A flow is stopped by the caller (cancel, peer lost), by a write that did not
 * go through, by silence, or because nothing was granted to it in time; it ends
 * when nobody reads our pages or its staging any more. It holds no memory of
 * pages: copying, writing and telling is the caller's. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "transfer/arena.h"
#include "transfer/backend.h"
#include "transfer/bounce_turns.h"

enum { BOUNCE_WINDOW = 8, BOUNCE_SEND_ACTION_COUNT_MAX = 6 };

enum bounce_out_state {
    BOUNCE_OUT_NONE,
    BOUNCE_OUT_GATHERING,
    BOUNCE_OUT_GATHERED, /* asked for */
    BOUNCE_OUT_WRITING,
    BOUNCE_OUT_SENT /* there; its place here is free again */
};

struct bounce_out_chunk {
    uint8_t state; /* enum bounce_out_state */
    uint32_t index, size;
    uint64_t staging; /* in our arena, until SENT */
    uint64_t target; /* in the peer's memory, from WRITING on */
    uint64_t handle; /* the peer's, from WRITING on */
};

struct bounce_out_flow {
    bool is_used, is_stopping;
    bool is_served; /* something was granted to it */
    bool is_late; /* stopped by time */
    bool is_in_doubt;
    const uint32_t *sizes; /* (chunk_count), the caller's until END */
    uint32_t chunk_count;
    uint32_t next; /* to be gathered */
    uint32_t done_count;
    uint64_t opened_ns, moved_ns;
    struct bounce_out_chunk chunks[BOUNCE_WINDOW];
};

struct bounce_send_options {
    struct transfer_arena *arena; /* the caller's, shared with the receiver's */
    uint32_t flow_max;
    uint64_t silence_ns; /* without a sign of the peer a flow stops */
    uint64_t patience_ns; /* for the first grant; 0: as long as the silence */
};

/* Open, embedded; read by the caller, changed here only. */
struct bounce_send {
    struct bounce_send_options options;
    struct bounce_turns turns; /* for room to gather */
    struct bounce_out_flow *flows; /* (flow_max) */
    uint32_t flow_count;
    bool is_gathering; /* one at a time */
};

void bounce_send_init(struct bounce_send *role,
                      const struct bounce_send_options *options);
void bounce_send_finish(struct bounce_send *role); /* no flow is left */
/* Forgets all, as the end of the process would. */
void bounce_send_abandon(struct bounce_send *role);

/* A write of so many chunks, none larger than half the arena; a TURN gets it
 * going. ERR_FULL. */
MUST_USE enum err bounce_send_open(struct bounce_send *role,
                                   const uint32_t *sizes, uint32_t chunk_count,
                                   uint64_t now, uint32_t *flow_out);

enum bounce_send_event_kind {
    BOUNCE_SEND_TURN, /* look again: there may be room */
    BOUNCE_SEND_GATHERED, /* answers GATHER: flow, slot */
    BOUNCE_SEND_GRANT, /* flow, chunk, target, size, handle */
    BOUNCE_SEND_WRITTEN, /* answers WRITE: flow, slot, outcome */
    BOUNCE_SEND_ACK, /* flow, chunk, handle */
    BOUNCE_SEND_STOP, /* flow */
    BOUNCE_SEND_TIME /* flow */
};

/* What the peer says of chunks that are not as far has no effect. */
struct bounce_send_event {
    enum bounce_send_event_kind kind;
    uint64_t now;
    uint32_t flow, slot;
    uint32_t chunk, size;
    uint64_t target, handle;
    enum transfer_outcome outcome;
};

enum bounce_send_action_kind {
    BOUNCE_GATHER, /* copy the chunk into its staging, then GATHERED */
    BOUNCE_WANT, /* tell the peer that the chunk is ready */
    BOUNCE_WRITE, /* staging to target, then WRITTEN */
    BOUNCE_DATA, /* tell the peer that the chunk is there */
    BOUNCE_CANCEL, /* tell the peer: no more of it, nothing under way */
    BOUNCE_END /* the flow is gone: outcome */
};

enum bounce_outcome {
    BOUNCE_DONE,
    BOUNCE_STOPPED,
    BOUNCE_IN_DOUBT, /* a write is; its staging is kept for good */
    BOUNCE_UNSERVED /* nothing was granted in time: nothing has left */
};

struct bounce_send_action {
    enum bounce_send_action_kind kind;
    uint32_t flow, slot;
    enum bounce_outcome outcome;
};
struct bounce_send_actions {
    uint32_t count;
    struct bounce_send_action items[BOUNCE_SEND_ACTION_COUNT_MAX];
};

void bounce_send_step(struct bounce_send *role,
                      const struct bounce_send_event *event,
                      struct bounce_send_actions *actions_out);
/* A head waits for room in the lower half: grants keep out of it. */
bool bounce_send_is_hungry(const struct bounce_send *role);
bool bounce_send_is_valid(const struct bounce_send *role);
