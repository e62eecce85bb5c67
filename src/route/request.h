#pragma once
/* route/request: the life of one client request (serve.md 2.11). A step takes
 * the state and an event and says what to do; it touches nothing else but the
 * pool's counters. Pure.
 *
 *   PARSE -> ADMIT -> PLACE -> CTX -> PLACE_GEN -> GEN -> STREAM -> DONE
 *                       ^       |                   |  `-> REPLY --^
 *                       |       `-> REPLY           |
 *                       `--------- RESTART <--------'
 *
 * Generation-first (serve.md 2.13) has no CTX: both legs are posted in one step
 * as a pair, the generation leg first, and the client gets its answer.
 *
 *   PLACE -> GEN (both legs) -> STREAM -> LINGER -> DONE
 *     ^       |   `-> REPLY ----------------^  the context leg still is to end
 *     `-------' the pair again, under a new id
 *
 * The first leg that fails ends the other one. A context server that does not
 * say where it can be met is asked context-first.
 *
 * WHOLE requests (nothing to hand off, or a role without a live server) go
 * PLACE -> GEN on one worker. Any state: client gone, deadline, shut -> DONE. A
 * worker that goes DOWN loses its open legs: another server's context leg,
 * RESTART for a generation leg, an error once bytes went out. */
#include <stdbool.h>
#include <stdint.h>

#include "route/leg.h"
#include "route/pool.h"

enum route_state {
    ROUTE_STATE_PARSE,
    ROUTE_STATE_ADMIT,
    ROUTE_STATE_PLACE,
    ROUTE_STATE_CTX,
    ROUTE_STATE_PLACE_GEN,
    ROUTE_STATE_GEN,
    ROUTE_STATE_STREAM,
    ROUTE_STATE_REPLY,
    ROUTE_STATE_RESTART,
    ROUTE_STATE_LINGER,
    ROUTE_STATE_DONE
};

enum { ROUTE_FULL_RESTARTS_MAX = 1 };

struct route_request {
    enum route_state state;
    bool is_stream;
    bool is_whole; /* by its nature: nothing is handed off */
    bool is_alone; /* this try: one role has no live server */
    bool is_retry_off;
    bool is_generation_first;
    bool is_pair; /* this try: both legs at once */
    bool has_beside; /* the context leg of the pair is open */
    int32_t max_retries;
    int64_t id; /* of the hand-off; adopted from the context answer */
    int32_t ctx_server;
    int32_t gen_server; /* also the server of a whole leg */
    int32_t failed; /* of the last failed try; ROUTE_NO_SERVER */
    bool holds_kv; /* a context worker may hold KV for `id` */
    bool gen_may_hold; /* a generation worker may wait for `id` */
    uint32_t restarts;
    bool has_renewed; /* its id was taken once already */
    struct route_leg leg; /* the one under way; a pair has one budget */
    struct route_outcome outcome; /* of the last leg that failed */
};

enum route_event_kind {
    ROUTE_EVENT_START, /* parsed and admitted; `id` */
    ROUTE_EVENT_CTX_PENDING, /* good context answer, decoding is left; `id` */
    ROUTE_EVENT_CTX_FINAL, /* good context answer that is the whole answer */
    ROUTE_EVENT_CTX_BAD, /* a context answer that cannot be used */
    ROUTE_EVENT_CHUNK, /* first bytes of a 200 event stream */
    ROUTE_EVENT_LEG_END, /* `outcome`; `is_whole_stream`: [DONE] was seen */
    ROUTE_EVENT_BESIDE_END, /* `outcome` of a pair's context leg */
    ROUTE_EVENT_PROBED, /* `is_gone` */
    ROUTE_EVENT_SERVER_DOWN, /* the leg's call is open, on `server` */
    ROUTE_EVENT_UNPOSTABLE, /* the leg asked for cannot be made: our fault */
    ROUTE_EVENT_WAITED, /* `id` is fresh, used if a new one is needed */
    ROUTE_EVENT_DEADLINE, /* or the stream was silent for too long */
    ROUTE_EVENT_SHUT, /* the front end ends */
    ROUTE_EVENT_CLIENT_GONE
};

/* `id` is a fresh request id in every event that may need one: START, LEG_END,
 * BESIDE_END, PROBED, SERVER_DOWN and WAITED. */
struct route_event {
    enum route_event_kind kind;
    uint64_t now;
    int64_t id;
    int32_t server;
    struct route_outcome outcome;
    bool is_whole_stream;
    bool is_gone;
};

enum route_action_kind {
    ROUTE_ACTION_POST, /* a leg: `leg`, `server`, `id`, `is_pair` */
    ROUTE_ACTION_CANCEL, /* the calls under way */
    ROUTE_ACTION_WAIT, /* `delay_ns`, then WAITED */
    ROUTE_ACTION_PROBE, /* is `server` gone? then PROBED */
    ROUTE_ACTION_ABORT, /* tell `server` that `id` is over */
    ROUTE_ACTION_BEGIN, /* the client's 200 and the stream so far */
    ROUTE_ACTION_REPLY, /* the leg's whole answer */
    ROUTE_ACTION_FINAL, /* the context answer is the whole answer */
    ROUTE_ACTION_ERROR, /* `status`, `message` (NULL: what the worker said) */
    ROUTE_ACTION_END, /* the stream is complete */
    ROUTE_ACTION_CUT, /* the stream broke: error event, no [DONE] */
    ROUTE_ACTION_LINGER, /* DEADLINE after `delay_ns`, whatever was set */
    ROUTE_ACTION_DONE /* settle; always last, exactly once */
};

struct route_action {
    enum route_action_kind kind;
    enum route_leg_kind leg;
    int32_t server;
    int64_t id;
    bool is_pair;
    uint64_t delay_ns;
    int status;
    const char *message;
};

enum { ROUTE_ACTION_COUNT_MAX = 8 };
struct route_actions {
    uint32_t count;
    struct route_action actions[ROUTE_ACTION_COUNT_MAX];
};

struct route_request_options {
    bool is_stream, is_whole, is_retry_off, is_generation_first;
    int32_t max_retries;
};
struct route_request route_request_of(
    const struct route_request_options *options);

/* An event that does not fit the state (late, after DONE) has no effect. */
void route_request_step(struct route_request *request, struct route_pool *pool,
                        const struct route_event *event,
                        struct route_actions *actions_out);
const char *route_state_name(enum route_state state);
