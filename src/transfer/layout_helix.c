#include "transfer/layout_helix.h"

#include "base/check.h"

bool transfer_helix_keeps(uint32_t cp_size, uint32_t cp_rank, uint32_t ordinal)
{
    return ordinal % cp_size == cp_rank;
}

uint32_t transfer_helix_count(uint32_t cp_size, uint32_t cp_rank,
                              uint32_t block_count)
{
    CHECK(cp_rank < cp_size);
    return block_count / cp_size + (cp_rank < block_count % cp_size);
}

uint32_t transfer_helix_ordinal(uint32_t cp_size, uint32_t cp_rank,
                                uint32_t index)
{
    return cp_rank + index * cp_size;
}

enum err transfer_helix_spread(uint32_t cp_size, uint32_t cp_rank,
                               const kv_page_id *pages, uint32_t page_count,
                               uint32_t block_count, struct why *why,
                               kv_page_id *blocks_out)
{
    uint32_t expected = transfer_helix_count(cp_size, cp_rank, block_count);
    if (page_count != expected) {
        return why_say(why, ERR_INVALID,
                       "pages: %u, but rank %u of %u keeps %u of %u blocks",
                       page_count, cp_rank, cp_size, expected, block_count);
    }
    for (uint32_t i = 0; i < block_count; i++) {
        blocks_out[i] = transfer_helix_keeps(cp_size, cp_rank, i)
                            ? pages[i / cp_size]
                            : KV_PAGE_NONE;
    }
    return OK;
}

void transfer_helix_check(const struct transfer_helix_use *use,
                          struct blockers *blockers)
{
    uint32_t sender = use->sender_cp_size;
    uint32_t receiver = use->receiver_cp_size;
    if (sender <= 1 && receiver <= 1) {
        return;
    }
    if (sender > 1 && receiver > 1) {
        blockers_add(blockers,
                     "cp_size: %u at the sender, %u at the receiver, "
                     "one must be 1",
                     sender, receiver);
    }
    if (use->source_first > 0 || use->target_first > 0) {
        blockers_add(blockers,
                     "first block: %u at the sender, %u at the "
                     "receiver, cp_size over 1 reuses no prefix",
                     use->source_first, use->target_first);
    }
    if (use->is_pipelined) {
        blockers_add(blockers,
                     "pipelining: cp_size is %u at the sender, %u at "
                     "the receiver",
                     sender, receiver);
    }
    if (use->has_bounce) {
        blockers_add(blockers,
                     "bounce: cp_size is %u at the sender, %u at the "
                     "receiver",
                     sender, receiver);
    }
}
