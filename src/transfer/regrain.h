#pragma once
/* transfer/regrain: what goes where when the blocks of a sender and a receiver
 * are not of one size (transfer.md 4.5). One size is a multiple of the other,
 * so the prompt falls into parts of the smaller size, and each part lies in one
 * block here and in one block there:
 *
 *   64 tokens a block   |        0        |        1   P    |
 *   parts               |   0    |   1    |   2    |   3    |
 *   32 tokens a block   |   0    |   1    |   2    |   3    |
 *
 * A part is what is paired, counted and digested; it is named by its ordinal.
 * Of the last one only the tokens that exist move. Within a page a part is one
 * run of tokens a layer, K or V, and head (kv/view.h), as many pieces. Where
 * the sizes are equal a part is a block and moves as its whole page. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "kv/view.h"
#include "transfer/backend.h"
#include "transfer/pairing.h"

struct transfer_grain {
    uint32_t tokens; /* of a part */
    uint32_t source_parts, target_parts; /* of a block; the smaller has 1 */
};

/* The pages of one life cycle at one side. */
struct transfer_place {
    struct kv_layout layout;
    uint64_t base_offset; /* of page 0, in the memory of that side */
    uint64_t page_bytes;
};

/* False: neither size is a multiple of the other. */
bool transfer_grain_of(uint32_t source_tokens, uint32_t target_tokens,
                       struct transfer_grain *grain_out);
static inline bool transfer_grain_is_block(const struct transfer_grain *grain)
{
    return grain->source_parts == 1 && grain->target_parts == 1;
}
/* Tokens of `part` that a prompt of `prompt_tokens` has. */
uint32_t transfer_part_tokens(const struct transfer_grain *grain,
                              uint32_t prompt_tokens, uint32_t part);

/* The parts below `part_count` that lie in a page of both lists, in order; the
 * ordinal of a pair is that of its part. There are no more than part_count and
 * source->count * source_parts. */
uint32_t transfer_pair_parts(const struct transfer_grain *grain,
                             uint32_t part_count,
                             const struct transfer_blocks *source,
                             const struct transfer_blocks *target,
                             struct transfer_pair *pairs_out);

/* Pieces that a part is. */
uint64_t transfer_part_piece_count(const struct transfer_grain *grain,
                                   const struct kv_layout *layout);
/* The pieces of a pair with `tokens` tokens, in the order of the page; the
 * layouts differ in tokens_per_block alone. Returns how many. */
uint32_t transfer_part_pieces(const struct transfer_grain *grain,
                              const struct transfer_pair *pair, uint32_t tokens,
                              const struct transfer_place *source,
                              const struct transfer_place *target,
                              struct transfer_piece *pieces_out);

/* The digest of a part is the CRC32C of its bytes in the order of the page: the
 * sender's, from its (count) pieces as they were read, */
uint32_t transfer_part_join(const struct transfer_piece *pieces,
                            uint32_t count);
/* and the receiver's, from tokens [first, first + count) of a page. */
uint32_t transfer_part_digest(const struct kv_layout *layout,
                              const uint8_t *page, uint32_t first,
                              uint32_t count);
