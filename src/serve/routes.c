/* serve/routes: which path and method goes where, and what is refused before
 * anybody looks at the body. */
#include "serve/internal.h"

#include <stdio.h>
#include <string.h>

struct route {
    const char *path;
    const char *method;
    serve_info *handle; /* NULL: `post` */
    enum openai_route post; /* 0: abort */
    bool is_light; /* answered while draining too */
};

static const struct route routes[] = {
    {"/v1/completions", "POST", NULL, OPENAI_COMPLETIONS, false},
    {"/v1/chat/completions", "POST", NULL, OPENAI_CHAT, false},
    {"/tokenize", "POST", NULL, OPENAI_TOKENIZE, false},
    {"/detokenize", "POST", NULL, OPENAI_DETOKENIZE, false},
    {"/v1/disagg/abort", "POST", serve_abort, 0, true},
    {"/v1/models", "GET", serve_info_models, 0, true},
    {"/health", "GET", serve_info_health, 0, true},
    {"/version", "GET", serve_info_version, 0, true},
    {"/server_info", "GET", serve_info_server, 0, true},
    {"/metrics", "GET", serve_info_metrics, 0, true},
    {"/prometheus/metrics", "GET", serve_info_metrics, 0, true},
    {"/transfers", "GET", serve_info_transfers, 0, true},
    {"/steady_clock_offset", "GET", serve_info_clock, 0, true},
    {"/steady_clock_offset", "POST", serve_info_clock, 0, true},
};
enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };

static void refuse_starting(struct serve *serve, struct http_exchange *exchange)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = 503,
                            .message = "the model is being loaded",
                            .code = "starting",
                        });
}

static void refuse_draining(struct serve *serve, struct http_exchange *exchange)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = 503,
                            .message = "the server is shutting down",
                            .code = "draining",
                            .not_accepted = true,
                        });
}

static void refuse_method(struct serve *serve, struct http_exchange *exchange,
                          const char *allow)
{
    struct http_header headers[] = {{"Allow", allow}, {0}};
    struct buf body;
    buf_init(&body, 4096);
    api_error_body(405, api_error_type_of_status(405),
                   "this path does not take that method", NULL, NULL, &body);
    serve_stats_count_failure(serve->stats, 405);
    http_exchange_reply(exchange, 405, "application/json", headers,
                        buf_span(&body));
    buf_finish(&body);
}

/* "application/json", with or without parameters. */
static bool is_json(const struct http_exchange *exchange)
{
    struct span type, packed;
    static const char wanted[] = "application/json";
    size_t size = sizeof(wanted) - 1;
    if (http_exchange_header(exchange, "x-trtllm-msgpack", &packed) &&
        span_equals_string(packed, "1")) {
        return false;
    }
    if (!http_exchange_header(exchange, "content-type", &type) ||
        type.size < size ||
        strncasecmp((const char *)type.data, wanted, size) != 0) {
        return false;
    }
    return type.size == size || strchr("; \t", type.data[size]) != NULL;
}

static void refuse_type(struct serve *serve, struct http_exchange *exchange)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = 415,
                            .message = "Content-Type must be application/json",
                        });
}

/* The route of path and method; else the methods the path does take. */
static const struct route *find_route(struct span path, struct span method,
                                      char allow_out[32])
{
    allow_out[0] = 0;
    for (int i = 0; i < ROUTE_COUNT; i++) {
        if (!span_equals_string(path, routes[i].path)) {
            continue;
        }
        if (span_equals_string(method, routes[i].method)) {
            return &routes[i];
        }
        size_t used = strlen(allow_out);
        snprintf(allow_out + used, 32 - used, "%s%s", used > 0 ? ", " : "",
                 routes[i].method);
    }
    return NULL;
}

void serve_on_request(void *context, struct http_exchange *exchange)
{
    struct serve *serve = context;
    char allow[32];
    http_exchange_set_user(exchange, NULL);
    if (!serve->is_ready) {
        refuse_starting(serve, exchange);
        return;
    }
    struct span method = http_exchange_method(exchange);
    const struct route *route =
        find_route(http_exchange_path(exchange), method, allow);
    if (route == NULL && allow[0] != 0) {
        refuse_method(serve, exchange, allow);
    } else if (route == NULL) {
        serve_reply_failure(serve, exchange,
                            &(struct serve_failure){
                                .status = 404,
                                .message = "there is no such path",
                            });
    } else if (span_equals_string(method, "POST") && !is_json(exchange)) {
        refuse_type(serve, exchange);
    } else if (serve->is_draining && !route->is_light) {
        refuse_draining(serve, exchange);
    } else if (route->handle != NULL) {
        route->handle(serve, exchange);
    } else {
        serve_admit(serve, exchange, route->post);
    }
}
