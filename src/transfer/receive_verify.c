#include "base/digest.h"
#include "base/log.h"
#include "transfer/receive_slot.h"
#include "transfer/regrain.h"

enum { VERIFY_SIZE_MAX = 1024 * 1024 };

/* CRC32C of what is there now: of a block all its bytes, of a part its runs. */
static uint32_t digest_of(const struct receive_slot *slot,
                          const struct kv_pool_view *pool,
                          const struct rx_group *group, uint32_t index)
{
    size_t page = (size_t)group->blocks.pages[index / group->block_parts];
    const uint8_t *at = pool->base + page * pool->page_bytes;
    uint32_t each = slot->part_tokens;
    if (each == slot->sender_tokens && group->block_parts == 1) {
        return digest_crc32c(0, span_of(at, pool->page_bytes));
    }
    uint32_t left = slot->prompt_tokens - index * each;
    return transfer_part_digest(&pool->layout, at,
                                index % group->block_parts * each,
                                left < each ? left : each);
}

/* False: the page does not hold what the sender read. */
static bool is_right(const struct receive_slot *slot,
                     const struct kv_pool_view *pool,
                     const struct rx_group *group, uint32_t index)
{
#ifdef MUTATION_DIGEST_SKIPPED
    return true;
#endif
    return digest_of(slot, pool, group, index) == group->seen[index].crc32c;
}

/* The next part that arrived; false: there is none left. */
static bool find_next(struct receive_slot *slot)
{
    const struct rx_session *session = &slot->session;
    for (; slot->verify_group < session->group_count; slot->verify_group++) {
        const struct rx_group *group = &session->groups[slot->verify_group];
        for (; slot->verify_next < group->part_count; slot->verify_next++) {
            if (group->seen[slot->verify_next].is_seen) {
                return true;
            }
        }
        slot->verify_next = 0;
    }
    return false;
}

static void verify_some(struct receive_side *side, struct receive_slot *slot,
                        uint64_t now)
{
    struct rx_event event = {.kind = RX_VERIFIED, .now = now, .is_right = true};
    size_t checked = 0;
    bool has_next = find_next(slot);
    while (has_next && event.is_right && checked < VERIFY_SIZE_MAX) {
        uint32_t group = slot->verify_group, index = slot->verify_next++;
        const struct kv_pool_view *pool =
            &side->options.transfer->groups[group].pool;
        event.is_right =
            is_right(slot, pool, &slot->session.groups[group], index);
        if (!event.is_right) {
            log_error_rare(
                "transfer",
                "rid %lld: digest of block %u of life cycle %u is wrong "
                "(blocks of %u tokens)",
                (long long)slot->session.rid, index, group, slot->part_tokens);
        }
        checked += pool->page_bytes / slot->session.groups[group].block_parts;
        has_next = find_next(slot);
    }
    if (!has_next || !event.is_right) {
        slot->is_verifying = false;
        receive_side_step(side, slot, &event);
    }
}

/* Sessions take turns, so that a short one does not wait for a long one. */
bool receive_side_verify(struct receive_side *side, uint64_t now)
{
    struct receive_slot *first = NULL;
    bool has_more = false;
    uint32_t begin = side->verify_slot;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        uint32_t at = (begin + i) % side->slot_count;
        struct receive_slot *slot = &side->slots[at];
        if (!slot->is_used || !slot->is_verifying) {
            continue;
        }
        has_more |= first != NULL;
        if (first == NULL) {
            first = slot;
            side->verify_slot = (at + 1) % side->slot_count;
        }
    }
    if (first != NULL) {
        verify_some(side, first, now);
        has_more |= first->is_used && first->is_verifying;
    }
    return has_more;
}
