#include "route/front_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TRY_COUNT_MAX = 3 };

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

static void try_once(struct front_abort *abort);

/* It is idempotent: what broke on the way is said again. A server that is gone
 * holds nothing; else its own deadline frees what it holds. */
static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct front_abort *abort = context;
    (void)call;
    (void)text;
    bool is_worth_it = end != HTTP_CALL_COMPLETE && end != HTTP_CALL_REFUSED;
    if (is_worth_it && abort->tries < TRY_COUNT_MAX) {
        try_once(abort);
        return;
    }
    *abort = (struct front_abort){0};
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

static void try_once(struct front_abort *abort)
{
    struct route_front *front = abort->front;
    const struct io_address *address =
        &front->pool.servers[abort->server].address;
    char body[64], signature[80];
    bool is_signed = front_sign_abort(front, abort->id, signature);
    const struct http_header headers[] = {
        {is_signed ? "x-baton-disagg-auth" : NULL, signature},
        {NULL, NULL},
    };
    snprintf(body, sizeof(body), "{\"disagg_request_id\":%" PRId64 "}",
             abort->id);
    struct http_call_options options = {
        .host = address->host,
        .port = address->port,
        .method = "POST",
        .path = "/v1/disagg/abort",
        .content_type = "application/json",
        .headers = headers,
        .body = span_of(body, strlen(body)),
        .total_ns_max = 2000000000ull,
        .handler = &HANDLER,
        .context = abort,
    };
    struct http_call *call;
    abort->tries++;
    if (http_call_start(front->client, &options, &call) != OK) {
        *abort = (struct front_abort){0};
    }
}

void front_abort(struct route_front *front, int32_t server, int64_t id)
{
    for (uint32_t i = 0; i < FRONT_ABORT_COUNT_MAX; i++) {
        struct front_abort *abort = &front->aborts[i];
        if (abort->front == NULL) {
            *abort = (struct front_abort){
                .front = front, .server = server, .id = id};
            try_once(abort);
            return;
        }
    }
}
