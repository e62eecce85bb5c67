#include "io/loop.h"

#include "base/check.h"
#include "base/mem.h"
#include "io/loop_body.h"
#include "io/mailbox.h"
#include "io/resolver.h"

void io_loop_init(struct io_loop *loop, const struct io_loop_ops *ops,
                  const struct io_net_ops *net)
{
    loop->ops = ops;
    loop->net = net;
}

const struct io_net_ops *io_loop_net(const struct io_loop *loop)
{
    return loop->net;
}

void io_loop_sample(struct io_loop *loop)
{
    if (loop->has_sampled) {
        return;
    }
    uint64_t now = loop->ops->now(loop);
    loop->now = now > loop->now ? now : loop->now;
    loop->has_sampled = true;
}

static void run_deferred(struct io_loop *loop)
{
    struct io_deferred_list list = loop->waiting;
    loop->waiting = loop->running;
    loop->waiting.count = 0;
    loop->running = list;
    for (uint32_t i = 0; i < list.count; i++) {
        io_loop_sample(loop);
        list.items[i].task(list.items[i].context);
    }
    loop->running.count = 0;
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
    io_resolver_destroy(loop->resolver);
    io_waker_destroy(loop->resolver_waker);
    CHECK(loop->handle_count == 0);
    mem_free(loop->waiting.items);
    mem_free(loop->running.items);
    loop->ops->destroy(loop);
}

void io_loop_turn(struct io_loop *loop, uint64_t wait_ns_max)
{
    CHECK(!loop->is_in_turn);
    loop->is_in_turn = true;
    loop->has_sampled = false;
    loop->ops->turn(loop, wait_ns_max);
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
    loop->ops->stop(loop);
}

uint64_t io_loop_now(const struct io_loop *loop)
{
    return loop->is_in_turn ? loop->now : loop->ops->now(loop);
}

struct io_timer *io_timer_create(struct io_loop *loop,
                                 void (*on_time)(void *context), void *context)
{
    struct io_timer *timer = loop->ops->timer_create(loop);
    timer->on_time = on_time;
    timer->context = context;
    loop->handle_count++;
    return timer;
}

void io_timer_destroy(struct io_timer *timer)
{
    if (timer == NULL) {
        return;
    }
    timer->loop->handle_count--;
    timer->loop->ops->timer_destroy(timer);
}

void io_timer_start(struct io_timer *timer, uint64_t delay_ns)
{
    uint64_t now = io_loop_now(timer->loop);
    timer->due = now > UINT64_MAX - delay_ns ? UINT64_MAX : now + delay_ns;
    timer->loop->ops->timer_start(timer, delay_ns);
}

void io_timer_stop(struct io_timer *timer)
{
    timer->loop->ops->timer_stop(timer);
}

struct io_watch *io_watch_create(struct io_loop *loop, int fd,
                                 void (*on_ready)(void *context, int ready),
                                 void *context)
{
    struct io_watch *watch = loop->ops->watch_create(loop, fd);
    watch->on_ready = on_ready;
    watch->context = context;
    loop->handle_count++;
    return watch;
}

void io_watch_set(struct io_watch *watch, int interest)
{
    if (watch->interest != interest) {
        watch->loop->ops->watch_set(watch, interest);
        watch->interest = interest;
    }
}

void io_watch_destroy(struct io_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    io_watch_set(watch, 0);
    watch->loop->handle_count--;
    watch->loop->ops->watch_destroy(watch);
}

void io_loop_defer(struct io_loop *loop, void (*task)(void *context),
                   void *context)
{
    struct io_deferred_list *list = &loop->waiting;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 32 : list->capacity * 2;
        struct io_deferred *items = mem_new_array(capacity, sizeof(*items));
        for (uint32_t i = 0; i < list->count; i++) {
            items[i] = list->items[i];
        }
        mem_free(list->items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] =
        (struct io_deferred){.task = task, .context = context};
}

enum err io_loop_on_signal(struct io_loop *loop, int signal_number,
                           void (*on_signal)(void *context), void *context)
{
    return loop->ops->on_signal(loop, signal_number, on_signal, context);
}

static void names_answered(void *context)
{
    struct io_loop *loop = context;
    io_resolver_step(loop->resolver, io_loop_now(loop));
}

enum err io_loop_resolve_with(struct io_loop *loop,
                              const struct io_resolver_options *options)
{
    struct io_resolver_options whole = *options;
    CHECK(loop->resolver == NULL);
    enum err err = loop->net->waker(loop, &loop->resolver_waker);
    if (err) {
        return err;
    }
    whole.waker = loop->resolver_waker;
    loop->resolver = io_resolver_create(&whole);
    return io_waker_attach(loop->resolver_waker, loop, names_answered, loop);
}

enum err io_loop_resolver(struct io_loop *loop, struct why *why,
                          struct io_resolver **resolver_out)
{
    const struct io_resolver_options usual = {
        .look_up = {.ask = loop->net->look_up},
        .is_instant = loop->net->is_look_up_instant,
    };
    if (loop->resolver == NULL && io_loop_resolve_with(loop, &usual)) {
        return why_say(why, ERR_IO, "no descriptor left to wait for a name");
    }
    *resolver_out = loop->resolver;
    return OK;
}
