#pragma once
/* prefix/keys: what a block of tokens is called inside this process.
 *
 *   root  = H(secret; salt)
 *   key 0 = H(secret; root  | ids of block 0)
 *   key i = H(secret; key i-1 | ids of block i)
 *
 * H is keyed BLAKE3 cut to 128 bits, ids enter as 4 little-endian bytes. A key
 * stands for all tokens from the start of the prompt, and for the salt: equal
 * keys mean equal prefixes of one scope (engine.md 1.7.1, 6.2). The secret is
 * the process's own and never leaves it, so nobody outside can search for two
 * prefixes with one key, and trusting equality needs no token compare. Pure. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PREFIX_SECRET_SIZE = 32, PREFIX_BLOCK_TOKENS_MAX = 512 };

struct prefix_key {
    uint8_t bytes[16];
};

/* Open; filled by prefix_scope_init. */
struct prefix_scope {
    uint8_t secret[PREFIX_SECRET_SIZE];
    struct prefix_key root;
};

static inline bool prefix_key_equals(const struct prefix_key *a,
                                     const struct prefix_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* Scopes of different salt share no key. */
void prefix_scope_init(struct prefix_scope *scope,
                       const uint8_t secret[PREFIX_SECRET_SIZE], uint64_t salt);

/* The key of one block: `tokens` (token_count) ids, at most
 * PREFIX_BLOCK_TOKENS_MAX, that follow the block called `parent`; NULL: the
 * first block. */
struct prefix_key prefix_key_next(const struct prefix_scope *scope,
                                  const struct prefix_key *parent,
                                  const int32_t *tokens, uint32_t token_count);

/* Keys of the full blocks of `tokens`, at most `key_count_max` of them. Returns
 * how many were written to `keys_out`. */
uint32_t prefix_keys(const struct prefix_scope *scope, const int32_t *tokens,
                     uint32_t token_count, uint32_t tokens_per_block,
                     uint32_t key_count_max, struct prefix_key *keys_out);
