#include "wire/fields.h"

#include <string.h>

#include "base/check.h"
#include "wire/pack.h"

static void encode_field(const struct wire_field *field, const uint8_t *object,
                         struct buf *out)
{
    const void *at = object + field->offset;
    wire_pack_text(out, field->name);
    switch (field->kind) {
    case WIRE_FIELD_U32:
        wire_pack_uint(out, *(const uint32_t *)at);
        break;
    case WIRE_FIELD_U64:
        wire_pack_uint(out, *(const uint64_t *)at);
        break;
    case WIRE_FIELD_I64:
        wire_pack_int(out, *(const int64_t *)at);
        break;
    case WIRE_FIELD_TEXT:
        wire_pack_text(out, at);
        break;
    case WIRE_FIELD_BYTES:
        wire_pack_bytes(out, *(const struct span *)at);
        break;
    case WIRE_FIELD_VALUE:
        buf_add_span(out, *(const struct span *)at);
        break;
    }
}

void wire_fields_encode(const struct wire_field *fields, size_t field_count,
                        size_t more_count, const void *object, struct buf *out)
{
    wire_pack_map(out, (uint32_t)(field_count + more_count));
    for (size_t i = 0; i < field_count; i++) {
        encode_field(&fields[i], object, out);
    }
}

static enum err out_of_bounds(const struct wire_field *field, struct why *why)
{
    return why_say(why, ERR_INVALID, "%s: out of bounds", field->name);
}

static enum err store_number(const struct wire_field *field,
                             const struct wire_value *value, struct why *why,
                             void *at)
{
    bool is_signed = field->kind == WIRE_FIELD_I64;
    if (value->kind != WIRE_UINT && !(value->kind == WIRE_INT && is_signed)) {
        return why_say(why, ERR_INVALID, "%s: not a number that fits",
                       field->name);
    }
    if (field->kind == WIRE_FIELD_U64) {
        *(uint64_t *)at = value->number;
        return OK;
    }
    if (is_signed) {
        if (value->kind == WIRE_UINT && value->number > INT64_MAX) {
            return out_of_bounds(field, why);
        }
        *(int64_t *)at = (int64_t)value->number;
        return OK;
    }
    uint64_t max = field->max ? field->max : UINT32_MAX;
    if (value->number > max) {
        return out_of_bounds(field, why);
    }
    *(uint32_t *)at = (uint32_t)value->number;
    return OK;
}

static enum err store_text(const struct wire_field *field,
                           const struct wire_value *value, struct why *why,
                           char *at)
{
    if (value->kind != WIRE_TEXT) {
        return why_say(why, ERR_INVALID, "%s: not a text", field->name);
    }
    struct span text = value->bytes;
    bool has_zero = text.size > 0 && memchr(text.data, 0, text.size) != NULL;
    if (text.size >= field->max || has_zero) {
        return out_of_bounds(field, why);
    }
    if (text.size > 0) {
        memcpy(at, text.data, text.size);
    }
    at[text.size] = 0;
    return OK;
}

static enum err store_bytes(const struct wire_field *field,
                            const struct wire_value *value, struct why *why,
                            struct span *at)
{
    if (value->kind != WIRE_BYTES) {
        return why_say(why, ERR_INVALID, "%s: not bytes", field->name);
    }
    if (value->bytes.size > field->max) {
        return out_of_bounds(field, why);
    }
    *at = value->bytes;
    return OK;
}

static enum err store_value(const struct wire_field *field,
                            const struct wire_value *value, struct why *why,
                            void *at)
{
    switch (field->kind) {
    case WIRE_FIELD_TEXT:
        return store_text(field, value, why, at);
    case WIRE_FIELD_BYTES:
        return store_bytes(field, value, why, at);
    default:
        return store_number(field, value, why, at);
    }
}

static const struct wire_field *find_field(const struct wire_field *fields,
                                           size_t field_count, struct span name)
{
    for (size_t i = 0; i < field_count; i++) {
        if (span_equals_string(name, fields[i].name)) {
            return &fields[i];
        }
    }
    return NULL;
}

struct decode {
    const struct wire_field *fields;
    size_t field_count;
    struct why *why;
    uint8_t *object;
    uint64_t seen; /* a bit a field */
};

static enum err decode_value(struct decode *decode,
                             const struct wire_field *field, struct span *input)
{
    void *at = decode->object + field->offset;
    struct span whole = *input;
    struct wire_value value;
    bool is_raw = field->kind == WIRE_FIELD_VALUE;
    if (is_raw ? wire_unpack_skip(input) : wire_unpack(input, &value)) {
        return why_say(decode->why, ERR_CORRUPT, "%s: cut short", field->name);
    }
    if (is_raw) {
        *(struct span *)at = span_slice(whole, 0, whole.size - input->size);
        return OK;
    }
    return store_value(field, &value, decode->why, at);
}

static enum err decode_pair(struct decode *decode, struct span *input)
{
    struct wire_value key;
    enum err err = wire_unpack(input, &key);
    if (err || key.kind != WIRE_TEXT) {
        return why_say(decode->why, ERR_CORRUPT, "message: key is not a text");
    }
    const struct wire_field *field =
        find_field(decode->fields, decode->field_count, key.bytes);
    if (field == NULL) {
        return wire_unpack_skip(input)
                   ? why_say(decode->why, ERR_CORRUPT, "message: cut short")
                   : OK;
    }
    uint64_t bit = (uint64_t)1 << (field - decode->fields);
    if (decode->seen & bit) {
        return why_say(decode->why, ERR_INVALID, "%s: given twice",
                       field->name);
    }
    decode->seen |= bit;
    return decode_value(decode, field, input);
}

static enum err decode_map(struct decode *decode, struct span input)
{
    struct wire_value map;
    if (wire_unpack(&input, &map) || map.kind != WIRE_MAP) {
        return why_say(decode->why, ERR_CORRUPT, "message: not a map");
    }
    for (uint32_t i = 0; i < map.count; i++) {
        enum err err = decode_pair(decode, &input);
        if (err) {
            return err;
        }
    }
    if (input.size != 0) {
        return why_say(decode->why, ERR_CORRUPT, "message: bytes left over");
    }
    for (size_t i = 0; i < decode->field_count; i++) {
        if (!(decode->seen >> i & 1)) {
            return why_say(decode->why, ERR_INVALID, "%s: missing",
                           decode->fields[i].name);
        }
    }
    return OK;
}

enum { OBJECT_SIZE_MAX = 2048 };

enum err wire_fields_decode(const struct wire_field *fields, size_t field_count,
                            struct span input, struct why *why,
                            void *object_out, size_t object_size)
{
    CHECK(field_count <= WIRE_FIELD_COUNT_MAX);
    CHECK(object_size <= OBJECT_SIZE_MAX);
    _Alignas(16) uint8_t object[OBJECT_SIZE_MAX] = {0};
    struct decode decode = {fields, field_count, why, object, 0};
    enum err err = decode_map(&decode, input);
    if (err) {
        return err;
    }
    memcpy(object_out, object, object_size);
    return OK;
}
