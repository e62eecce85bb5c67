/* In what the blocks of a receive are counted: parts of the smaller of both
 * sides' blocks (transfer.md 4.5), one a block where these are of one size. */
#include <string.h>

#include "base/mem.h"
#include "transfer/receive_slot.h"
#include "transfer/regrain.h"
#include "transfer/slice.h"

static enum err reserve(struct receive_slot *slot, uint32_t count)
{
    if (count > slot->seen_capacity) {
        void *seen = mem_try_resize(slot->seen, count * sizeof(slot->seen[0]));
        if (seen == NULL) {
            return ERR_NO_MEMORY;
        }
        slot->seen = seen;
        slot->seen_capacity = count;
    }
    if (count > 0) {
        memset(slot->seen, 0, count * sizeof(slot->seen[0]));
    }
    return OK;
}

static void fill_group(struct rx_group *group, const struct transfer_group *own,
                       const struct transfer_grain *grain,
                       uint32_t prompt_tokens, uint32_t part_count,
                       struct rx_block *seen)
{
    group->block_parts = grain->target_parts;
    group->part_count = part_count;
    group->seen = seen;
    group->sink_end = transfer_blocks_of(own->life.sink_tokens, grain->tokens);
    group->stale_end =
        transfer_stale_end(&own->life, prompt_tokens, grain->tokens);
}

enum err receive_parts(struct receive_side *side, struct receive_slot *slot,
                       uint32_t sender_tokens)
{
    const struct transfer_options *transfer = side->options.transfer;
    struct rx_session *session = &slot->session;
    struct transfer_grain grain;
    if (!transfer_grain_of(sender_tokens,
                           transfer->groups[0].pool.layout.tokens_per_block,
                           &grain)) {
        return ERR_UNSUPPORTED;
    }
    uint64_t listed =
        (uint64_t)session->groups[0].blocks.count * grain.target_parts;
    uint32_t all = transfer_blocks_of(slot->prompt_tokens, grain.tokens);
    uint32_t count = listed < all ? (uint32_t)listed : all;
    if ((uint64_t)all * session->group_count > WIRE_BLOCK_COUNT_MAX) {
        return ERR_FULL;
    }
    enum err err = reserve(slot, session->group_count * count);
    if (err) {
        return err;
    }
    slot->sender_tokens = sender_tokens;
    slot->part_tokens = grain.tokens;
    for (uint32_t i = 0; i < session->group_count; i++) {
        fill_group(&session->groups[i], &transfer->groups[i], &grain,
                   slot->prompt_tokens, count,
                   count > 0 ? slot->seen + (size_t)i * count : NULL);
    }
    return OK;
}
