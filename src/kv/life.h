#pragma once
/* kv/life: which blocks of a sequence a life cycle no longer needs, and which
 * it need not even store while a prompt is computed (engine.md 1.2, 1.9). Pure.
 *
 *   blocks   | sinks |  stale ............. | window | being written |
 *            0       s                      e        history      capacity
 *
 * All ranges are half open and count block ordinals. */
#include <stdbool.h>
#include <stdint.h>

#include "kv/view.h"

struct kv_range {
    uint32_t first;
    uint32_t end; /* == first: empty */
};

static inline bool kv_range_has(struct kv_range range, uint32_t block)
{
    return range.first <= block && block < range.end;
}

static inline uint32_t kv_range_count(struct kv_range range)
{
    return range.end - range.first;
}

/* ceil(tokens / tokens_per_block) without overflow. */
uint32_t kv_blocks_of(uint32_t tokens, uint32_t tokens_per_block);

/* At least one query sits at `history`, so the oldest visible key is
 * history + 1 - window. */
struct kv_range kv_life_stale(const struct kv_life *life,
                              uint32_t tokens_per_block, uint32_t history);
/* Blocks that the step from `history` to `capacity` writes and that are stale
 * at its end, whatever up to `rewind_max` tokens of it are taken back. */
struct kv_range kv_life_scratch(const struct kv_life *life,
                                uint32_t tokens_per_block, uint32_t history,
                                uint32_t capacity, uint32_t rewind_max);
/* The most blocks a sequence of `tokens` in all holds at a time when steps are
 * at most `step_max` tokens: all of them, or sinks, window and step. */
uint32_t kv_life_blocks_max(const struct kv_life *life,
                            uint32_t tokens_per_block, uint32_t tokens,
                            uint32_t step_max);
