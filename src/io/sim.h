#pragma once
/* io/sim: hosts that are not there. Loops, timers, wakers, streams and
 * listeners with the same functions as ever, on one thread, in virtual time,
 * from one seed; the streams' own code is the real one, only what it asks of
 * the system (io/net.h) is simulated.
 *
 *   io_sim_step -> [ the next moment at which something is due ]
 *                    -> of all loops with work then, one drawn: its turn
 *
 * A loop is one thread of one process; several may live on a host. Addresses
 * are "10.0.0.1" for host 1 and so on, their names "host-1". Connections are byte pipes with delay,
 * partial reads and writes and a bounded buffer; bytes arrive in order or not
 * at all, as with TCP. What goes wrong is the caller's to say:
 *
 *   freeze   a stopped process: its loops take no turn, its kernel still takes
 *            connections and bytes
 *   block    silence from one host to another; all comes later, once unblocked
 *   break    every connection of two hosts is reset, what is under way is lost
 *   corrupt  the next bytes sent arrive with a wrong bit
 *
 * The same calls in the same order give the same world: nothing depends on
 * addresses, the clock or the number of the process. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

struct io_loop;
struct io_waker;
struct io_sim;

enum { IO_SIM_HOST_MAX = 16 };

struct io_sim_options {
    struct rng rng; /* a child of the world's own */
    uint64_t start_ns;
    uint64_t latency_ns_min, latency_ns_max; /* of bytes, one way */
    uint64_t turn_ns_max; /* what a turn costs; at least 1 */
    uint32_t buffer_size; /* bytes under way or unread of one direction */
    uint32_t part_per_1024; /* chance that a read or write is partial */
};
struct io_sim *io_sim_create(const struct io_sim_options *options);
/* All loops are gone. NULL is fine. */
void io_sim_destroy(struct io_sim *sim);
uint64_t io_sim_now(const struct io_sim *sim);
/* False: nothing is due before `until_ns`, which it is now. */
bool io_sim_step(struct io_sim *sim, uint64_t until_ns);

/* `host`: 1 .. IO_SIM_HOST_MAX - 1. Ends with io_loop_destroy. */
MUST_USE enum err io_sim_loop_create(struct io_sim *sim, uint32_t host,
                                     struct io_loop **loop_out);
/* That host's clock is ahead by so much: before its first loop. */
void io_sim_skew(struct io_sim *sim, uint32_t host, uint64_t ns);
/* As io_waker_create, for the loops of this world; it cannot be waited on. */
MUST_USE enum err io_sim_waker_create(struct io_sim *sim,
                                      struct io_waker **waker_out);
void io_sim_freeze(struct io_loop *loop, bool on);
/* The loop takes no turn for so long: it computes. */
void io_sim_busy(struct io_loop *loop, uint64_t ns);

void io_sim_block(struct io_sim *sim, uint32_t from, uint32_t to, bool on);
/* Added to each way from now on. */
void io_sim_delay(struct io_sim *sim, uint32_t from, uint32_t to, uint64_t ns);
/* Connections that it met. */
uint32_t io_sim_break(struct io_sim *sim, uint32_t one, uint32_t other);
void io_sim_corrupt(struct io_sim *sim, uint32_t from, uint32_t to);
/* Corruptions that have met no bytes yet never will. */
void io_sim_spare(struct io_sim *sim);

struct io_sim_counts {
    uint64_t turns, connects, refusals, resets, bytes, corrupted;
    uint32_t sockets; /* open now */
};
struct io_sim_counts io_sim_counts(const struct io_sim *sim);
