#include "route/front_internal.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"

/* Servers asked for one answer. All of these calls only read, so that asking
 * another one is safe whatever became of the first. */
enum { FORWARD_TRIES_MAX = 3 };

/* One exchange and the call that answers it. */
struct front_forward {
    struct front_owner owner;
    struct route_front *front;
    struct front_forward *next;
    struct front_forward **link; /* what points to us */
    struct http_exchange *exchange;
    struct http_call *call;
    uint32_t asked_count;
    int32_t asked[FORWARD_TRIES_MAX]; /* servers; the last one has `call` */
    uint64_t deadline_ns;
    bool is_get;
    bool is_models;
    int status;
    struct buf path, body;
};

static int32_t server_of(const struct front_forward *forward)
{
    return forward->asked_count == 0 ? ROUTE_NO_SERVER
                                     : forward->asked[forward->asked_count - 1];
}

static void unlink_forward(struct front_forward *forward)
{
    *forward->link = forward->next;
    if (forward->next != NULL) {
        forward->next->link = forward->link;
    }
}

static void destroy(struct front_forward *forward)
{
    struct route_front *front = forward->front;
    unlink_forward(forward);
    buf_finish(&forward->path);
    buf_finish(&forward->body);
    mem_free(forward);
    front_on_closed(front);
}

static void on_gone(struct front_owner *owner)
{
    struct front_forward *forward = (struct front_forward *)owner;
    if (forward->call != NULL) {
        http_call_cancel(forward->call);
    }
    destroy(forward);
}

static void on_head(void *context, struct http_call *call)
{
    struct front_forward *forward = context;
    forward->status = http_call_status(call);
    IGNORE(front_call_is_restarted(forward->front, server_of(forward), call));
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    (void)call;
    buf_add_span(&((struct front_forward *)context)->body, bytes);
}

/* serve.md 2.1: the shape that clients of /v1/models know. */
static void reply_failure(struct front_forward *forward, int status,
                          const char *message)
{
    if (!forward->is_models) {
        front_reply_error(forward->front, forward->exchange, status, NULL,
                          message, NULL);
        return;
    }
    struct buf body;
    buf_init(&body, 4096);
    buf_add_string(&body, "{\"object\":\"error\",\"message\":");
    buf_add_json_string(&body, span_of_string(message));
    buf_printf(&body, ",\"type\":\"api_error\",\"code\":%d}", status);
    front_reply(forward->front, forward->exchange, status, "application/json",
                buf_span(&body));
    buf_finish(&body);
}

static bool ask_next(struct front_forward *forward);

/* The worker's answer as it is, whatever it says; else what went wrong. Where
 * nobody listens nobody is up, as the probes will find out. */
static void answer(struct front_forward *forward, enum http_call_end end)
{
    if (end == HTTP_CALL_COMPLETE && buf_error(&forward->body) == OK) {
        front_reply(forward->front, forward->exchange, forward->status,
                    "application/json", buf_span(&forward->body));
        return;
    }
    if (end == HTTP_CALL_REFUSED) {
        reply_failure(forward, 503, "no worker is ready");
        return;
    }
    struct route_outcome outcome = {.end = end, .status = 502};
    reply_failure(forward, route_outcome_status(&outcome),
                  route_outcome_message(&outcome));
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct front_forward *forward = context;
    struct route_front *front = forward->front;
    (void)call;
    (void)text;
    forward->call = NULL;
    if (end == HTTP_CALL_REFUSED || end == HTTP_CALL_LOST) {
        route_pool_on_refused(&front->pool, server_of(forward),
                              io_loop_now(front->loop));
        front_probe_wake(front);
    }
    /* 503: it starts or shuts down, and the pool has not heard of it yet. */
    bool is_final = end == HTTP_CALL_COMPLETE && forward->status != 503;
    if (is_final || end == HTTP_CALL_TIMEOUT || !ask_next(forward)) {
        answer(forward, end);
        destroy(forward);
    }
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

static enum err start(struct front_forward *forward)
{
    struct route_front *front = forward->front;
    const struct io_address *address =
        &front->pool.servers[server_of(forward)].address;
    uint64_t now = io_loop_now(front->loop);
    char max_seq[FRONT_MAX_SEQ_SIZE];
    struct http_header headers[FRONT_CALL_HEADER_COUNT + 1];
    IGNORE(front_call_headers(front, server_of(forward), max_seq, headers));
    struct http_call_options options = {
        .host = address->host,
        .port = address->port,
        .method = forward->is_get ? "GET" : "POST",
        .path = buf_string(&forward->path),
        .content_type = forward->is_get ? NULL : "application/json",
        .headers = headers,
        .body = http_exchange_body(forward->exchange),
        .total_ns_max =
            forward->deadline_ns > now ? forward->deadline_ns - now : 1,
        .handler = &HANDLER,
        .context = forward,
    };
    return http_call_start(front->client, &options, &forward->call);
}

/* Somebody who is up and was not asked yet. False: nobody is. */
static bool ask_next(struct front_forward *forward)
{
    struct route_front *front = forward->front;
    if (forward->asked_count == FORWARD_TRIES_MAX) {
        return false;
    }
    int32_t server = route_pool_place_any(&front->pool, forward->asked,
                                          forward->asked_count);
    if (server == ROUTE_NO_SERVER) {
        return false;
    }
    forward->asked[forward->asked_count++] = server;
    if (start(forward) != OK) {
        forward->call = NULL;
        forward->asked_count--;
        return false;
    }
    buf_reset(&forward->body);
    return true;
}

static struct front_forward *create(struct route_front *front,
                                    struct http_exchange *exchange)
{
    struct front_forward *forward = mem_new(sizeof(*forward));
    struct span path = http_exchange_path(exchange);
    forward->owner.on_gone = on_gone;
    forward->front = front;
    forward->exchange = exchange;
    forward->is_get =
        !span_equals_string(http_exchange_method(exchange), "POST");
    forward->is_models = span_equals_string(path, "/v1/models");
    buf_init(&forward->path, path.size);
    buf_add_span(&forward->path, path);
    buf_init(&forward->body, front->config->max_body_bytes);
    forward->next = front->forwards;
    forward->link = &front->forwards;
    if (forward->next != NULL) {
        forward->next->link = &forward->next;
    }
    front->forwards = forward;
    front->open_count++;
    http_exchange_set_user(exchange, forward);
    return forward;
}

void front_forward_open(struct route_front *front,
                        struct http_exchange *exchange)
{
    uint64_t deadline_ns = 0;
    if (front->open_count >= front->open_count_max) {
        front_reply_error(front, exchange, 429, NULL,
                          "too many requests are under way", NULL);
        return;
    }
    if (!front_read_deadline(front, exchange, &deadline_ns)) {
        return;
    }
    struct front_forward *forward = create(front, exchange);
    forward->deadline_ns = deadline_ns;
    if (!ask_next(forward)) {
        reply_failure(forward, 503, "no worker is ready");
        destroy(forward);
    }
}

void front_forward_server_down(struct route_front *front, int32_t server)
{
    for (struct front_forward *forward = front->forwards, *next;
         forward != NULL; forward = next) {
        next = forward->next;
        if (forward->call == NULL || server_of(forward) != server) {
            continue;
        }
        log_warn_rare("route", "%s does not answer %s: it is given up",
                      front->pool.servers[server].name,
                      buf_string(&forward->path));
        http_call_cancel(forward->call);
        forward->call = NULL;
        if (!ask_next(forward)) {
            reply_failure(forward, 503, "no worker is ready");
            destroy(forward);
        }
    }
}

void front_forward_cut_all(struct route_front *front)
{
    while (front->forwards != NULL) {
        struct front_forward *forward = front->forwards;
        http_exchange_set_user(forward->exchange, NULL);
        reply_failure(forward, 503, "the server is shutting down");
        on_gone(&forward->owner);
    }
}
