/* serve/routes: which path and method goes where, and what is refused before
 * anybody looks at the body. */
#include "serve/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/media.h"

struct route {
    const char *path; /* with a `/` at its end: whatever begins so */
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
    {"/kv_cache_events", "POST", serve_cache_poll, 0, true},
    {"/v1/disagg/abort", "POST", serve_abort, 0, true},
    {"/v1/models", "GET", serve_info_models, 0, true},
    {"/v1/models/", "GET", serve_info_model, 0, true},
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

/* Whether somebody only asks about this worker. */
static bool is_question(const struct route *route)
{
    return route != NULL && route->is_light &&
           strcmp(route->method, "GET") == 0;
}

/* Front ends and probes ask for /health until it is good: no request has
 * failed, and none is counted. */
static void refuse_starting(struct serve *serve, struct http_exchange *exchange,
                            const struct route *route)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = 503,
                            .message = "the model is being loaded",
                            .code = "starting",
                            .is_uncounted = is_question(route),
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

/* Who asks means the process that was here before: what was said of that one
 * need not hold of us. */
static bool is_for_another(const struct serve *serve,
                           const struct http_exchange *exchange)
{
    struct span wanted;
    char ours[24];
    snprintf(ours, sizeof(ours), "%" PRIu64, serve->parts.incarnation);
    return http_exchange_header(exchange, "x-baton-incarnation", &wanted) &&
           !span_equals_string(wanted, ours);
}

static void refuse_another(struct serve *serve, struct http_exchange *exchange,
                           const struct route *route)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = 503,
                            .message = "x-baton-incarnation: another process "
                                       "serves here now",
                            .code = "restarted",
                            .not_accepted = true,
                            .is_uncounted = is_question(route),
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

static bool is_json(const struct http_exchange *exchange, struct why *why)
{
    struct span type = {0}, packed, origin;
    if (http_exchange_header(exchange, "x-trtllm-msgpack", &packed) &&
        span_equals_string(packed, "1")) {
        IGNORE(why_say(why, ERR_UNSUPPORTED,
                       "x-trtllm-msgpack: the body must be application/json"));
        return false;
    }
    IGNORE(http_exchange_header(exchange, "content-type", &type));
    bool is_from_page = http_exchange_header(exchange, "origin", &origin);
    return api_media_check(type, is_from_page, why) == OK;
}

static void refuse_type(struct serve *serve, struct http_exchange *exchange,
                        const struct why *why)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = 415,
                            .message = why->text,
                        });
}

static bool is_path(struct span path, const char *wanted)
{
    size_t size = strlen(wanted);
    return wanted[size - 1] == '/' ? span_starts_with(path, wanted)
                                   : span_equals_string(path, wanted);
}

/* HEAD asks what GET would answer; the server leaves the body out. */
static bool is_method(struct span method, const char *wanted)
{
    return span_equals_string(method, wanted) ||
           (span_equals_string(method, "HEAD") && strcmp(wanted, "GET") == 0);
}

/* The route of path and method; else the methods the path does take. */
static const struct route *find_route(struct span path, struct span method,
                                      char allow_out[32])
{
    allow_out[0] = 0;
    for (int i = 0; i < ROUTE_COUNT; i++) {
        if (!is_path(path, routes[i].path)) {
            continue;
        }
        if (is_method(method, routes[i].method)) {
            return &routes[i];
        }
        size_t used = strlen(allow_out);
        snprintf(allow_out + used, 32 - used, "%s%s", used > 0 ? ", " : "",
                 routes[i].method);
    }
    return NULL;
}

/* What the head alone decides: the route, or NULL and it is answered. */
static const struct route *admit_head(struct serve *serve,
                                      struct http_exchange *exchange)
{
    char allow[32];
    struct why why = {{0}};
    int status;
    struct span method = http_exchange_method(exchange);
    const struct route *route =
        find_route(http_exchange_path(exchange), method, allow);
    if (!serve->is_ready) {
        refuse_starting(serve, exchange, route);
    } else if (route == NULL && allow[0] != 0) {
        refuse_method(serve, exchange, allow);
    } else if (route == NULL) {
        serve_reply_failure(serve, exchange,
                            &(struct serve_failure){
                                .status = 404,
                                .message = "there is no such path",
                            });
    } else if (span_equals_string(method, "POST") && !is_json(exchange, &why)) {
        refuse_type(serve, exchange, &why);
    } else if (is_for_another(serve, exchange)) {
        refuse_another(serve, exchange, route);
    } else if (serve->is_draining && !route->is_light) {
        refuse_draining(serve, exchange);
    } else if (route->handle == serve_abort &&
               (status = serve_auth_abort_head(serve, exchange, &why)) != 0) {
        serve_reply_failure(
            serve, exchange,
            &(struct serve_failure){.status = status, .message = why.text});
    } else {
        return route;
    }
    return NULL;
}

bool serve_on_head(void *context, struct http_exchange *exchange)
{
    return admit_head(context, exchange) == NULL;
}

void serve_on_request(void *context, struct http_exchange *exchange)
{
    struct serve *serve = context;
    http_exchange_set_user(exchange, NULL);
    const struct route *route = admit_head(serve, exchange);
    if (route == NULL) {
        return;
    }
    if (route->handle != NULL) {
        route->handle(serve, exchange);
    } else {
        serve_admit(serve, exchange, route->post);
    }
}
