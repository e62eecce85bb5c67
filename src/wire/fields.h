#pragma once
/* wire/fields: a struct as a msgpack map, by a table of its members.
 *
 * One table writes and reads, so the two cannot drift. Unknown keys are
 * skipped (a newer peer), repeated and missing ones are refused by name, and
 * so are numbers and texts out of bounds. Pure, any thread. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum wire_field_kind {
    WIRE_FIELD_U32,
    WIRE_FIELD_U64,
    WIRE_FIELD_I64,
    WIRE_FIELD_TEXT, /* char[max], ends with 0, no 0 inside */
    WIRE_FIELD_BYTES, /* struct span into the input, up to `max` bytes */
    WIRE_FIELD_VALUE /* struct span: one packed value of any kind */
};

enum { WIRE_FIELD_COUNT_MAX = 64 };

struct wire_field {
    const char *name;
    enum wire_field_kind kind;
    size_t offset;
    uint64_t max; /* U32: largest value, 0: any */
};

/* Leaves room in the map for `more_count` pairs that the caller adds. */
void wire_fields_encode(const struct wire_field *fields, size_t field_count,
                        size_t more_count, const void *object, struct buf *out);
/* ERR_CORRUPT: not such a map. ERR_INVALID names the field. `object_out` is
 * touched on success only; `object_size` is its size. */
MUST_USE enum err wire_fields_decode(const struct wire_field *fields,
                                     size_t field_count, struct span input,
                                     struct why *why, void *object_out,
                                     size_t object_size);
