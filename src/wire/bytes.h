#pragma once
/* wire/bytes: little-endian numbers read from bytes somebody else sent, and
 * written into a buffer.
 *
 * A reader never passes its end: what does not fit reads as zero and makes
 * `is_short` true for good, so that a decoder needs one test at its end. Pure,
 * any thread; the bytes stay the caller's. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

struct wire_reader {
    const uint8_t *at;
    size_t left;
    bool is_short;
};

struct wire_reader wire_reader_of(struct span bytes);
uint8_t wire_read_u8(struct wire_reader *reader);
uint16_t wire_read_u16(struct wire_reader *reader);
uint32_t wire_read_u32(struct wire_reader *reader);
uint64_t wire_read_u64(struct wire_reader *reader);
/* A view into the bytes, empty when there are fewer than `size`. */
struct span wire_read_span(struct wire_reader *reader, size_t size);
/* Nothing was short and nothing is left. */
bool wire_reader_is_done(const struct wire_reader *reader);

void wire_write_u8(struct buf *out, uint8_t value);
void wire_write_u16(struct buf *out, uint16_t value);
void wire_write_u32(struct buf *out, uint32_t value);
void wire_write_u64(struct buf *out, uint64_t value);
