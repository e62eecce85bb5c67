#include "io/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/clock.h"

struct deferred {
    void (*task)(void *context);
    void *context;
};

struct deferred_list {
    struct deferred *items; /* capacity; the first count are waiting */
    uint32_t count;
    uint32_t capacity;
};

struct loop_signal {
    struct loop_signal *next;
    struct io_loop *loop;
    struct event event;
    void (*on_signal)(void *context);
    void *context;
};

struct io_loop {
    struct event_base *base;
    uint64_t now;
    bool is_in_turn;
    bool has_sampled; /* in this turn */
    int stop_fd;
    struct event stop_event;
    atomic_bool is_stopped;
    struct event limit_event; /* ends the wait of io_loop_turn */
    struct deferred_list waiting;
    struct deferred_list running;
    struct loop_signal *signals;
    uint32_t handle_count; /* timers and watches alive */
};

struct io_timer {
    struct io_loop *loop;
    struct event event;
    uint64_t due;
    void (*on_time)(void *context);
    void *context;
};

struct io_watch {
    struct io_loop *loop;
    struct event readable;
    struct event writable;
    int interest;
    void (*on_ready)(void *context, int ready);
    void *context;
};

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

/* Every callback starts here: the first of a turn reads the clock. */
static void sample(struct io_loop *loop)
{
    if (loop->has_sampled) {
        return;
    }
    uint64_t now = io_clock_now_ns();
    loop->now = now > loop->now ? now : loop->now;
    loop->has_sampled = true;
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
    struct event_base *base = base_create();
    if (base == NULL) {
        return ERR_IO;
    }
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        event_base_free(base);
        return ERR_IO;
    }
    struct io_loop *loop = mem_new(sizeof(*loop));
    loop->base = base;
    loop->stop_fd = fd;
    event_assign(&loop->stop_event, base, fd, EV_READ | EV_PERSIST, stop_ready,
                 loop);
    event_assign(&loop->limit_event, base, -1, 0, limit_reached, loop);
    if (event_add(&loop->stop_event, NULL) != 0) {
        close(fd);
        event_base_free(base);
        mem_free(loop);
        return ERR_IO;
    }
    *loop_out = loop;
    return OK;
}

static void run_deferred(struct io_loop *loop)
{
    struct deferred_list list = loop->waiting;
    loop->waiting = loop->running;
    loop->waiting.count = 0;
    loop->running = list;
    for (uint32_t i = 0; i < list.count; i++) {
        sample(loop);
        list.items[i].task(list.items[i].context);
    }
    loop->running.count = 0;
}

static void free_signals(struct io_loop *loop)
{
    while (loop->signals != NULL) {
        struct loop_signal *signal = loop->signals;
        loop->signals = signal->next;
        event_del(&signal->event);
        mem_free(signal);
    }
}

void io_loop_destroy(struct io_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    /* Closes that were asked for are still to be told. */
    while (loop->waiting.count > 0) {
        run_deferred(loop);
    }
    CHECK(loop->handle_count == 0);
    free_signals(loop);
    event_del(&loop->stop_event);
    event_del(&loop->limit_event);
    event_base_free(loop->base);
    close(loop->stop_fd);
    mem_free(loop->waiting.items);
    mem_free(loop->running.items);
    mem_free(loop);
}

void io_loop_turn(struct io_loop *loop, uint64_t wait_ns_max)
{
    CHECK(!loop->is_in_turn);
    loop->is_in_turn = true;
    loop->has_sampled = false;
    bool is_waiting = loop->waiting.count == 0 && wait_ns_max > 0;
    bool is_limited = is_waiting && wait_ns_max != UINT64_MAX;
    if (is_limited) {
        struct timeval limit = timeval_from_ns(wait_ns_max);
        event_add(&loop->limit_event, &limit);
    }
    /* ONCE in any case: else a descriptor that stays readable until a deferred
     * task reads it would keep the call, and so the task, for ever. */
    int code =
        event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY | EVLOOP_ONCE |
                                        (is_waiting ? 0 : EVLOOP_NONBLOCK));
    CHECK(code >= 0);
    if (is_limited) {
        event_del(&loop->limit_event);
    }
    /* At the end: what this turn's callbacks put off costs no turn more. */
    run_deferred(loop);
    loop->is_in_turn = false;
}

void io_loop_run(struct io_loop *loop)
{
    while (!atomic_exchange(&loop->is_stopped, false)) {
        io_loop_turn(loop, UINT64_MAX);
    }
}

void io_loop_stop(struct io_loop *loop)
{
    atomic_store(&loop->is_stopped, true);
    int saved = errno;
    uint64_t one = 1;
    ssize_t written = write(loop->stop_fd, &one, sizeof(one));
    (void)written;
    errno = saved;
}

uint64_t io_loop_now(const struct io_loop *loop)
{
    return loop->is_in_turn ? loop->now : io_clock_now_ns();
}

static void timer_due(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct io_timer *timer = context;
    struct io_loop *loop = timer->loop;
    sample(loop);
    /* The library counts from its own reading of the clock, a moment before
     * ours: whoever compares a deadline must not find it early. */
    loop->now = loop->now < timer->due ? timer->due : loop->now;
    timer->on_time(timer->context);
}

struct io_timer *io_timer_create(struct io_loop *loop,
                                 void (*on_time)(void *context), void *context)
{
    struct io_timer *timer = mem_new(sizeof(*timer));
    timer->loop = loop;
    timer->on_time = on_time;
    timer->context = context;
    int code = event_assign(&timer->event, loop->base, -1, 0, timer_due, timer);
    CHECK(code == 0);
    loop->handle_count++;
    return timer;
}

void io_timer_destroy(struct io_timer *timer)
{
    if (timer == NULL) {
        return;
    }
    event_del(&timer->event);
    timer->loop->handle_count--;
    mem_free(timer);
}

void io_timer_start(struct io_timer *timer, uint64_t delay_ns)
{
    uint64_t now = io_loop_now(timer->loop);
    timer->due = now > UINT64_MAX - delay_ns ? UINT64_MAX : now + delay_ns;
    struct timeval delay = timeval_from_ns(delay_ns);
    int code = event_add(&timer->event, &delay);
    CHECK(code == 0);
}

void io_timer_stop(struct io_timer *timer)
{
    event_del(&timer->event);
}

static void watch_ready(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    struct io_watch *watch = context;
    sample(watch->loop);
    int ready = ((what & EV_READ) != 0 ? IO_READABLE : 0) |
                ((what & EV_WRITE) != 0 ? IO_WRITABLE : 0);
    watch->on_ready(watch->context, ready);
}

struct io_watch *io_watch_create(struct io_loop *loop, int fd,
                                 void (*on_ready)(void *context, int ready),
                                 void *context)
{
    struct io_watch *watch = mem_new(sizeof(*watch));
    watch->loop = loop;
    watch->on_ready = on_ready;
    watch->context = context;
    int code = event_assign(&watch->readable, loop->base, fd,
                            EV_READ | EV_PERSIST, watch_ready, watch);
    CHECK(code == 0);
    code = event_assign(&watch->writable, loop->base, fd, EV_WRITE | EV_PERSIST,
                        watch_ready, watch);
    CHECK(code == 0);
    loop->handle_count++;
    return watch;
}

static void set_event(struct event *event, bool is_on)
{
    int code = is_on ? event_add(event, NULL) : event_del(event);
    CHECK(code == 0);
}

void io_watch_set(struct io_watch *watch, int interest)
{
    int changed = watch->interest ^ interest;
    watch->interest = interest;
    if ((changed & IO_READABLE) != 0) {
        set_event(&watch->readable, (interest & IO_READABLE) != 0);
    }
    if ((changed & IO_WRITABLE) != 0) {
        set_event(&watch->writable, (interest & IO_WRITABLE) != 0);
    }
}

void io_watch_destroy(struct io_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    io_watch_set(watch, 0);
    watch->loop->handle_count--;
    mem_free(watch);
}

void io_loop_defer(struct io_loop *loop, void (*task)(void *context),
                   void *context)
{
    struct deferred_list *list = &loop->waiting;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 32 : list->capacity * 2;
        struct deferred *items = mem_new_array(capacity, sizeof(*items));
        for (uint32_t i = 0; i < list->count; i++) {
            items[i] = list->items[i];
        }
        mem_free(list->items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] =
        (struct deferred){.task = task, .context = context};
}

static void signal_raised(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct loop_signal *signal = context;
    sample(signal->loop);
    signal->on_signal(signal->context);
}

enum err io_loop_on_signal(struct io_loop *loop, int signal_number,
                           void (*on_signal)(void *context), void *context)
{
    struct loop_signal *signal = mem_new(sizeof(*signal));
    signal->loop = loop;
    signal->on_signal = on_signal;
    signal->context = context;
    if (event_assign(&signal->event, loop->base, signal_number,
                     EV_SIGNAL | EV_PERSIST, signal_raised, signal) != 0 ||
        event_add(&signal->event, NULL) != 0) {
        mem_free(signal);
        return ERR_IO;
    }
    signal->next = loop->signals;
    loop->signals = signal;
    return OK;
}
