#pragma once
/* transfer/layout_helix: blocks dealt out over the ranks of context
 * parallelism (transfer.md 4.4). Of CP = C ranks, rank c keeps the ordinals
 * c, c + C, c + 2C, ...: of 33 blocks over 4 ranks rank 0 has nine, the others
 * eight. Block lists stay dense by ordinal, KV_PAGE_NONE where another rank
 * keeps the block, so transfer/pairing needs to know nothing of it. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/ids.h"
#include "base/blockers.h"

bool transfer_helix_keeps(uint32_t cp_size, uint32_t cp_rank, uint32_t ordinal);
/* How many of [0, block_count). */
uint32_t transfer_helix_count(uint32_t cp_size, uint32_t cp_rank,
                              uint32_t block_count);
/* Of the index-th one. */
uint32_t transfer_helix_ordinal(uint32_t cp_size, uint32_t cp_rank,
                                uint32_t index);
/* Puts the (page_count) pages that the rank keeps, in order, into a list by
 * ordinal with room for `block_count`. ERR_INVALID: not as many pages as the
 * rank keeps of that many blocks. */
MUST_USE enum err transfer_helix_spread(uint32_t cp_size, uint32_t cp_rank,
                                        const kv_page_id *pages,
                                        uint32_t page_count,
                                        uint32_t block_count, struct why *why,
                                        kv_page_id *blocks_out);

/* What a transfer, or two instances for all of theirs, mean to do. */
struct transfer_helix_use {
    uint32_t sender_cp_size, receiver_cp_size;
    /* Where the lists begin; more than 0: a prefix is reused. */
    uint32_t source_first, target_first;
    bool is_pipelined; /* sent while it is computed */
    bool has_bounce; /* by a staging buffer */
};
/* Adds by name all that does not go with CP > 1; nothing if neither side has
 * it. Of blocks of unequal size and of states layout_check knows. */
void transfer_helix_check(const struct transfer_helix_use *use,
                          struct blockers *blockers);
