#pragma once
/* wire/rank_info: what a rank says about itself when it meets a peer
 * (transfer.md 2.3.1): who it is, where it lives, what its cache looks like and
 * how its memory is reached. A msgpack map; all fields are required. Views
 * point into the decoded bytes. Pure, any thread. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum { WIRE_RANK_BLOB_SIZE_MAX = 16384 };

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
    struct span backend_blob; /* empty when the pool is not offered */
    char lane[32]; /* by what the pool was reached; "" in a hello */

    uint32_t layer_count, kv_head_count, head_dim, tokens_per_block,
        element_bytes;
    uint32_t page_count;
    uint64_t page_bytes;
};

void wire_rank_info_encode(const struct wire_rank_info *info, struct buf *out);
MUST_USE enum err wire_rank_info_decode(struct span body, struct why *why,
                                        struct wire_rank_info *info_out);

/* May these two exchange pages (transfer.md 4.6)? ERR_UNSUPPORTED names the
 * first field that differs and both its values. */
MUST_USE enum err wire_rank_info_compare(const struct wire_rank_info *sender,
                                         const struct wire_rank_info *receiver,
                                         struct why *why);
