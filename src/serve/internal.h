#pragma once
/* serve/internal: what the files of this folder share. One loop thread owns
 * all of it; only serve/text_worker has a thread of its own.
 *
 *   routes -> admit -> [text worker] -> submit -> engine -> events -> output
 *
 * A request takes a slot of a fixed table until it is answered, or until the
 * client has left and nobody works for it any more. */
#include <stdbool.h>
#include <stdint.h>

#include "api/error.h"
#include "api/openai_answer.h"
#include "api/openai_request.h"
#include "base/rng.h"
#include "http/server.h"
#include "serve/cache_events.h"
#include "serve/choice.h"
#include "serve/serve.h"
#include "serve/stats.h"
#include "serve/text_worker.h"
#include "serve/transfers.h"

enum { SERVE_NAME_COUNT = 2, SERVE_END_TOKEN_COUNT_MAX = 64 };

enum serve_task {
    SERVE_GENERATE,
    SERVE_TOKENIZE,
    SERVE_DETOKENIZE,
    SERVE_ABORT, /* waits for the engine's answer about a rid */
    SERVE_CACHE_POLL /* ... and about the cache's events */
};

enum serve_phase {
    SERVE_IN_TEXT, /* the text worker reads `body` */
    SERVE_IN_ENGINE, /* events may come */
    SERVE_CANCELLING /* the client has left; CANCEL is not posted yet */
};

struct serve_request {
    struct serve *serve;
    uint64_t id; /* generation and slot */
    enum serve_task task;
    enum serve_phase phase;
    struct http_exchange *exchange; /* NULL: the client has left */
    bool is_expired; /* we have ended it: it is told so, nobody has left */
    struct openai_request body;
    struct serve_text_job job;
    uint32_t max_seq; /* of prompt and answer: ours, or a front end's if less */
    uint64_t arrival_ns, deadline_ns, first_token_ns, last_token_ns;

    /* the hand-off */
    enum engine_kind kind;
    bool is_generation_first;
    int64_t rid;
    uint64_t sender_incarnation;
    char sender_endpoint[API_ENDPOINT_SIZE];

    char public_id[48];
    int64_t created;
    int32_t *prompt; /* owned copy: echo, spacing, the context answer */
    uint32_t prompt_count;
    struct serve_choice *choices; /* (n); NULL before the engine has it */
    uint32_t choice_count, finished_count;
    bool has_journey;
    struct engine_journey journey;

    bool is_resync, with_tokens; /* of a cache poll */

    /* a stream */
    bool is_begun;
    uint32_t role_sent_count;
    size_t blocked_bytes; /* written while the client lagged behind the mark */
    bool is_dirty;
    struct serve_request *dirty_next;
};

struct serve {
    struct serve_options options;
    struct http_server *http;
    bool is_ready, is_draining, is_closing;
    bool is_late; /* drains too long: hand-offs are not waited for */
    bool is_shut; /* serves nobody more: answers leave, then it is idle */
    struct serve_parts parts;
    const char *names[SERVE_NAME_COUNT]; /* served models; NULL: none */
    int32_t end_tokens[SERVE_END_TOKEN_COUNT_MAX];
    uint32_t end_token_count;
    uint32_t id_count_max;
    struct serve_text_worker *text;
    struct rng rng; /* ids and seeds */
    struct serve_stats *stats;
    struct serve_transfers transfers;
    struct serve_cache_events cache; /* names NULL: no events are kept */
    double clock_offset; /* seconds, told by a front end */
    bool has_warned_auth;

    uint32_t slot_count, used_count;
    struct serve_request **slots; /* (slot_count), NULL is free */
    uint32_t *free_slots;
    uint32_t free_count;
    uint64_t generation;
    struct serve_request *dirty_first;
    struct io_timer *retry; /* cancels the engine had no room for */
    struct io_timer *idle; /* drain */
    void (*on_idle)(void *context);
    void *idle_context;
    struct buf out; /* scratch for one answer */
};

/* serve/routes.c */
void serve_on_request(void *context, struct http_exchange *exchange);
bool serve_on_head(void *context, struct http_exchange *exchange);

/* serve/reply.c */
struct serve_failure {
    int status;
    const char *type; /* NULL: the status's */
    const char *message;
    const char *param; /* NULL: none */
    const char *code; /* NULL: the status */
    bool not_accepted; /* certainly not begun: may go elsewhere */
    bool is_uncounted; /* no request failed */
};
void serve_reply_failure(struct serve *serve, struct http_exchange *exchange,
                         const struct serve_failure *failure);
void serve_reply_json(struct serve *serve, struct http_exchange *exchange,
                      int status, struct span body);
void serve_describe_error(void *context, int status, const char *message,
                          struct buf *body_out);

/* serve/table.c: NULL when every slot is taken. */
struct serve_request *serve_request_take(struct serve *serve,
                                         enum serve_task task,
                                         struct http_exchange *exchange);
void serve_request_give(struct serve_request *request);
struct serve_request *serve_request_find(struct serve *serve, uint64_t id);
/* Answers with a failure, or ends a begun stream with it, and gives the slot
 * back. */
void serve_request_fail(struct serve_request *request,
                        const struct serve_failure *failure);
/* The same, and the engine, which still has it, is told. */
void serve_request_expire(struct serve_request *request,
                          const struct serve_failure *failure);
/* The client has left, or shall go: the engine is told. */
void serve_request_cancel(struct serve_request *request);
void serve_on_gone(void *context, struct http_exchange *exchange);
void serve_on_drain(void *context, struct http_exchange *exchange);
void serve_retry_cancels(void *context);

/* serve/admit.c */
void serve_admit(struct serve *serve, struct http_exchange *exchange,
                 enum openai_route route);
/* 0, or 404 with `why`: no such model is served. */
int serve_check_model(const struct serve *serve, struct span model,
                      struct why *why);
/* Tokens that whoever asks may use: ours, or less where a front end says that
 * its other workers take less. 0, or 400 with `why`. */
int serve_read_max_seq(const struct serve *serve,
                       const struct http_exchange *exchange, struct why *why,
                       uint32_t *max_seq_out);
void serve_on_text(void *context, struct serve_text_job *job);
void serve_abort(struct serve *serve, struct http_exchange *exchange);

/* serve/auth.c: who may send legs and aborts. Each gives 0, or the status of
 * the refusal with `why`. */
int serve_auth_leg(struct serve_request *request, struct why *why);
/* False: every leg is refused, for want of a key. */
bool serve_auth_takes_hand_offs(const struct serve *serve);
int serve_auth_abort(struct serve *serve, struct http_exchange *exchange,
                     int64_t id, struct why *why);
/* What the head of an abort decides, before its body is read. */
int serve_auth_abort_head(struct serve *serve,
                          const struct http_exchange *exchange,
                          struct why *why);
/* `status`, with the text for it. */
int serve_refuse(struct why *why, int status, const char *text);

/* serve/handoff.c: what a leg must carry. The status of the failure, or 0. */
int serve_handoff_check(struct serve_request *request, struct why *why);

/* serve/cache_poll.c */
MUST_USE enum err serve_cache_open(struct serve *serve, struct why *why);
void serve_cache_poll(struct serve *serve, struct http_exchange *exchange);
/* `request` NULL: whoever asked has left. */
void serve_cache_on_event(struct serve *serve, struct serve_request *request,
                          const struct engine_event *event);

/* serve/submit.c */
void serve_submit(struct serve_request *request);
/* The field that the prompt came in. */
const char *serve_prompt_name(const struct serve_request *request);
/* A hand-off of which the client has seen nothing is computed here as a whole,
 * in the turn that it had (`place`, of the engine's event). */
void serve_submit_whole(struct serve_request *request, uint64_t place);

/* serve/events.c */
void serve_on_events(void *context);

/* serve/output.c */
void serve_output_mark(struct serve_request *request);
void serve_output_flush(struct serve *serve);
/* All choices are finished: the rest of the stream, or the whole answer. */
void serve_output_complete(struct serve_request *request);

/* serve/info.c */
typedef void serve_info(struct serve *serve, struct http_exchange *exchange);
serve_info serve_info_health, serve_info_version, serve_info_models,
    serve_info_model, serve_info_server, serve_info_metrics,
    serve_info_transfers, serve_info_clock;
