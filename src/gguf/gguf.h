#pragma once
/* gguf/gguf: a GGUF v3 model file, mapped and read only.
 *
 *   open(path) --> keys (typed, by name)
 *              --> tensors (name, type, up to 4 dimensions, bytes in the map)
 *
 * Split files (`NAME-00001-of-0000N.gguf`) open by their first part and look
 * like one. Tensor data stays in the shared map: it is never copied. All that
 * is read from the file is checked before use; the file may change under us
 * only if somebody truncates it, which we do not survive. Immutable after open:
 * any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* Numbers are the file format's. */
enum gguf_type {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q4_0 = 2,
    GGUF_Q4_1 = 3,
    GGUF_Q5_0 = 6,
    GGUF_Q5_1 = 7,
    GGUF_Q8_0 = 8,
    GGUF_Q2_K = 10,
    GGUF_Q3_K = 11,
    GGUF_Q4_K = 12,
    GGUF_Q5_K = 13,
    GGUF_Q6_K = 14,
    GGUF_BF16 = 30,
    GGUF_TYPE_COUNT = 31
};

struct gguf_type_info {
    const char *name; /* "Q4_K"; NULL: a type we do not read */
    uint32_t block_elements; /* elements that share one block */
    uint32_t block_bytes;
};
/* Never NULL; `name` is NULL for types we lack. */
const struct gguf_type_info *gguf_type_info(uint32_t type);

struct gguf_tensor {
    struct span name;
    uint32_t type; /* enum gguf_type */
    uint32_t dimension_count;
    uint64_t
        dimensions[4]; /* [0] is contiguous (columns), [1] rows; 1 beyond */
    struct span data;
};

enum gguf_value_kind {
    GGUF_UINT, /* all unsigned widths */
    GGUF_INT,
    GGUF_FLOAT,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY
};

struct gguf_array {
    enum gguf_value_kind kind; /* never GGUF_ARRAY: nested ones are refused */
    uint32_t element_type; /* the format's number */
    uint64_t count;
    struct span bytes; /* packed elements */
};

struct gguf_value {
    enum gguf_value_kind kind;
    union {
        uint64_t unsigned_value;
        int64_t signed_value;
        double float_value;
        bool bool_value;
        struct span string;
        struct gguf_array array;
    };
};

struct gguf;
/* ERR_NOT_FOUND, ERR_INVALID (not a GGUF file, wrong byte order or version,
 * lengths or offsets outside the file), ERR_UNSUPPORTED (tensor type): `why`
 * names file, key or tensor. Nothing is left open on failure. */
MUST_USE enum err gguf_open(const char *path, struct why *why,
                            struct gguf **gguf_out);
/* The same over bytes the caller keeps; for tests and fuzzing. */
MUST_USE enum err gguf_open_bytes(struct span bytes, struct why *why,
                                  struct gguf **gguf_out);
void gguf_close(struct gguf *gguf); /* NULL is fine */

uint32_t gguf_key_count(const struct gguf *gguf);
void gguf_key_at(const struct gguf *gguf, uint32_t index, struct span *name_out,
                 struct gguf_value *value_out);
uint32_t gguf_tensor_count(const struct gguf *gguf);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf,
                                         uint32_t index);
/* NULL: none of that name. */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf,
                                           const char *name);
bool gguf_find(const struct gguf *gguf, const char *key,
               struct gguf_value *value_out);

/* Typed reads. A missing key leaves the default and is OK; a value of another
 * kind or out of range is ERR_INVALID and `why` names the key. */
MUST_USE enum err gguf_read_u32(const struct gguf *gguf, const char *key,
                                uint32_t fallback, struct why *why,
                                uint32_t *value_out);
MUST_USE enum err gguf_read_f32(const struct gguf *gguf, const char *key,
                                float fallback, struct why *why,
                                float *value_out);
MUST_USE enum err gguf_read_bool(const struct gguf *gguf, const char *key,
                                 bool fallback, struct why *why,
                                 bool *value_out);
/* Missing: an empty span. */
MUST_USE enum err gguf_read_string(const struct gguf *gguf, const char *key,
                                   struct why *why, struct span *value_out);
/* Missing: count 0. `kind` must match. */
MUST_USE enum err gguf_read_array(const struct gguf *gguf, const char *key,
                                  enum gguf_value_kind kind, struct why *why,
                                  struct gguf_array *array_out);
/* Walks an array of strings: start with a copy of the array; false at its end. */
bool gguf_array_next_string(struct gguf_array *rest, struct span *string_out);
/* One element of an array of numbers, index < count; unsigned ones beyond
 * INT64_MAX read as INT64_MAX. */
int64_t gguf_array_integer_at(const struct gguf_array *array, uint64_t index);
double gguf_array_float_at(const struct gguf_array *array, uint64_t index);
/* Bytes of all tensors together, and of the files. */
uint64_t gguf_tensor_bytes(const struct gguf *gguf);
uint64_t gguf_file_bytes(const struct gguf *gguf);
