#include "route/front_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void on_head(void *context, struct http_call *call)
{
    (void)context;
    (void)call;
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    (void)context;
    (void)call;
    (void)bytes;
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct route_front *front = context;
    (void)call;
    (void)end;
    (void)text;
    front->abort_count--;
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

void front_abort(struct route_front *front, int32_t server, int64_t id)
{
    const struct io_address *address = &front->pool.servers[server].address;
    char body[64];
    if (front->abort_count >= FRONT_ABORT_COUNT_MAX) {
        return; /* the worker's own deadline frees it */
    }
    snprintf(body, sizeof(body), "{\"disagg_request_id\":%" PRId64 "}", id);
    struct http_call_options options = {
        .host = address->host,
        .port = address->port,
        .method = "POST",
        .path = "/v1/disagg/abort",
        .content_type = "application/json",
        .body = span_of(body, strlen(body)),
        .total_ns_max = 2000000000ull,
        .handler = &HANDLER,
        .context = front,
    };
    struct http_call *call;
    if (http_call_start(front->client, &options, &call) == OK) {
        front->abort_count++;
    }
}
