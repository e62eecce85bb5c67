#include "base/digest.h"
#include "base/log.h"
#include "transfer/receive_slot.h"

enum { VERIFY_SIZE_MAX = 1024 * 1024 };

/* False: the page does not hold what the sender read. */
static bool is_right(const struct receive_side *side,
                     const struct rx_session *session, uint32_t index)
{
    const struct kv_pool_view *pool = &side->options.transfer->pool;
    if (!session->seen[index].is_seen) {
        return true;
    }
    size_t page = (size_t)session->blocks.pages[index];
    struct span bytes =
        span_of(pool->base + page * pool->page_bytes, pool->page_bytes);
    return digest_crc32c(0, bytes) == session->seen[index].crc32c;
}

static void verify_some(struct receive_side *side, struct receive_slot *slot,
                        uint64_t now)
{
    struct rx_event event = {.kind = RX_VERIFIED, .now = now, .is_right = true};
    size_t checked = 0;
    while (checked < VERIFY_SIZE_MAX) {
        if (slot->verify_next == slot->session.blocks.count) {
            break;
        }
        uint32_t index = slot->verify_next++;
        if (!is_right(side, &slot->session, index)) {
            log_error("transfer", "rid %lld: digest of block %u is wrong",
                      (long long)slot->session.rid,
                      slot->session.blocks.first + index);
            event.is_right = false;
            break;
        }
        checked += side->options.transfer->pool.page_bytes;
    }
    bool is_through = slot->verify_next == slot->session.blocks.count;
    if (is_through || !event.is_right) {
        slot->is_verifying = false;
        receive_side_step(side, slot, &event);
    }
}

bool receive_side_verify(struct receive_side *side, uint64_t now)
{
    struct receive_slot *first = NULL;
    bool has_more = false;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (slot->is_used && slot->is_verifying) {
            has_more |= first != NULL;
            first = first != NULL ? first : slot;
        }
    }
    if (first != NULL) {
        verify_some(side, first, now);
        has_more |= first->is_used && first->is_verifying;
    }
    return has_more;
}
