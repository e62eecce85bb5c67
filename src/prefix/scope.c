#include "prefix/scope.h"

#include "base/digest.h"

static size_t put_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
    return 8;
}

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) {
        value = value << 8 | from[i];
    }
    return value;
}

size_t prefix_scope_encode(const struct prefix_scope_id *id,
                           uint8_t out[PREFIX_SCOPE_BYTES_MAX])
{
    size_t size = 1;
    out[0] = 0;
    if (id != NULL && id->has_lora) {
        out[0] |= 1;
        size += put_u64(out + size, id->lora);
    }
    if (id != NULL && id->has_salt) {
        out[0] |= 2;
        size += put_u64(out + size, id->salt);
    }
    return size;
}

void prefix_prompt_digest(const struct prefix_scope_id *id, const int32_t *ids,
                          size_t count, uint8_t out[PREFIX_PROMPT_DIGEST_SIZE])
{
    uint8_t scope[PREFIX_SCOPE_BYTES_MAX];
    uint8_t key[DIGEST_SHA256_SIZE];
    digest_sha256(span_of(scope, prefix_scope_encode(id, scope)), key);
    digest_blake3(key, span_of(ids, count * sizeof(*ids)), out,
                  PREFIX_PROMPT_DIGEST_SIZE);
}

uint64_t prefix_salt_id(const char *salt)
{
    uint8_t digest[DIGEST_SHA256_SIZE];
    digest_sha256(span_of_string(salt), digest);
    return get_u64(digest);
}

uint64_t prefix_salt_id_blake3(const char *salt)
{
    uint8_t digest[8];
    digest_blake3(NULL, span_of_string(salt), digest, sizeof(digest));
    return get_u64(digest);
}
