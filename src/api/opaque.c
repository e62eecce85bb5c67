#include "api/handoff.h"

#include <string.h>

#include "base/check.h"
#include "base/digest.h"

/* The bytes behind `encoded_opaque_state`, little-endian:
 *
 *    0  version        8-bit, 1
 *    1  incarnation    64-bit
 *    9  rid            64-bit
 *   17  attempt, prompt tokens, tokens a block, KV type    32-bit each
 *   33  CRC-32C of the 33 bytes before
 */
enum { OPAQUE_VERSION = 1, OPAQUE_BODY = 33, OPAQUE_SIZE = 37 };

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

void api_opaque_encode(const struct api_opaque *opaque, struct buf *base64_out)
{
    uint8_t bytes[OPAQUE_SIZE];
    uint8_t *at = put(bytes, OPAQUE_VERSION, 1);
    at = put(at, opaque->incarnation, 8);
    at = put(at, (uint64_t)opaque->rid, 8);
    at = put(at, opaque->attempt, 4);
    at = put(at, opaque->prompt_tokens, 4);
    at = put(at, opaque->tokens_per_block, 4);
    at = put(at, opaque->kv_type, 4);
    CHECK(at - bytes == OPAQUE_BODY);
    put(at, digest_crc32c(0, span_of(bytes, OPAQUE_BODY)), 4);
    digest_add_base64(base64_out, span_of(bytes, OPAQUE_SIZE));
}

static enum err decode_bytes(struct span bytes, struct why *why,
                             struct api_opaque *opaque_out)
{
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
    opaque_out->incarnation = take(&at, 8);
    opaque_out->rid = (int64_t)take(&at, 8);
    opaque_out->attempt = (uint32_t)take(&at, 4);
    opaque_out->prompt_tokens = (uint32_t)take(&at, 4);
    opaque_out->tokens_per_block = (uint32_t)take(&at, 4);
    opaque_out->kv_type = (uint32_t)take(&at, 4);
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
