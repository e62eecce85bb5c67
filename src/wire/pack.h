#pragma once
/* wire/pack: msgpack values, written and read one at a time.
 *
 * Written with the msgpack library, which this file alone knows. Read by a
 * reader of our own: the library allocates whatever count a peer names, ours
 * allocates nothing and hands out views into the input. Maps and arrays come
 * as their count; the caller reads that many values (twice as many for a map).
 * Pure, any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

void wire_pack_map(struct buf *out, uint32_t count);
void wire_pack_array(struct buf *out, uint32_t count);
void wire_pack_text(struct buf *out, const char *text);
void wire_pack_bytes(struct buf *out, struct span bytes);
void wire_pack_uint(struct buf *out, uint64_t value);
void wire_pack_int(struct buf *out, int64_t value);

enum wire_kind {
    WIRE_UINT, /* number */
    WIRE_INT, /* number as int64_t, negative */
    WIRE_TEXT, /* bytes */
    WIRE_BYTES, /* bytes */
    WIRE_ARRAY, /* count */
    WIRE_MAP, /* count */
    WIRE_OTHER /* nil, bool, float, extension: complete, value not kept */
};

struct wire_value {
    enum wire_kind kind;
    uint64_t number;
    struct span bytes;
    uint32_t count;
};

/* Takes the next value off the front of `input`. ERR_CORRUPT: cut short or
 * not msgpack. A count can not be larger than what is left of the input. */
MUST_USE enum err wire_unpack(struct span *input, struct wire_value *value_out);
/* Takes one whole value off, with all it contains, nested up to 16 deep. */
MUST_USE enum err wire_unpack_skip(struct span *input);
