#pragma once
/* wire/rank_info: what a rank says about itself when it meets a peer
 * (transfer.md 2.3.1, 1.3): who it is, where it lives, how its memory is reached
 * and what lies in it. A msgpack map; all fields are required. Views point into
 * the decoded bytes. Pure, any thread.
 *
 *   the memory  |  pages of group 0  |  pages of group 1  | ...
 *               0                    base_offset          memory_bytes
 *
 * A group is a life cycle: layers whose pages live and die together. Groups of
 * two ranks are paired by what they are (window, sinks, layers), not by index. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "wire/frame.h"

enum {
    WIRE_RANK_BLOB_SIZE_MAX = 16384,
    WIRE_LAYER_COUNT_MAX = 4096,
    WIRE_MARK_SIZE = 32
};

struct wire_group {
    uint32_t window, sink_tokens; /* 0: all tokens stay */
    uint32_t layer_count, kv_head_count, head_dim, tokens_per_block,
        element_bytes;
    struct span layers; /* their global ids, u16 each; empty: not told */
    uint32_t page_count;
    uint64_t page_bytes;
    uint64_t base_offset;
};

struct wire_rank_info {
    uint64_t incarnation;
    uint32_t instance_rank, instance_size;
    uint32_t tp_size, pp_size, dp_size, cp_size;
    char endpoint[280];

    /* Proof of death: same host and the same process table, then pid and the
     * tick it started at name one process for ever. */
    char host[96];
    uint64_t pid;
    uint64_t started;

    char backend[16];
    char backend_config[256];
    struct span backend_blob; /* empty when the memory is not offered */
    char lane[32]; /* by what the memory was reached; "" in a hello */

    /* Digests of model and tokenizer, WIRE_MARK_SIZE bytes each (node/marks). */
    struct span model_mark, tokenizer_mark;

    uint64_t memory_bytes; /* of which the blob tells */
    /* The arena in it (wire/bounce.h), and the largest chunk it takes; 0: there
     * is none. */
    uint64_t bounce_offset, bounce_bytes;
    uint32_t bounce_chunk_bytes;
    uint32_t group_count;
    struct wire_group groups[WIRE_GROUP_COUNT_MAX];
};

void wire_rank_info_encode(const struct wire_rank_info *info, struct buf *out);
/* ERR_CORRUPT; ERR_INVALID names the field, also of a mark of another size, or
 * of a group that does not lie
 * inside the memory, has no page or tokens, or other blocks than group 0. */
MUST_USE enum err wire_rank_info_decode(struct span body, struct why *why,
                                        struct wire_rank_info *info_out);

/* Which group of `b` is the life cycle that `a` has at each index; where two
 * could be, the one of the same index. False: one of them has no counterpart,
 * the indices are not set. */
bool wire_rank_info_pair_groups(const struct wire_rank_info *a,
                                const struct wire_rank_info *b,
                                uint8_t b_of_a_out[WIRE_GROUP_COUNT_MAX]);

/* May these two exchange pages (transfer.md 4.5, 4.6)? ERR_UNSUPPORTED names
 * the first field that does not fit and both its values; the marks come first,
 * and of them the first eight bytes. Of tokens_per_block
 * one is a multiple of the other; pages are then as large as each side's layout
 * needs, else equal. */
MUST_USE enum err wire_rank_info_compare(const struct wire_rank_info *sender,
                                         const struct wire_rank_info *receiver,
                                         struct why *why);
