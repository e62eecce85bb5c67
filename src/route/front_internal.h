#pragma once
/* route/front_internal: what the files of the front end's shell share. */
#include "http/client.h"
#include "http/server.h"
#include "io/loop.h"
#include "route/answer.h"
#include "route/body.h"
#include "route/front.h"
#include "route/ids.h"
#include "route/metrics.h"
#include "route/pool.h"
#include "route/relay.h"
#include "route/request.h"

enum {
    FRONT_HEADER_COUNT_MAX = 8,
    FRONT_ABORT_CALL_MAX = 64,
    FRONT_SPARE_SESSION_COUNT_MAX = 256,
    FRONT_FAULT_SIZE = 128,
    FRONT_MISFIT_SIZE = 384
};

/* A question to one server: is it healthy, is it ready? */
struct front_probe {
    struct route_front *front;
    int32_t server;
    struct http_call *call;
    bool is_preparing; /* /server_info instead of /health */
    int status;
    bool is_draining, is_starting, is_restarted;
    char fault[FRONT_FAULT_SIZE]; /* why its server is not ready; or "" */
    char misfit[FRONT_MISFIT_SIZE]; /* why it does not fit the others; or "" */
    struct buf info; /* what it says of itself */
    bool is_fallback_told; /* that its requests go context-first */
};

/* Word to a server that nobody wants this hand-off any more. */
struct front_abort {
    struct route_front *front;
    struct front_abort *next; /* free, or waiting behind us */
    int64_t id;
    int32_t server;
    uint32_t tries;
};

/* A server hears of a few at once, the rest waits in its line: a thousand clients
 * may leave together, and a server may be slow to answer. */
struct front_aborts {
    struct front_abort *items; /* (route_limits_abort_max) */
    struct front_abort *first_free;
    uint32_t open_count; /* waiting or being told */
    struct front_abort_line {
        struct front_abort *first, *last; /* waiting */
        uint32_t call_count;
    } lines[ROUTE_SERVER_COUNT_MAX]; /* by server */
};

struct front_session;
struct front_forward;

/* Ends both lists of open exchanges. */
struct route_front {
    struct io_loop *loop;
    const struct config_route *config;
    const char *version;
    struct http_server *server;
    struct http_client *client;
    struct route_pool pool;
    struct front_probe probes[ROUTE_SERVER_COUNT_MAX];
    struct io_timer *probe_timer;
    struct route_ids ids;
    struct route_metrics metrics;
    struct front_session *sessions; /* open ones */
    struct front_session *spares;
    uint32_t spare_count;
    struct front_forward *forwards;
    uint32_t open_count; /* sessions and forwards */
    uint32_t open_count_max;
    struct front_aborts aborts;
    uint32_t max_seq_told; /* the least of limits that differ; or 0 */
    uint64_t start_ns;
    bool was_ready; /* each role has had a server */
    bool is_retry_off; /* TRTLLM_DISAGG_NO_RETRY */
    bool is_draining;
    bool is_idle_told;
    bool is_shut; /* takes no more connections */
    struct io_timer *drain_timer;
    void (*on_idle)(void *context);
    void *idle_context;
};

static inline uint64_t front_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

/* What an exchange's user pointer points to, first member of both. */
struct front_owner {
    void (*on_gone)(struct front_owner *owner);
    void (*on_drain)(struct front_owner *owner); /* NULL: nothing to do */
};

/* front_reply: answers of our own. Each ends the exchange. */
void front_reply(struct route_front *front, struct http_exchange *exchange,
                 int status, const char *content_type, struct span body);
void front_reply_error(struct route_front *front,
                       struct http_exchange *exchange, int status,
                       const char *type, const char *message,
                       const char *param);
/* What a worker's /health says then. */
void front_reply_draining(struct route_front *front,
                          struct http_exchange *exchange);
void front_begin_stream(struct route_front *front,
                        struct http_exchange *exchange);
void front_reply_preflight(struct route_front *front,
                           struct http_exchange *exchange);

/* When a request that arrived as this one did must be answered, by the loop's
 * clock. False: the exchange was answered; its deadline cannot be read, or has
 * passed. */
bool front_read_deadline(struct route_front *front,
                         struct http_exchange *exchange, uint64_t *ns_out);

/* front_pages: /health and the like. */
bool front_is_healthy(const struct route_front *front);
void front_page_health(struct route_front *front,
                       struct http_exchange *exchange);
void front_page_version(struct route_front *front,
                        struct http_exchange *exchange);
void front_page_cluster(struct route_front *front,
                        struct http_exchange *exchange);
void front_page_metrics(struct route_front *front,
                        struct http_exchange *exchange);

/* front_call: which process is meant by a call to `server`, never one that came
 * in its place. NULL: whoever is there. */
const char *front_call_incarnation(const struct route_front *front,
                                   int32_t server);
/* What a call to `server` carries: how many tokens it may take (x-baton-max-seq-len,
 * in `max_seq`) and which process is meant (x-baton-incarnation). Ends with a NULL
 * name, behind the headers whose count it answers. */
enum { FRONT_CALL_HEADER_COUNT = 2, FRONT_MAX_SEQ_SIZE = 16 };
uint32_t front_call_headers(const struct route_front *front, int32_t server,
                            char max_seq[FRONT_MAX_SEQ_SIZE],
                            struct http_header *headers);
/* In on_head: the worker has not begun with it, it may go to another one. */
bool front_call_is_not_accepted(const struct http_call *call);
/* In on_head: another process answers than was meant; the pool is told. */
bool front_call_is_restarted(struct route_front *front, int32_t server,
                             const struct http_call *call);

/* front_forward: one exchange handed to a worker as it is. */
void front_forward_open(struct route_front *front,
                        struct http_exchange *exchange);
void front_forward_cut_all(struct route_front *front);
/* What waits for it asks another one, or is answered. */
void front_forward_server_down(struct route_front *front, int32_t server);

/* front_session: one generation request. */
void front_session_open(struct route_front *front,
                        struct http_exchange *exchange, bool is_chat);
void front_session_cut_all(struct route_front *front);
void front_session_expire_all(struct route_front *front);
/* Nothing that is open there will be answered. */
void front_session_server_down(struct route_front *front, int32_t server);

/* front_probe: keeps the pool's states true. */
void front_probe_begin(struct route_front *front);
void front_probe_wake(struct route_front *front);
void front_probe_end(struct route_front *front);

/* front_abort: tells a worker that a hand-off is over; best effort. */
void front_abort(struct route_front *front, int32_t server, int64_t id);
void front_aborts_begin(struct route_front *front);
bool front_aborts_are_told(const struct route_front *front);
/* After the client of the calls. */
void front_aborts_end(struct route_front *front);

/* front_sign: proof that an abort is ours. False: there is no key. */
bool front_sign_abort(const struct route_front *front, int64_t id,
                      char out[80]);

/* An open exchange less; tells who waits for the drain. */
void front_on_closed(struct route_front *front);
