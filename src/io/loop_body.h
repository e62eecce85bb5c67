#pragma once
/* io/loop_body: for those who write a body of a loop. Private to io.
 *
 *   loop.c         what is the same for all: turns, what was put off
 *   loop_event.c   the system's: libevent
 *   loop_sim.c     a simulated host's: io/sim.h
 *
 * A body embeds the three structs below as first members of its own. */
#include <stdatomic.h>

#include "io/loop.h"
#include "io/net.h"

struct io_loop_ops {
    void (*destroy)(struct io_loop *loop);
    /* Runs the callbacks that are due; waits for one where `wait_ns_max` says
     * so and nothing was put off. */
    void (*turn)(struct io_loop *loop, uint64_t wait_ns_max);
    void (*stop)(struct io_loop *loop); /* any thread, signal safe */
    /* What the clock says, between two turns and for the first callback of
     * each. */
    uint64_t (*now)(const struct io_loop *loop);
    struct io_timer *(*timer_create)(struct io_loop *loop);
    void (*timer_destroy)(struct io_timer *timer);
    void (*timer_start)(struct io_timer *timer, uint64_t delay_ns);
    void (*timer_stop)(struct io_timer *timer);
    struct io_watch *(*watch_create)(struct io_loop *loop, int fd);
    void (*watch_destroy)(struct io_watch *watch); /* without interest */
    /* What differs from `watch->interest`, which is the old one still. */
    void (*watch_set)(struct io_watch *watch, int interest);
    enum err (*on_signal)(struct io_loop *loop, int signal_number,
                          void (*on_signal)(void *context), void *context);
};

struct io_deferred {
    void (*task)(void *context);
    void *context;
};

struct io_deferred_list {
    struct io_deferred *items; /* capacity; the first count are waiting */
    uint32_t count;
    uint32_t capacity;
};

struct io_loop {
    const struct io_loop_ops *ops;
    const struct io_net_ops *net;
    uint64_t now;
    bool is_in_turn;
    bool has_sampled; /* in this turn */
    atomic_bool is_stopped;
    struct io_deferred_list waiting;
    struct io_deferred_list running;
    uint32_t handle_count; /* timers and watches alive */
    struct io_resolver *resolver; /* NULL: nobody asked for a name yet */
    struct io_waker *resolver_waker;
};

struct io_timer {
    struct io_loop *loop;
    uint64_t due;
    void (*on_time)(void *context);
    void *context;
};

struct io_watch {
    struct io_loop *loop;
    int fd;
    int interest;
    void (*on_ready)(void *context, int ready);
    void *context;
};

void io_loop_init(struct io_loop *loop, const struct io_loop_ops *ops,
                  const struct io_net_ops *net);
/* Every callback starts here: the first of a turn reads the clock. */
void io_loop_sample(struct io_loop *loop);
