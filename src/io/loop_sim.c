#include "base/check.h"
#include "base/mem.h"
#include "io/sim_body.h"

struct sim_timer {
    struct io_timer base;
    struct sim_timer *next;
    bool is_started, is_pending;
};

struct sim_watch {
    struct io_watch base;
    struct sim_watch *next;
    int pending; /* IO_READABLE, IO_WRITABLE: to be told in this turn */
};

static struct sim_loop *body_of(const struct io_loop *loop)
{
    return (struct sim_loop *)loop;
}

/* -------- timers and watches -------- */

static struct io_timer *timer_create(struct io_loop *loop)
{
    struct sim_loop *body = body_of(loop);
    struct sim_timer *timer = mem_new(sizeof(*timer));
    timer->base.loop = loop;
    timer->next = body->timers;
    body->timers = timer;
    return &timer->base;
}

static void timer_destroy(struct io_timer *base)
{
    struct sim_timer **at = &body_of(base->loop)->timers;
    while (&(*at)->base != base) {
        at = &(*at)->next;
    }
    *at = (*at)->next;
    mem_free(base);
}

static void timer_start(struct io_timer *base, uint64_t delay_ns)
{
    (void)delay_ns;
    struct sim_timer *timer = (struct sim_timer *)base;
    timer->is_started = true;
    timer->is_pending = false;
}

static void timer_stop(struct io_timer *base)
{
    struct sim_timer *timer = (struct sim_timer *)base;
    timer->is_started = false;
    timer->is_pending = false;
}

static struct io_watch *watch_create(struct io_loop *loop, int fd)
{
    CHECK(fd >= SIM_FD_FIRST);
    struct sim_loop *body = body_of(loop);
    struct sim_watch *watch = mem_new(sizeof(*watch));
    watch->base.loop = loop;
    watch->base.fd = fd;
    watch->next = body->watches;
    body->watches = watch;
    return &watch->base;
}

static void watch_destroy(struct io_watch *base)
{
    struct sim_watch **at = &body_of(base->loop)->watches;
    while (&(*at)->base != base) {
        at = &(*at)->next;
    }
    *at = (*at)->next;
    mem_free(base);
}

static void watch_set(struct io_watch *watch, int interest)
{
    ((struct sim_watch *)watch)->pending &= interest;
}

/* -------- a turn -------- */

/* Its host's clock says this much more than the world's. */
static uint64_t skew_of(const struct sim_loop *loop)
{
    return loop->sim->skew_ns[loop->host];
}

static bool is_due(const struct sim_loop *loop, const struct sim_timer *timer)
{
    return timer->is_started &&
           timer->base.due <= loop->sim->now + skew_of(loop);
}

static uint32_t mark(struct sim_loop *loop)
{
    const struct io_sim *sim = loop->sim;
    uint32_t count = 0;
    for (struct sim_timer *at = loop->timers; at != NULL; at = at->next) {
        at->is_pending = is_due(loop, at);
        count += at->is_pending;
    }
    for (struct sim_watch *at = loop->watches; at != NULL; at = at->next) {
        int interest = at->base.interest;
        bool is_readable = (interest & IO_READABLE) &&
                           io_sim_readable_ns(sim, at->base.fd) <= sim->now;
        bool is_writable = (interest & IO_WRITABLE) &&
                           io_sim_writable_ns(sim, at->base.fd) <= sim->now;
        at->pending =
            (is_readable ? IO_READABLE : 0) | (is_writable ? IO_WRITABLE : 0);
        count += is_readable + is_writable;
    }
    return count;
}

static uint32_t count_pending(const struct sim_loop *loop)
{
    uint32_t count = 0;
    for (const struct sim_timer *at = loop->timers; at != NULL; at = at->next) {
        count += at->is_pending;
    }
    for (const struct sim_watch *at = loop->watches; at != NULL;
         at = at->next) {
        count += (uint32_t)__builtin_popcount((unsigned)at->pending);
    }
    return count;
}

static void run_timer(struct sim_timer *timer)
{
    timer->is_pending = false;
    timer->is_started = false;
    timer->base.on_time(timer->base.context);
}

static void run_watch(struct sim_watch *watch)
{
    int ready = watch->pending & -watch->pending; /* one at a time */
    watch->pending &= ~ready;
    watch->base.on_ready(watch->base.context, ready);
}

/* What the callbacks destroy is in no list any more, so each look is fresh. */
static void run_nth(struct sim_loop *loop, uint64_t index)
{
    for (struct sim_timer *at = loop->timers; at != NULL; at = at->next) {
        if (at->is_pending && index-- == 0) {
            run_timer(at);
            return;
        }
    }
    for (struct sim_watch *at = loop->watches; at != NULL; at = at->next) {
        uint64_t count = (uint64_t)__builtin_popcount((unsigned)at->pending);
        if (index < count) {
            run_watch(at);
            return;
        }
        index -= count;
    }
}

static void turn(struct io_loop *base, uint64_t wait_ns_max)
{
    (void)wait_ns_max; /* whoever waits does so in io_sim_step */
    struct sim_loop *loop = body_of(base);
    struct io_sim *sim = loop->sim;
    sim->counts.turns++;
    io_loop_sample(base);
    uint32_t count = mark(loop);
    while (count > 0) {
        run_nth(loop, rng_below(&sim->rng, count));
        count = count_pending(loop);
    }
    uint64_t end_ns =
        sim->now + 1 + rng_below(&sim->rng, sim->options.turn_ns_max);
    loop->ready_ns = loop->ready_ns > end_ns ? loop->ready_ns : end_ns;
}

static void stop(struct io_loop *loop)
{
    (void)loop;
}

static uint64_t now(const struct io_loop *loop)
{
    return body_of(loop)->sim->now + skew_of(body_of(loop));
}

static void destroy(struct io_loop *base)
{
    struct sim_loop *loop = body_of(base);
    struct sim_loop **at = &loop->sim->loops;
    while (*at != loop) {
        at = &(*at)->next;
    }
    *at = loop->next;
    mem_free(loop);
}

static enum err on_signal_sim(struct io_loop *loop, int signal_number,
                              void (*on_signal)(void *context), void *context)
{
    (void)loop;
    (void)signal_number;
    (void)on_signal;
    (void)context;
    return ERR_UNSUPPORTED;
}

static const struct io_loop_ops ops = {
    .destroy = destroy,
    .turn = turn,
    .stop = stop,
    .now = now,
    .timer_create = timer_create,
    .timer_destroy = timer_destroy,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
    .watch_create = watch_create,
    .watch_destroy = watch_destroy,
    .watch_set = watch_set,
    .on_signal = on_signal_sim,
};

/* -------- the world -------- */

struct io_sim *io_sim_create(const struct io_sim_options *options)
{
    CHECK(options->turn_ns_max > 0);
    CHECK(options->latency_ns_min <= options->latency_ns_max);
    CHECK(options->buffer_size > 0);
    struct io_sim *sim = mem_new(sizeof(*sim));
    sim->options = *options;
    sim->rng = options->rng;
    sim->now = options->start_ns;
    sim->next_port = 40000;
    return sim;
}

void io_sim_destroy(struct io_sim *sim)
{
    if (sim == NULL) {
        return;
    }
    CHECK(sim->loops == NULL);
    for (uint32_t i = 0; i < SIM_SOCKET_MAX; i++) {
        CHECK(sim->sockets[i].state == SIM_SOCKET_FREE);
    }
    mem_free(sim);
}

uint64_t io_sim_now(const struct io_sim *sim)
{
    return sim->now;
}

struct io_sim_counts io_sim_counts(const struct io_sim *sim)
{
    struct io_sim_counts counts = sim->counts;
    for (uint32_t i = 0; i < SIM_SOCKET_MAX; i++) {
        counts.sockets += sim->sockets[i].state != SIM_SOCKET_FREE;
    }
    return counts;
}

enum err io_sim_loop_create(struct io_sim *sim, uint32_t host,
                            struct io_loop **loop_out)
{
    CHECK(host > 0);
    CHECK(host < IO_SIM_HOST_MAX);
    struct sim_loop *loop = mem_new(sizeof(*loop));
    io_loop_init(&loop->base, &ops, &io_net_sim);
    loop->sim = sim;
    loop->host = host;
    loop->ready_ns = sim->now;
    struct sim_loop **at = &sim->loops;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = loop;
    *loop_out = &loop->base;
    return OK;
}

void io_sim_skew(struct io_sim *sim, uint32_t host, uint64_t ns)
{
    CHECK(host < IO_SIM_HOST_MAX);
    for (const struct sim_loop *at = sim->loops; at != NULL; at = at->next) {
        CHECK(at->host != host);
    }
    sim->skew_ns[host] = ns;
}

void io_sim_freeze(struct io_loop *loop, bool on)
{
    body_of(loop)->is_frozen = on;
}

void io_sim_busy(struct io_loop *loop, uint64_t ns)
{
    struct sim_loop *body = body_of(loop);
    body->ready_ns = body->sim->now + ns;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t work_ns(const struct sim_loop *loop)
{
    const struct io_sim *sim = loop->sim;
    uint64_t next = loop->base.waiting.count > 0 ? sim->now : UINT64_MAX;
    for (const struct sim_timer *at = loop->timers; at != NULL; at = at->next) {
        bool is_ever = at->is_started && at->base.due != UINT64_MAX;
        next = is_ever ? sooner(next, at->base.due - skew_of(loop)) : next;
    }
    for (const struct sim_watch *at = loop->watches; at != NULL;
         at = at->next) {
        if (at->base.interest & IO_READABLE) {
            next = sooner(next, io_sim_readable_ns(sim, at->base.fd));
        }
        if (at->base.interest & IO_WRITABLE) {
            next = sooner(next, io_sim_writable_ns(sim, at->base.fd));
        }
    }
    return next;
}

/* When it takes its next turn. */
static uint64_t next_ns(const struct sim_loop *loop)
{
    uint64_t next = loop->is_frozen ? UINT64_MAX : work_ns(loop);
    return next != UINT64_MAX && next < loop->ready_ns ? loop->ready_ns : next;
}

/* Of those with work now, one. */
static struct sim_loop *draw_loop(struct io_sim *sim)
{
    struct sim_loop *drawn = NULL;
    uint64_t count = 0;
    for (struct sim_loop *at = sim->loops; at != NULL; at = at->next) {
        if (next_ns(at) <= sim->now) {
            count++;
            drawn = rng_below(&sim->rng, count) == 0 ? at : drawn;
        }
    }
    return drawn;
}

bool io_sim_step(struct io_sim *sim, uint64_t until_ns)
{
    uint64_t next = io_sim_connects_ns(sim);
    for (const struct sim_loop *at = sim->loops; at != NULL; at = at->next) {
        next = sooner(next, next_ns(at));
    }
    if (next > until_ns || next == UINT64_MAX) {
        sim->now = sim->now < until_ns ? until_ns : sim->now;
        return false;
    }
    sim->now = sim->now < next ? next : sim->now;
    io_sim_connects_step(sim);
    struct sim_loop *loop = draw_loop(sim);
    if (loop != NULL) {
        io_loop_turn(&loop->base, 0);
    }
    return true;
}
