#pragma once
/* io/poller: what became ready of a set of descriptors, without waiting; and
 * one descriptor to sleep on for all of them.
 *
 *   fd, fd, fd, alarm --> poller --> fd(): readable while there is news
 *
 * For parts that are polled by their owner (transfer backends) and cannot hang
 * on a loop of their own. One thread at a time. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"

struct io_poller;
MUST_USE enum err io_poller_create(struct io_poller **poller_out);
void io_poller_destroy(struct io_poller *poller); /* NULL is fine */
int io_poller_fd(const struct io_poller *poller);

/* `by_edge`: told once each time it becomes readable or writable, else as long
 * as it is readable. ERR_IO. */
MUST_USE enum err io_poller_add(struct io_poller *poller, int fd, bool by_edge,
                                void *context);
void io_poller_remove(struct io_poller *poller, int fd);
/* The descriptor is also readable from `at_ns` of io/clock on, once; 0: no
 * more. */
void io_poller_set_alarm(struct io_poller *poller, uint64_t at_ns);

struct io_ready {
    void *context;
    int ready; /* IO_READABLE, IO_WRITABLE */
    bool has_ended; /* the other end said so: nothing new will be told */
};
/* At most `max` of what is new now; what an alarm had to say is over. */
size_t io_poller_take(struct io_poller *poller, struct io_ready *ready_out,
                      size_t max);
