#include "transfer/slice.h"

#include "base/check.h"

uint32_t transfer_blocks_of(uint32_t tokens, uint32_t tokens_per_block)
{
    return tokens / tokens_per_block + (tokens % tokens_per_block != 0);
}

enum transfer_slice_kind transfer_slice_next(const struct transfer_chunk *chunk,
                                             uint32_t cursor,
                                             struct transfer_slice *slice_out)
{
    uint32_t each = chunk->tokens_per_block;
    CHECK(each > 0);
    CHECK(chunk->start <= chunk->end);
    CHECK(chunk->end <= chunk->prompt_tokens);
    bool is_last = chunk->end == chunk->prompt_tokens;
    uint32_t end =
        is_last ? transfer_blocks_of(chunk->end, each) : chunk->end / each;
    if (end <= cursor && !is_last) {
        /* Whole blocks that were sent, computed once more from their start. */
        bool is_back = chunk->start / each < cursor && end < cursor;
        return is_back ? TRANSFER_SLICE_REWOUND : TRANSFER_SLICE_NONE;
    }
    if (chunk->start / each < cursor || end < cursor) {
        return TRANSFER_SLICE_REWOUND;
    }
    *slice_out = (struct transfer_slice){cursor, end, is_last};
    return TRANSFER_SLICE_SOME;
}

uint32_t transfer_stale_end(const struct kv_life *life, uint32_t prompt_tokens,
                            uint32_t tokens_per_block)
{
    if (life->window == 0 || life->window > prompt_tokens) {
        return 0;
    }
    /* The first token that is decoded sits at position P. */
    return (prompt_tokens - life->window + 1) / tokens_per_block;
}

bool transfer_life_streams(const struct kv_life *life, uint32_t prompt_tokens,
                           uint32_t tokens_per_block)
{
#ifdef MUTATION_WINDOW_STREAMS
    return true;
#endif
#ifdef MUTATION_SINKS_FORGOTTEN
    return transfer_stale_end(life, prompt_tokens, tokens_per_block) == 0;
#endif
    return transfer_stale_end(life, prompt_tokens, tokens_per_block) <=
           transfer_blocks_of(life->sink_tokens, tokens_per_block);
}

bool transfer_block_is_needed(const struct kv_life *life,
                              uint32_t prompt_tokens, uint32_t tokens_per_block,
                              uint32_t ordinal)
{
    return ordinal >=
               transfer_stale_end(life, prompt_tokens, tokens_per_block) ||
           ordinal < transfer_blocks_of(life->sink_tokens, tokens_per_block);
}
