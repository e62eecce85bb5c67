#pragma once
/* prefix/digests: what a block of tokens is called outside this process, in
 * events and towards routers (serve.md 3.3). Three ways, each computed only when
 * somebody needs it:
 *
 *   v1_block_key   64 bits, d_i = h(d_i-1, block i), not cryptographic
 *   v2_sha256      d_-1 = SHA-256(scope bytes), d_i = SHA-256(d_i-1 | block i)
 *   v2_sha256_64   the first 8 bytes of d_i, big-endian
 *
 * where ids of a block enter v2 as u64, little-endian. Chained: a digest stands
 * for everything before it. Pure. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "prefix/scope.h"

enum prefix_hash_algo {
    PREFIX_V1_BLOCK_KEY,
    PREFIX_V2_SHA256,
    PREFIX_V2_SHA256_64,
    PREFIX_HASH_ALGO_COUNT
};

/* The name on the wire, as in `hash_algo`. */
const char *prefix_hash_algo_name(enum prefix_hash_algo algo);
/* ERR_UNSUPPORTED: we know no such algorithm. */
MUST_USE enum err prefix_hash_algo_find(struct span name, struct why *why,
                                        enum prefix_hash_algo *algo_out);

struct prefix_digest {
    uint64_t number; /* v1: the key; v2: the first 8 bytes, big-endian */
    uint8_t bytes[32]; /* v2: the digest; v1: zero */
};

/* The digest of the block of `token_count` ids (none negative, at most
 * PREFIX_BLOCK_TOKENS_MAX) that follows `parent`; NULL: the first block. `id`
 * NULL: neither LoRA nor salt. */
struct prefix_digest prefix_digest_next(enum prefix_hash_algo algo,
                                        const struct prefix_scope_id *id,
                                        const struct prefix_digest *parent,
                                        const int32_t *tokens,
                                        uint32_t token_count);

/* Blocks of a prompt, its last token excluded, a partial last block counted. */
uint32_t prefix_digest_count(uint32_t token_count, uint32_t tokens_per_block);
/* Their digests, at most `digest_count_max`. Returns how many were written. */
uint32_t prefix_digests(enum prefix_hash_algo algo,
                        const struct prefix_scope_id *id, const int32_t *tokens,
                        uint32_t token_count, uint32_t tokens_per_block,
                        uint32_t digest_count_max,
                        struct prefix_digest *digests_out);

/* As text: v2_sha256 in lower case hex, the 64-bit ones in decimal. */
void prefix_digest_add_text(struct buf *buf, enum prefix_hash_algo algo,
                            const struct prefix_digest *digest);
