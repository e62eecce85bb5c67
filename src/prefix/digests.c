#include "prefix/digests.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "prefix/keys.h"

/* Ids enter SHA-256 as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian");

static const char *const NAMES[PREFIX_HASH_ALGO_COUNT] = {
    [PREFIX_V1_BLOCK_KEY] = "v1_block_key",
    [PREFIX_V2_SHA256] = "v2_sha256",
    [PREFIX_V2_SHA256_64] = "v2_sha256_64",
};

const char *prefix_hash_algo_name(enum prefix_hash_algo algo)
{
    CHECK(algo < PREFIX_HASH_ALGO_COUNT);
    return NAMES[algo];
}

enum err prefix_hash_algo_find(struct span name, struct why *why,
                               enum prefix_hash_algo *algo_out)
{
    for (int i = 0; i < PREFIX_HASH_ALGO_COUNT; i++) {
        if (span_equals_string(name, NAMES[i])) {
            *algo_out = (enum prefix_hash_algo)i;
            return OK;
        }
    }
    int shown = name.size < 64 ? (int)name.size : 64;
    return why_say(why, ERR_UNSUPPORTED,
                   "hash_algo: \"%.*s\" is none of v1_block_key, v2_sha256, "
                   "v2_sha256_64",
                   shown, shown == 0 ? "" : (const char *)name.data);
}

/* ---- v1 ---- */

static uint64_t mix_32(uint32_t v, uint64_t seed)
{
    v = ((v >> 16) ^ v) * UINT32_C(0x45d9f3b);
    v = ((v >> 16) ^ v) * UINT32_C(0x45d9f3b);
    v = ((v >> 16) ^ v) + UINT32_C(0x9e3779b9); /* carries are dropped */
    return seed ^ (v + (seed << 6) + (seed >> 2));
}

static uint64_t mix_64(uint64_t v, uint64_t seed)
{
    v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
    v ^= v >> 31;
    return seed ^ (v + UINT64_C(0x9e3779b9) + (seed << 6) + (seed >> 2));
}

static uint64_t v1_next(const struct prefix_scope_id *id, uint64_t parent,
                        const int32_t *tokens, uint32_t token_count)
{
    uint64_t seed = token_count ^ (parent * UINT64_C(0xbf58476d1ce4e5b9));
    if (parent == 0 && id != NULL && id->has_salt) {
        seed = mix_64(id->salt, seed);
    }
    for (uint32_t i = 0; i < token_count; i++) {
        seed = mix_32((uint32_t)tokens[i], seed);
    }
    return id != NULL && id->has_lora ? mix_64(id->lora, seed) : seed;
}

/* ---- v2 ---- */

static void v2_root(const struct prefix_scope_id *id,
                    uint8_t out[DIGEST_SHA256_SIZE])
{
    uint8_t bytes[PREFIX_SCOPE_BYTES_MAX];
    size_t size = prefix_scope_encode(id, bytes);
    digest_sha256(span_of(bytes, size), out);
}

static void v2_next(const uint8_t parent[DIGEST_SHA256_SIZE],
                    const int32_t *tokens, uint32_t token_count,
                    uint8_t out[DIGEST_SHA256_SIZE])
{
    struct {
        uint8_t parent[DIGEST_SHA256_SIZE];
        uint64_t ids[PREFIX_BLOCK_TOKENS_MAX];
    } message;
    memcpy(message.parent, parent, DIGEST_SHA256_SIZE);
    for (uint32_t i = 0; i < token_count; i++) {
        message.ids[i] = (uint32_t)tokens[i];
    }
    size_t size = DIGEST_SHA256_SIZE + 8 * (size_t)token_count;
    digest_sha256(span_of(&message, size), out);
}

/* ---- all ---- */

struct prefix_digest prefix_digest_next(enum prefix_hash_algo algo,
                                        const struct prefix_scope_id *id,
                                        const struct prefix_digest *parent,
                                        const int32_t *tokens,
                                        uint32_t token_count)
{
    CHECK(algo < PREFIX_HASH_ALGO_COUNT);
    CHECK(token_count <= PREFIX_BLOCK_TOKENS_MAX);
    struct prefix_digest digest = {0};
    if (algo == PREFIX_V1_BLOCK_KEY) {
        uint64_t before = parent == NULL ? 0 : parent->number;
        digest.number = v1_next(id, before, tokens, token_count);
        return digest;
    }
    uint8_t root[DIGEST_SHA256_SIZE];
    if (parent == NULL) {
        v2_root(id, root);
    }
    v2_next(parent == NULL ? root : parent->bytes, tokens, token_count,
            digest.bytes);
    for (int i = 0; i < 8; i++) {
        digest.number = digest.number << 8 | digest.bytes[i];
    }
    return digest;
}

uint32_t prefix_digest_count(uint32_t token_count, uint32_t tokens_per_block)
{
    CHECK(tokens_per_block > 0);
    uint32_t hashed = token_count == 0 ? 0 : token_count - 1;
    return hashed / tokens_per_block + (hashed % tokens_per_block != 0);
}

uint32_t prefix_digests(enum prefix_hash_algo algo,
                        const struct prefix_scope_id *id, const int32_t *tokens,
                        uint32_t token_count, uint32_t tokens_per_block,
                        uint32_t digest_count_max,
                        struct prefix_digest *digests_out)
{
    uint32_t count = prefix_digest_count(token_count, tokens_per_block);
    count = count < digest_count_max ? count : digest_count_max;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t begin = i * tokens_per_block;
        uint32_t left = token_count - 1 - begin;
        digests_out[i] = prefix_digest_next(
            algo, id, i == 0 ? NULL : &digests_out[i - 1], tokens + begin,
            left < tokens_per_block ? left : tokens_per_block);
    }
    return count;
}

void prefix_digest_add_text(struct buf *buf, enum prefix_hash_algo algo,
                            const struct prefix_digest *digest)
{
    if (algo == PREFIX_V2_SHA256) {
        digest_add_hex(buf, span_of(digest->bytes, sizeof(digest->bytes)));
        return;
    }
    buf_printf(buf, "%" PRIu64, digest->number);
}
