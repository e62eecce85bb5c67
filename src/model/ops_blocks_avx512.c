/* Products with types in blocks of 32, for AVX-512 with VNNI.
 *
 * Prepared row:  | q (int8 each column, padded to 64) | step (float a block) |
 *                | extra (a block): bytes' sum * -offset, or step * sum       |
 * Element:       for each block: + float(sum of bytes) * (d * step)
 *                                + m * extra                     (Q4_1, Q5_1)
 *
 * One row takes 16 matrix rows at a time straight from the file; more rows
 * share a panel of 32 matrix rows that is turned (column / 4, matrix row, 4). */
#include "model/ops_bodies.h"
#include "model/ops_tree_avx512.h"

enum {
    BLOCK = 32,
    PANEL = 2 * PANEL_HALF,
    CHUNK = 32, /* blocks of a panel turned at a time: 40 KiB */
    ROWS = 6, /* rows in a tile */
    GATHER = 8, /* blocks whose steps are gathered at a time */
};

struct panel {
    _Alignas(64) uint8_t q[CHUNK * BLOCK * PANEL];
    _Alignas(64) float d[CHUNK][PANEL];
    _Alignas(64) float m[CHUNK][PANEL];
};

ALWAYS uint32_t block_bytes(uint32_t type)
{
    switch (type) {
    case GGUF_Q8_0:
        return 34;
    case GGUF_Q4_0:
        return 18;
    case GGUF_Q4_1:
        return 20;
    case GGUF_Q5_0:
        return 22;
    default:
        return 24;
    }
}

ALWAYS bool has_min(uint32_t type)
{
    return type == GGUF_Q4_1 || type == GGUF_Q5_1;
}

/* What is added to make a weight an unsigned byte. */
ALWAYS int32_t offset_of(uint32_t type)
{
    return type == GGUF_Q8_0   ? 128
           : type == GGUF_Q4_0 ? 8
           : type == GGUF_Q5_0 ? 16
                               : 0;
}

/* ---- the row ---- */

ALWAYS uint32_t padded_columns(uint32_t columns)
{
    return (columns + 63) / 64 * 64;
}

size_t ops_blocks_avx512_row_bytes(uint32_t columns)
{
    uint32_t padded = padded_columns(columns);
    return (padded + (size_t)padded / BLOCK * 8 + 63) / 64 * 64;
}

ALWAYS const float *row_steps(const uint8_t *row, uint32_t columns)
{
    return (const float *)(const void *)(row + padded_columns(columns));
}

ALWAYS const int32_t *row_extras(const uint8_t *row, uint32_t columns)
{
    uint32_t padded = padded_columns(columns);
    return (const int32_t *)(const void *)(row + padded + padded / BLOCK * 4);
}

/* Gives the step, rounded as F16, and the sum of the bytes. */
static float prepare_block(const float *x, uint8_t *q_out, int32_t *sum_out)
{
    __m512 low = _mm512_loadu_ps(x);
    __m512 high = _mm512_loadu_ps(x + 16);
    float peak = _mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    __m512 inverse = _mm512_set1_ps(peak > 0 ? 127.0f / peak : 0.0f);
    __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
    __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
    __m128i bytes_a = _mm512_cvtepi32_epi8(a);
    __m128i bytes_b = _mm512_cvtepi32_epi8(b);
    _mm_storeu_si128((void *)q_out, bytes_a);
    _mm_storeu_si128((void *)(q_out + 16), bytes_b);
    *sum_out = _mm512_reduce_add_epi32(_mm512_add_epi32(
        _mm512_cvtepi8_epi32(bytes_a), _mm512_cvtepi8_epi32(bytes_b)));
    return _cvtsh_ss(_cvtss_sh(peak / 127.0f, _MM_FROUND_TO_NEAREST_INT));
}

void ops_blocks_avx512_prepare_row(uint32_t type, const float *x,
                                   uint32_t columns, uint8_t *row_out)
{
    uint32_t padded = padded_columns(columns);
    float *steps = (float *)(void *)(row_out + padded);
    uint8_t *extras = row_out + padded + padded / BLOCK * 4;
    memset(row_out + columns, 0,
           ops_blocks_avx512_row_bytes(columns) - columns);
    for (uint32_t b = 0; b < columns / BLOCK; b++) {
        int32_t sum;
        steps[b] = prepare_block(x + b * BLOCK, row_out + b * BLOCK, &sum);
        float scaled = steps[b] * (float)sum;
        int32_t back = -offset_of(type) * sum;
        memcpy(extras + 4 * b, has_min(type) ? (void *)&scaled : (void *)&back,
               4);
    }
}

/* ---- unpacking ---- */

ALWAYS __m128i load_16(const uint8_t *at)
{
    return _mm_loadu_si128((const void *)at);
}

ALWAYS __m512i two_q8(const uint8_t *a, const uint8_t *b)
{
    __m512i v = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)a));
    if (b) {
        v = _mm512_inserti64x4(v, _mm256_loadu_si256((const void *)b), 1);
    } else {
        v = _mm512_zextsi256_si512(_mm512_castsi512_si256(v));
    }
    return _mm512_xor_si512(v, _mm512_set1_epi8(-128));
}

/* Low nibbles of 16 bytes, then their high ones; twice. */
ALWAYS __m512i two_nibbles(const uint8_t *a, const uint8_t *b)
{
    const __m512i TWICE = _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3);
    const __m512i SHIFT =
        _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0,
                          0x0004000400040004, 0x0004000400040004);
    __m256i pair = _mm256_zextsi128_si256(load_16(a));
    if (b) {
        pair = _mm256_inserti128_si256(pair, load_16(b), 1);
    }
    __m512i v = _mm512_permutexvar_epi64(TWICE, _mm512_castsi256_si512(pair));
    return _mm512_and_si512(_mm512_srlv_epi16(v, SHIFT), _mm512_set1_epi8(15));
}

ALWAYS __m512i with_fifth_bit(__m512i v, const uint8_t *a, const uint8_t *b)
{
    uint32_t low;
    uint32_t high = 0;
    memcpy(&low, a, 4);
    if (b) {
        memcpy(&high, b, 4);
    }
    __mmask64 bits = (uint64_t)high << 32 | low;
    return _mm512_mask_add_epi8(v, bits, v, _mm512_set1_epi8(16));
}

/* Two blocks as 64 unsigned bytes; the second may be missing. */
ALWAYS __m512i unpack(uint32_t type, const uint8_t *at, bool has_second)
{
    const uint8_t *second = has_second ? at + block_bytes(type) : NULL;
#define SECOND(skip) (second ? second + (skip) : NULL)
    switch (type) {
    case GGUF_Q8_0:
        return two_q8(at + 2, SECOND(2));
    case GGUF_Q4_0:
        return two_nibbles(at + 2, SECOND(2));
    case GGUF_Q4_1:
        return two_nibbles(at + 4, SECOND(4));
    case GGUF_Q5_0:
        return with_fifth_bit(two_nibbles(at + 6, SECOND(6)), at + 2,
                              SECOND(2));
    default:
        return with_fifth_bit(two_nibbles(at + 8, SECOND(8)), at + 4,
                              SECOND(4));
    }
#undef SECOND
}

/* ---- one row ---- */

struct steps {
    _Alignas(64) uint16_t d[GATHER][PANEL_HALF];
    _Alignas(64) uint16_t m[GATHER][PANEL_HALF];
};

ALWAYS void gather_steps(uint32_t type, const uint8_t *const *w, uint32_t first,
                         uint32_t count, struct steps *out)
{
    for (uint32_t r = 0; r < PANEL_HALF; r++) {
        const uint8_t *at = w[r] + (size_t)first * block_bytes(type);
        for (uint32_t b = 0; b < count; b++) {
            out->d[b][r] = tree_word(at);
            if (has_min(type)) {
                out->m[b][r] = tree_word(at + 2);
            }
            at += block_bytes(type);
        }
    }
}

/* Adds one block: `sums` of 16 matrix rows. */
ALWAYS __m512 add_block(uint32_t type, __m512 total, __m512i sums, __m512 d,
                        __m512 m, float step, int32_t extra)
{
    if (!has_min(type)) {
        sums = _mm512_add_epi32(sums, _mm512_set1_epi32(extra));
    }
    __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(step));
    total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, total);
    if (has_min(type)) {
        __m512 x = _mm512_castsi512_ps(_mm512_set1_epi32(extra));
        total = _mm512_fmadd_ps(m, x, total);
    }
    return total;
}

/* Sums of two blocks for 16 matrix rows. */
ALWAYS void dot_two(uint32_t type, const uint8_t *const *w, size_t at,
                    bool has_second, __m512i x, __m512i *first_out,
                    __m512i *second_out)
{
    __m512i q[4];
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m512i p[4];
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m512i bytes = unpack(type, w[4 * g + i] + at, has_second);
            p[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), bytes, x);
        }
        q[g] = tree_quarters(p[0], p[1], p[2], p[3]);
    }
    tree_halves(q, first_out, second_out);
}

ALWAYS __m512 dot_panel(uint32_t type, const uint8_t *const *w,
                        const uint8_t *row, uint32_t columns,
                        const uint8_t *ahead)
{
    const float *steps = row_steps(row, columns);
    const int32_t *extras = row_extras(row, columns);
    uint32_t count = columns / BLOCK;
    struct steps s;
    __m512 total = _mm512_setzero_ps();
    for (uint32_t b = 0; b < count; b += 2) {
        uint32_t slot = b % GATHER;
        if (slot == 0) {
            uint32_t left = count - b;
            gather_steps(type, w, b, left < GATHER ? left : GATHER, &s);
        }
        size_t at = (size_t)b * block_bytes(type);
        simd_prefetch(ahead + at * PANEL_HALF,
                      2 * PANEL_HALF * block_bytes(type));
        __m512i x = _mm512_loadu_si512(row + b * BLOCK);
        bool has_second = b + 1 < count;
        __m512i first;
        __m512i second;
        if (has_second) {
            dot_two(type, w, at, true, x, &first, &second);
        } else {
            dot_two(type, w, at, false, x, &first, &second);
        }
        total = add_block(type, total, first, tree_widen(s.d[slot]),
                          tree_widen(s.m[slot]), steps[b], extras[b]);
        if (has_second) {
            total = add_block(type, total, second, tree_widen(s.d[slot + 1]),
                              tree_widen(s.m[slot + 1]), steps[b + 1],
                              extras[b + 1]);
        }
    }
    return total;
}

ALWAYS void matmul_one(uint32_t type, const struct ops_matrix *matrix,
                       const uint8_t *row, float *out, uint32_t begin,
                       uint32_t end)
{
    size_t stride = (size_t)matrix->columns / BLOCK * block_bytes(type);
    for (uint32_t i = begin; i < end; i += PANEL_HALF) {
        const uint8_t *w[PANEL_HALF];
        tree_point(matrix->data, stride, i, end, PANEL_HALF, w);
        __m512 sums = dot_panel(type, w, row, matrix->columns,
                                w[0] + PANEL_HALF * stride);
        _mm512_mask_storeu_ps(out + i, simd_mask(end - i), sums);
    }
}

/* ---- many rows ---- */

ALWAYS void pack_steps(uint32_t type, const uint8_t *const *w, uint32_t first,
                       uint32_t count, uint32_t half, struct panel *out)
{
    for (uint32_t b = 0; b < count; b += GATHER) {
        struct steps s;
        uint32_t size = count - b < GATHER ? count - b : GATHER;
        gather_steps(type, w, first + b, size, &s);
        for (uint32_t i = 0; i < size; i++) {
            _mm512_store_ps(&out->d[b + i][half * PANEL_HALF],
                            tree_widen(s.d[i]));
            if (has_min(type)) {
                _mm512_store_ps(&out->m[b + i][half * PANEL_HALF],
                                tree_widen(s.m[i]));
            }
        }
    }
}

/* `count` blocks from `first`, of 16 matrix rows. */
ALWAYS void pack_half(uint32_t type, const uint8_t *const *w, uint32_t first,
                      uint32_t count, uint32_t half, const uint8_t *ahead,
                      struct panel *out)
{
    pack_steps(type, w, first, count, half, out);
    for (uint32_t b = 0; b < count; b += 2) {
        size_t at = (size_t)(first + b) * block_bytes(type);
        uint32_t have = count - b < 2 ? 1 : 2;
        simd_prefetch(ahead + at * PANEL_HALF,
                      2 * PANEL_HALF * block_bytes(type));
        __m512i v[16];
        UNROLL
        for (int r = 0; r < 16; r++) {
            v[r] = have == 2 ? unpack(type, w[r] + at, true)
                             : unpack(type, w[r] + at, false);
        }
        simd_transpose(v);
        uint8_t *to = out->q + b * BLOCK * PANEL + half * 64;
        for (uint32_t j = 0; j < 8 * have; j++) {
            _mm512_store_si512(to + j * 128, v[j]);
        }
    }
}

struct tile {
    const struct panel *panel;
    const uint8_t *rows[ROWS];
    uint32_t columns;
    uint32_t first; /* block */
    uint32_t count; /* blocks */
    float *out;
    size_t out_stride;
    uint32_t width; /* matrix rows, up to PANEL */
};

/* The integer sums of one block. */
ALWAYS void tile_block(uint32_t type, uint32_t rows, uint32_t halves,
                       const struct tile *t, uint32_t b,
                       const int32_t *const *extras, __m512i sums[][2])
{
    const uint8_t *q = t->panel->q + b * BLOCK * PANEL;
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        __m512i start = has_min(type) ? _mm512_setzero_si512()
                                      : _mm512_set1_epi32(extras[r][b]);
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            sums[r][h] = start;
        }
    }
    UNROLL
    for (uint32_t k = 0; k < BLOCK; k += 4) {
        __m512i w[2];
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            w[h] = _mm512_load_si512(q + k * PANEL + h * 64);
        }
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, t->rows[r] + (t->first + b) * BLOCK + k, 4);
            __m512i x = _mm512_set1_epi32(four);
            UNROLL
            for (uint32_t h = 0; h < halves; h++) {
                sums[r][h] = _mm512_dpbusd_epi32(sums[r][h], w[h], x);
            }
        }
    }
}

ALWAYS void tile_scale(uint32_t type, uint32_t rows, uint32_t halves,
                       const struct panel *panel, uint32_t b,
                       const float *const *steps, const int32_t *const *extras,
                       __m512i sums[][2], __m512 totals[][2])
{
    UNROLL
    for (uint32_t h = 0; h < halves; h++) {
        __m512 d = _mm512_load_ps(&panel->d[b][h * PANEL_HALF]);
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(steps[r][b]));
            totals[r][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][h]),
                                           scale, totals[r][h]);
            if (has_min(type)) {
                __m512 m = _mm512_load_ps(&panel->m[b][h * PANEL_HALF]);
                __m512i x = _mm512_set1_epi32(extras[r][b]);
                totals[r][h] =
                    _mm512_fmadd_ps(m, _mm512_castsi512_ps(x), totals[r][h]);
            }
        }
    }
}

ALWAYS __mmask16 tile_mask(const struct tile *t, uint32_t half)
{
    return simd_mask(t->width - half * PANEL_HALF);
}

ALWAYS void tile_run(uint32_t type, uint32_t rows, uint32_t halves,
                     const struct tile *t)
{
    const float *steps[ROWS];
    const int32_t *extras[ROWS];
    __m512 totals[ROWS][2];
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        steps[r] = row_steps(t->rows[r], t->columns) + t->first;
        extras[r] = row_extras(t->rows[r], t->columns) + t->first;
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            const float *old = t->out + r * t->out_stride + h * PANEL_HALF;
            totals[r][h] = t->first == 0
                               ? _mm512_setzero_ps()
                               : _mm512_maskz_loadu_ps(tile_mask(t, h), old);
        }
    }
    for (uint32_t b = 0; b < t->count; b++) {
        __m512i sums[ROWS][2];
        tile_block(type, rows, halves, t, b, extras, sums);
        tile_scale(type, rows, halves, t->panel, b, steps, extras, sums,
                   totals);
    }
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            float *to = t->out + r * t->out_stride + h * PANEL_HALF;
            _mm512_mask_storeu_ps(to, tile_mask(t, h), totals[r][h]);
        }
    }
}

ALWAYS void tile_any(uint32_t type, uint32_t rows, uint32_t halves,
                     const struct tile *t)
{
    switch (rows) {
    case 1:
        tile_run(type, 1, halves, t);
        return;
    case 2:
        tile_run(type, 2, halves, t);
        return;
    case 3:
        tile_run(type, 3, halves, t);
        return;
    case 4:
        tile_run(type, 4, halves, t);
        return;
    case 5:
        tile_run(type, 5, halves, t);
        return;
    default:
        tile_run(type, 6, halves, t);
    }
}

ALWAYS void sweep(uint32_t type, struct tile *t, const uint8_t *rows,
                  uint32_t row_count)
{
    size_t stride = ops_blocks_avx512_row_bytes(t->columns);
    float *out = t->out;
    for (uint32_t r = 0; r < row_count;) {
        uint32_t share = tree_share(row_count - r, ROWS);
        for (uint32_t i = 0; i < share; i++) {
            t->rows[i] = rows + (r + i) * stride;
        }
        t->out = out + r * t->out_stride;
        if (t->width > PANEL_HALF) {
            tile_any(type, share, 2, t);
        } else {
            tile_any(type, share, 1, t);
        }
        r += share;
    }
    t->out = out;
}

/* Panels look the same but for the mins: one type of each kind stands for
 * all. */
static void sweep_kind(uint32_t type, struct tile *t, const uint8_t *rows,
                       uint32_t row_count)
{
    if (has_min(type)) {
        sweep(GGUF_Q4_1, t, rows, row_count);
    } else {
        sweep(GGUF_Q8_0, t, rows, row_count);
    }
}

ALWAYS void matmul_many(uint32_t type, const struct ops_matrix *matrix,
                        const uint8_t *rows, uint32_t row_count, float *out,
                        size_t out_stride, uint32_t begin, uint32_t end)
{
    size_t stride = (size_t)matrix->columns / BLOCK * block_bytes(type);
    uint32_t block_count = matrix->columns / BLOCK;
    struct panel panel;
    for (uint32_t i = begin; i < end; i += PANEL) {
        struct tile t = {.panel = &panel,
                         .columns = matrix->columns,
                         .out = out + i,
                         .out_stride = out_stride,
                         .width = end - i < PANEL ? end - i : PANEL};
        const uint8_t *w[PANEL];
        tree_point(matrix->data, stride, i, end, PANEL, w);
        for (uint32_t b = 0; b < block_count; b += CHUNK) {
            t.first = b;
            t.count = block_count - b < CHUNK ? block_count - b : CHUNK;
            for (uint32_t h = 0; h * PANEL_HALF < t.width; h++) {
                pack_half(type, w + h * PANEL_HALF, b, t.count, h,
                          w[0] + (PANEL + h * PANEL_HALF) * stride, &panel);
            }
            sweep_kind(type, &t, rows, row_count);
        }
    }
}

ALWAYS void matmul(uint32_t type, const struct ops_matrix *matrix,
                   const uint8_t *rows, uint32_t row_count, float *out,
                   size_t out_stride, uint32_t begin, uint32_t end)
{
    if (row_count == 1) {
        matmul_one(type, matrix, rows, out, begin, end);
    } else {
        matmul_many(type, matrix, rows, row_count, out, out_stride, begin, end);
    }
}

void ops_blocks_avx512_matmul(const struct ops_matrix *matrix,
                              const uint8_t *rows, uint32_t row_count,
                              float *out, size_t out_stride, uint32_t begin,
                              uint32_t end)
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
    default:
        matmul(GGUF_Q5_1, matrix, rows, row_count, out, out_stride, begin, end);
    }
#undef CASE
}
