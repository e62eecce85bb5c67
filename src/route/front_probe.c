#include "route/front_internal.h"

#include <stdio.h>
#include <string.h>

#include "api/scan.h"
#include "base/log.h"

enum { INFO_SIZE_MAX = 65536 };
static const uint64_t PROBE_NS_MAX = 1000000000ull;

static void start_probe(struct front_probe *probe);

static const char *path_of(const struct front_probe *probe)
{
    return probe->is_preparing ? "/server_info" : "/health";
}

static void arm(struct route_front *front)
{
    uint64_t wake = route_pool_wake_ns(&front->pool);
    uint64_t now = io_loop_now(front->loop);
    if (wake != UINT64_MAX) {
        io_timer_start(front->probe_timer, wake > now ? wake - now : 0);
    }
}

static void on_head(void *context, struct http_call *call)
{
    struct front_probe *probe = context;
    struct span state;
    probe->status = http_call_status(call);
    buf_reset(&probe->info);
    if (http_call_header(call, "x-trtllm-server-state", &state)) {
        probe->is_draining = span_equals_string(state, "draining");
        probe->is_starting = span_equals_string(state, "starting");
        probe->is_restarted = span_equals_string(state, "restarted");
    }
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    struct front_probe *probe = context;
    (void)call;
    if (probe->is_preparing) {
        buf_add_span(&probe->info, bytes);
    }
    /* The body of a health answer is one short piece. */
    probe->is_draining |=
        !probe->is_preparing && bytes.size < 4096 &&
        memmem(bytes.data, bytes.size, "\"draining\"", 10) != NULL;
}

/* Read into the pool what a worker says of itself. */
static void read_info(struct front_probe *probe)
{
    struct route_pool *pool = &probe->front->pool;
    struct route_server *server = &pool->servers[probe->server];
    struct span info = buf_span(&probe->info);
    struct route_marks marks;
    struct why why = {""};
    route_marks_read(info, &marks);
    route_pool_note_marks(pool, probe->server, &marks);
    bool is_whole_only =
        info.size > 0 &&
        memmem(info.data, info.size, "\"hand_off\":false", 16) != NULL;
    if (is_whole_only && !server->is_whole_only) {
        log_warn("route",
                 "worker %s takes part in no hand-off, it says: it is asked "
                 "whole",
                 server->name);
    }
    server->is_whole_only = is_whole_only;
    if (!pool->keeps_peers || !server->has_role[ROUTE_CONTEXT] ||
        server->is_whole_only || server->state != ROUTE_SERVER_READY) {
        return;
    }
    enum err code = route_peer_read(info, &why, &server->peer);
    if (code == OK) {
        probe->is_fallback_told = false;
    } else if (code != ERR_NOT_FOUND) {
        log_warn("route", "worker %s: /server_info: %s", server->name,
                 why.text);
    }
}

static void note_misfit(struct route_front *front, uint32_t index)
{
    const struct route_pool *pool = &front->pool;
    const struct route_server *server = &pool->servers[index];
    struct front_probe *probe = &front->probes[index];
    struct buf text;
    buf_init(&text, sizeof(probe->misfit) - 1);
    route_match_describe(server->misfit, &server->marks, &pool->most, &text);
    bool is_known = strcmp(buf_string(&text), probe->misfit) == 0;
    snprintf(probe->misfit, sizeof(probe->misfit), "%s", buf_string(&text));
    buf_finish(&text);
    if (!is_known && server->misfit != ROUTE_FITS) {
        log_error("route", "worker %s gets no requests: %s", server->name,
                  probe->misfit);
    } else if (!is_known) {
        log_info("route", "worker %s fits the others", server->name);
    }
}

static bool has_say(const struct route_server *server)
{
    return server->state != ROUTE_SERVER_DOWN && server->misfit == ROUTE_FITS;
}

static const char *name_of_least(const struct route_pool *pool)
{
    uint32_t at = 0;
    while (at + 1 < pool->server_count &&
           !(has_say(&pool->servers[at]) &&
             pool->servers[at].marks.max_seq == pool->max_seq)) {
        at++;
    }
    return pool->servers[at].name;
}

/* One line whenever another worker bounds what the rest could take. */
static void note_max_seq(struct route_front *front)
{
    const struct route_pool *pool = &front->pool;
    bool is_mixed = false;
    for (uint32_t i = 0; i < pool->server_count; i++) {
        const struct route_server *server = &pool->servers[i];
        is_mixed |= has_say(server) && server->marks.max_seq > pool->max_seq;
    }
    uint32_t least = is_mixed ? pool->max_seq : 0;
    if (least != front->max_seq_told && least != 0) {
        log_warn("route",
                 "worker %s takes %u tokens at most (max_seq_len), others "
                 "more: no request may have more than that",
                 name_of_least(pool), least);
    }
    front->max_seq_told = least;
}

/* One line a worker that does not fit, and one when it does again. Whichever
 * worker has spoken, it may be another one that is outvoted now. */
static void note_fits(struct route_front *front)
{
    for (uint32_t i = 0; i < front->pool.server_count; i++) {
        note_misfit(front, i);
    }
    note_max_seq(front);
}

static void note_change(struct route_front *front, int32_t index,
                        enum route_server_state before)
{
    const struct route_server *server = &front->pool.servers[index];
    if (server->state != before) {
        log_info("route", "worker %s is %s", server->name,
                 route_server_state_name(server->state));
        if (server->state == ROUTE_SERVER_DOWN) {
            front_session_server_down(front, index);
            front_forward_server_down(front, index);
        }
    }
    note_fits(front);
    front->was_ready |= route_front_is_ready(front);
}

/* The transport's reason without the address it begins with. */
static const char *reason_of(const struct front_probe *probe, const char *text)
{
    const char *name = probe->front->pool.servers[probe->server].name;
    size_t size = strlen(name);
    if (text == NULL || text[0] == 0) {
        return "no answer";
    }
    bool has_name = strncmp(text, name, size) == 0 && text[size] == ':';
    return has_name ? text + size + 1 + strspn(text + size + 1, " ") : text;
}

/* Kept for whoever asks why a server is not ready. */
static void note_fault(struct front_probe *probe, enum http_call_end end,
                       const char *text)
{
    if (end != HTTP_CALL_COMPLETE) {
        snprintf(probe->fault, sizeof(probe->fault), "%s",
                 reason_of(probe, text));
    } else if (probe->is_draining || probe->is_starting) {
        snprintf(probe->fault, sizeof(probe->fault), "it is %s",
                 probe->is_draining ? "shutting down" : "still starting");
    } else if (probe->is_restarted) {
        snprintf(probe->fault, sizeof(probe->fault), "it was started anew");
    } else if (probe->status != 200) {
        snprintf(probe->fault, sizeof(probe->fault),
                 "it answers %s with status %d", path_of(probe), probe->status);
    } else {
        probe->fault[0] = 0;
    }
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct front_probe *probe = context;
    struct route_front *front = probe->front;
    struct route_server *server = &front->pool.servers[probe->server];
    enum route_server_state before = server->state;
    uint64_t now = io_loop_now(front->loop);
    bool is_good = end == HTTP_CALL_COMPLETE && probe->status == 200;
    (void)call;
    probe->call = NULL;
    note_fault(probe, end, text);
    if (probe->is_preparing) {
        route_pool_on_prepared(&front->pool, probe->server, is_good, now);
        probe->is_preparing = false;
        if (is_good) {
            read_info(probe);
        }
        buf_finish(&probe->info);
    } else {
        enum route_probe result = probe->is_draining    ? ROUTE_PROBE_DRAINING
                                  : probe->is_restarted ? ROUTE_PROBE_RESTARTED
                                  : is_good             ? ROUTE_PROBE_GOOD
                                                        : ROUTE_PROBE_BAD;
        probe->is_preparing =
            route_pool_on_probe(&front->pool, probe->server, result, now);
        if (probe->is_preparing) {
            start_probe(probe);
        }
    }
    note_change(front, probe->server, before);
    arm(front);
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

/* `server_info` of a worker that still starts is a 503: not prepared, asked
 * again later. */
static void start_probe(struct front_probe *probe)
{
    struct route_front *front = probe->front;
    const struct io_address *address =
        &front->pool.servers[probe->server].address;
    probe->status = 0;
    probe->is_draining = false;
    probe->is_starting = false;
    probe->is_restarted = false;
    /* A question what it serves is for whoever is there. */
    const char *incarnation =
        probe->is_preparing ? NULL
                            : front_call_incarnation(front, probe->server);
    const struct http_header headers[] = {
        {incarnation == NULL ? NULL : "x-baton-incarnation", incarnation},
        {NULL, NULL}};
    struct http_call_options options = {
        .host = address->host,
        .port = address->port,
        .method = "GET",
        .path = path_of(probe),
        .headers = headers,
        .total_ns_max = PROBE_NS_MAX,
        .handler = &HANDLER,
        .context = probe,
    };
    if (http_call_start(front->client, &options, &probe->call) != OK) {
        probe->call = NULL;
        snprintf(probe->fault, sizeof(probe->fault), "its name is no host");
        uint64_t now = io_loop_now(front->loop);
        if (probe->is_preparing) {
            route_pool_on_prepared(&front->pool, probe->server, false, now);
            probe->is_preparing = false;
        } else {
            enum route_server_state before =
                front->pool.servers[probe->server].state;
            IGNORE(route_pool_on_probe(&front->pool, probe->server,
                                       ROUTE_PROBE_BAD, now));
            note_change(front, probe->server, before);
        }
    }
}

void front_probe_wake(struct route_front *front)
{
    uint64_t now = io_loop_now(front->loop);
    for (;;) {
        int32_t server = route_pool_next_probe(&front->pool, now);
        if (server == ROUTE_NO_SERVER) {
            break;
        }
        front->probes[server].is_preparing = false;
        start_probe(&front->probes[server]);
    }
    arm(front);
}

static void on_time(void *context)
{
    front_probe_wake(context);
}

void front_probe_begin(struct route_front *front)
{
    for (int32_t i = 0; i < ROUTE_SERVER_COUNT_MAX; i++) {
        front->probes[i] = (struct front_probe){.front = front, .server = i};
        buf_init(&front->probes[i].info, INFO_SIZE_MAX);
    }
    front->probe_timer = io_timer_create(front->loop, on_time, front);
    io_timer_start(front->probe_timer, 0);
}

void front_probe_end(struct route_front *front)
{
    io_timer_destroy(front->probe_timer);
    for (uint32_t i = 0; i < front->pool.server_count; i++) {
        if (front->probes[i].call != NULL) {
            http_call_cancel(front->probes[i].call);
        }
        buf_finish(&front->probes[i].info);
    }
}
