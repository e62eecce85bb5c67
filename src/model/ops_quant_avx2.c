/* Products with all integer types, for AVX2. Matrix rows are unpacked to one
 * shape (see ops_unpack_avx2.h), four of them and 1024 columns at a time, into
 * a panel on the stack that all rows then sweep.
 *
 * Prepared row: | q (int8 each column) | step (a float for 32 columns) |
 *               | step * sum (a float for 16 columns)                  |
 * Element:      for each 1024 columns, in order: the sum, in a fixed tree, of
 *   lanes along 32 columns: float(products) * (scale * step)
 *   lanes along 128:        - min * (step * sum) */
#include "model/ops_bodies.h"
#include "model/ops_unpack_avx2.h"

enum {
    BLOCK = 32,
    CHUNK = 1024, /* columns of a panel */
    WIDE = 4, /* matrix rows of a panel */
    ROWS = 2, /* rows in a tile */
};

struct panel {
    _Alignas(32) int8_t q[WIDE][CHUNK];
    _Alignas(32) float scale[WIDE][CHUNK / BLOCK * 8];
    _Alignas(32) float min[WIDE][CHUNK / 16];
};

/* ---- the row ---- */

size_t ops_quant_avx2_row_bytes(uint32_t columns)
{
    size_t size = columns + (size_t)columns / BLOCK * 12;
    return (size + 63) / 64 * 64;
}

ALWAYS const float *row_steps(const uint8_t *row, uint32_t columns)
{
    return (const float *)(const void *)(row + columns);
}

ALWAYS const float *row_sums(const uint8_t *row, uint32_t columns)
{
    return row_steps(row, columns) + columns / BLOCK;
}

static float largest(const float *x, uint32_t count)
{
    const vec SIGN = vec_all(-0.0f);
    vec top = vec_zero();
    for (uint32_t i = 0; i < count; i += LANES) {
        top = vec_max(top, _mm256_andnot_ps(SIGN, vec_load(x + i)));
    }
    return vec_max_lane(top);
}

/* The first element of the largest size. */
static float signed_peak(const float *x, uint32_t count)
{
    float size = largest(x, count);
    for (uint32_t i = 0; i < count; i++) {
        if (x[i] == size || x[i] == -size) {
            return x[i];
        }
    }
    return 0;
}

/* How a block becomes integers: the factor, and what it is worth back. */
struct measure {
    float inverse;
    float step;
};

/* Symmetric, the step kept as F16. */
static struct measure measure_32(const float *x)
{
    float peak = largest(x, BLOCK);
    uint16_t half = _cvtss_sh(peak / 127.0f, _MM_FROUND_TO_NEAREST_INT);
    return (struct measure){peak > 0 ? 127.0f / peak : 0.0f, _cvtsh_ss(half)};
}

/* The element of largest size becomes exactly -127. */
static struct measure measure_256(const float *x)
{
    float peak = signed_peak(x, 256);
    float inverse = peak != 0 ? -127.0f / peak : 0.0f;
    return (struct measure){inverse, peak != 0 ? 1.0f / inverse : 0.0f};
}

/* Eight columns; gives their sum. */
static int32_t quantise_8(const float *x, float inverse, uint8_t *q_out)
{
    __m256i q = _mm256_cvtps_epi32(vec_mul(vec_load(x), vec_all(inverse)));
    q = _mm256_min_epi32(q, _mm256_set1_epi32(127));
    q = _mm256_max_epi32(q, _mm256_set1_epi32(-127));
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q),
                                    _mm256_extracti128_si256(q, 1));
    _mm_storel_epi64((void *)q_out, _mm_packs_epi16(words, words));
    __m128i sum = _mm_madd_epi16(words, _mm_set1_epi16(1));
    sum = _mm_add_epi32(sum, _mm_srli_si128(sum, 8));
    return _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 1);
}

void ops_quant_avx2_prepare_row(uint32_t type, const float *x, uint32_t columns,
                                uint8_t *row_out)
{
    uint32_t wide = unpack_block_columns(type);
    float *steps = (float *)(void *)(row_out + columns);
    float *sums = steps + columns / BLOCK;
    for (uint32_t at = 0; at < columns; at += wide) {
        struct measure m =
            wide == BLOCK ? measure_32(x + at) : measure_256(x + at);
        for (uint32_t i = at; i < at + wide; i += 16) {
            int32_t sum = quantise_8(x + i, m.inverse, row_out + i);
            sum += quantise_8(x + i + 8, m.inverse, row_out + i + 8);
            sums[i / 16] = m.step * (float)sum;
            steps[i / BLOCK] = m.step;
        }
    }
}

/* ---- products ---- */

/* `columns` of up to WIDE matrix rows; the last stands in for missing ones. */
ALWAYS void unpack_panel(uint32_t type, const uint8_t *data, size_t stride,
                         uint32_t width, uint32_t columns, size_t ahead,
                         struct panel *panel)
{
    const uint32_t STEP = unpack_block_columns(type);
    for (uint32_t w = 0; w < WIDE; w++) {
        const uint8_t *at = data + (w < width ? w : width - 1) * stride;
        for (uint32_t c = 0; c < columns; c += STEP) {
            struct unpacked to = {&panel->q[w][c],
                                  &panel->scale[w][c / BLOCK * 8],
                                  &panel->min[w][c / 16]};
            _mm_prefetch((const char *)at + ahead, _MM_HINT_T0);
            if (unpack_block_bytes(type) > 64) {
                _mm_prefetch((const char *)at + ahead + 64, _MM_HINT_T0);
                _mm_prefetch((const char *)at + ahead + 128, _MM_HINT_T0);
            }
            unpack_block(type, at, &to);
            at += unpack_block_bytes(type);
        }
    }
}

struct tile {
    const struct panel *panel;
    const uint8_t *rows[ROWS];
    uint32_t row_columns; /* of the whole row */
    uint32_t first; /* column */
    uint32_t columns; /* of the panel in use */
    float *out;
    size_t out_stride;
    uint32_t width; /* matrix rows, up to WIDE */
};

ALWAYS vec dot_32(__m256i w, __m256i x)
{
    __m256i pairs =
        _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

ALWAYS void tile_products(uint32_t rows, const struct tile *t,
                          vec totals[][WIDE])
{
    const float *steps[ROWS];
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        steps[r] = row_steps(t->rows[r], t->row_columns) + t->first / BLOCK;
    }
    for (uint32_t c = 0; c < t->columns; c += BLOCK) {
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __m256i x =
                _mm256_loadu_si256((const void *)(t->rows[r] + t->first + c));
            vec step = vec_all(steps[r][c / BLOCK]);
            UNROLL
            for (uint32_t w = 0; w < WIDE; w++) {
                __m256i q = _mm256_load_si256((const void *)&t->panel->q[w][c]);
                vec scale = vec_load(&t->panel->scale[w][c / BLOCK * 8]);
                totals[r][w] =
                    vec_fma(dot_32(q, x), vec_mul(scale, step), totals[r][w]);
            }
        }
    }
}

ALWAYS void tile_mins(uint32_t rows, const struct tile *t, vec totals[][WIDE])
{
    uint32_t count = t->columns / 16;
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        const float *sums =
            row_sums(t->rows[r], t->row_columns) + t->first / 16;
        for (uint32_t i = 0; i < count; i += LANES) {
            vec x = vec_load_some(sums + i, count - i);
            UNROLL
            for (uint32_t w = 0; w < WIDE; w++) {
                vec m = vec_load_some(&t->panel->min[w][i], count - i);
                totals[r][w] = _mm256_fnmadd_ps(m, x, totals[r][w]);
            }
        }
    }
}

ALWAYS void tile_run(uint32_t rows, bool has_min, const struct tile *t)
{
    vec totals[ROWS][WIDE];
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        UNROLL
        for (uint32_t w = 0; w < WIDE; w++) {
            totals[r][w] = vec_zero();
        }
    }
    tile_products(rows, t, totals);
    if (has_min) {
        tile_mins(rows, t, totals);
    }
    __m128i mask = _mm256_castsi256_si128(simd_mask(t->width));
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        float *to = t->out + r * t->out_stride;
        __m128 sums = vec_sum_4(totals[r]);
        if (t->first > 0) {
            sums = _mm_add_ps(_mm_maskload_ps(to, mask), sums);
        }
        _mm_maskstore_ps(to, mask, sums);
    }
}

static void sweep(bool has_min, struct tile *t, const uint8_t *rows,
                  uint32_t row_count)
{
    size_t stride = ops_quant_avx2_row_bytes(t->row_columns);
    float *out = t->out;
    for (uint32_t r = 0; r < row_count; r += ROWS) {
        bool is_pair = r + 1 < row_count;
        t->rows[0] = rows + r * stride;
        t->rows[1] = t->rows[0] + (is_pair ? stride : 0);
        t->out = out + r * t->out_stride;
        if (is_pair && has_min) {
            tile_run(2, true, t);
        } else if (is_pair) {
            tile_run(2, false, t);
        } else {
            tile_run(1, has_min, t);
        }
    }
    t->out = out;
}

ALWAYS void matmul(uint32_t type, const struct ops_matrix *matrix,
                   const uint8_t *rows, uint32_t row_count, float *out,
                   size_t out_stride, uint32_t begin, uint32_t end)
{
    const uint32_t STEP = unpack_block_columns(type);
    size_t stride = (size_t)matrix->columns / STEP * unpack_block_bytes(type);
    struct panel panel;
    for (uint32_t i = begin; i < end; i += WIDE) {
        uint32_t width = end - i < WIDE ? end - i : WIDE;
        const uint8_t *data = matrix->data + i * stride;
        for (uint32_t c = 0; c < matrix->columns; c += CHUNK) {
            uint32_t left = matrix->columns - c;
            struct tile t = {.panel = &panel,
                             .row_columns = matrix->columns,
                             .first = c,
                             .columns = left < CHUNK ? left : CHUNK,
                             .out = out + i,
                             .out_stride = out_stride,
                             .width = width};
            unpack_panel(type, data + c / STEP * unpack_block_bytes(type),
                         stride, width, t.columns, WIDE * stride, &panel);
            sweep(unpack_has_min(type), &t, rows, row_count);
        }
    }
}

void ops_quant_avx2_matmul(const struct ops_matrix *matrix, const uint8_t *rows,
                           uint32_t row_count, float *out, size_t out_stride,
                           uint32_t begin, uint32_t end)
{
#define CASE(name)                                                          \
    case name:                                                              \
        matmul(name, matrix, rows, row_count, out, out_stride, begin, end); \
        return
    switch (matrix->type) {
        CASE(GGUF_Q8_0);
        CASE(GGUF_Q4_0);
        CASE(GGUF_Q4_1);
        CASE(GGUF_Q5_0);
        CASE(GGUF_Q5_1);
        CASE(GGUF_Q2_K);
        CASE(GGUF_Q3_K);
        CASE(GGUF_Q4_K);
        CASE(GGUF_Q5_K);
    default:
        matmul(GGUF_Q6_K, matrix, rows, row_count, out, out_stride, begin, end);
    }
#undef CASE
}
