#include "wire/result.h"

#include "base/check.h"
#include "wire/bytes.h"

enum { DIGEST_SIZE = 8 };

void wire_result_prefix_encode(const struct wire_result_prefix *prefix,
                               struct buf *out)
{
    wire_write_u64(out, (uint64_t)prefix->sender_rank);
    wire_write_u64(out, (uint64_t)prefix->rid);
    wire_write_u64(out, (uint64_t)prefix->receiver_slice);
    wire_write_u8(out, prefix->is_last);
    wire_write_u8(out, (uint8_t)prefix->code);
    wire_write_u64(out, (uint64_t)prefix->bytes);
}

static enum err check_prefix(const struct wire_result_prefix *prefix,
                             uint8_t last, struct why *why)
{
    if (last > 1) {
        return why_say(why, ERR_CORRUPT, "result: is_last is %u", last);
    }
    if (prefix->receiver_slice < 0 || prefix->bytes < 0 || prefix->rid < 0) {
        return why_say(why, ERR_CORRUPT,
                       "result: slice %lld, rid %lld, bytes %lld: negative",
                       (long long)prefix->receiver_slice,
                       (long long)prefix->rid, (long long)prefix->bytes);
    }
    return OK;
}

enum err wire_result_prefix_decode(struct span body, struct why *why,
                                   struct wire_result_prefix *prefix_out,
                                   bool *is_odd_out)
{
    if (body.size != WIRE_RESULT_PREFIX_SIZE) {
        return why_say(why, ERR_CORRUPT, "result: prefix of %zu bytes, not %d",
                       body.size, WIRE_RESULT_PREFIX_SIZE);
    }
    struct wire_reader reader = wire_reader_of(body);
    struct wire_result_prefix prefix;
    prefix.sender_rank = (int64_t)wire_read_u64(&reader);
    prefix.rid = (int64_t)wire_read_u64(&reader);
    prefix.receiver_slice = (int64_t)wire_read_u64(&reader);
    uint8_t last = wire_read_u8(&reader);
    uint8_t code = wire_read_u8(&reader);
    prefix.bytes = (int64_t)wire_read_u64(&reader);
    enum err err = check_prefix(&prefix, last, why);
    if (err) {
        return err;
    }
    prefix.is_last = last == 1;
    bool is_odd = code > WIRE_RESULT_IN_DOUBT;
    prefix.code = is_odd ? WIRE_RESULT_FAILED : (enum wire_result_code)code;
    *prefix_out = prefix;
    *is_odd_out = is_odd;
    return OK;
}

void wire_result_encode(const struct wire_result *result, struct buf *out)
{
    CHECK(result->group_count <= WIRE_GROUP_COUNT_MAX);
    wire_result_prefix_encode(&result->prefix, out);
    wire_write_u32(out, result->slice_index);
    wire_write_u32(out, result->slices_total);
    wire_write_u16(out, result->flags);
    wire_write_u8(out, result->reason);
    wire_write_u8(out, result->group_count);
    wire_write_u64(out, result->bytes_so_far);
    for (uint32_t i = 0; i < result->group_count; i++) {
        CHECK(result->groups[i].digest_count <= WIRE_BLOCK_COUNT_MAX);
        wire_write_u32(out, result->groups[i].blocks_so_far);
        wire_write_u32(out, result->groups[i].digest_count);
    }
}

void wire_result_digest_encode(struct wire_digest digest, struct buf *out)
{
    wire_write_u32(out, digest.ordinal);
    wire_write_u32(out, digest.crc32c);
}

struct wire_result wire_result_abort(int64_t sender_rank, int64_t rid,
                                     int64_t receiver_slice, uint8_t reason,
                                     uint16_t flags)
{
    return (struct wire_result){
        .prefix = {.sender_rank = sender_rank,
                   .rid = rid,
                   .receiver_slice = receiver_slice,
                   .is_last = true,
                   .code = WIRE_RESULT_FAILED},
        .flags = flags,
        .reason = reason,
    };
}

static void read_fields(struct wire_reader *reader, struct wire_result *result)
{
    result->slice_index = wire_read_u32(reader);
    result->slices_total = wire_read_u32(reader);
    result->flags = wire_read_u16(reader);
    result->reason = wire_read_u8(reader);
    result->group_count = wire_read_u8(reader);
    result->bytes_so_far = wire_read_u64(reader);
}

/* False: more groups or digests than there may be, or than there are. */
static bool read_groups(struct wire_reader *reader, struct wire_result *result)
{
    if (result->group_count > WIRE_GROUP_COUNT_MAX) {
        return false;
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < result->group_count; i++) {
        result->groups[i].blocks_so_far = wire_read_u32(reader);
        result->groups[i].digest_count = wire_read_u32(reader);
        total += result->groups[i].digest_count;
    }
    if (total > WIRE_BLOCK_COUNT_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < result->group_count; i++) {
        size_t size = (size_t)DIGEST_SIZE * result->groups[i].digest_count;
        result->groups[i].digests = wire_read_span(reader, size);
    }
    return wire_reader_is_done(reader);
}

enum err wire_result_decode(struct span body, struct why *why,
                            struct wire_result *result_out, bool *is_odd_out)
{
    struct wire_result result = {0};
    bool is_odd;
    enum err err =
        wire_result_prefix_decode(span_slice(body, 0, WIRE_RESULT_PREFIX_SIZE),
                                  why, &result.prefix, &is_odd);
    if (err) {
        return err;
    }
    struct wire_reader reader =
        wire_reader_of(span_slice(body, WIRE_RESULT_PREFIX_SIZE, body.size));
    read_fields(&reader, &result);
    if (!read_groups(&reader, &result)) {
        return why_say(why, ERR_CORRUPT, "result: %zu bytes of %u groups",
                       body.size, result.group_count);
    }
    *result_out = result;
    *is_odd_out = is_odd;
    return OK;
}

struct wire_digest wire_result_digest(const struct wire_result *result,
                                      uint32_t group, uint32_t index)
{
    CHECK(group < result->group_count);
    CHECK(index < result->groups[group].digest_count);
    size_t at = (size_t)DIGEST_SIZE * index;
    struct span digests = result->groups[group].digests;
    struct wire_reader reader =
        wire_reader_of(span_slice(digests, at, at + DIGEST_SIZE));
    struct wire_digest digest;
    digest.ordinal = wire_read_u32(&reader);
    digest.crc32c = wire_read_u32(&reader);
    return digest;
}
