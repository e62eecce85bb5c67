#include "api/handoff.h"

#include <string.h>

#include "base/check.h"
#include "base/digest.h"

/* The bytes behind `encoded_opaque_state`, little-endian:
 *
 *    0  version        8-bit, 2 (1 had no seal)
 *    1  incarnation    64-bit
 *    9  rid            64-bit
 *   17  attempt, prompt tokens, tokens a block, KV type    32-bit each
 *   33  seal           16 bytes
 *   49  CRC-32C of the 49 bytes before
 *
 * and what the seal is the HMAC-SHA256 of, after the bytes 1 to 32 of these:
 *
 *   32  number of ids, bytes of the salt, number of first tokens   32-bit each
 *   44  the ids, the salt, the first tokens
 */
enum {
    OPAQUE_VERSION = 2,
    OPAQUE_SEAL_AT = 33,
    OPAQUE_BODY = OPAQUE_SEAL_AT + API_SEAL_SIZE,
    OPAQUE_SIZE = OPAQUE_BODY + 4,
};

static uint8_t *put(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
    return at + size;
}

static uint64_t take(const uint8_t **at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value |= (uint64_t)(*at)[i] << (8 * i);
    }
    *at += size;
    return value;
}

static uint8_t *put_fields(uint8_t *at, const struct api_opaque *opaque)
{
    at = put(at, opaque->incarnation, 8);
    at = put(at, (uint64_t)opaque->rid, 8);
    at = put(at, opaque->attempt, 4);
    at = put(at, opaque->prompt_tokens, 4);
    at = put(at, opaque->tokens_per_block, 4);
    return put(at, opaque->kv_type, 4);
}

void api_opaque_encode(const struct api_opaque *opaque, struct buf *base64_out)
{
    uint8_t bytes[OPAQUE_SIZE];
    uint8_t *at = put_fields(put(bytes, OPAQUE_VERSION, 1), opaque);
    CHECK(at - bytes == OPAQUE_SEAL_AT);
    memcpy(at, opaque->seal, API_SEAL_SIZE);
    put(at + API_SEAL_SIZE, digest_crc32c(0, span_of(bytes, OPAQUE_BODY)), 4);
    digest_add_base64(base64_out, span_of(bytes, OPAQUE_SIZE));
}

static void add_ids(struct buf *out, const int32_t *ids, uint32_t count)
{
    uint8_t bytes[4];
    for (uint32_t i = 0; i < count; i++) {
        put(bytes, (uint32_t)ids[i], 4);
        buf_add(out, bytes, 4);
    }
}

/* False: no memory. */
static bool make_seal(struct span key, const struct api_sealed *sealed,
                      const struct api_opaque *opaque,
                      uint8_t seal_out[API_SEAL_SIZE])
{
    uint8_t head[OPAQUE_SEAL_AT - 1 + 12], digest[DIGEST_SHA256_SIZE];
    struct buf text;
    uint8_t *at = put_fields(head, opaque);
    at = put(at, sealed->id_count, 4);
    at = put(at, sealed->salt.size, 4);
    put(at, sealed->first_token_count, 4);
    buf_init(&text, SIZE_MAX / 4);
    buf_add(&text, head, sizeof(head));
    add_ids(&text, sealed->ids, sealed->id_count);
    buf_add_span(&text, sealed->salt);
    add_ids(&text, sealed->first_tokens, sealed->first_token_count);
    bool is_good = buf_error(&text) == OK;
    digest_hmac_sha256(key, buf_span(&text), digest);
    memcpy(seal_out, digest, API_SEAL_SIZE);
    buf_finish(&text);
    return is_good;
}

void api_opaque_seal(struct span key, const struct api_sealed *sealed,
                     struct api_opaque *opaque)
{
    /* Without memory the receiver refuses it: no wrong KV comes of that. */
    if (!make_seal(key, sealed, opaque, opaque->seal)) {
        memset(opaque->seal, 0, API_SEAL_SIZE);
    }
}

bool api_opaque_is_sealed(struct span key, const struct api_sealed *sealed,
                          const struct api_opaque *opaque)
{
    uint8_t seal[API_SEAL_SIZE];
    return make_seal(key, sealed, opaque, seal) &&
           digest_equals(seal, opaque->seal, API_SEAL_SIZE);
}

static enum err decode_bytes(struct span bytes, struct why *why,
                             struct api_opaque *opaque_out)
{
    if (bytes.size > 0 && bytes.data[0] > 0 && bytes.data[0] < OPAQUE_VERSION) {
        return why_say(why, ERR_UNSUPPORTED,
                       "is of version %u, made by an older worker; this one "
                       "reads %d",
                       bytes.data[0], OPAQUE_VERSION);
    }
    if (bytes.size < 1 || bytes.data[0] != OPAQUE_VERSION) {
        return why_say(why, ERR_UNSUPPORTED,
                       "was not made by a worker of this kind");
    }
    if (bytes.size != OPAQUE_SIZE) {
        return why_say(why, ERR_INVALID, "has the wrong length");
    }
    const uint8_t *at = bytes.data + OPAQUE_BODY;
    uint32_t crc = (uint32_t)take(&at, 4);
    if (crc != digest_crc32c(0, span_slice(bytes, 0, OPAQUE_BODY))) {
        return why_say(why, ERR_INVALID, "is damaged");
    }
    at = bytes.data + 1;
    uint64_t incarnation = take(&at, 8);
    if (incarnation == 0) { /* to a receiver that is whoever answers */
        return why_say(why, ERR_INVALID, "names no worker");
    }
    opaque_out->incarnation = incarnation;
    opaque_out->rid = (int64_t)take(&at, 8);
    opaque_out->attempt = (uint32_t)take(&at, 4);
    opaque_out->prompt_tokens = (uint32_t)take(&at, 4);
    opaque_out->tokens_per_block = (uint32_t)take(&at, 4);
    opaque_out->kv_type = (uint32_t)take(&at, 4);
    memcpy(opaque_out->seal, at, API_SEAL_SIZE);
    return OK;
}

enum err api_opaque_decode(struct span base64, struct why *why,
                           struct api_opaque *opaque_out)
{
    struct buf bytes;
    buf_init(&bytes, 1024);
    enum err code;
    if (digest_decode_base64(base64, &bytes) != OK) {
        code = why_say(why, ERR_INVALID, "must be base64");
    } else {
        code = decode_bytes(buf_span(&bytes), why, opaque_out);
    }
    buf_finish(&bytes);
    return code;
}

void api_ids_encode(const int32_t *ids, size_t count, struct buf *base64_out)
{
    digest_add_base64(base64_out, span_of(ids, count * sizeof(*ids)));
}

static enum err check_ids(struct span bytes, int64_t max, struct why *why,
                          int32_t *ids, size_t count_max, size_t *count_out)
{
    size_t count = bytes.size / sizeof(*ids);
    if (bytes.size % sizeof(*ids) != 0) {
        return why_say(why, ERR_INVALID, "must hold whole 32-bit integers");
    }
    if (count > count_max) {
        return why_say(why, ERR_FULL, "has more than %zu elements", count_max);
    }
    if (count > 0) {
        memcpy(ids, bytes.data, bytes.size);
    }
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] > max) {
            return why_say(why, ERR_INVALID,
                           "element %zu is not from 0 to %lld", i,
                           (long long)max);
        }
    }
    *count_out = count;
    return OK;
}

enum err api_ids_decode(struct span base64, int64_t max, struct why *why,
                        int32_t *ids, size_t count_max, size_t *count_out)
{
    struct buf bytes;
    buf_init(&bytes, base64.size + 3);
    enum err code;
    if (digest_decode_base64(base64, &bytes) != OK) {
        code = why_say(why, ERR_INVALID, "must be base64");
    } else {
        code = check_ids(buf_span(&bytes), max, why, ids, count_max, count_out);
    }
    buf_finish(&bytes);
    return code;
}
