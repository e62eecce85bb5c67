#pragma once
/* A scripted worker, a front end before two of them, and a client, all on one
 * loop. The worker notes what it is sent and answers what the script says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/handoff.h"
#include "base/buf.h"
#include "http/client.h"
#include "http/server.h"
#include "io/clock.h"
#include "io/loop.h"
#include "route/front.h"

enum { MOCK_NOTE_MAX = 16, MOCK_CHUNK_MAX = 6 };

enum mock_end {
    MOCK_ANSWER, /* `status` and `body`, or the chunks and a good end */
    MOCK_HANG, /* the chunks, if any, and silence */
    MOCK_CUT /* the chunks, if any, and a torn connection */
};

struct mock_step {
    enum mock_end end;
    int status; /* 0: 200 */
    const char *body;
    const char *chunks[MOCK_CHUNK_MAX];
    struct http_header headers[2];
};

struct mock_worker {
    struct io_loop *loop;
    struct http_server *server;
    uint16_t port;
    int health; /* status; 0: 200 */
    int info_status; /* of /server_info; 0: 200 */
    const char *info; /* its body; NULL: {} */
    int light_status; /* of /v1/models and the like; 0: 200, -1: silence */
    int light_count;
    char light_path[64];
    /* what came */
    int post_count;
    char *bodies[MOCK_NOTE_MAX];
    char auth[MOCK_NOTE_MAX][128];
    char own_auth[MOCK_NOTE_MAX][128];
    char deadline[MOCK_NOTE_MAX][32];
    char evil[MOCK_NOTE_MAX][32];
    char max_seq[MOCK_NOTE_MAX][32];
    char light_max_seq[32];
    int abort_cuts; /* so many are torn before they are answered */
    int abort_count;
    char aborts[MOCK_NOTE_MAX][64];
    char abort_auth[128]; /* of the last one */
    int gone_count;
    /* Answers post n only once the other worker has its own post n; or only
     * when it is released. The exchange that waits: */
    struct mock_worker *other;
    bool waits_for_other;
    bool holds;
    struct http_exchange *held;
    int held_at;
    /* what is answered, one step a post; the last one stays */
    struct mock_step steps[MOCK_NOTE_MAX];
    int step_count;
};

static inline void mock_note_header(struct http_exchange *exchange,
                                    const char *name, char *out, size_t size)
{
    struct span value;
    if (http_exchange_header(exchange, name, &value)) {
        snprintf(out, size, "%.*s", (int)value.size, (const char *)value.data);
    }
}

static inline void mock_play(struct http_exchange *exchange,
                             const struct mock_step *step)
{
    if (step->chunks[0] != NULL) {
        http_exchange_begin(exchange, 200, "text/event-stream", NULL);
        for (int i = 0; i < MOCK_CHUNK_MAX && step->chunks[i] != NULL; i++) {
            IGNORE(!http_exchange_write(exchange,
                                        span_of_string(step->chunks[i])));
        }
        if (step->end == MOCK_ANSWER) {
            http_exchange_end(exchange);
        }
    } else if (step->end == MOCK_ANSWER) {
        http_exchange_reply(exchange, step->status == 0 ? 200 : step->status,
                            "application/json",
                            step->headers[0].name == NULL ? NULL
                                                          : step->headers,
                            span_of_string(step->body));
    }
    if (step->end == MOCK_CUT) {
        http_exchange_cut(exchange);
    }
}

/* Does the post's own header hold, as a worker with the key would read it? */
static inline bool mock_is_signed(const struct mock_worker *worker, int at,
                                  const char *key)
{
    struct why why;
    struct api_object object;
    struct api_handoff handoff;
    struct span body = span_of_string(worker->bodies[at]);
    assert_int_equal(api_scan(body, &why, &object), OK);
    const struct api_member *params = api_find(&object, "disaggregated_params");
    assert_non_null(params);
    assert_int_equal(api_handoff_read(params->value, &why, &handoff), OK);
    return api_sign_leg_verify(span_of_string(key), &handoff,
                               span_of_string(worker->own_auth[at]));
}

static inline void mock_release(struct mock_worker *worker)
{
    if (worker->held != NULL) {
        struct http_exchange *exchange = worker->held;
        int at = worker->held_at;
        worker->held = NULL;
        int step = at < worker->step_count ? at : worker->step_count - 1;
        mock_play(exchange, &worker->steps[step]);
    }
}

static inline bool mock_has_to_wait(struct mock_worker *worker, int at)
{
    bool is_early = worker->waits_for_other && worker->other->post_count <= at;
    return is_early || worker->holds;
}

static inline void mock_on_post(struct mock_worker *worker,
                                struct http_exchange *exchange)
{
    struct span body = http_exchange_body(exchange);
    int at = worker->post_count++;
    if (at < MOCK_NOTE_MAX) {
        worker->bodies[at] = strndup((const char *)body.data, body.size);
        mock_note_header(exchange, "x-trtllm-disagg-auth", worker->auth[at],
                         128);
        mock_note_header(exchange, "x-baton-disagg-auth", worker->own_auth[at],
                         128);
        mock_note_header(exchange, "x-baton-deadline-ms", worker->deadline[at],
                         32);
        mock_note_header(exchange, "x-trtllm-evil", worker->evil[at], 32);
        mock_note_header(exchange, "x-baton-max-seq-len", worker->max_seq[at],
                         32);
    }
    int step = at < worker->step_count ? at : worker->step_count - 1;
    assert_true(step >= 0);
    if (mock_has_to_wait(worker, at)) {
        worker->held = exchange;
        worker->held_at = at;
    } else {
        mock_play(exchange, &worker->steps[step]);
    }
    struct mock_worker *other = worker->other;
    if (other->held != NULL && !other->holds && other->held_at <= at) {
        mock_release(other);
    }
}

static inline void mock_on_light(struct mock_worker *worker,
                                 struct http_exchange *exchange,
                                 struct span path)
{
    int status = worker->light_status == 0 ? 200 : worker->light_status;
    worker->light_count++;
    snprintf(worker->light_path, sizeof(worker->light_path), "%.*s",
             (int)path.size, (const char *)path.data);
    mock_note_header(exchange, "x-baton-max-seq-len", worker->light_max_seq,
                     32);
    if (status > 0) {
        http_exchange_reply(exchange, status, "application/json", NULL,
                            span_of_string("{\"mock\":1}"));
    }
}

static inline void mock_on_request(void *context,
                                   struct http_exchange *exchange)
{
    struct mock_worker *worker = context;
    struct span path = http_exchange_path(exchange);
    struct span body = http_exchange_body(exchange);
    if (span_equals_string(path, "/v1/disagg/abort")) {
        snprintf(worker->aborts[worker->abort_count++ % MOCK_NOTE_MAX], 64,
                 "%.*s", (int)body.size, (const char *)body.data);
        mock_note_header(exchange, "x-baton-disagg-auth", worker->abort_auth,
                         128);
        if (worker->abort_cuts > 0) {
            worker->abort_cuts--;
            http_exchange_cut(exchange);
            return;
        }
        http_exchange_reply(exchange, 404, "application/json", NULL,
                            span_of_string("{}"));
    } else if (span_equals_string(path, "/health")) {
        int status = worker->health == 0 ? 200 : worker->health;
        http_exchange_reply(exchange, status, NULL, NULL, span_of(NULL, 0));
    } else if (span_starts_with(path, "/v1/") &&
               !span_starts_with(path, "/v1/models")) {
        mock_on_post(worker, exchange);
    } else if (span_equals_string(path, "/server_info")) {
        http_exchange_reply(
            exchange, worker->info_status == 0 ? 200 : worker->info_status,
            "application/json", NULL,
            span_of_string(worker->info == NULL ? "{}" : worker->info));
    } else {
        mock_on_light(worker, exchange, path);
    }
}

static inline void mock_on_gone(void *context, struct http_exchange *exchange)
{
    struct mock_worker *worker = context;
    worker->gone_count++;
    if (worker->held == exchange) {
        worker->held = NULL;
    }
}

static inline void mock_open(struct mock_worker *worker, struct io_loop *loop)
{
    static const struct http_handler HANDLER = {.on_request = mock_on_request,
                                                .on_gone = mock_on_gone};
    struct http_server_options options = {.host = "127.0.0.1",
                                          .port = worker->port,
                                          .handler = &HANDLER,
                                          .context = worker};
    struct why why;
    worker->loop = loop;
    assert_int_equal(http_server_open(loop, &options, &why, &worker->server),
                     OK);
    worker->port = http_server_port(worker->server);
}

/* Its process ends: open connections tear, the port refuses. */
static inline void mock_die(struct mock_worker *worker)
{
    http_server_close(worker->server);
    worker->server = NULL;
}

static inline void mock_close(struct mock_worker *worker)
{
    http_server_close(worker->server);
    for (int i = 0; i < MOCK_NOTE_MAX; i++) {
        free(worker->bodies[i]);
    }
}

static inline void mock_add(struct mock_worker *worker, struct mock_step step)
{
    worker->steps[worker->step_count++] = step;
}

/* What a client got. */
struct mock_reply {
    bool is_over;
    int status;
    enum http_call_end end;
    struct buf body;
    char retry_after[8], type[64], origin[64], server_state[16];
    struct http_call *call;
};

static inline void mock_copy_header(struct http_call *call, const char *name,
                                    char *out, size_t size)
{
    struct span value;
    if (http_call_header(call, name, &value)) {
        snprintf(out, size, "%.*s", (int)value.size, (const char *)value.data);
    }
}

static inline void mock_reply_head(void *context, struct http_call *call)
{
    struct mock_reply *reply = context;
    reply->status = http_call_status(call);
    mock_copy_header(call, "retry-after", reply->retry_after, 8);
    mock_copy_header(call, "content-type", reply->type, 64);
    mock_copy_header(call, "x-trtllm-server-state", reply->server_state, 16);
    mock_copy_header(call, "access-control-allow-origin", reply->origin, 64);
}

static inline void mock_reply_body(void *context, struct http_call *call,
                                   struct span bytes)
{
    (void)call;
    buf_add_span(&((struct mock_reply *)context)->body, bytes);
}

static inline void mock_reply_end(void *context, struct http_call *call,
                                  enum http_call_end end, const char *text)
{
    struct mock_reply *reply = context;
    (void)call;
    (void)text;
    reply->end = end;
    reply->is_over = true;
}

struct mock_cluster {
    struct io_loop *loop;
    struct mock_worker ctx, gen;
    struct config_route config;
    struct route_front *front;
    struct http_client *client;
    bool is_mixed; /* one worker under both roles */
};

static inline void mock_turns(struct mock_cluster *c, bool *until, int ms_max)
{
    uint64_t end = io_clock_now_ns() + (uint64_t)ms_max * 1000000u;
    while (!(until != NULL && *until) && io_clock_now_ns() < end) {
        io_loop_turn(c->loop, 2000000);
    }
}

static inline void mock_add_server(struct config_servers *servers,
                                   uint16_t port)
{
    struct io_address *address = &servers->servers[servers->count++];
    strcpy(address->host, "127.0.0.1");
    address->port = port;
}

static inline void mock_wait_ready(struct mock_cluster *c)
{
    for (int i = 0; i < 1000 && !route_front_is_ready(c->front); i++) {
        io_loop_turn(c->loop, 5000000);
    }
    assert_true(route_front_is_ready(c->front));
}

/* Set scripts and config between prepare and begin. */
static inline void mock_prepare(struct mock_cluster *c)
{
    memset(c, 0, sizeof(*c));
    assert_int_equal(io_loop_create(&c->loop), OK);
    mock_open(&c->ctx, c->loop);
    mock_open(&c->gen, c->loop);
    c->ctx.other = &c->gen;
    c->gen.other = &c->ctx;
    config_route_init(&c->config);
    strcpy(c->config.hostname, "127.0.0.1");
    c->config.port = 0;
    c->client = http_client_create(c->loop, &(struct http_client_options){0});
}

static inline void mock_begin(struct mock_cluster *c)
{
    struct route_front_options options = {
        .loop = c->loop, .config = &c->config, .version = "1.2.3"};
    struct why why;
    mock_add_server(&c->config.context, c->ctx.port);
    mock_add_server(&c->config.generation,
                    c->is_mixed ? c->ctx.port : c->gen.port);
    assert_int_equal(route_front_open(&options, &why, &c->front), OK);
}

static inline void mock_end(struct mock_cluster *c)
{
    http_client_destroy(c->client);
    route_front_close(c->front);
    mock_close(&c->ctx);
    mock_close(&c->gen);
    for (int i = 0; i < 5; i++) {
        io_loop_turn(c->loop, 0);
    }
    io_loop_destroy(c->loop);
}

static inline void mock_send_as(struct mock_cluster *c, const char *method,
                                const char *path, const char *type,
                                const char *body,
                                const struct http_header *headers,
                                struct mock_reply *reply)
{
    static const struct http_call_handler HANDLER = {
        mock_reply_head, mock_reply_body, mock_reply_end};
    memset(reply, 0, sizeof(*reply));
    buf_init(&reply->body, 1 << 20);
    struct http_call_options options = {
        .host = "127.0.0.1",
        .port = route_front_port(c->front),
        .method = method,
        .path = path,
        .content_type = type,
        .body = body == NULL ? span_of(NULL, 0) : span_of_string(body),
        .headers = headers,
        .handler = &HANDLER,
        .context = reply,
    };
    assert_int_equal(http_call_start(c->client, &options, &reply->call), OK);
}

static inline void mock_send(struct mock_cluster *c, const char *method,
                             const char *path, const char *body,
                             const struct http_header *headers,
                             struct mock_reply *reply)
{
    mock_send_as(c, method, path, body == NULL ? NULL : "application/json",
                 body, headers, reply);
}

static inline void mock_ask(struct mock_cluster *c, const char *method,
                            const char *path, const char *body,
                            struct mock_reply *reply)
{
    mock_send(c, method, path, body, NULL, reply);
    mock_turns(c, &reply->is_over, 8000);
    assert_true(reply->is_over);
}
