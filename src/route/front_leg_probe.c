#include "route/front_session.h"

/* A leg was lost: is its worker gone, or has it only lost the connection? */

enum { PROBE_TRIES_MAX = 3 };
static const uint64_t PROBE_NS_MAX = 300000000ull;

static void on_probe_head(void *context, struct http_call *call)
{
    (void)context;
    (void)call;
}

static void on_probe_body(void *context, struct http_call *call,
                          struct span bytes)
{
    (void)context;
    (void)call;
    (void)bytes;
}

static void on_probe_end(void *context, struct http_call *call,
                         enum http_call_end end, const char *text)
{
    struct front_session *session = context;
    (void)call;
    (void)text;
    session->probe = NULL;
    bool is_torn = end == HTTP_CALL_LOST || end == HTTP_CALL_UNDELIVERED;
    if (is_torn && ++session->probe_tries < PROBE_TRIES_MAX) {
        /* A process that is just dying: its listener goes last. */
        front_leg_probe(session, session->call_server);
        return;
    }
    front_session_event(
        session, (struct route_event){.kind = ROUTE_EVENT_PROBED,
                                      .is_gone = end == HTTP_CALL_REFUSED});
}

static const struct http_call_handler PROBE_HANDLER = {
    on_probe_head, on_probe_body, on_probe_end};

void front_leg_probe(struct front_session *session, int32_t server)
{
    struct route_front *front = session->front;
    const struct io_address *address = &front->pool.servers[server].address;
    struct http_call_options options = {
        .host = address->host,
        .port = address->port,
        .method = "GET",
        .path = "/health",
        .total_ns_max = PROBE_NS_MAX,
        .handler = &PROBE_HANDLER,
        .context = session,
    };
    if (http_call_start(front->client, &options, &session->probe) != OK) {
        session->probe = NULL;
        front_leg_fail_later(session, "the worker was lost");
    }
}
