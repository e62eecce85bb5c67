#include "transfer/pool_key.h"

#include <string.h>

#include "transfer/segment.h"
#include "wire/bytes.h"

enum { MAGIC = 0x58434e42, SEGMENT_SIZE = 4, VARYING_SIZE = SEGMENT_SIZE + 8 };

static void varying_part(int32_t segment, uint64_t address,
                         uint8_t out[VARYING_SIZE])
{
    memcpy(out, &segment, SEGMENT_SIZE);
    memcpy(out + SEGMENT_SIZE, &address, 8);
}

enum err pool_key_learn(struct pool_key *key, struct span bytes,
                        int32_t segment, uint64_t address, struct why *why)
{
    uint8_t part[VARYING_SIZE];
    varying_part(segment, address, part);
    size_t count = 0, found = 0;
    for (size_t at = 0; at + VARYING_SIZE <= bytes.size; at++) {
        if (memcmp(bytes.data + at, part, VARYING_SIZE) == 0) {
            found = at;
            count++;
        }
    }
    if (count != 1 || bytes.size > POOL_KEY_SIZE_MAX) {
        return why_say(why, ERR_UNSUPPORTED, "a memory key of another form");
    }
    memcpy(key->bytes, bytes.data, bytes.size);
    key->size = bytes.size;
    key->segment_at = found;
    return OK;
}

void pool_blob_encode(const struct pool_blob *blob, struct buf *out)
{
    wire_write_u32(out, MAGIC);
    wire_write_u64(out, blob->incarnation);
    wire_write_u64(out, blob->address);
    wire_write_u64(out, blob->pool_size);
    buf_add_span(out, blob->key);
}

static bool is_alike(const struct pool_key *ours, const struct pool_blob *blob)
{
    if (ours->size == 0 || blob->key.size != ours->size) {
        return false;
    }
    const uint8_t *theirs = blob->key.data;
    size_t at = ours->segment_at, end = at + VARYING_SIZE;
    return memcmp(theirs, ours->bytes, at) == 0 &&
           memcmp(theirs + at + SEGMENT_SIZE, &blob->address, 8) == 0 &&
           memcmp(theirs + end, ours->bytes + end, ours->size - end) == 0;
}

enum err pool_blob_decode(struct span bytes, const struct pool_key *ours,
                          struct why *why, struct pool_blob *blob_out)
{
    struct wire_reader reader = wire_reader_of(bytes);
    uint32_t magic = wire_read_u32(&reader);
    struct pool_blob blob = {0};
    blob.incarnation = wire_read_u64(&reader);
    blob.address = wire_read_u64(&reader);
    blob.pool_size = wire_read_u64(&reader);
    blob.key = wire_read_span(&reader, reader.left);
    if (reader.is_short || magic != MAGIC) {
        return why_say(why, ERR_INVALID, "not the address of a pool");
    }
    if (blob.pool_size == 0 || blob.pool_size > SEGMENT_POOL_SIZE_MAX) {
        return why_say(why, ERR_INVALID, "the peer's pool is of no size");
    }
    if (!is_alike(ours, &blob)) {
        return why_say(why, ERR_UNSUPPORTED,
                       "the peer's shared memory is of another kind");
    }
    memcpy(&blob.segment, blob.key.data + ours->segment_at, SEGMENT_SIZE);
    *blob_out = blob;
    return OK;
}
