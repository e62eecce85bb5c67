#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/loop_body.h"

struct loop_signal {
    struct loop_signal *next;
    struct io_loop *loop;
    struct event event;
    void (*on_signal)(void *context);
    void *context;
};

struct body {
    struct io_loop base;
    struct event_base *events;
    int stop_fd;
    struct event stop_event;
    struct event limit_event; /* ends the wait of a turn */
    struct loop_signal *signals;
};

struct timer {
    struct io_timer base;
    struct event event;
};

struct watch {
    struct io_watch base;
    struct event readable;
    struct event writable;
};

static struct body *body_of(struct io_loop *loop)
{
    return (struct body *)loop;
}

static struct timeval timeval_from_ns(uint64_t ns)
{
    const uint64_t FOREVER_S = 3600u * 24u * 365u;
    uint64_t us = ns / 1000u + (ns % 1000u != 0);
    uint64_t seconds = us / 1000000u;
    return (struct timeval){
        .tv_sec = (time_t)(seconds > FOREVER_S ? FOREVER_S : seconds),
        .tv_usec = (suseconds_t)(us % 1000000u),
    };
}

static void stop_ready(evutil_socket_t fd, short what, void *context)
{
    (void)what;
    (void)context;
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));
    (void)got;
}

static void limit_reached(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    (void)context;
}

static void destroy(struct io_loop *loop)
{
    struct body *body = body_of(loop);
    while (body->signals != NULL) {
        struct loop_signal *signal = body->signals;
        body->signals = signal->next;
        event_del(&signal->event);
        mem_free(signal);
    }
    event_del(&body->stop_event);
    event_del(&body->limit_event);
    event_base_free(body->events);
    close(body->stop_fd);
    mem_free(body);
}

static void turn(struct io_loop *loop, uint64_t wait_ns_max)
{
    struct body *body = body_of(loop);
    bool is_waiting = loop->waiting.count == 0 && wait_ns_max > 0;
    bool is_limited = is_waiting && wait_ns_max != UINT64_MAX;
    if (is_limited) {
        struct timeval limit = timeval_from_ns(wait_ns_max);
        event_add(&body->limit_event, &limit);
    }
    /* ONCE in any case: else a descriptor that stays readable until a deferred
     * task reads it would keep the call, and so the task, for ever. */
    int code =
        event_base_loop(body->events, EVLOOP_NO_EXIT_ON_EMPTY | EVLOOP_ONCE |
                                          (is_waiting ? 0 : EVLOOP_NONBLOCK));
    CHECK(code >= 0);
    if (is_limited) {
        event_del(&body->limit_event);
    }
}

static void stop(struct io_loop *loop)
{
    int saved = errno;
    uint64_t one = 1;
    ssize_t written = write(body_of(loop)->stop_fd, &one, sizeof(one));
    (void)written;
    errno = saved;
}

static uint64_t now(const struct io_loop *loop)
{
    (void)loop;
    return io_clock_now_ns();
}

static void timer_due(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct io_timer *timer = context;
    struct io_loop *loop = timer->loop;
    io_loop_sample(loop);
    /* The library counts from its own reading of the clock, a moment before
     * ours: whoever compares a deadline must not find it early. */
    loop->now = loop->now < timer->due ? timer->due : loop->now;
    timer->on_time(timer->context);
}

static struct io_timer *timer_create_event(struct io_loop *loop)
{
    struct timer *timer = mem_new(sizeof(*timer));
    timer->base.loop = loop;
    int code = event_assign(&timer->event, body_of(loop)->events, -1, 0,
                            timer_due, timer);
    CHECK(code == 0);
    return &timer->base;
}

static void timer_destroy(struct io_timer *timer)
{
    event_del(&((struct timer *)timer)->event);
    mem_free(timer);
}

static void timer_start(struct io_timer *timer, uint64_t delay_ns)
{
    struct timeval delay = timeval_from_ns(delay_ns);
    int code = event_add(&((struct timer *)timer)->event, &delay);
    CHECK(code == 0);
}

static void timer_stop(struct io_timer *timer)
{
    event_del(&((struct timer *)timer)->event);
}

static void watch_ready(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    struct io_watch *watch = context;
    io_loop_sample(watch->loop);
    int ready = ((what & EV_READ) != 0 ? IO_READABLE : 0) |
                ((what & EV_WRITE) != 0 ? IO_WRITABLE : 0);
    watch->on_ready(watch->context, ready);
}

static struct io_watch *watch_create(struct io_loop *loop, int fd)
{
    struct watch *watch = mem_new(sizeof(*watch));
    struct event_base *events = body_of(loop)->events;
    watch->base.loop = loop;
    int code = event_assign(&watch->readable, events, fd, EV_READ | EV_PERSIST,
                            watch_ready, watch);
    CHECK(code == 0);
    code = event_assign(&watch->writable, events, fd, EV_WRITE | EV_PERSIST,
                        watch_ready, watch);
    CHECK(code == 0);
    return &watch->base;
}

static void watch_destroy(struct io_watch *watch)
{
    mem_free(watch);
}

static void set_event(struct event *event, bool is_on)
{
    int code = is_on ? event_add(event, NULL) : event_del(event);
    CHECK(code == 0);
}

static void watch_set(struct io_watch *base, int interest)
{
    struct watch *watch = (struct watch *)base;
    int changed = base->interest ^ interest;
    if ((changed & IO_READABLE) != 0) {
        set_event(&watch->readable, (interest & IO_READABLE) != 0);
    }
    if ((changed & IO_WRITABLE) != 0) {
        set_event(&watch->writable, (interest & IO_WRITABLE) != 0);
    }
}

static void signal_raised(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct loop_signal *signal = context;
    io_loop_sample(signal->loop);
    signal->on_signal(signal->context);
}

static enum err on_signal_event(struct io_loop *loop, int signal_number,
                                void (*on_signal)(void *context), void *context)
{
    struct body *body = body_of(loop);
    struct loop_signal *signal = mem_new(sizeof(*signal));
    signal->loop = loop;
    signal->on_signal = on_signal;
    signal->context = context;
    if (event_assign(&signal->event, body->events, signal_number,
                     EV_SIGNAL | EV_PERSIST, signal_raised, signal) != 0 ||
        event_add(&signal->event, NULL) != 0) {
        mem_free(signal);
        return ERR_IO;
    }
    signal->next = body->signals;
    body->signals = signal;
    return OK;
}

static const struct io_loop_ops ops = {
    .destroy = destroy,
    .turn = turn,
    .stop = stop,
    .now = now,
    .timer_create = timer_create_event,
    .timer_destroy = timer_destroy,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
    .watch_create = watch_create,
    .watch_destroy = watch_destroy,
    .watch_set = watch_set,
    .on_signal = on_signal_event,
};

static struct event_base *base_create(void)
{
    struct event_config *config = event_config_new();
    if (config == NULL) {
        return NULL;
    }
    /* One thread a base, hence no locks; and a clock finer than the 4 ms tick,
     * or deadlines would fire before their time. */
    int code = event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK |
                                                 EVENT_BASE_FLAG_PRECISE_TIMER);
    struct event_base *base =
        code == 0 ? event_base_new_with_config(config) : NULL;
    event_config_free(config);
    return base;
}

enum err io_loop_create(struct io_loop **loop_out)
{
    struct event_base *events = base_create();
    if (events == NULL) {
        return ERR_IO;
    }
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        event_base_free(events);
        return ERR_IO;
    }
    struct body *body = mem_new(sizeof(*body));
    io_loop_init(&body->base, &ops, &io_net_socket);
    body->events = events;
    body->stop_fd = fd;
    event_assign(&body->stop_event, events, fd, EV_READ | EV_PERSIST,
                 stop_ready, body);
    event_assign(&body->limit_event, events, -1, 0, limit_reached, body);
    if (event_add(&body->stop_event, NULL) != 0) {
        close(fd);
        event_base_free(events);
        mem_free(body);
        return ERR_IO;
    }
    *loop_out = &body->base;
    return OK;
}
