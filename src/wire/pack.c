#include "wire/pack.h"

#include <msgpack.h>

enum { DEPTH_MAX = 16 };

static int add_to_buf(void *context, const char *data, size_t size)
{
    buf_add(context, data, size);
    return 0;
}

static msgpack_packer packer_of(struct buf *out)
{
    return (msgpack_packer){.data = out, .callback = add_to_buf};
}

void wire_pack_map(struct buf *out, uint32_t count)
{
    msgpack_packer packer = packer_of(out);
    msgpack_pack_map(&packer, count);
}

void wire_pack_array(struct buf *out, uint32_t count)
{
    msgpack_packer packer = packer_of(out);
    msgpack_pack_array(&packer, count);
}

void wire_pack_text(struct buf *out, const char *text)
{
    msgpack_packer packer = packer_of(out);
    size_t size = strlen(text);
    msgpack_pack_str(&packer, size);
    msgpack_pack_str_body(&packer, text, size);
}

void wire_pack_bytes(struct buf *out, struct span bytes)
{
    msgpack_packer packer = packer_of(out);
    msgpack_pack_bin(&packer, bytes.size);
    msgpack_pack_bin_body(&packer, bytes.data, bytes.size);
}

void wire_pack_uint(struct buf *out, uint64_t value)
{
    msgpack_packer packer = packer_of(out);
    msgpack_pack_uint64(&packer, value);
}

void wire_pack_int(struct buf *out, int64_t value)
{
    msgpack_packer packer = packer_of(out);
    msgpack_pack_int64(&packer, value);
}

/* Big-endian number of `size` bytes off the front. */
static enum err take_number(struct span *input, size_t size, uint64_t *out)
{
    if (input->size < size) {
        return ERR_CORRUPT;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | input->data[i];
    }
    *input = span_slice(*input, size, input->size);
    *out = value;
    return OK;
}

static enum err take_bytes(struct span *input, uint64_t size,
                           struct span *bytes_out)
{
    if (input->size < size) {
        return ERR_CORRUPT;
    }
    *bytes_out = span_slice(*input, 0, size);
    *input = span_slice(*input, size, input->size);
    return OK;
}

static enum err read_sized(struct span *input, enum wire_kind kind,
                           size_t width, struct wire_value *value)
{
    uint64_t size;
    enum err err = take_number(input, width, &size);
    if (err) {
        return err;
    }
    value->kind = kind;
    return take_bytes(input, size, &value->bytes);
}

static enum err read_counted(struct span *input, enum wire_kind kind,
                             uint64_t count, struct wire_value *value)
{
    /* Each member takes a byte at least. */
    uint64_t members = kind == WIRE_MAP ? 2 * count : count;
    if (members > input->size) {
        return ERR_CORRUPT;
    }
    value->kind = kind;
    value->count = (uint32_t)count;
    return OK;
}

static enum err read_signed(struct span *input, size_t width,
                            struct wire_value *value)
{
    uint64_t raw;
    enum err err = take_number(input, width, &raw);
    if (err) {
        return err;
    }
    size_t shift = 64 - 8 * width;
    int64_t number = (int64_t)(raw << shift) >> shift;
    value->kind = number < 0 ? WIRE_INT : WIRE_UINT;
    value->number = (uint64_t)number;
    return OK;
}

static enum err read_unsigned(struct span *input, size_t width,
                              struct wire_value *value)
{
    value->kind = WIRE_UINT;
    return take_number(input, width, &value->number);
}

static enum err read_other(struct span *input, uint64_t size,
                           struct wire_value *value)
{
    value->kind = WIRE_OTHER;
    return take_bytes(input, size, &value->bytes);
}

static enum err read_extension(struct span *input, size_t width,
                               struct wire_value *value)
{
    uint64_t size;
    enum err err = take_number(input, width, &size);
    return err ? err : read_other(input, size + 1, value);
}

static enum err read_array_or_map(struct span *input, uint8_t lead,
                                  struct wire_value *value)
{
    uint64_t count;
    enum err err = take_number(input, lead & 1 ? 4 : 2, &count);
    enum wire_kind kind = lead < 0xde ? WIRE_ARRAY : WIRE_MAP;
    return err ? err : read_counted(input, kind, count, value);
}

/* Lead bytes 0xc0 .. 0xdf, which have a form of their own each. */
static enum err read_long(struct span *input, uint8_t lead,
                          struct wire_value *value)
{
    switch (lead) {
    case 0xc0:
    case 0xc2:
    case 0xc3:
        return read_other(input, 0, value);
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return read_sized(input, WIRE_BYTES, (size_t)1 << (lead - 0xc4), value);
    case 0xc7:
    case 0xc8:
    case 0xc9:
        return read_extension(input, (size_t)1 << (lead - 0xc7), value);
    case 0xca:
    case 0xcb:
        return read_other(input, lead == 0xca ? 4 : 8, value);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return read_unsigned(input, (size_t)1 << (lead - 0xcc), value);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return read_signed(input, (size_t)1 << (lead - 0xd0), value);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return read_other(input, ((uint64_t)1 << (lead - 0xd4)) + 1, value);
    case 0xd9:
    case 0xda:
    case 0xdb:
        return read_sized(input, WIRE_TEXT, (size_t)1 << (lead - 0xd9), value);
    case 0xdc:
    case 0xdd:
    case 0xde:
    case 0xdf:
        return read_array_or_map(input, lead, value);
    default:
        return ERR_CORRUPT; /* 0xc1 is never used */
    }
}

static enum err read_value(struct span *input, uint8_t lead,
                           struct wire_value *value)
{
    if (lead < 0x80 || lead >= 0xe0) {
        int64_t number = (int8_t)lead;
        value->kind = number < 0 ? WIRE_INT : WIRE_UINT;
        value->number = (uint64_t)number;
        return OK;
    }
    if (lead < 0x90) {
        return read_counted(input, WIRE_MAP, lead & 15, value);
    }
    if (lead < 0xa0) {
        return read_counted(input, WIRE_ARRAY, lead & 15, value);
    }
    if (lead < 0xc0) {
        value->kind = WIRE_TEXT;
        return take_bytes(input, lead & 31, &value->bytes);
    }
    return read_long(input, lead, value);
}

enum err wire_unpack(struct span *input, struct wire_value *value_out)
{
    struct span rest = *input;
    uint64_t lead;
    enum err err = take_number(&rest, 1, &lead);
    struct wire_value value = {0};
    err = err ? err : read_value(&rest, (uint8_t)lead, &value);
    if (err) {
        return err;
    }
    *input = rest;
    *value_out = value;
    return OK;
}

enum err wire_unpack_skip(struct span *input)
{
    uint64_t left[DEPTH_MAX] = {1}; /* values still due at each depth */
    int depth = 0;
    while (depth >= 0) {
        if (left[depth] == 0) {
            depth--;
            continue;
        }
        left[depth]--;
        struct wire_value value;
        enum err err = wire_unpack(input, &value);
        if (err) {
            return err;
        }
        bool is_nested = value.kind == WIRE_ARRAY || value.kind == WIRE_MAP;
        if (is_nested && depth + 1 == DEPTH_MAX) {
            return ERR_CORRUPT;
        }
        if (is_nested) {
            uint64_t each = value.kind == WIRE_MAP ? 2 : 1;
            left[++depth] = each * value.count;
        }
    }
    return OK;
}
