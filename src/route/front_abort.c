#include "route/front_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "route/limits.h"

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

static void tell_waiting(struct route_front *front, int32_t server)
{
    struct front_abort_line *line = &front->aborts.lines[server];
    while (line->first != NULL && line->call_count < FRONT_ABORT_CALL_MAX) {
        struct front_abort *abort = line->first;
        line->first = abort->next;
        line->call_count++;
        try_once(abort);
    }
}

static void give(struct front_abort *abort)
{
    struct front_aborts *aborts = &abort->front->aborts;
    aborts->lines[abort->server].call_count--;
    aborts->open_count--;
    abort->next = aborts->first_free;
    aborts->first_free = abort;
}

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
    struct route_front *front = abort->front;
    int32_t server = abort->server;
    give(abort);
    tell_waiting(front, server);
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
        give(abort);
    }
}

void front_abort(struct route_front *front, int32_t server, int64_t id)
{
    struct front_aborts *aborts = &front->aborts;
    struct front_abort *abort = aborts->first_free;
    if (abort == NULL) {
        log_warn_rare("route",
                      "request %" PRId64 ": too many aborts, its server "
                      "has to find out by itself",
                      id);
        return;
    }
    struct front_abort_line *line = &aborts->lines[server];
    aborts->first_free = abort->next;
    aborts->open_count++;
    *abort = (struct front_abort){.front = front, .server = server, .id = id};
    if (line->first == NULL) {
        line->first = abort;
    } else {
        line->last->next = abort;
    }
    line->last = abort;
    tell_waiting(front, server);
}

void front_aborts_begin(struct route_front *front)
{
    uint32_t count = route_limits_abort_max(front->config);
    struct front_aborts *aborts = &front->aborts;
    aborts->items = mem_new_array(count, sizeof(*aborts->items));
    for (uint32_t i = 0; i < count; i++) {
        aborts->items[i].next = aborts->first_free;
        aborts->first_free = &aborts->items[i];
    }
}

bool front_aborts_are_told(const struct route_front *front)
{
    return front->aborts.open_count == 0;
}

void front_aborts_end(struct route_front *front)
{
    mem_free(front->aborts.items);
}
