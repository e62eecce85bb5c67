#include "kv/life.h"

#include "base/check.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t kv_blocks_of(uint32_t tokens, uint32_t tokens_per_block)
{
    CHECK(tokens_per_block > 0);
    return tokens / tokens_per_block + (tokens % tokens_per_block > 0);
}

struct kv_range kv_life_stale(const struct kv_life *life,
                              uint32_t tokens_per_block, uint32_t history)
{
    uint32_t sinks = kv_blocks_of(life->sink_tokens, tokens_per_block);
    uint32_t first = smaller(kv_blocks_of(history, tokens_per_block), sinks);
    struct kv_range range = {first, first};
    if (life->window == 0) {
        return range;
    }
    /* The first token that the query at `history` sees; no window: none yet. */
    uint64_t next = (uint64_t)history + 1;
    uint64_t visible = next > life->window ? next - life->window : 0;
    uint32_t end = (uint32_t)(visible / tokens_per_block);
    range.end = end > first ? end : first;
    return range;
}

struct kv_range kv_life_scratch(const struct kv_life *life,
                                uint32_t tokens_per_block, uint32_t history,
                                uint32_t capacity, uint32_t rewind_max)
{
    uint32_t kept = capacity > rewind_max ? capacity - rewind_max : 0;
    struct kv_range range = kv_life_stale(life, tokens_per_block, kept);
    uint32_t first = kv_blocks_of(history, tokens_per_block);
    uint32_t end = kv_blocks_of(capacity, tokens_per_block);
    range.first = range.first > first ? range.first : first;
    range.end = smaller(range.end, end);
    if (range.end < range.first) {
        range.end = range.first;
    }
    return range;
}

uint32_t kv_life_blocks_max(const struct kv_life *life,
                            uint32_t tokens_per_block, uint32_t tokens,
                            uint32_t step_max)
{
    uint32_t all = kv_blocks_of(tokens, tokens_per_block);
    if (life->window == 0) {
        return all;
    }
    /* From the block of history + 1 - window to that of history + step - 1:
     * window + step - 1 tokens that may begin anywhere in a block. */
    uint64_t step = step_max > 0 ? step_max : 1;
    uint64_t span = life->window + step - 1;
    uint64_t moving = (span + tokens_per_block - 2) / tokens_per_block + 1;
    uint64_t most = moving + kv_blocks_of(life->sink_tokens, tokens_per_block);
    return most < all ? (uint32_t)most : all;
}
