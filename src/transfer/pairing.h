#pragma once
/* transfer/pairing: which page goes where (transfer.md 3.8). Both lists are
 * dense: position is the block ordinal, KV_PAGE_NONE means not here or not
 * wanted. Nothing is inferred from a length, so a page can only land on its
 * own ordinal. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "kv/ids.h"

/* (count) pages of ordinals first .. first + count - 1. */
struct transfer_blocks {
    const kv_page_id *pages;
    uint32_t first;
    uint32_t count;
};

struct transfer_pair {
    uint32_t ordinal;
    kv_page_id source;
    kv_page_id target;
};

/* KV_PAGE_NONE outside the list. */
kv_page_id transfer_blocks_page(const struct transfer_blocks *blocks,
                                uint32_t ordinal);
/* Entries that are a page. */
uint32_t transfer_blocks_count(const struct transfer_blocks *blocks);
/* Every entry is KV_PAGE_NONE or in [0, page_count). */
bool transfer_blocks_are_valid(const struct transfer_blocks *blocks,
                               uint32_t page_count);
/* Fills `pairs_out` in order of ordinals; it has room for source->count. */
uint32_t transfer_pair_blocks(const struct transfer_blocks *source,
                              const struct transfer_blocks *target,
                              struct transfer_pair *pairs_out);
