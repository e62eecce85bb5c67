#include <string.h>

#include "base/log.h"
#include "route/front_internal.h"

/* Starting ends when each role has had a server, or when the time for it is
 * over; from then on whoever can serve is healthy (README, degraded). */
bool front_is_healthy(const struct route_front *front)
{
    uint64_t start_max = front_ns(front->config->server_start_timeout_s);
    bool has_started = front->was_ready ||
                       io_loop_now(front->loop) - front->start_ns > start_max;
    return !front->is_draining && has_started &&
           route_pool_can_serve(&front->pool);
}

void front_page_health(struct route_front *front,
                       struct http_exchange *exchange)
{
    if (front->is_draining) {
        front_reply_draining(front, exchange);
        return;
    }
    front_reply(front, exchange, front_is_healthy(front) ? 200 : 503, NULL,
                span_of(NULL, 0));
}

void front_page_version(struct route_front *front,
                        struct http_exchange *exchange)
{
    struct buf body;
    buf_init(&body, 1024);
    buf_add_string(&body, "{\"version\":");
    buf_add_json_string(&body, span_of_string(front->version));
    buf_add_byte(&body, '}');
    front_reply(front, exchange, 200, "application/json", buf_span(&body));
    buf_finish(&body);
}

static void tell_unready(const struct route_front *front, uint32_t index,
                         struct buf *out)
{
    const struct route_server *server = &front->pool.servers[index];
    const struct front_probe *probe = &front->probes[index];
    bool is_misfit = strcmp(route_server_status(server), "misfit") == 0;
    const char *fault = is_misfit ? probe->misfit : probe->fault;
    const char *role = !server->has_role[ROUTE_CONTEXT]      ? "generation"
                       : !server->has_role[ROUTE_GENERATION] ? "context"
                                                             : "mixed";
    fault = fault[0] == 0 ? "it was not asked yet" : fault;
    log_warn("route", "%s server %s is not ready: %s", role, server->name,
             fault);
    buf_printf(out, "%s%s %s: %s", out->size > 0 ? "; " : "", role,
               server->name, fault);
}

void route_front_tell_unready(const struct route_front *front, struct buf *out)
{
    for (uint32_t i = 0; i < front->pool.server_count; i++) {
        if (!route_server_is_ready(&front->pool.servers[i])) {
            tell_unready(front, i, out);
        }
    }
}

static void add_list(const struct route_pool *pool, enum route_role role,
                     struct buf *out)
{
    buf_printf(out, "\"%s\":[", route_role_name(role));
    for (uint32_t i = 0; i < pool->member_count[role]; i++) {
        buf_add_string(out, i == 0 ? "" : ",");
        const char *name = pool->servers[pool->members[role][i]].name;
        buf_add_json_string(out, span_of_string(name));
    }
    buf_add_byte(out, ']');
}

static void add_servers(const struct route_front *front, struct buf *out)
{
    const struct route_pool *pool = &front->pool;
    const struct front_probe *probes = front->probes;
    for (uint32_t i = 0; i < pool->server_count; i++) {
        const struct route_server *server = &pool->servers[i];
        buf_printf(out, "%s{\"address\":", i == 0 ? "" : ",");
        buf_add_json_string(out, span_of_string(server->name));
        buf_printf(out,
                   ",\"context\":%s,\"generation\":%s,\"state\":\"%s\","
                   "\"open_legs\":%u",
                   server->has_role[ROUTE_CONTEXT] ? "true" : "false",
                   server->has_role[ROUTE_GENERATION] ? "true" : "false",
                   route_server_status(server), server->open_legs);
        if (server->marks.max_seq != 0) {
            buf_printf(out, ",\"max_seq_len\":%u", server->marks.max_seq);
        }
        if (server->misfit != ROUTE_FITS) {
            buf_add_string(out, ",\"misfit\":");
            buf_add_json_string(out, span_of_string(probes[i].misfit));
        }
        buf_add_byte(out, '}');
    }
}

void front_page_cluster(struct route_front *front,
                        struct http_exchange *exchange)
{
    struct buf body;
    const struct route_pool *pool = &front->pool;
    buf_init(&body, 1 << 20);
    buf_printf(&body, "{\"is_ready\":%s,\"server_lists\":{",
               route_front_is_ready(front) ? "true" : "false");
    add_list(pool, ROUTE_CONTEXT, &body);
    buf_add_byte(&body, ',');
    add_list(pool, ROUTE_GENERATION, &body);
    buf_printf(
        &body,
        "},\"ready\":{\"context\":%s,\"generation\":%s},"
        "\"is_degraded\":%s,",
        route_pool_ready_count(pool, ROUTE_CONTEXT) > 0 ? "true" : "false",
        route_pool_ready_count(pool, ROUTE_GENERATION) > 0 ? "true" : "false",
        route_pool_can_serve(pool) && !route_front_is_ready(front) ? "true"
                                                                   : "false");
    if (pool->max_seq != 0) {
        buf_printf(&body, "\"max_seq_len\":%u,", pool->max_seq);
    }
    buf_add_string(&body, "\"servers\":[");
    add_servers(front, &body);
    buf_add_string(&body, "]}");
    front_reply(front, exchange, 200, "application/json", buf_span(&body));
    buf_finish(&body);
}

void front_page_metrics(struct route_front *front,
                        struct http_exchange *exchange)
{
    struct buf body;
    buf_init(&body, 4 << 20);
    obs_gauge_set(front->metrics.open, (double)front->open_count);
    route_metrics_print(&front->metrics, &front->pool, &body);
    front_reply(front, exchange, 200,
                "text/plain; version=0.0.4; charset=utf-8", buf_span(&body));
    buf_finish(&body);
}
