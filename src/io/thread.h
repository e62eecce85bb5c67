#pragma once
/* io/thread: the one home of pthread calls.
 * Threads talk through mailboxes (io/mailbox.h); the lock is for the few
 * places where a snapshot is read by another thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct io_thread;
/* `name` shows in ps and gdb (15 characters). All signals stay blocked. */
MUST_USE enum err io_thread_start(const char *name, void (*run)(void *context),
                                  void *context, struct io_thread **thread_out);
/* One that nobody waits for: it is gone when `run` returns, and a process that
 * ends does not ask whether it has. What it uses must be its own or counted. */
MUST_USE enum err io_thread_start_alone(const char *name,
                                        void (*run)(void *context),
                                        void *context);
/* Waits for its end and frees it. NULL is fine. */
void io_thread_join(struct io_thread *thread);
void io_thread_set_name(const char *name);
/* CPUs this process may use by its affinity and its control group, at least 1.
 * Reads files. */
uint32_t io_thread_cpu_count(void);

struct io_lock;
struct io_lock *io_lock_create(void);
void io_lock_destroy(struct io_lock *lock);
void io_lock_take(struct io_lock *lock);
void io_lock_give(struct io_lock *lock);

/* A fork-join team for compute: `work` runs once for each index in [0, count),
 * index 0 on the caller. Workers spin briefly after a job, then sleep. One
 * owner thread. The split into indices is the caller's; results must not
 * depend on which thread ran which. */
struct io_team;
MUST_USE enum err io_team_create(uint32_t count, struct io_team **team_out);
void io_team_destroy(struct io_team *team);
uint32_t io_team_size(const struct io_team *team);
void io_team_run(struct io_team *team,
                 void (*work)(void *context, uint32_t index), void *context);
/* Inside `work`: every member waits until all have come here. */
void io_team_barrier(struct io_team *team);
