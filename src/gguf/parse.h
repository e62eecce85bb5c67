#pragma once
/* gguf/parse: the bytes of one file to keys and tensors; private to gguf.
 *
 *   "GGUF" version tensor_count key_count        4, 4, 8, 8 bytes
 *   key_count    x (name, type, value)
 *   tensor_count x (name, dimensions, type, offset)
 *   padding to `general.alignment`
 *   data: a tensor's bytes at its offset from here
 *
 * Everything is little-endian; a string is a 64-bit length and its bytes. A
 * count is believed only as far as the bytes behind it could hold. */
#include "base/err.h"
#include "base/span.h"
#include "gguf/gguf.h"

enum {
    GGUF_KEY_COUNT_MAX = 1 << 16,
    GGUF_TENSOR_COUNT_MAX = 1 << 20,
    GGUF_KEY_SIZE_MAX = 65535,
    GGUF_TENSOR_NAME_SIZE_MAX = 255,
    GGUF_ARRAY_COUNT_MAX = 1 << 30
};

struct gguf_key {
    struct span name;
    struct gguf_value value;
};

/* One file: what it says, with spans into its bytes. Names are not yet known
 * to be unique. */
struct gguf_part {
    const char *path; /* for messages; not owned */
    struct gguf_key *keys;
    uint32_t key_count;
    struct gguf_tensor *tensors;
    uint32_t tensor_count;
};

/* On failure nothing is left; `why` begins with the path. */
MUST_USE enum err gguf_part_parse(struct gguf_part *part, const char *path,
                                  struct span bytes, struct why *why);
void gguf_part_finish(struct gguf_part *part);

/* Bytes of one element of the format's value type; 0: not of fixed size. */
uint32_t gguf_element_size(uint32_t value_type);
/* Reads a number of `value_type` (fixed size) at `data`. */
struct gguf_value gguf_decode_scalar(uint32_t value_type, const uint8_t *data);
/* "IQ4_XS" for types that exist elsewhere, else "unknown". */
const char *gguf_foreign_type_name(uint32_t type);
