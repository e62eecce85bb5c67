#pragma once
/* transfer/bounce_receive: the receiver's half of writes that go through the
 * arenas, as a step function: an event with its time in, actions out
 * (transfer.md 5.3, I30).
 *
 *   WANT -> GRANT -> (the peer writes) -> DATA -> REVOKE, SCATTER -> SCATTERED
 *        -> ACK
 *
 *   chunk  WANTED -> GRANTED -> ARRIVED -> SCATTERING -> (acknowledged)
 *                      |           |           `-> ORPHAN: freed when scattered
 *                      |           `-> freed
 *                      `-> freed, or QUARANTINED until there is proof
 *
 * Who gives a grant back before its data came decides what proves quiet:
 *   the sender (CANCEL)    it has drained: free at once
 *   we, where a revoke is proof (the writer is our own thread): free at once
 *   we, elsewhere          QUARANTINED: until the sender says DATA or CANCEL of
 *                          it, or its session is quiet (QUIET); never by time
 *
 * Grants go round-robin, one a step, at most a window a flow, out of the upper
 * half, out of the lower one only while nobody waits there to gather. It
 * neither copies nor tells: that is the caller's. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "transfer/arena.h"
#include "transfer/bounce_send.h"
#include "transfer/bounce_turns.h"

enum { BOUNCE_RECEIVE_ACTION_COUNT_MAX = BOUNCE_WINDOW + 4 };

/* Whose it is: the sender's life, its request and our attempt at it. */
struct bounce_key {
    uint64_t sender;
    int64_t rid;
    uint32_t attempt;
};
bool bounce_key_is(const struct bounce_key *a, const struct bounce_key *b);

enum bounce_in_state {
    BOUNCE_IN_NONE,
    BOUNCE_IN_WANTED,
    BOUNCE_IN_GRANTED,
    BOUNCE_IN_ARRIVED, /* waits for its turn to be scattered */
    BOUNCE_IN_SCATTERING,
    BOUNCE_IN_ORPHAN, /* being scattered, and nobody wants it any more */
    BOUNCE_IN_QUARANTINED
};

struct bounce_in_chunk {
    uint8_t state; /* enum bounce_in_state */
    uint32_t index, size;
    uint64_t offset; /* in our arena, from GRANTED on */
    uint64_t handle;
};

struct bounce_in_flow {
    bool is_used;
    bool is_closed; /* only to be cleaned up */
    bool is_revocable; /* after a revoke no byte of it lands */
    struct bounce_key key;
    uint32_t write;
    uint32_t chunk_count, wanted_count, done_count;
    uint64_t moved_ns;
    struct bounce_in_chunk chunks[BOUNCE_WINDOW];
};

struct bounce_receive_options {
    struct transfer_arena *arena; /* the caller's, shared with the sender's */
    uint32_t flow_max;
    uint32_t chunk_max; /* bytes; larger ones are not granted */
    uint64_t lease_ns; /* of grants to a flow that does not move */
};

/* Open, embedded; read by the caller, changed here only. */
struct bounce_receive {
    struct bounce_receive_options options;
    struct bounce_turns turns; /* for grants */
    struct bounce_in_flow *flows; /* (flow_max) */
    uint32_t flow_count; /* not closed */
    uint64_t handle; /* the last one given out */
    bool is_scattering; /* one at a time */
    bool is_resting; /* a grant was refused: until the next TURN */
    uint32_t scatter_next; /* flow whose turn it is */
};

void bounce_receive_init(struct bounce_receive *role,
                         const struct bounce_receive_options *options);
void bounce_receive_finish(struct bounce_receive *role); /* nothing is left */
/* Forgets all, as the end of the process would. */
void bounce_receive_abandon(struct bounce_receive *role);

enum bounce_receive_event_kind {
    BOUNCE_RECEIVE_TURN, /* look again: there may be room */
    BOUNCE_RECEIVE_WANT, /* key, write, chunk_count, first, sizes, count,
                            is_revocable; chunk_count 0: CANCEL */
    BOUNCE_RECEIVE_REFUSED, /* answers GRANT: it cannot be allowed; flow, slot */
    BOUNCE_RECEIVE_DATA, /* key, write, chunk, handle */
    BOUNCE_RECEIVE_SCATTERED, /* answers SCATTER: flow, slot */
    BOUNCE_RECEIVE_RECLAIM, /* flow: we want no more of it */
    BOUNCE_RECEIVE_QUIET, /* flow: nobody will write anything of it */
    BOUNCE_RECEIVE_TIME /* flow */
};
struct bounce_receive_event {
    enum bounce_receive_event_kind kind;
    uint64_t now;
    bool is_lower_closed; /* somebody waits there to gather */
    uint32_t flow, slot;
    struct bounce_key key;
    uint32_t write, chunk_count, first, count;
    const uint32_t *sizes; /* (count) */
    bool is_revocable;
    uint32_t chunk;
    uint64_t handle;
};

enum bounce_receive_action_kind {
    BOUNCE_GRANT, /* allow the peer to write the chunk and tell it */
    BOUNCE_REVOKE, /* handle: no longer allowed */
    BOUNCE_SCATTER, /* copy the chunk to where it belongs, then SCATTERED */
    BOUNCE_ACK, /* tell the peer: chunk, handle */
    BOUNCE_EXPIRED /* flow: its lease ran out, it was reclaimed */
};
struct bounce_receive_action {
    enum bounce_receive_action_kind kind;
    uint32_t flow, slot;
    uint32_t chunk;
    uint64_t handle;
};
struct bounce_receive_actions {
    bool is_odd; /* the peer said what it must not: it has no effect */
    uint32_t count;
    struct bounce_receive_action items[BOUNCE_RECEIVE_ACTION_COUNT_MAX];
};

void bounce_receive_step(struct bounce_receive *role,
                         const struct bounce_receive_event *event,
                         struct bounce_receive_actions *actions_out);
/* The next flow of `key` from `first` on, closed ones too, or BOUNCE_NOBODY. */
uint32_t bounce_receive_find(const struct bounce_receive *role,
                             const struct bounce_key *key, uint32_t first);
bool bounce_receive_is_valid(const struct bounce_receive *role);
