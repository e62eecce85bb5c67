#include "wire/recv_request.h"

#include "base/check.h"
#include "wire/bytes.h"
#include "wire/fields.h"
#include "wire/pack.h"

/* The map's fixed part; the lists follow as an array of byte strings. */
struct anchors {
    struct wire_recv_request request;
    uint32_t block_layout;
    struct span lists;
};

#define FIELD(kind, member, max)                                              \
    {                                                                         \
#member, WIRE_FIELD_##kind, offsetof(struct anchors, request.member), \
            max                                                               \
    }

static const struct wire_field fields[] = {
    {"block_layout", WIRE_FIELD_U32, offsetof(struct anchors, block_layout), 0},
    {"unique_rid", WIRE_FIELD_I64, offsetof(struct anchors, request.rid), 0},
    FIELD(U32, instance_rank, 0),
    FIELD(I64, slice_id, 0),
    FIELD(U32, prompt_tokens, INT32_MAX),
    FIELD(U32, block_count, WIRE_BLOCK_COUNT_MAX),
    FIELD(U32, style, WIRE_GENERATION_FIRST),
    FIELD(U32, capabilities, 0),
    FIELD(TEXT, reply_endpoint, 280),
    {"block_ids_per_layer_groups", WIRE_FIELD_VALUE,
     offsetof(struct anchors, lists), 0},
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static const char *const old_fields[] = {"dst_start_token", "first_ordinals"};
enum { OLD_COUNT = sizeof(old_fields) / sizeof(old_fields[0]) };

static enum err check_anchors(const struct wire_recv_request *request,
                              struct why *why)
{
    if (request->rid < 0) {
        return why_say(why, ERR_INVALID, "unique_rid: negative");
    }
    if (request->slice_id < 0) {
        return why_say(why, ERR_INVALID, "slice_id: negative");
    }
    if (request->prompt_tokens == 0) {
        return why_say(why, ERR_INVALID, "prompt_tokens: missing");
    }
    if (request->block_count == 0 ||
        request->block_count > WIRE_BLOCK_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "block_count: out of bounds");
    }
    if (request->group_count == 0 ||
        request->group_count > WIRE_GROUP_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "group count: out of bounds");
    }
    size_t total = 0;
    for (uint32_t i = 0; i < request->group_count; i++) {
        size_t size = request->groups[i].size;
        total += size / 8;
        if (size != 0 && size != (size_t)8 * request->block_count) {
            return why_say(why, ERR_INVALID,
                           "block_ids_per_layer_groups[%u]: not one entry an "
                           "ordinal",
                           i);
        }
    }
    if (total > WIRE_BLOCK_COUNT_MAX) {
        return why_say(why, ERR_INVALID,
                       "block_ids_per_layer_groups: %zu blocks, at most %d",
                       total, WIRE_BLOCK_COUNT_MAX);
    }
    return OK;
}

enum err wire_recv_request_encode(const struct wire_recv_request *request,
                                  struct why *why, struct buf *out)
{
    enum err err = check_anchors(request, why);
    if (err) {
        return err;
    }
    struct anchors anchors = {.request = *request,
                              .block_layout = WIRE_BLOCK_LAYOUT};
    wire_fields_encode(fields, FIELD_COUNT - 1, 1, &anchors, out);
    wire_pack_text(out, fields[FIELD_COUNT - 1].name);
    wire_pack_array(out, request->group_count);
    for (uint32_t i = 0; i < request->group_count; i++) {
        wire_pack_bytes(out, request->groups[i]);
    }
    return buf_error(out);
}

/* A peer of an older revision gives itself away by its keys. */
static enum err refuse_old_layout(struct span body, struct why *why)
{
    struct wire_value map;
    if (wire_unpack(&body, &map) || map.kind != WIRE_MAP) {
        return why_say(why, ERR_CORRUPT, "message: not a map");
    }
    for (uint32_t i = 0; i < map.count; i++) {
        struct wire_value key;
        if (wire_unpack(&body, &key) || wire_unpack_skip(&body)) {
            return why_say(why, ERR_CORRUPT, "message: cut short");
        }
        for (size_t old = 0; old < OLD_COUNT; old++) {
            if (key.kind == WIRE_TEXT &&
                span_equals_string(key.bytes, old_fields[old])) {
                return why_say(why, ERR_UNSUPPORTED,
                               "%s: block lists of an older revision",
                               old_fields[old]);
            }
        }
    }
    return OK;
}

static enum err read_lists(struct span lists, struct wire_recv_request *request,
                           struct why *why)
{
    struct wire_value array;
    if (wire_unpack(&lists, &array) || array.kind != WIRE_ARRAY ||
        array.count > WIRE_GROUP_COUNT_MAX) {
        return why_say(why, ERR_INVALID,
                       "block_ids_per_layer_groups: not a short array");
    }
    request->group_count = array.count;
    for (uint32_t i = 0; i < array.count; i++) {
        struct wire_value list;
        if (wire_unpack(&lists, &list) || list.kind != WIRE_BYTES) {
            return why_say(why, ERR_INVALID,
                           "block_ids_per_layer_groups[%u]: not bytes", i);
        }
        request->groups[i] = list.bytes;
    }
    return OK;
}

enum err wire_recv_request_decode(struct span body, struct why *why,
                                  struct wire_recv_request *request_out)
{
    enum err err = refuse_old_layout(body, why);
    struct anchors anchors;
    err = err ? err
              : wire_fields_decode(fields, FIELD_COUNT, body, why, &anchors,
                                   sizeof(anchors));
    if (!err && anchors.block_layout != WIRE_BLOCK_LAYOUT) {
        err = why_say(why, ERR_UNSUPPORTED, "block_layout: %u, this side: %d",
                      anchors.block_layout, WIRE_BLOCK_LAYOUT);
    }
    err = err ? err : read_lists(anchors.lists, &anchors.request, why);
    err = err ? err : check_anchors(&anchors.request, why);
    if (err) {
        return why_prefix(why, err, "request data");
    }
    *request_out = anchors.request;
    return OK;
}

int64_t wire_recv_request_page(const struct wire_recv_request *request,
                               uint32_t group, uint32_t ordinal)
{
    CHECK(group < request->group_count);
    CHECK(ordinal < request->block_count);
    struct span list = request->groups[group];
    struct wire_reader reader = wire_reader_of(
        span_slice(list, (size_t)8 * ordinal, (size_t)8 * ordinal + 8));
    return list.size == 0 ? -1 : (int64_t)wire_read_u64(&reader);
}
