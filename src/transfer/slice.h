#pragma once
/* transfer/slice: which blocks of a prompt leave with which chunk of its
 * prefill, and which of a windowed life cycle leave at all (transfer.md 3.2,
 * 3.4, 3.8). B tokens a block, P tokens of prompt, N = ceil(P / B). Pure.
 *
 *   tokens    |....s.........e......|   a chunk the scheduler computed
 *   blocks    | cursor ... c1 |     |   what its slice carries
 *
 * A non-final end rounds down, the block computed in part waits; the final one
 * rounds up. A slice begins where the one before it ended, so slices tile
 * [0, N) whatever the scheduler does; the first reaches back to block 0 and
 * brings what the prefix cache held. */
#include <stdbool.h>
#include <stdint.h>

#include "kv/view.h"

/* Tokens [start, end) of the prompt are computed now. */
struct transfer_chunk {
    uint32_t start, end;
    uint32_t prompt_tokens;
    uint32_t tokens_per_block;
};

struct transfer_slice {
    uint32_t first_block, end_block;
    bool is_last;
};

enum transfer_slice_kind {
    TRANSFER_SLICE_NONE, /* no whole block more, and not the end */
    TRANSFER_SLICE_SOME, /* slice_out; the cursor moves to its end_block */
    TRANSFER_SLICE_REWOUND /* blocks before the cursor are computed again */
};

/* `cursor`: 0 at first. A chunk given again in the same attempt is NONE as long
 * as it ends where the cursor is. */
enum transfer_slice_kind transfer_slice_next(const struct transfer_chunk *chunk,
                                             uint32_t cursor,
                                             struct transfer_slice *slice_out);

/* ceil(tokens / tokens_per_block) without overflow. */
uint32_t transfer_blocks_of(uint32_t tokens, uint32_t tokens_per_block);

/* Blocks before it have left the window when the first token after the prompt
 * is computed; 0: all count. No window: 0, or longer than the prompt. */
uint32_t transfer_stale_end(const struct kv_life *life, uint32_t prompt_tokens,
                            uint32_t tokens_per_block);
/* A life cycle of which nothing is stale, since the window reaches back to the
 * sinks at least, leaves slice by slice; any other goes whole with the last
 * one, since its pages change in between. Both ends of port.h must say the same
 * (kv_life_stale): the engine leases by it. */
bool transfer_life_streams(const struct kv_life *life, uint32_t prompt_tokens,
                           uint32_t tokens_per_block);
/* Decoding reads that block: in the window, or a sink. Who asked for it must
 * get it; of a stale one it does not matter. */
bool transfer_block_is_needed(const struct kv_life *life,
                              uint32_t prompt_tokens, uint32_t tokens_per_block,
                              uint32_t ordinal);
