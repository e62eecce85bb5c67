#include "base/digest.h"
#include "base/log.h"
#include "transfer/receive_slot.h"

enum { VERIFY_SIZE_MAX = 1024 * 1024 };

/* False: the page does not hold what the sender read. */
static bool is_right(const struct kv_pool_view *pool,
                     const struct rx_group *group, uint32_t index)
{
#ifdef MUTATION_DIGEST_SKIPPED
    return true;
#endif
    size_t page = (size_t)group->blocks.pages[index];
    struct span bytes =
        span_of(pool->base + page * pool->page_bytes, pool->page_bytes);
    return digest_crc32c(0, bytes) == group->seen[index].crc32c;
}

/* The next block that arrived; false: there is none left. */
static bool find_next(struct receive_slot *slot)
{
    const struct rx_session *session = &slot->session;
    for (; slot->verify_group < session->group_count; slot->verify_group++) {
        const struct rx_group *group = &session->groups[slot->verify_group];
        for (; slot->verify_next < group->blocks.count; slot->verify_next++) {
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
        event.is_right = is_right(pool, &slot->session.groups[group], index);
        if (!event.is_right) {
            log_error("transfer",
                      "rid %lld: digest of block %u of life cycle %u is wrong",
                      (long long)slot->session.rid, index, group);
        }
        checked += pool->page_bytes;
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
