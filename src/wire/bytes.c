#include "wire/bytes.h"

struct wire_reader wire_reader_of(struct span bytes)
{
    return (struct wire_reader){.at = bytes.data, .left = bytes.size};
}

struct span wire_read_span(struct wire_reader *reader, size_t size)
{
    if (reader->is_short || size > reader->left) {
        reader->is_short = true;
        return span_of(NULL, 0);
    }
    struct span taken = span_of(reader->at, size);
    if (size > 0) {
        reader->at += size;
        reader->left -= size;
    }
    return taken;
}

static uint64_t read_number(struct wire_reader *reader, size_t size)
{
    struct span bytes = wire_read_span(reader, size);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        value |= (uint64_t)bytes.data[i] << (8 * i);
    }
    return value;
}

uint8_t wire_read_u8(struct wire_reader *reader)
{
    return (uint8_t)read_number(reader, 1);
}

uint16_t wire_read_u16(struct wire_reader *reader)
{
    return (uint16_t)read_number(reader, 2);
}

uint32_t wire_read_u32(struct wire_reader *reader)
{
    return (uint32_t)read_number(reader, 4);
}

uint64_t wire_read_u64(struct wire_reader *reader)
{
    return read_number(reader, 8);
}

bool wire_reader_is_done(const struct wire_reader *reader)
{
    return !reader->is_short && reader->left == 0;
}

static void write_number(struct buf *out, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    buf_add(out, bytes, size);
}

void wire_write_u8(struct buf *out, uint8_t value)
{
    write_number(out, value, 1);
}

void wire_write_u16(struct buf *out, uint16_t value)
{
    write_number(out, value, 2);
}

void wire_write_u32(struct buf *out, uint32_t value)
{
    write_number(out, value, 4);
}

void wire_write_u64(struct buf *out, uint64_t value)
{
    write_number(out, value, 8);
}
