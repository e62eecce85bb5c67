#pragma once
/* model/ops_float: products with F32, F16 and BF16 matrices, and the plain
 * vector functions, for one instruction set (see ops_simd.h).
 *
 * A product's lanes run along the columns: lane l sums the columns that are l
 * modulo LANES, and the lanes are added in one fixed tree at the end. A tile
 * of 4 matrix rows by up to FLOAT_ROWS rows does the same sums side by side. */
#include "model/ops.h"
#include "model/ops_simd.h"

#ifdef __AVX512F__
enum { FLOAT_ROWS = 6 };
#else
enum { FLOAT_ROWS = 2 };
#endif
/* Matrix rows swept by all rows before the next ones: they stay in cache. */
enum { FLOAT_PANEL = 32, FLOAT_WIDE = 4 };

struct float_tile {
    const uint8_t *weights; /* first matrix row */
    size_t weight_stride;
    uint32_t weight_count; /* 1 to FLOAT_WIDE that exist */
    const uint8_t *rows;
    size_t row_stride;
    float *out;
    size_t out_stride;
    uint32_t columns;
    size_t ahead; /* bytes of matrix to fetch for later, 0: none */
};

ALWAYS bool float_is_type(uint32_t type)
{
    return type == GGUF_F32 || type == GGUF_F16 || type == GGUF_BF16;
}

ALWAYS size_t float_row_bytes(uint32_t columns)
{
    return ((size_t)columns * sizeof(float) + 63) / 64 * 64;
}

ALWAYS size_t float_element_bytes(uint32_t type)
{
    return type == GGUF_F32 ? 4 : 2;
}

ALWAYS vec float_weight(uint32_t type, const uint8_t *at)
{
    return type == GGUF_F32   ? vec_load((const float *)(const void *)at)
           : type == GGUF_F16 ? vec_load_f16(at)
                              : vec_load_bf16(at);
}

ALWAYS vec float_weight_some(uint32_t type, const uint8_t *at, size_t count)
{
    return type == GGUF_F32
               ? vec_load_some((const float *)(const void *)at, count)
           : type == GGUF_F16 ? vec_load_f16_some(at, count)
                              : vec_load_bf16_some(at, count);
}

/* sums[r][w] += columns [at, at + count) */
ALWAYS void float_step(uint32_t type, uint32_t count, const uint8_t *const *w,
                       const float *const *x, uint32_t at, uint32_t left,
                       vec sums[][FLOAT_WIDE])
{
    vec weight[FLOAT_WIDE];
    UNROLL
    for (uint32_t i = 0; i < FLOAT_WIDE; i++) {
        const uint8_t *p = w[i] + at * float_element_bytes(type);
        weight[i] = left >= LANES ? float_weight(type, p)
                                  : float_weight_some(type, p, left);
    }
    UNROLL
    for (uint32_t r = 0; r < count; r++) {
        vec v = left >= LANES ? vec_load(x[r] + at)
                              : vec_load_some(x[r] + at, left);
        UNROLL
        for (uint32_t i = 0; i < FLOAT_WIDE; i++) {
            sums[r][i] = vec_fma(weight[i], v, sums[r][i]);
        }
    }
}

ALWAYS void float_tile(uint32_t type, uint32_t count,
                       const struct float_tile *t)
{
    const uint8_t *w[FLOAT_WIDE];
    const float *x[FLOAT_ROWS];
    vec sums[FLOAT_ROWS][FLOAT_WIDE];
    UNROLL
    for (uint32_t i = 0; i < FLOAT_WIDE; i++) {
        uint32_t have = i < t->weight_count ? i : t->weight_count - 1;
        w[i] = t->weights + have * t->weight_stride;
    }
    UNROLL
    for (uint32_t r = 0; r < count; r++) {
        x[r] = (const float *)(const void *)(t->rows + r * t->row_stride);
        UNROLL
        for (uint32_t i = 0; i < FLOAT_WIDE; i++) {
            sums[r][i] = vec_zero();
        }
    }
    uint32_t whole = t->columns / LANES * LANES;
    const size_t STEP = LANES * float_element_bytes(type) * FLOAT_WIDE;
    for (uint32_t at = 0; at < whole; at += LANES) {
        if (t->ahead) {
            simd_prefetch(t->weights + t->ahead + at / LANES * STEP, STEP);
        }
        float_step(type, count, w, x, at, LANES, sums);
    }
    if (whole < t->columns) {
        float_step(type, count, w, x, whole, t->columns - whole, sums);
    }
    const __m128i INDEX = _mm_setr_epi32(0, 1, 2, 3);
    __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32((int)t->weight_count), INDEX);
    UNROLL
    for (uint32_t r = 0; r < count; r++) {
        _mm_maskstore_ps(t->out + r * t->out_stride, mask, vec_sum_4(sums[r]));
    }
}

#ifdef __AVX512F__
/* The sum of one matrix row, its lanes not yet added. */
ALWAYS vec float_lanes(uint32_t type, const uint8_t *w, const float *x,
                       uint32_t columns)
{
    enum { AHEAD = 4096 };
    const size_t STEP = LANES * float_element_bytes(type);
    vec sum = vec_zero();
    uint32_t whole = columns / LANES * LANES;
    for (uint32_t at = 0; at < whole; at += LANES, w += STEP) {
        _mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
        sum = vec_fma(float_weight(type, w), vec_load(x + at), sum);
    }
    if (whole < columns) {
        uint32_t left = columns - whole;
        sum = vec_fma(float_weight_some(type, w, left),
                      vec_load_some(x + whole, left), sum);
    }
    return sum;
}

/* A tile of one row. Memory sets the pace, and it likes one stream best: the
 * matrix rows follow each other. */
ALWAYS void float_tile_one(uint32_t type, const struct float_tile *t)
{
    vec sums[FLOAT_WIDE];
    for (uint32_t i = 0; i < FLOAT_WIDE; i++) {
        sums[i] =
            i < t->weight_count
                ? float_lanes(type, t->weights + i * t->weight_stride,
                              (const float *)(const void *)t->rows, t->columns)
                : vec_zero();
    }
    const __m128i INDEX = _mm_setr_epi32(0, 1, 2, 3);
    __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32((int)t->weight_count), INDEX);
    _mm_maskstore_ps(t->out, mask, vec_sum_4(sums));
}
#else
ALWAYS void float_tile_one(uint32_t type, const struct float_tile *t)
{
    float_tile(type, 1, t);
}
#endif

ALWAYS void float_tile_any(uint32_t type, uint32_t count,
                           const struct float_tile *t)
{
    switch (count) {
    case 1:
        float_tile_one(type, t);
        return;
#ifdef __AVX512F__
    case 3:
        float_tile(type, 3, t);
        return;
    case 4:
        float_tile(type, 4, t);
        return;
    case 5:
        float_tile(type, 5, t);
        return;
    case 6:
        float_tile(type, 6, t);
        return;
#endif
    default:
        float_tile(type, 2, t);
    }
}

/* Even shares: 8 rows are 4 and 4, not 6 and 2. */
ALWAYS uint32_t float_share(uint32_t left)
{
    uint32_t parts = (left + FLOAT_ROWS - 1) / FLOAT_ROWS;
    return (left + parts - 1) / parts;
}

ALWAYS void float_panel(uint32_t type, const struct ops_matrix *matrix,
                        const uint8_t *rows, uint32_t row_count, float *out,
                        size_t out_stride, uint32_t begin, uint32_t end)
{
    size_t weight_stride = matrix->columns * float_element_bytes(type);
    size_t row_stride = float_row_bytes(matrix->columns);
    for (uint32_t r = 0; r < row_count;) {
        uint32_t count = float_share(row_count - r);
        for (uint32_t i = begin; i < end; i += FLOAT_WIDE) {
            uint32_t have = end - i < FLOAT_WIDE ? end - i : FLOAT_WIDE;
            struct float_tile tile = {
                .weights = matrix->data + i * weight_stride,
                .weight_stride = weight_stride,
                .weight_count = have,
                .rows = rows + r * row_stride,
                .row_stride = row_stride,
                .out = out + r * out_stride + i,
                .out_stride = out_stride,
                .columns = matrix->columns,
                .ahead = r == 0 ? FLOAT_WIDE * weight_stride : 0,
            };
            float_tile_any(type, count, &tile);
        }
        r += count;
    }
}

ALWAYS void float_matmul(uint32_t type, const struct ops_matrix *matrix,
                         const uint8_t *rows, uint32_t row_count, float *out,
                         size_t out_stride, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i += FLOAT_PANEL) {
        uint32_t stop = end - i < FLOAT_PANEL ? end : i + FLOAT_PANEL;
        float_panel(type, matrix, rows, row_count, out, out_stride, i, stop);
    }
}

static void float_matmul_any(const struct ops_matrix *matrix,
                             const uint8_t *rows, uint32_t row_count,
                             float *out, size_t out_stride, uint32_t begin,
                             uint32_t end)
{
    switch (matrix->type) {
    case GGUF_F32:
        float_matmul(GGUF_F32, matrix, rows, row_count, out, out_stride, begin,
                     end);
        return;
    case GGUF_F16:
        float_matmul(GGUF_F16, matrix, rows, row_count, out, out_stride, begin,
                     end);
        return;
    default:
        float_matmul(GGUF_BF16, matrix, rows, row_count, out, out_stride, begin,
                     end);
    }
}

/* ---- vectors ---- */

static void float_rms_norm(const float *x, const float *weight, uint32_t size,
                           float epsilon, float *out)
{
    vec sum = vec_zero();
    for (uint32_t i = 0; i < size; i += LANES) {
        vec v = vec_load_some(x + i, size - i);
        sum = vec_fma(v, v, sum);
    }
    float mean = vec_sum(sum) / (float)size + epsilon;
    __m128 root = _mm_sqrt_ss(_mm_set_ss(mean));
    vec scale = vec_all(1.0f / _mm_cvtss_f32(root));
    for (uint32_t i = 0; i < size; i += LANES) {
        vec v = vec_mul(vec_load_some(x + i, size - i), scale);
        if (weight) {
            v = vec_mul(v, vec_load_some(weight + i, size - i));
        }
        vec_store_some(out + i, size - i, v);
    }
}

static void float_silu_multiply(float *gate, const float *up, uint32_t size)
{
    for (uint32_t i = 0; i < size; i += LANES) {
        vec x = vec_load_some(gate + i, size - i);
        vec e = vec_exp(vec_sub(vec_zero(), x));
        vec y = vec_div(x, vec_add(vec_all(1.0f), e));
        y = vec_mul(y, vec_load_some(up + i, size - i));
        vec_store_some(gate + i, size - i, y);
    }
}

/* x / (1 + e^-2u) = x / 2 * (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
static void float_gelu_multiply(float *gate, const float *up, uint32_t size)
{
    const vec CUBIC = vec_all(0.044715f);
    const vec SLOPE = vec_all(-1.5957691216057308f); /* -2 sqrt(2 / pi) */
    for (uint32_t i = 0; i < size; i += LANES) {
        vec x = vec_load_some(gate + i, size - i);
        vec inner = vec_fma(vec_mul(vec_mul(x, x), CUBIC), x, x);
        vec e = vec_exp(vec_mul(inner, SLOPE));
        vec y = vec_div(x, vec_add(vec_all(1.0f), e));
        y = vec_mul(y, vec_load_some(up + i, size - i));
        vec_store_some(gate + i, size - i, y);
    }
}

static void float_add(float *x, const float *y, uint32_t size)
{
    for (uint32_t i = 0; i < size; i += LANES) {
        vec v = vec_add(vec_load_some(x + i, size - i),
                        vec_load_some(y + i, size - i));
        vec_store_some(x + i, size - i, v);
    }
}

static void float_store_f16(const float *x, uint32_t size, uint16_t *out)
{
    for (uint32_t i = 0; i < size; i += LANES) {
        vec_store_f16_some(out + i, size - i, vec_load_some(x + i, size - i));
    }
}
