#pragma once
/* device/copy: moves pages between memories without holding up the owner
 * (engine.md 1.11). A table with bodies host (worker threads) and sim (one
 * thread, out of order, from a seed); one for a GPU fits beside them.
 *
 *   owner:   submit(copies, waits) -> ticket          poll -> done, once each
 *               |                                       ^
 *               v       its waits are over              |   in the order of
 *            waiting ---------------------> running -> finished   their end
 *
 * A ticket is an event: a later submission may wait for it. Submissions begin
 * once all they wait for is finished, well or not, and are otherwise free to
 * run together and to finish in any order. The copies of one submission run in
 * any order too, so no two of them may touch the same bytes. Who wants a stream
 * waits for his last ticket.
 *
 * A wait orders, it does not judge. Since poll hands out an end after the ends
 * that it waited for, the owner knows of a failed copy before it hears of those
 * that read what the failed one left behind (1.7.7).
 *
 * Until poll has handed out the ticket, the owner reads nothing of the targets
 * and lets nobody write to the sources, unless by a submission that waits for
 * it (7.1, invariants 5 and 6). The lists are copied at submit; the bytes stay
 * the owner's. One thread owns a copier. Nothing is allocated after create. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/memory.h"

struct device_copier;

/* Counts up from 1. 0: nothing to wait for. */
typedef uint64_t device_ticket;

/* Ends of a copy lie at multiples of this, and so does its size. */
enum { DEVICE_COPY_UNIT = 16 };

/* Made by a constructor below, so that a kind may bring fields of its own (a
 * file: descriptor and offset). */
struct device_address {
    enum device_kind kind;
    void *pointer; /* a source is only read */
};
struct device_address device_address_host(const void *pointer);
/* `bytes` further on. */
struct device_address device_address_after(struct device_address address,
                                           size_t bytes);

struct device_copy {
    struct device_address to;
    struct device_address from;
    size_t bytes; /* 0: nothing is touched, the addresses may be anything */
};

struct device_copy_order {
    const struct device_copy *copies; /* (copy_count); may be none */
    uint32_t copy_count;
    const device_ticket *waits; /* (wait_count); old ones and 0 do not delay */
    uint32_t wait_count;
};

/* What a copier holds at once. A submission takes its place until it is
 * polled. */
struct device_copier_limits {
    uint32_t submission_count_max;
    uint32_t copy_count_max; /* of one submission */
    uint32_t wait_count_max; /* of one submission */
};

struct device_copy_done {
    device_ticket ticket;
    /* ERR_IO: some of the bytes did not arrive. What lies in the targets is
     * neither the old nor the new; give the pages up. */
    enum err err;
    uint32_t launches; /* pieces of work that it took; 0 for 0 bytes */
};

/* Takes the order, wait or no wait. ERR_FULL: nothing changed; poll, or come
 * again next turn. */
MUST_USE enum err device_copier_submit(struct device_copier *copier,
                                       const struct device_copy_order *order,
                                       device_ticket *ticket_out);
/* The next end that was not told yet. False: none now. Who sleeps on a waker
 * polls until false first. */
bool device_copier_poll(struct device_copier *copier,
                        struct device_copy_done *done_out);
/* Has poll handed it out, or is it 0? Changes in poll only: a turn that has
 * polled once sees one state to its end. */
bool device_copier_is_done(const struct device_copier *copier,
                           device_ticket ticket);
/* Submissions that fit now. */
uint32_t device_copier_room(const struct device_copier *copier);
/* Blocks until all have finished; their ends are still to be polled. For
 * shutdown and tests. */
void device_copier_drain(struct device_copier *copier);
/* Drains; ends that nobody polled are lost. NULL is fine. */
void device_copier_destroy(struct device_copier *copier);

const char *device_copier_name(const struct device_copier *copier);
struct device_copier_limits device_copier_limits(
    const struct device_copier *copier);

struct device_copier_stats {
    uint64_t submissions, copies, bytes; /* taken */
    uint64_t done, failures, launches; /* polled: all, those with an error */
};
struct device_copier_stats device_copier_stats(
    const struct device_copier *copier);
