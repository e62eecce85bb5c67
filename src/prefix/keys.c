#include "prefix/keys.h"

#include "base/check.h"
#include "base/digest.h"

static void put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

void prefix_scope_init(struct prefix_scope *scope,
                       const uint8_t secret[PREFIX_SECRET_SIZE], uint64_t salt)
{
    uint8_t bytes[8];
    put_u32(bytes, (uint32_t)salt);
    put_u32(bytes + 4, (uint32_t)(salt >> 32));
    memcpy(scope->secret, secret, PREFIX_SECRET_SIZE);
    digest_blake3(secret, span_of(bytes, sizeof(bytes)), scope->root.bytes,
                  sizeof(scope->root.bytes));
}

struct prefix_key prefix_key_next(const struct prefix_scope *scope,
                                  const struct prefix_key *parent,
                                  const int32_t *tokens, uint32_t token_count)
{
    CHECK(token_count <= PREFIX_BLOCK_TOKENS_MAX);
    struct prefix_key key = parent == NULL ? scope->root : *parent;
    uint8_t bytes[sizeof(key.bytes) + 4 * PREFIX_BLOCK_TOKENS_MAX];
    memcpy(bytes, key.bytes, sizeof(key.bytes));
    for (uint32_t i = 0; i < token_count; i++) {
        put_u32(bytes + sizeof(key.bytes) + 4 * (size_t)i, (uint32_t)tokens[i]);
    }
    size_t size = sizeof(key.bytes) + 4 * (size_t)token_count;
    digest_blake3(scope->secret, span_of(bytes, size), key.bytes,
                  sizeof(key.bytes));
    return key;
}

uint32_t prefix_keys(const struct prefix_scope *scope, const int32_t *tokens,
                     uint32_t token_count, uint32_t tokens_per_block,
                     uint32_t key_count_max, struct prefix_key *keys_out)
{
    uint32_t count = token_count / tokens_per_block;
    count = count < key_count_max ? count : key_count_max;
    for (uint32_t i = 0; i < count; i++) {
        keys_out[i] = prefix_key_next(scope, i == 0 ? NULL : &keys_out[i - 1],
                                      tokens + (size_t)i * tokens_per_block,
                                      tokens_per_block);
    }
    return count;
}
