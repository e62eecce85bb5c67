#pragma once
/* prefix/keys: what a block of tokens is called inside this process.
 *
 *   root  = MAC(scope bytes)                        prefix/scope.h
 *   key 0 = MAC(ids of block 0 | root)
 *   key i = MAC(ids of block i | key i-1)
 *
 * MAC is PMAC-AES-128 (prefix/pmac.h); ids enter as 4 little-endian bytes, top
 * bit clear. A key stands for all tokens from the start of the prompt and for
 * the scope: equal keys mean equal prefixes of one scope (engine.md 1.7.1, 6.2).
 * The AES key comes from a secret of the process that never leaves it, so nobody
 * outside can search for two prefixes with one key, and trusting equality needs
 * no token compare.
 *
 * A media item in the tokens has ids above the vocabulary and a 32-byte name
 * (prefix/item.h). Each item that begins in a block is first mixed into that
 * block's parent:
 *
 *   parent' = MAC(place in the block, u32 LE | kind, u8 | name | parent)
 *
 * No message of one sort is one of another, by its length: of a block it is a
 * multiple of 4 bytes, of a scope 1, 9 or 17, of an item 53. Within a sort all
 * fields but the ids have a fixed size, so bytes say their fields; a partial
 * block is a shorter message and needs no padding of ours.
 *
 * Pure, any thread. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "prefix/item.h"
#include "prefix/pmac.h"
#include "prefix/scope.h"

enum { PREFIX_SECRET_SIZE = 32, PREFIX_BLOCK_TOKENS_MAX = 512 };

struct prefix_key {
    uint8_t bytes[16];
};

/* Open; filled by prefix_scope_init or prefix_scope_init_for, then only read.
 * Half a kilobyte, a microsecond to make. */
struct prefix_scope {
    struct prefix_pmac pmac;
    struct prefix_key root;
};

static inline bool prefix_key_equals(const struct prefix_key *a,
                                     const struct prefix_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* Different scopes share no key. `id` NULL: neither LoRA nor salt. */
void prefix_scope_init_for(struct prefix_scope *scope,
                           const uint8_t secret[PREFIX_SECRET_SIZE],
                           const struct prefix_scope_id *id);
/* Without LoRA; salt 0: without salt. */
void prefix_scope_init(struct prefix_scope *scope,
                       const uint8_t secret[PREFIX_SECRET_SIZE], uint64_t salt);

/* The key of one block: `tokens` (token_count) ids, at most
 * PREFIX_BLOCK_TOKENS_MAX, that follow the block called `parent`; NULL: the
 * first block. */
struct prefix_key prefix_key_next(const struct prefix_scope *scope,
                                  const struct prefix_key *parent,
                                  const int32_t *tokens, uint32_t token_count);
/* What a block in which `item` begins, at `place` from its start, takes for its
 * parent. Several items: in the order of their places, each upon the last. */
struct prefix_key prefix_key_mix_item(const struct prefix_scope *scope,
                                      const struct prefix_key *parent,
                                      const struct prefix_item *item,
                                      uint32_t place);

/* Keys of the full blocks of `tokens`, at most `key_count_max` of them. Returns
 * how many were written to `keys_out`. */
uint32_t prefix_keys(const struct prefix_scope *scope, const int32_t *tokens,
                     uint32_t token_count, uint32_t tokens_per_block,
                     uint32_t key_count_max, struct prefix_key *keys_out);

/* A prompt, or the part of one that is looked up. All the caller's. */
struct prefix_prompt {
    const int32_t *tokens; /* (token_count) */
    uint32_t token_count;
    const struct prefix_item *items; /* (item_count), positions ascending */
    uint32_t item_count; /* items from token_count on are passed over */
    uint32_t tokens_per_block; /* 1 to PREFIX_BLOCK_TOKENS_MAX */
    bool with_tail; /* the partial last block, if any, gets a key too */
};
/* All keys of a prompt at once, at most `key_count_max`. Returns how many. */
uint32_t prefix_prompt_keys(const struct prefix_scope *scope,
                            const struct prefix_prompt *prompt,
                            uint32_t key_count_max,
                            struct prefix_key *keys_out);
