#pragma once
/* model/ops: the arithmetic of a forward pass as a table. `ref` is plain C and
 * judges `fast` (AVX2 with FMA, wider where the CPU has it, chosen at run time).
 *
 * Same bits: each output element is accumulated in an order fixed by the weight
 * type (and the body), never by the number of rows, their grouping or the range
 * of matrix rows of one call. Ranges let the caller split work over threads.
 * All functions are pure: any thread, no memory of their own. */
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"
#include "kv/ids.h"

struct ops_matrix {
    uint32_t type; /* enum gguf_type */
    uint32_t rows;
    uint32_t columns; /* a multiple of the type's block_elements */
    const uint8_t *data; /* (row, column), rows packed; any alignment */
};

/* Causal attention of one KV head over pages in place.
 *   query (row, head of the group, head_dim): row r, head g at
 *         query + r * query_stride + g * head_dim
 *   row r stands at p = position + r and sees tokens [0, p]; with a window
 *         those from p + 1 - window on, and the sinks: the first sink_tokens.
 * Table entries of blocks that no row sees are not read. */
struct ops_attention {
    const uint8_t *pool;
    size_t page_bytes;
    const kv_page_id *pages;
    size_t key_offset; /* of this layer and head inside a page */
    size_t value_offset;
    uint32_t tokens_per_block;
    uint32_t head_dim;
    uint32_t group_size; /* query heads that share the KV head */
    float scale;
    const float *query;
    size_t query_stride; /* floats */
    float *out; /* laid out as query, with out_stride */
    size_t out_stride;
    uint32_t position;
    uint32_t window; /* 0: none */
    uint32_t sink_tokens; /* 0 without a window */
    float *scratch; /* ops_attention_scratch() floats, the thread's own */
};

/* The first token that a query at `position` sees, sinks apart. */
static inline uint32_t ops_window_first(uint32_t window, uint32_t position)
{
    return window == 0 || position < window ? 0 : position + 1 - window;
}

struct ops {
    const char *name;
    /* Bytes of one activation row prepared for a weight type. A multiple of
     * 64; the row buffer is 64-byte aligned. */
    size_t (*row_bytes)(uint32_t weight_type, uint32_t columns);
    /* Prepares one row (columns floats): quantised for integer dot products,
     * converted or copied for the others. */
    void (*prepare_row)(uint32_t weight_type, const float *x, uint32_t columns,
                        uint8_t *row_out);
    /* out[r * out_stride + i] = dot(row r, matrix row i), for r in
     * [0, row_count), i in [begin, end). `rows` as prepare_row left them,
     * row_bytes apart. */
    void (*matmul)(const struct ops_matrix *matrix, const uint8_t *rows,
                   uint32_t row_count, float *out, size_t out_stride,
                   uint32_t begin, uint32_t end);
    /* One matrix row as floats: embedding look-up. */
    void (*get_row)(const struct ops_matrix *matrix, uint32_t row, float *out);
    /* out = x / rms(x) * weight; weight may be NULL; out may be x. */
    void (*rms_norm)(const float *x, const float *weight, uint32_t size,
                     float epsilon, float *out);
    /* gate[i] = silu(gate[i]) * up[i] */
    void (*silu_multiply)(float *gate, const float *up, uint32_t size);
    /* gate[i] = gelu(gate[i]) * up[i], the approximation by tanh */
    void (*gelu_multiply)(float *gate, const float *up, uint32_t size);
    void (*add)(float *x, const float *y, uint32_t size);
    /* F32 to F16, round to nearest even. */
    void (*store_f16)(const float *x, uint32_t size, uint16_t *out);
    /* Rows [row_begin, row_end). */
    void (*attention)(const struct ops_attention *attention, uint32_t row_begin,
                      uint32_t row_end);
};

extern const struct ops OPS_REF;
/* The best body for this CPU; OPS_REF where it lacks AVX2, FMA or F16C. */
const struct ops *ops_fast(void);
/* Every body this CPU can run, for conformance tests; ends with NULL. */
const struct ops *const *ops_all(void);
/* Floats of scratch that attention needs for sequences up to context_max. */
size_t ops_attention_scratch(uint32_t context_max, uint32_t group_size,
                             uint32_t head_dim);
