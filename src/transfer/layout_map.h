#pragma once
/* transfer/layout_map: which bytes of a sender's slot go where in a receiver's
 * (transfer.md 4.2, 4.3, 4.7). Pure, no heap.
 *
 *   map      made once a pair of ranks and life cycle: the runs of one slot
 *   pieces   the same runs for every pair of slots, as a backend takes them
 *
 *     slot 5  |..AAA....BBB...|           |AAA|BBB|  slot 2
 *     slot 6  |..AAA....BBB...|   ---->   |AAA|BBB|  slot 3
 *
 * Runs that adjoin on both sides are one, also from one slot to the next; views
 * that share their slots on both sides share a map, so that they adjoin too.
 * A rank that owns nothing has a map without runs: its results say 0 bytes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "transfer/backend.h"
#include "transfer/layout_view.h"
#include "transfer/pairing.h"

/* `count` times `size` bytes, each time a stride on. */
struct transfer_run {
    uint64_t source_offset, target_offset;
    uint64_t size;
    uint64_t source_stride, target_stride;
    uint32_t count;
};

/* Slots of one side: slot i begins at base_offset + i * slot_bytes. */
struct transfer_slots {
    uint64_t base_offset;
    uint64_t slot_bytes;
};

/* Open: read only, and the runs are the caller's memory. */
struct transfer_map {
    struct transfer_slots source, target;
    struct transfer_run *runs; /* (run_count), by source offset */
    uint32_t run_count, run_capacity;
    uint64_t bytes_a_slot; /* that move from a slot to a slot */
    uint64_t pieces_a_slot; /* of that, before slots are joined */
};

/* The tokens of a block that move; with blocks of one size all of them. Where
 * sizes differ a map serves those pairs of blocks that meet in like manner. */
struct transfer_tokens {
    uint32_t source_first, target_first;
    uint32_t count;
};

/* Enough runs for any map with that view in it. */
uint32_t transfer_map_run_count_max(const struct transfer_view *view);

void transfer_map_init(struct transfer_map *map,
                       const struct transfer_slots *source,
                       const struct transfer_slots *target,
                       struct transfer_run *runs, uint32_t run_capacity);
/* Adds what this sender owns of what `to` has in common with `from`, of views
 * that layout_check passed. `tokens` NULL: the whole block, and both of one
 * size. `receiver_dp`: the receiver's group of attention DP. ERR_FULL: the runs
 * have no room, and the map must not be used. */
MUST_USE enum err transfer_map_add(struct transfer_map *map,
                                   const struct transfer_view *from,
                                   const struct transfer_view *to,
                                   const struct transfer_tokens *tokens,
                                   uint32_t receiver_dp);
/* After the last add: sorts and joins the runs. */
void transfer_map_finish(struct transfer_map *map);

/* Where a walk over pairs of slots is; zero at first. */
struct transfer_map_cursor {
    uint32_t pair, run, repeat;
};

/* The next pieces, at most `capacity` > 0; 0: there are no more. Pieces that
 * adjoin are joined, over the ends of slots too if `joins_slots` (then no
 * digest a slot can be had of them). Whoever calls has checked the slots
 * against both pools. */
size_t transfer_map_pieces(const struct transfer_map *map,
                           const struct transfer_pair *pairs,
                           uint32_t pair_count, bool joins_slots,
                           struct transfer_map_cursor *cursor, size_t capacity,
                           struct transfer_piece *pieces_out);
