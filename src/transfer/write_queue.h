#pragma once
/* transfer/write_queue: the writes a copying backend has under way.
 *
 *   push -> [ w1 w2 w3 ] -> step: about 1 MiB of the first, then it goes to
 *                           the back; one that is done or stopped comes out
 *
 * Peers take turns that way: one long write does not hold the others up.
 * Bodies embed a target in each peer of theirs and say when it is closed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transfer/backend.h"

enum { TRANSFER_STEP_SIZE = 1024 * 1024 };

struct transfer_write_queue {
    struct transfer_write *first, *last;
};

/* The two pools as this side sees them. */
struct transfer_target {
    const uint8_t *source_base;
    size_t source_size;
    uint8_t *target_base; /* NULL: closed, writes stop */
    size_t target_size;
};

void transfer_write_queue_push(struct transfer_write_queue *queue,
                               struct transfer_write *write);
struct transfer_write *transfer_write_queue_pop(
    struct transfer_write_queue *queue);
/* One step of one write: true when all of it is copied and fenced. */
bool transfer_write_step(struct transfer_write *write,
                         const struct transfer_target *target);
