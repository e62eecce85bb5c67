#pragma once
/* io/loop: one thread's event loop with timers, file descriptors and signals.
 *
 * Callbacks come from the loop, never from inside the call that armed them.
 * Everything here belongs to the thread that runs the loop, except
 * io_loop_stop. `io_loop_now` is sampled once a turn. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct io_loop;
MUST_USE enum err io_loop_create(struct io_loop **loop_out);
/* All timers, watches and streams must be gone. */
void io_loop_destroy(struct io_loop *loop);
void io_loop_run(struct io_loop *loop); /* until stopped */
/* One turn: waits at most `wait_ns_max` for something to happen. */
void io_loop_turn(struct io_loop *loop, uint64_t wait_ns_max);
void io_loop_stop(struct io_loop *loop); /* any thread, signal safe */
uint64_t io_loop_now(const struct io_loop *loop); /* monotonic ns */

struct io_timer;
struct io_timer *io_timer_create(struct io_loop *loop,
                                 void (*on_time)(void *context), void *context);
void io_timer_destroy(struct io_timer *timer); /* NULL is fine */
/* Once, after `delay_ns`; starting again moves it. */
void io_timer_start(struct io_timer *timer, uint64_t delay_ns);
void io_timer_stop(struct io_timer *timer);

enum { IO_READABLE = 1, IO_WRITABLE = 2 };
struct io_watch;
/* Level-triggered; the descriptor stays the caller's. Starts with no interest. */
struct io_watch *io_watch_create(struct io_loop *loop, int fd,
                                 void (*on_ready)(void *context, int ready),
                                 void *context);
void io_watch_set(struct io_watch *watch, int interest);
void io_watch_destroy(struct io_watch *watch); /* NULL is fine */

/* Runs `task` once from the loop, after the callbacks of this turn or, when
 * called by a task or outside, of the next; destroys nothing it was given. */
void io_loop_defer(struct io_loop *loop, void (*task)(void *context),
                   void *context);
/* `on_signal` runs in the loop, for the life of the loop. */
MUST_USE enum err io_loop_on_signal(struct io_loop *loop, int signal_number,
                                    void (*on_signal)(void *context),
                                    void *context);
