#include "transfer/regrain.h"

#include "base/check.h"
#include "base/crc32c_join.h"
#include "base/digest.h"

bool transfer_grain_of(uint32_t source_tokens, uint32_t target_tokens,
                       struct transfer_grain *grain_out)
{
    CHECK(source_tokens > 0 && target_tokens > 0);
    uint32_t tokens =
        source_tokens < target_tokens ? source_tokens : target_tokens;
    if (source_tokens % tokens != 0 || target_tokens % tokens != 0) {
        return false;
    }
    *grain_out = (struct transfer_grain){tokens, source_tokens / tokens,
                                         target_tokens / tokens};
    return true;
}

uint32_t transfer_part_tokens(const struct transfer_grain *grain,
                              uint32_t prompt_tokens, uint32_t part)
{
    uint64_t begin = (uint64_t)part * grain->tokens;
    CHECK(begin < prompt_tokens);
    uint64_t left = prompt_tokens - begin;
    return left < grain->tokens ? (uint32_t)left : grain->tokens;
}

uint32_t transfer_pair_parts(const struct transfer_grain *grain,
                             uint32_t part_count,
                             const struct transfer_blocks *source,
                             const struct transfer_blocks *target,
                             struct transfer_pair *pairs_out)
{
    if (transfer_grain_is_block(grain)) {
        return transfer_pair_blocks(source, target, pairs_out);
    }
    uint64_t begin = (uint64_t)source->first * grain->source_parts;
    uint64_t end = begin + (uint64_t)source->count * grain->source_parts;
    end = end < part_count ? end : part_count;
    uint32_t count = 0;
    for (uint64_t i = begin; i < end; i++) {
        uint32_t part = (uint32_t)i;
        kv_page_id from =
            transfer_blocks_page(source, part / grain->source_parts);
        kv_page_id to =
            transfer_blocks_page(target, part / grain->target_parts);
        if (from != KV_PAGE_NONE && to != KV_PAGE_NONE) {
            pairs_out[count++] = (struct transfer_pair){part, from, to};
        }
    }
    return count;
}

uint64_t transfer_part_piece_count(const struct transfer_grain *grain,
                                   const struct kv_layout *layout)
{
    return transfer_grain_is_block(grain)
               ? 1
               : (uint64_t)2 * layout->layer_count * layout->kv_head_count;
}

/* Of the K or V of one head, from its first token. */
static size_t token_bytes(const struct kv_layout *layout)
{
    return (size_t)layout->head_dim * layout->element_bytes;
}

/* Where run `index` begins, for a part that begins at `token` of the block:
 * runs are the K, then the V of each head, layer after layer, and as many
 * tokens of one head lie between them as a block has. */
static size_t run_offset(const struct kv_layout *layout, uint32_t index,
                         uint32_t token)
{
    return ((size_t)index * layout->tokens_per_block + token) *
           token_bytes(layout);
}

static uint64_t page_offset(const struct transfer_place *place, kv_page_id page)
{
    return place->base_offset + place->page_bytes * (uint64_t)page;
}

uint32_t transfer_part_pieces(const struct transfer_grain *grain,
                              const struct transfer_pair *pair, uint32_t tokens,
                              const struct transfer_place *source,
                              const struct transfer_place *target,
                              struct transfer_piece *pieces_out)
{
    uint64_t from = page_offset(source, pair->source);
    uint64_t to = page_offset(target, pair->target);
    if (transfer_grain_is_block(grain)) {
        *pieces_out = (struct transfer_piece){
            .source_offset = from,
            .target_offset = to,
            .size = source->page_bytes,
        };
        return 1;
    }
    const struct kv_layout *layout = &source->layout;
    uint32_t count = 2 * layout->layer_count * layout->kv_head_count;
    uint32_t source_token = pair->ordinal % grain->source_parts * grain->tokens;
    uint32_t target_token = pair->ordinal % grain->target_parts * grain->tokens;
    for (uint32_t i = 0; i < count; i++) {
        pieces_out[i] = (struct transfer_piece){
            .source_offset = from + run_offset(layout, i, source_token),
            .target_offset = to + run_offset(&target->layout, i, target_token),
            .size = tokens * token_bytes(layout),
        };
    }
    return count;
}

uint32_t transfer_part_join(const struct transfer_piece *pieces, uint32_t count)
{
    uint32_t reach = crc32c_reach(pieces[0].size);
    uint32_t crc = pieces[0].crc32c;
    for (uint32_t i = 1; i < count; i++) {
        CHECK(pieces[i].size == pieces[0].size);
        crc = crc32c_join(crc, pieces[i].crc32c, reach);
    }
    return crc;
}

uint32_t transfer_part_digest(const struct kv_layout *layout,
                              const uint8_t *page, uint32_t first,
                              uint32_t count)
{
    CHECK(count <= layout->tokens_per_block - first);
    if (count == layout->tokens_per_block) {
        return digest_crc32c(0, span_of(page, kv_layout_page_bytes(layout)));
    }
    uint32_t run_count = 2 * layout->layer_count * layout->kv_head_count;
    size_t size = count * token_bytes(layout);
    uint32_t crc = 0;
    for (uint32_t i = 0; i < run_count; i++) {
        crc = digest_crc32c(crc,
                            span_of(page + run_offset(layout, i, first), size));
    }
    return crc;
}
