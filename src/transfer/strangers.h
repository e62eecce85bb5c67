#pragma once
/* transfer/strangers: connections that came in and have not proven yet that
 * they hold the internal key (wire/greeting.h). Private to transfer.
 *
 *   accept --> [ 128 places ] - GREET, PROOF in 2 s --> on_proven: a peer
 *                    \--- all else: the connection ends, and that is all
 *
 * Apart from peers, whom they can do nothing to. Of each no more is kept than
 * one frame of a greeting. When all places are taken the oldest makes room, so
 * that a crowd of them keeps no peer out. Whoever fails for the key is told so,
 * and counted as denied; who does not say in time, or says something else, is cut
 * off. The loop's thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "io/loop.h"
#include "io/tcp.h"
#include "transfer/transfer.h"
#include "wire/greeting.h"

enum {
    /* Twice the peers a worker takes by default: all of them may come at once,
     * when it has been started anew. */
    STRANGER_COUNT_MAX = 128,
    /* In a turn of the loop so many may be on their way out besides. */
    STRANGER_LEAVING_MAX = 128
};

struct strangers;
struct strangers_options {
    struct io_loop *loop;
    const struct transfer_options *transfer; /* outlives it */
    struct transfer_stats *stats;
    /* OK: the stream is the caller's from now on, to whom `rest` was said. Else
     * the other end is told why not. */
    enum err (*on_proven)(void *context, struct io_stream *stream,
                          uint64_t incarnation, struct span rest,
                          struct why *why);
    void *context;
};
struct strangers *strangers_create(const struct strangers_options *options);
/* Asks all to end; `is_closed` tells when they have. */
void strangers_shut(struct strangers *strangers);
bool strangers_is_closed(const struct strangers *strangers);
void strangers_destroy(struct strangers *strangers); /* closed; NULL is fine */

void strangers_add(struct strangers *strangers, struct io_stream *stream);
/* Cuts off those whose time is over. */
void strangers_tick(struct strangers *strangers, uint64_t now);
uint32_t strangers_count(const struct strangers *strangers);
/* Drawn as the options say, for the opening end too. */
void strangers_nonce(struct strangers *strangers, uint8_t out[WIRE_NONCE_SIZE]);
