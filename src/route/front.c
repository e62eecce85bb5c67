#include "route/front.h"

#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "api/media.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/clock.h"
#include "route/front_internal.h"
#include "route/limits.h"

static const uint64_t QUIET_POLL_NS = 5000000u;

struct page {
    const char *path; /* with a `/` at its end: whatever begins so */
    const char *method;
    bool is_open; /* no token needed */
    bool is_work; /* for workers: refused while draining */
    void (*show)(struct route_front *front, struct http_exchange *exchange);
};

static void open_completion(struct route_front *front,
                            struct http_exchange *exchange)
{
    front_session_open(front, exchange, false);
}

static void open_chat(struct route_front *front, struct http_exchange *exchange)
{
    front_session_open(front, exchange, true);
}

static const struct page PAGES[] = {
    {"/v1/completions", "POST", false, true, open_completion},
    {"/v1/chat/completions", "POST", false, true, open_chat},
    {"/v1/models", "GET", false, true, front_forward_open},
    {"/v1/models/", "GET", false, true, front_forward_open},
    {"/tokenize", "POST", false, true, front_forward_open},
    {"/detokenize", "POST", false, true, front_forward_open},
    {"/cluster_info", "GET", false, false, front_page_cluster},
    {"/health", "GET", true, false, front_page_health},
    {"/version", "GET", true, false, front_page_version},
    {"/metrics", "GET", true, false, front_page_metrics},
    {"/prometheus/metrics", "GET", true, false, front_page_metrics},
};

static bool is_path(struct span path, const char *wanted)
{
    size_t size = strlen(wanted);
    return wanted[size - 1] == '/' ? span_starts_with(path, wanted)
                                   : span_equals_string(path, wanted);
}

static const struct page *page_of(struct span path)
{
    for (size_t i = 0; i < sizeof(PAGES) / sizeof(PAGES[0]); i++) {
        if (is_path(path, PAGES[i].path)) {
            return &PAGES[i];
        }
    }
    return NULL;
}

/* Compares digests, so that neither length nor content shows in the time. */
static bool same_secret(struct span a, struct span b)
{
    uint8_t digests[2][DIGEST_SHA256_SIZE];
    digest_sha256(a, digests[0]);
    digest_sha256(b, digests[1]);
    return digest_equals(digests[0], digests[1], DIGEST_SHA256_SIZE);
}

static bool is_allowed(const struct route_front *front,
                       const struct http_exchange *exchange)
{
    struct span header;
    const char *key = front->config->api_key;
    if (key[0] == 0) {
        return true;
    }
    if (!http_exchange_header(exchange, "authorization", &header) ||
        header.size < 7 ||
        strncasecmp((const char *)header.data, "Bearer ", 7) != 0) {
        return false;
    }
    return same_secret(span_slice(header, 7, header.size), span_of_string(key));
}

static void refuse_method(struct route_front *front,
                          struct http_exchange *exchange,
                          const struct page *page)
{
    struct buf body;
    struct http_header headers[] = {{"Allow", page->method}, {NULL, NULL}};
    (void)front;
    buf_init(&body, 1024);
    api_error_body(405, api_error_type_of_status(405),
                   "this path does not take that method", NULL, NULL, &body);
    http_exchange_reply(exchange, 405, "application/json", headers,
                        buf_span(&body));
    buf_finish(&body);
}

static bool is_json(const struct http_exchange *exchange, struct why *why)
{
    struct span type = {0}, origin;
    IGNORE(http_exchange_header(exchange, "content-type", &type));
    bool is_from_page = http_exchange_header(exchange, "origin", &origin);
    return api_media_check(type, is_from_page, why) == OK;
}

/* HEAD asks what GET would answer; the server leaves the body out. */
static bool is_method(struct span method, const char *wanted)
{
    return span_equals_string(method, wanted) ||
           (span_equals_string(method, "HEAD") && strcmp(wanted, "GET") == 0);
}

/* What the head alone decides: the page, or NULL and it is answered. */
static const struct page *admit_head(struct route_front *front,
                                     struct http_exchange *exchange)
{
    const struct page *page = page_of(http_exchange_path(exchange));
    struct span method = http_exchange_method(exchange);
    struct why why = {""};
    if (page == NULL) {
        front_reply_error(front, exchange, 404, NULL, "no such path", NULL);
    } else if (span_equals_string(method, "OPTIONS") &&
               front->config->cors_origin[0] != 0) {
        front_reply_preflight(front, exchange);
    } else if (!is_method(method, page->method)) {
        refuse_method(front, exchange, page);
    } else if (!page->is_open && !is_allowed(front, exchange)) {
        front_reply_error(front, exchange, 401, NULL,
                          "a valid API key is needed as bearer token", NULL);
    } else if (span_equals_string(method, "POST") && !is_json(exchange, &why)) {
        front_reply_error(front, exchange, 400, NULL, why.text, NULL);
    } else if (front->is_draining && page->is_work) {
        front_reply_error(front, exchange, 503, NULL,
                          "the server is shutting down", NULL);
    } else {
        return page;
    }
    return NULL;
}

static bool on_head(void *context, struct http_exchange *exchange)
{
    return admit_head(context, exchange) == NULL;
}

static void on_request(void *context, struct http_exchange *exchange)
{
    struct route_front *front = context;
    http_exchange_set_user(exchange, NULL);
    const struct page *page = admit_head(front, exchange);
    if (page != NULL) {
        page->show(front, exchange);
    }
}

static void on_gone(void *context, struct http_exchange *exchange)
{
    struct front_owner *owner = http_exchange_user(exchange);
    (void)context;
    if (owner != NULL) {
        owner->on_gone(owner);
    }
}

static void on_drain(void *context, struct http_exchange *exchange)
{
    struct front_owner *owner = http_exchange_user(exchange);
    (void)context;
    if (owner != NULL && owner->on_drain != NULL) {
        owner->on_drain(owner);
    }
}

static void describe_error(void *context, int status, const char *message,
                           struct buf *body_out)
{
    (void)context;
    api_error_body(status, api_error_type_of_status(status), message, NULL,
                   NULL, body_out);
}

static const struct http_handler HANDLER = {
    .on_request = on_request,
    .on_head = on_head,
    .on_gone = on_gone,
    .on_drain = on_drain,
    .describe_error = describe_error,
};

static enum err open_server(struct route_front *front, struct why *why)
{
    const struct config_route *config = front->config;
    struct http_server_options options = {
        .host = config->hostname,
        .port = (uint16_t)config->port,
        .header_bytes_max = config->max_header_bytes,
        .body_bytes_max = config->max_body_bytes,
        .connection_count_max = route_limits_connection_max(config),
        .keep_alive_ns = config->server_keep_alive_timeout_s * 1000000000ull,
        .handler = &HANDLER,
        .context = front,
    };
    return http_server_open(front->loop, &options, why, &front->server);
}

enum err route_front_open(const struct route_front_options *options,
                          struct why *why, struct route_front **front_out)
{
    const struct config_route *config = options->config;
    struct route_front *front = mem_new(sizeof(*front));
    front->loop = options->loop;
    front->config = config;
    front->version = options->version;
    front->ids.node = (uint32_t)config->node_id;
    /* Chance, so that front ends which share a node_id hardly ever meet. */
    front->ids.process = (uint32_t)(rng_system() & 63);
    const char *no_retry = getenv("TRTLLM_DISAGG_NO_RETRY");
    front->is_retry_off = no_retry != NULL && strcmp(no_retry, "1") == 0;
    front->open_count_max = route_limits_open_max(config);
    front->start_ns = io_loop_now(front->loop);
    enum err code = open_server(front, why);
    if (code != OK) {
        mem_free(front);
        return code;
    }
    struct http_client_options client = {
        .connect_timeout_ns = front_ns(config->connect_timeout_s)};
    front->client = http_client_create(front->loop, &client);
    route_pool_init(&front->pool, config, front->start_ns);
    route_metrics_init(&front->metrics);
    front_aborts_begin(front);
    front_probe_begin(front);
    *front_out = front;
    return OK;
}

uint16_t route_front_port(const struct route_front *front)
{
    return http_server_port(front->server);
}

bool route_front_is_ready(const struct route_front *front)
{
    return route_pool_ready_count(&front->pool, ROUTE_CONTEXT) > 0 &&
           route_pool_ready_count(&front->pool, ROUTE_GENERATION) > 0;
}

/* Told from the loop, by a timer that ends with the front end, once the answers
 * have left and workers know what nobody waits for. */
static void check_idle(struct route_front *front)
{
    if (front->is_draining && front->open_count == 0 && !front->is_idle_told) {
        front->is_idle_told = true;
        io_timer_start(front->drain_timer, 0);
    }
}

void front_on_closed(struct route_front *front)
{
    front->open_count--;
    check_idle(front);
}

/* Nobody's answer is due: the port closes, and what was written leaves. */
static void end_drain(struct route_front *front)
{
    if (!front->is_shut) {
        front->is_shut = true;
        http_server_drain(front->server);
    }
    if (http_server_is_quiet(front->server) && front_aborts_are_told(front)) {
        front->on_idle(front->idle_context);
        return;
    }
    io_timer_start(front->drain_timer, QUIET_POLL_NS);
}

static void on_drain_time(void *context)
{
    struct route_front *front = context;
    if (front->is_idle_told) {
        end_drain(front);
        return;
    }
    log_warn("route", "%u requests are cut: the drain took too long",
             front->open_count);
    front_session_expire_all(front);
    front_forward_cut_all(front);
}

/* New connections still come in: whoever balances load shall see `draining`. */
void route_front_drain(struct route_front *front,
                       void (*on_idle)(void *context), void *context)
{
    front->is_draining = true;
    http_server_wind_down(front->server);
    front->on_idle = on_idle;
    front->idle_context = context;
    front->drain_timer = io_timer_create(front->loop, on_drain_time, front);
    io_timer_start(front->drain_timer,
                   front_ns(front->config->drain_timeout_s));
    check_idle(front);
}

void route_front_close(struct route_front *front)
{
    if (front == NULL) {
        return;
    }
    front->is_idle_told = true;
    front_session_cut_all(front);
    front_forward_cut_all(front);
    front_probe_end(front);
    io_timer_destroy(front->drain_timer);
    http_server_close(front->server);
    http_client_destroy(front->client);
    front_aborts_end(front);
    route_metrics_finish(&front->metrics);
    mem_free(front);
}
