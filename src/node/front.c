#include "node/front.h"

#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/loop.h"
#include "node/ports.h"
#include "route/front.h"
#include "route/limits.h"

static const uint64_t READY_POLL_NS = 20000000u;
/* For the last answers after the drain limit. */
static const uint64_t LAST_WORDS_NS = 1000000000u;

struct front {
    const struct config_route *config;
    struct io_loop *loop;
    struct route_front *front;
    struct io_timer *ready_poll;
    struct io_timer *start_limit;
    struct io_timer *drain_limit;
    bool is_draining;
    enum err result;
    struct why why;
};

static void say(const struct front *front, const char *what)
{
    node_ports_say(what, front->config->hostname,
                   route_front_port(front->front));
}

static void on_ready_poll(void *context)
{
    struct front *front = context;
    if (route_front_is_ready(front->front)) {
        io_timer_stop(front->start_limit);
        say(front, "ready");
    } else {
        io_timer_start(front->ready_poll, READY_POLL_NS);
    }
}

static void stop(void *context)
{
    struct front *front = context;
    io_loop_stop(front->loop);
}

static void on_start_limit(void *context)
{
    struct front *front = context;
    struct buf servers;
    buf_init(&servers, 65536);
    route_front_tell_unready(front->front, &servers);
    front->result =
        why_say(&front->why, ERR_TIMEOUT,
                "not every role had a server ready within %.0f s: %s",
                front->config->server_start_timeout_s, buf_string(&servers));
    buf_finish(&servers);
    io_loop_stop(front->loop);
}

static void on_signal(void *context)
{
    struct front *front = context;
    if (front->is_draining) {
        io_loop_stop(front->loop);
        return;
    }
    front->is_draining = true;
    log_info("route", "draining: what is open may go on for %.1f s",
             front->config->drain_timeout_s);
    io_timer_stop(front->start_limit);
    io_timer_start(front->drain_limit,
                   (uint64_t)(front->config->drain_timeout_s * 1e9) +
                       LAST_WORDS_NS);
    route_front_drain(front->front, stop, front);
}

static enum err start(struct front *front, struct why *why)
{
    enum err code = io_loop_on_signal(front->loop, SIGTERM, on_signal, front);
    if (code == OK) {
        code = io_loop_on_signal(front->loop, SIGINT, on_signal, front);
    }
    if (code != OK) {
        return why_say(why, code, "signals: %s", err_name(code));
    }
    if (front->config->internal_auth_key[0] == 0) {
        log_warn("route", "no internal_request_auth_key: workers refuse the "
                          "hand-offs, but those that are not strict");
    }
    code = route_front_open(
        &(struct route_front_options){
            .loop = front->loop,
            .config = front->config,
            .version = BATON_VERSION,
        },
        why, &front->front);
    return node_ports_name(code, "port", why);
}

enum err node_front_run(const struct config_route *config, struct why *why)
{
    struct front *front = mem_new(sizeof(*front));
    front->config = config;
    enum err code = io_loop_create(&front->loop);
    if (code != OK) {
        mem_free(front);
        return why_say(why, code, "no event loop: %s", err_name(code));
    }
    front->ready_poll = io_timer_create(front->loop, on_ready_poll, front);
    front->start_limit = io_timer_create(front->loop, on_start_limit, front);
    front->drain_limit = io_timer_create(front->loop, stop, front);
    code = start(front, why);
    if (code == OK) {
        say(front, "listening");
        io_timer_start(front->ready_poll, READY_POLL_NS);
        io_timer_start(front->start_limit,
                       (uint64_t)(config->server_start_timeout_s * 1e9));
        io_loop_run(front->loop);
        code = front->result;
        if (code != OK && why != NULL) {
            *why = front->why;
        }
        route_front_close(front->front);
    }
    io_timer_destroy(front->ready_poll);
    io_timer_destroy(front->start_limit);
    io_timer_destroy(front->drain_limit);
    io_loop_destroy(front->loop);
    mem_free(front);
    return code;
}

void node_front_describe_limits(const struct config_route *config,
                                struct buf *out)
{
    route_limits_describe(config, out);
}
