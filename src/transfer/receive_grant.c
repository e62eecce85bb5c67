/* Which pages the sender of a receive may write, where the backend asks: a body
 * that writes them itself takes nothing without a grant (backend.h). */
#include "transfer/receive_slot.h"

static struct transfer_token token_of(const struct receive_slot *slot)
{
    return (struct transfer_token){slot->session.rid, slot->session.attempt};
}

static void add_ranges(struct receive_side *side, const struct rx_group *group,
                       const struct kv_pool_view *pool)
{
    uint64_t base = (uint64_t)(pool->base - side->options.transfer->memory);
    for (uint32_t i = 0; i < group->blocks.count; i++) {
        if (group->blocks.pages[i] != KV_PAGE_NONE) {
            struct transfer_range range = {
                base + pool->page_bytes * (uint64_t)group->blocks.pages[i],
                pool->page_bytes};
            buf_add(&side->ranges, &range, sizeof(range));
        }
    }
}

enum err receive_grant_ranges(struct receive_side *side,
                              const struct receive_slot *slot,
                              struct span *ranges_out)
{
    const struct transfer_options *transfer = side->options.transfer;
    buf_reset(&side->ranges);
    for (uint32_t i = 0; i < slot->session.group_count; i++) {
        add_ranges(side, &slot->session.groups[i], &transfer->groups[i].pool);
    }
    *ranges_out = buf_span(&side->ranges);
    return buf_error(&side->ranges);
}

enum err receive_grant(struct receive_side *side, struct receive_slot *slot)
{
    struct span ranges;
    enum err err = receive_grant_ranges(side, slot, &ranges);
    if (err == OK) {
        err = transfer_backend_authorise(
            side->options.transfer->backend, slot->session.sender_incarnation,
            token_of(slot), (const void *)ranges.data,
            ranges.size / sizeof(struct transfer_range));
    }
    slot->is_authorised = !err;
    return err;
}

bool receive_grant_revoke(struct receive_side *side, struct receive_slot *slot)
{
    struct transfer_backend *backend = side->options.transfer->backend;
    if (!slot->is_authorised) {
        return false;
    }
    slot->is_authorised = false;
    transfer_backend_revoke(backend, slot->session.sender_incarnation,
                            token_of(slot));
    return transfer_backend_toucher(backend, slot->lane) == TRANSFER_SELF_COPY;
}
