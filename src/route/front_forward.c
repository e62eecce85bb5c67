#include "route/front_internal.h"

#include "base/mem.h"

/* One exchange and the call that answers it. */
struct front_forward {
    struct front_owner owner;
    struct route_front *front;
    struct front_forward *next;
    struct front_forward **link; /* what points to us */
    struct http_exchange *exchange;
    struct http_call *call;
    int32_t server;
    bool is_models;
    int status;
    struct buf body;
};

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
    ((struct front_forward *)context)->status = http_call_status(call);
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

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct front_forward *forward = context;
    struct route_front *front = forward->front;
    (void)call;
    (void)text;
    forward->call = NULL;
    if (end == HTTP_CALL_COMPLETE && buf_error(&forward->body) == OK) {
        front_reply(front, forward->exchange, forward->status,
                    "application/json", buf_span(&forward->body));
    } else {
        struct route_outcome outcome = {.end = end, .status = 502};
        if (end == HTTP_CALL_REFUSED || end == HTTP_CALL_LOST) {
            route_pool_on_refused(&front->pool, forward->server,
                                  io_loop_now(front->loop));
            front_probe_wake(front);
        }
        reply_failure(forward, route_outcome_status(&outcome),
                      route_outcome_message(&outcome));
    }
    destroy(forward);
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

static enum err start(struct front_forward *forward, const char *path)
{
    struct route_front *front = forward->front;
    struct span body = http_exchange_body(forward->exchange);
    const struct io_address *address =
        &front->pool.servers[forward->server].address;
    struct http_call_options options = {
        .host = address->host,
        .port = address->port,
        .method = forward->is_models ? "GET" : "POST",
        .path = path,
        .content_type = forward->is_models ? NULL : "application/json",
        .body = body,
        .total_ns_max = front_ns(front->config->request_timeout_s),
        .handler = &HANDLER,
        .context = forward,
    };
    return http_call_start(front->client, &options, &forward->call);
}

static struct front_forward *create(struct route_front *front,
                                    struct http_exchange *exchange,
                                    const char *path)
{
    struct front_forward *forward = mem_new(sizeof(*forward));
    forward->owner.on_gone = on_gone;
    forward->front = front;
    forward->exchange = exchange;
    forward->is_models = path[1] == 'v';
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
                        struct http_exchange *exchange, const char *path)
{
    if (front->open_count >= front->open_count_max) {
        front_reply_error(front, exchange, 429, NULL,
                          "too many requests are under way", NULL);
        return;
    }
    struct front_forward *forward = create(front, exchange, path);
    forward->server =
        route_pool_place(&front->pool, ROUTE_CONTEXT, ROUTE_NO_SERVER, false);
    if (forward->server == ROUTE_NO_SERVER) {
        forward->server = route_pool_place(&front->pool, ROUTE_GENERATION,
                                           ROUTE_NO_SERVER, false);
    }
    if (forward->server == ROUTE_NO_SERVER) {
        reply_failure(forward, 503, "no worker is ready");
        destroy(forward);
    } else if (start(forward, path) != OK) {
        reply_failure(forward, 500, "the call to a worker cannot be made");
        destroy(forward);
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
