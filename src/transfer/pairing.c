#include "transfer/pairing.h"

kv_page_id transfer_blocks_page(const struct transfer_blocks *blocks,
                                uint32_t ordinal)
{
    bool is_inside =
        ordinal >= blocks->first && ordinal - blocks->first < blocks->count;
    return is_inside ? blocks->pages[ordinal - blocks->first] : KV_PAGE_NONE;
}

uint32_t transfer_blocks_count(const struct transfer_blocks *blocks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < blocks->count; i++) {
        count += blocks->pages[i] != KV_PAGE_NONE;
    }
    return count;
}

bool transfer_blocks_are_valid(const struct transfer_blocks *blocks,
                               uint32_t page_count)
{
    for (uint32_t i = 0; i < blocks->count; i++) {
        kv_page_id page = blocks->pages[i];
        if (page != KV_PAGE_NONE &&
            (page < 0 || (uint32_t)page >= page_count)) {
            return false;
        }
    }
    return true;
}

#ifdef MUTATION_LIST_POSITION
/* What must not be done: the n-th page here is the n-th that is wanted. */
static uint32_t pair_by_position(const struct transfer_blocks *source,
                                 const struct transfer_blocks *target,
                                 struct transfer_pair *pairs_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < target->count && count < source->count; i++) {
        if (target->pages[i] != KV_PAGE_NONE) {
            pairs_out[count] = (struct transfer_pair){
                target->first + i, source->pages[count], target->pages[i]};
            count++;
        }
    }
    return count;
}
#endif

uint32_t transfer_pair_blocks(const struct transfer_blocks *source,
                              const struct transfer_blocks *target,
                              struct transfer_pair *pairs_out)
{
#ifdef MUTATION_LIST_POSITION
    return pair_by_position(source, target, pairs_out);
#endif
    uint32_t count = 0;
    for (uint32_t i = 0; i < source->count; i++) {
        uint32_t ordinal = source->first + i;
        kv_page_id to = transfer_blocks_page(target, ordinal);
        if (source->pages[i] != KV_PAGE_NONE && to != KV_PAGE_NONE) {
            pairs_out[count++] =
                (struct transfer_pair){ordinal, source->pages[i], to};
        }
    }
    return count;
}
