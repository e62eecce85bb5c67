#pragma once
/* route/front_session: one client request under way: its state, the call to a
 * worker it waits for, and what that worker has said so far.
 *
 *   exchange (client) <---- session ----> call (one leg at a time)
 *                                    \--> beside.call (a pair's context leg)
 *
 * front_session.c carries out what the state machine says; front_leg.c makes
 * the calls and turns what comes back into events, front_pair.c those of a
 * pair's context leg; front_answer.c speaks to the client. */
#include "route/front_internal.h"

/* The context leg of a pair: nobody waits for its answer, only for its end. */
struct front_beside {
    struct http_call *call; /* NULL: not open */
    int32_t server;
    uint64_t start_ns;
    int status;
    bool is_not_accepted, is_restarted, has_bytes;
    struct buf answer; /* of a failure: what is worth telling */
};

struct front_session {
    struct front_owner owner; /* first */
    struct route_front *front;
    struct front_session *next;
    struct front_session **link;
    struct http_exchange *exchange; /* NULL: answered or gone */
    struct route_body *body; /* NULL once nothing can be posted again */
    struct route_request request;
    struct io_timer *deadline_timer, *wait_timer;
    uint64_t arrival_ns, deadline_ns;
    bool has_posted;

    /* the leg under way */
    struct http_call *call;
    enum route_leg_kind call_kind;
    int32_t call_server;
    uint64_t call_start_ns, last_chunk_ns;
    int status;
    bool is_event_stream, is_not_accepted, is_restarted, has_bytes;
    struct buf answer; /* its body, unless relayed */

    struct front_beside beside;

    /* kept from the context leg */
    struct buf context;
    bool has_context;
    struct route_answer context_answer;
    uint64_t context_done_ns;

    /* towards the client */
    struct route_relay relay;
    struct span chunk; /* the first one, during its event */
    struct buf message; /* what the last worker said was wrong */
    bool is_kv_failed;
    bool is_handoff_refused;
    bool is_unpostable; /* the wait timer stands for that */

    struct http_call *probe;
    uint32_t probe_tries;
};

void front_session_event(struct front_session *session,
                         struct route_event event);

/* front_leg */
void front_leg_post(struct front_session *session, enum route_leg_kind kind,
                    int32_t server, int64_t id);
void front_leg_cancel(struct front_session *session);
void front_leg_probe(struct front_session *session, int32_t server);
void front_leg_drain(struct front_session *session);

/* front_sign: proof that a leg is ours, for our workers and for those that know
 * only the header of another kind; "": none is sent. */
struct front_signature {
    char own[80], foreign[80];
};
/* `id` is the leg's. Of a generation leg by itself the context answer is
 * signed, of a pair's what the context worker says of itself. */
void front_sign(const struct front_session *session, enum route_leg_kind kind,
                int64_t id, struct front_signature *out);

/* One leg's call, posted with what is left of the deadline. */
struct front_leg_call {
    int32_t server;
    struct span body;
    const struct front_signature *signature;
    const struct http_call_handler *handler;
};
MUST_USE enum err front_leg_call(struct front_session *session,
                                 const struct front_leg_call *options,
                                 struct http_call **call_out);
/* Reads the answer of a leg that failed into the session's message. */
void front_leg_read_error(struct front_session *session,
                          enum route_leg_kind kind, int32_t server,
                          struct span body, int status);
/* Settles a leg: the server's load, metrics, log. */
void front_leg_note_end(struct front_session *session, enum route_leg_kind kind,
                        int32_t server, uint64_t start_ns,
                        const struct route_outcome *outcome, const char *text);
/* A body that cannot be made is told like a bad context answer, but later:
 * events never come from inside an action. */
void front_leg_fail_later(struct front_session *session, const char *text);

/* front_pair: the context leg of a pair. */
void front_pair_post(struct front_session *session, int32_t server, int64_t id);
void front_pair_cancel(struct front_session *session);

/* front_answer: what the client gets. Those that end its exchange clear
 * `exchange`. */
void front_answer_error(struct front_session *session, int status,
                        const char *message);
void front_answer_leg(struct front_session *session, struct span body);
void front_answer_final(struct front_session *session);
void front_answer_begin(struct front_session *session);
void front_answer_end(struct front_session *session);
void front_answer_cut(struct front_session *session, const char *message);
uint64_t front_answer_idle_ns(const struct route_front *front);
void front_answer_free_body(struct front_session *session);
