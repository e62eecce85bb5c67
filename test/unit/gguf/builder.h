/* Writes small GGUF files into a buffer, right ones and wrong ones, for the
 * tests of gguf and text. */
#ifndef TEST_GGUF_BUILDER_H
#define TEST_GGUF_BUILDER_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "gguf/gguf.h"

enum {
    BUILD_U8 = 0,
    BUILD_I8 = 1,
    BUILD_U16 = 2,
    BUILD_U32 = 4,
    BUILD_I32 = 5,
    BUILD_F32 = 6,
    BUILD_BOOL = 7,
    BUILD_STRING = 8,
    BUILD_ARRAY = 9,
    BUILD_U64 = 10,
    BUILD_I64 = 11,
    BUILD_F64 = 12
};

static inline void build_u32(struct buf *out, uint32_t value)
{
    buf_add(out, &value, 4);
}

static inline void build_u64(struct buf *out, uint64_t value)
{
    buf_add(out, &value, 8);
}

static inline void build_string(struct buf *out, const char *text)
{
    build_u64(out, strlen(text));
    buf_add_string(out, text);
}

static inline void build_header(struct buf *out, uint64_t tensor_count,
                                uint64_t key_count)
{
    buf_init(out, 64 << 20);
    buf_add_string(out, "GGUF");
    build_u32(out, 3);
    build_u64(out, tensor_count);
    build_u64(out, key_count);
}

static inline void build_key(struct buf *out, const char *name, uint32_t type)
{
    build_string(out, name);
    build_u32(out, type);
}

static inline void build_key_string(struct buf *out, const char *name,
                                    const char *text)
{
    build_key(out, name, BUILD_STRING);
    build_string(out, text);
}

static inline void build_key_u32(struct buf *out, const char *name,
                                 uint32_t value)
{
    build_key(out, name, BUILD_U32);
    build_u32(out, value);
}

static inline void build_key_bool(struct buf *out, const char *name,
                                  uint8_t value)
{
    build_key(out, name, BUILD_BOOL);
    buf_add_byte(out, value);
}

static inline void build_key_array(struct buf *out, const char *name,
                                   uint32_t type, uint64_t count)
{
    build_key(out, name, BUILD_ARRAY);
    build_u32(out, type);
    build_u64(out, count);
}

static inline void build_key_strings(struct buf *out, const char *name,
                                     const char *const *texts, uint64_t count)
{
    build_key_array(out, name, BUILD_STRING, count);
    for (uint64_t i = 0; i < count; i++) {
        build_string(out, texts[i]);
    }
}

static inline void build_tensor(struct buf *out, const char *name,
                                uint32_t type, uint32_t dimension_count,
                                const uint64_t *dimensions, uint64_t offset)
{
    build_string(out, name);
    build_u32(out, dimension_count);
    for (uint32_t i = 0; i < dimension_count; i++) {
        build_u64(out, dimensions[i]);
    }
    build_u32(out, type);
    build_u64(out, offset);
}

/* Up to the data, then `size` bytes counting up. */
static inline void build_data(struct buf *out, size_t alignment, size_t size)
{
    while (out->size % alignment != 0) {
        buf_add_byte(out, 0);
    }
    for (size_t i = 0; i < size; i++) {
        buf_add_byte(out, (uint8_t)i);
    }
}

static const uint64_t SQUARE[2] = {32, 2};

/* Five keys of different kinds and two tensors. */
static inline void build_good(struct buf *out)
{
    build_header(out, 2, 5);
    build_key_string(out, "general.architecture", "llama");
    build_key_u32(out, "llama.block_count", 7);
    build_key(out, "negative", BUILD_I8);
    buf_add_byte(out, 0xfe);
    build_key(out, "llama.eps", BUILD_F32);
    float eps = 1e-5f;
    buf_add(out, &eps, 4);
    build_key_array(out, "numbers", BUILD_I32, 3);
    build_u32(out, 5);
    build_u32(out, (uint32_t)-6);
    build_u32(out, 7);
    build_tensor(out, "a", GGUF_Q8_0, 2, SQUARE, 0);
    build_tensor(out, "b", GGUF_F32, 2, SQUARE, 96);
    build_data(out, 32, 96 + 256);
}

static inline enum err open_built(const struct buf *built, struct why *why,
                                  struct gguf **gguf_out)
{
    *why = (struct why){0};
    return gguf_open_bytes(buf_span(built), why, gguf_out);
}

#endif
