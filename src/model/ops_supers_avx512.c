/* Products with types in super-blocks of 256, for AVX-512 with VNNI.
 *
 * A super-block has 8 or 16 groups of columns, each with an integer scale and
 * an integer min (or an offset common to all bytes, which is turned into mins):
 *
 * Prepared row: | q (int8 each column) | sums (int16 a group, room for 16) |
 *               | step (float a super-block)                               |
 * Element:      for each super-block:
 *                 + float(sum over groups of scale * bytes) * (d * step)
 *                 - float(sum over groups of min * sums) * (dmin * step)
 *
 * with one integer and one line less where offsets stand in for mins. One row
 * takes 16 matrix rows at a time straight from the file; more rows share a
 * panel of 32 matrix rows that is turned (column / 4, matrix row, 4). */
#include "model/ops_bodies.h"
#include "model/ops_tree_avx512.h"

enum {
    SUPER = 256,
    STEPS = 4, /* of 64 columns */
    PANEL = 2 * PANEL_HALF,
    CHUNK = 4, /* super-blocks of a panel turned at a time */
    ROWS = 4, /* rows in a tile */
    SCALE_LINES = 24, /* 16 scales, 8 pairs of mins */
};

struct panel {
    _Alignas(64) uint8_t q[CHUNK * SUPER * PANEL];
    /* (scale of each group, then pairs of mins; matrix row) */
    _Alignas(64) int32_t scales[CHUNK][SCALE_LINES][PANEL];
    _Alignas(64) float d[CHUNK][PANEL];
    _Alignas(64) float dmin[CHUNK][PANEL];
};

ALWAYS uint32_t super_bytes(uint32_t type)
{
    switch (type) {
    case GGUF_Q2_K:
        return 84;
    case GGUF_Q3_K:
        return 110;
    case GGUF_Q4_K:
        return 144;
    case GGUF_Q5_K:
        return 176;
    default:
        return 210;
    }
}

ALWAYS bool has_min(uint32_t type)
{
    return type == GGUF_Q2_K || type == GGUF_Q4_K || type == GGUF_Q5_K;
}

ALWAYS uint32_t group_count(uint32_t type)
{
    return type == GGUF_Q4_K || type == GGUF_Q5_K ? 8 : 16;
}

/* Where the F16 step stands; that of the mins follows it. */
ALWAYS uint32_t step_at(uint32_t type)
{
    return type == GGUF_Q2_K   ? 80
           : type == GGUF_Q3_K ? 108
           : type == GGUF_Q6_K ? 208
                               : 0;
}

/* ---- the row ---- */

size_t ops_supers_avx512_row_bytes(uint32_t columns)
{
    return (columns + (size_t)columns / SUPER * (32 + 4) + 63) / 64 * 64;
}

ALWAYS const int16_t *row_sums(const uint8_t *row, uint32_t columns)
{
    return (const int16_t *)(const void *)(row + columns);
}

ALWAYS const float *row_steps(const uint8_t *row, uint32_t columns)
{
    return (const float *)(const void *)(row + columns + columns / SUPER * 32);
}

/* The first element of the largest size. */
static float signed_peak(const float *x)
{
    __m512 top = _mm512_setzero_ps();
    for (uint32_t i = 0; i < SUPER; i += 16) {
        top = _mm512_max_ps(top, _mm512_abs_ps(_mm512_loadu_ps(x + i)));
    }
    __m512 size = _mm512_set1_ps(_mm512_reduce_max_ps(top));
    for (uint32_t i = 0; i < SUPER; i += 16) {
        __m512 v = _mm512_abs_ps(_mm512_loadu_ps(x + i));
        uint32_t hits = _mm512_cmp_ps_mask(v, size, _CMP_EQ_OQ);
        if (hits) {
            return x[i + (uint32_t)__builtin_ctz(hits)];
        }
    }
    return 0;
}

/* The element of largest size becomes exactly -127. */
static float prepare_super(uint32_t groups, const float *x, uint8_t *q_out,
                           int16_t *sums_out)
{
    float peak = signed_peak(x);
    float inverse = peak != 0 ? -127.0f / peak : 0.0f;
    int16_t sums[16];
    for (uint32_t i = 0; i < 16; i++) {
        __m512 v =
            _mm512_mul_ps(_mm512_loadu_ps(x + 16 * i), _mm512_set1_ps(inverse));
        __m512i q =
            _mm512_min_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(127));
        __m128i bytes = _mm512_cvtepi32_epi8(q);
        _mm_storeu_si128((void *)(q_out + 16 * i), bytes);
        sums[i] = (int16_t)_mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(bytes));
    }
    for (uint32_t i = 0; i < groups; i++) {
        sums_out[i] =
            groups == 16 ? sums[i] : (int16_t)(sums[2 * i] + sums[2 * i + 1]);
    }
    return peak != 0 ? 1.0f / inverse : 0.0f;
}

void ops_supers_avx512_prepare_row(uint32_t type, const float *x,
                                   uint32_t columns, uint8_t *row_out)
{
    uint32_t count = columns / SUPER;
    int16_t *sums = (int16_t *)(void *)(row_out + columns);
    float *steps = (float *)(void *)(row_out + columns + count * 32);
    memset(sums, 0, (size_t)count * 32);
    for (uint32_t s = 0; s < count; s++) {
        steps[s] = prepare_super(group_count(type), x + s * SUPER,
                                 row_out + s * SUPER, sums + s * 16);
    }
}

/* ---- unpacking ---- */

struct scales {
    __m128i scale; /* int8 a group */
    __m128i min;
};

ALWAYS uint32_t word_at(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* Eight pairs of six-bit numbers from twelve bytes. */
ALWAYS struct scales scales_of_pairs(const uint8_t *at)
{
    uint32_t a = word_at(at);
    uint32_t b = word_at(at + 4);
    uint32_t c = word_at(at + 8);
    uint32_t high_a = (a >> 6 & 0x03030303) << 4 | (c & 0x0f0f0f0f);
    uint32_t high_b = (b >> 6 & 0x03030303) << 4 | (c >> 4 & 0x0f0f0f0f);
    uint64_t scale = (uint64_t)high_a << 32 | (a & 0x3f3f3f3f);
    uint64_t min = (uint64_t)high_b << 32 | (b & 0x3f3f3f3f);
    return (struct scales){_mm_cvtsi64_si128((long long)scale),
                           _mm_cvtsi64_si128((long long)min)};
}

/* Sixteen signed six-bit numbers from twelve bytes. */
ALWAYS __m128i scales_of_threes(const uint8_t *at)
{
    const uint32_t LOW = 0x0f0f0f0f;
    const uint32_t HIGH = 0x30303030;
    uint32_t a = word_at(at);
    uint32_t b = word_at(at + 4);
    uint32_t c = word_at(at + 8);
    __m128i v = _mm_setr_epi32((int)((a & LOW) | (c << 4 & HIGH)),
                               (int)((b & LOW) | (c << 2 & HIGH)),
                               (int)((a >> 4 & LOW) | (c & HIGH)),
                               (int)((b >> 4 & LOW) | (c >> 2 & HIGH)));
    return _mm_sub_epi8(v, _mm_set1_epi8(32));
}

ALWAYS struct scales scales_of(uint32_t type, const uint8_t *at)
{
    struct scales s = {_mm_setzero_si128(), _mm_setzero_si128()};
    switch (type) {
    case GGUF_Q2_K: {
        __m128i v = _mm_loadu_si128((const void *)at);
        s.scale = _mm_and_si128(v, _mm_set1_epi8(15));
        s.min = _mm_and_si128(_mm_srli_epi16(v, 4), _mm_set1_epi8(15));
        return s;
    }
    case GGUF_Q3_K:
        s.scale = scales_of_threes(at + 96);
        return s;
    case GGUF_Q6_K:
        s.scale = _mm_loadu_si128((const void *)(at + 192));
        return s;
    default:
        return scales_of_pairs(at + 4);
    }
}

/* Mins as words; where the type has an offset, that times the scale. */
ALWAYS __m256i min_words(uint32_t type, struct scales s)
{
    if (has_min(type)) {
        return _mm256_cvtepi8_epi16(s.min);
    }
    int16_t offset = type == GGUF_Q6_K ? 32 : 4;
    return _mm256_mullo_epi16(_mm256_cvtepi8_epi16(s.scale),
                              _mm256_set1_epi16((short)-offset));
}

ALWAYS __m512i twice_32(const uint8_t *at)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)at));
}

/* The first 32 bytes shifted by `low`, the others by `high`. */
ALWAYS __m512i shift_halves(__m512i v, int low, int high)
{
    __m512i by = _mm512_inserti64x4(_mm512_set1_epi16((short)low),
                                    _mm256_set1_epi16((short)high), 1);
    return _mm512_srlv_epi16(v, by);
}

ALWAYS __m512i and_bytes(__m512i v, int mask)
{
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

/* Adds `value` where bit `low` (first half) or `high` of each byte is set. */
ALWAYS __m512i add_bit(__m512i v, __m512i bits, int low, int high, int value)
{
    __m512i test = _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << low)),
                                      _mm256_set1_epi8((char)(1 << high)), 1);
    __mmask64 is_set = _mm512_test_epi8_mask(bits, test);
    return _mm512_mask_add_epi8(v, is_set, v, _mm512_set1_epi8((char)value));
}

ALWAYS __m512i nibbles_of(const uint8_t *at)
{
    return and_bytes(shift_halves(twice_32(at), 0, 4), 15);
}

ALWAYS __m512i unpack_q6(const uint8_t *at, int step)
{
    int half = step / 2;
    int odd = step % 2;
    __m512i low = _mm512_loadu_si512(at + 64 * half);
    low = and_bytes(odd ? _mm512_srli_epi16(low, 4) : low, 15);
    __m512i high =
        shift_halves(twice_32(at + 128 + 32 * half), 4 * odd, 4 * odd + 2);
    return _mm512_or_si512(low, _mm512_slli_epi16(and_bytes(high, 3), 4));
}

/* Columns 64 * step .. of a super-block, as unsigned bytes. */
ALWAYS __m512i unpack(uint32_t type, const uint8_t *at, int step)
{
    int pair = 4 * (step % 2);
    switch (type) {
    case GGUF_Q2_K:
        return and_bytes(
            shift_halves(twice_32(at + 16 + 32 * (step / 2)), pair, pair + 2),
            3);
    case GGUF_Q3_K:
        return add_bit(
            and_bytes(shift_halves(twice_32(at + 32 + 32 * (step / 2)), pair,
                                   pair + 2),
                      3),
            twice_32(at), 2 * step, 2 * step + 1, 4);
    case GGUF_Q4_K:
        return nibbles_of(at + 16 + 32 * step);
    case GGUF_Q5_K:
        return add_bit(nibbles_of(at + 48 + 32 * step), twice_32(at + 16),
                       2 * step, 2 * step + 1, 16);
    default:
        return unpack_q6(at, step);
    }
}

/* ---- one row ---- */

/* Word w of step's 32 belongs to columns 64 * step + 2w and the next: its
 * group's number. */
ALWAYS __m512i group_index(uint32_t type, int step)
{
    if (group_count(type) == 8) {
        return _mm512_inserti64x4(_mm512_set1_epi16((short)(2 * step)),
                                  _mm256_set1_epi16((short)(2 * step + 1)), 1);
    }
    const __m512i QUARTERS = _mm512_setr_epi64(
        0, 0, 0x0001000100010001, 0x0001000100010001, 0x0002000200020002,
        0x0002000200020002, 0x0003000300030003, 0x0003000300030003);
    return _mm512_add_epi16(QUARTERS, _mm512_set1_epi16((short)(4 * step)));
}

/* Products of mins and sums: four lanes. */
ALWAYS __m128i dot_mins(__m256i mins, const int16_t *sums)
{
    __m256i v = _mm256_madd_epi16(mins, _mm256_loadu_si256((const void *)sums));
    return _mm_add_epi32(_mm256_castsi256_si128(v),
                         _mm256_extracti128_si256(v, 1));
}

/* One matrix row's super-block; `mins_out` where the type has mins. */
ALWAYS __m512i dot_super(uint32_t type, const uint8_t *at, const __m512i *x,
                         const int16_t *sums, __m128i *mins_out)
{
    struct scales s = scales_of(type, at);
    __m128i mins = dot_mins(min_words(type, s), sums);
    __m512i scale = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(s.scale));
    __m512i total =
        has_min(type) ? _mm512_setzero_si512() : _mm512_zextsi128_si512(mins);
    UNROLL
    for (int i = 0; i < STEPS; i++) {
        __m512i pairs = _mm512_maddubs_epi16(unpack(type, at, i), x[i]);
        __m512i by = _mm512_permutexvar_epi16(group_index(type, i), scale);
        total = _mm512_dpwssd_epi32(total, pairs, by);
    }
    *mins_out = mins;
    return total;
}

ALWAYS void gather_steps(uint32_t type, const uint8_t *const *w, size_t at,
                         uint16_t *d, uint16_t *dmin)
{
    for (uint32_t r = 0; r < PANEL_HALF; r++) {
        const uint8_t *from = w[r] + at + step_at(type);
        d[r] = tree_word(from);
        if (has_min(type)) {
            dmin[r] = tree_word(from + 2);
        }
    }
}

ALWAYS __m512 add_super(uint32_t type, __m512 total, __m512i sums, __m512i mins,
                        __m512 d, __m512 dmin, float step)
{
    __m512 s = _mm512_set1_ps(step);
    total =
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_mul_ps(d, s), total);
    if (has_min(type)) {
        total = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(mins),
                                 _mm512_mul_ps(dmin, s), total);
    }
    return total;
}

/* Adds one super-block of 16 matrix rows. */
ALWAYS __m512 dot_panel_super(uint32_t type, const uint8_t *const *w, size_t at,
                              const uint8_t *q, const int16_t *sums, float step,
                              __m512 total)
{
    _Alignas(64) uint16_t d[PANEL_HALF];
    _Alignas(64) uint16_t dmin[PANEL_HALF] = {0};
    gather_steps(type, w, at, d, dmin);
    __m512i x[STEPS];
    UNROLL
    for (int i = 0; i < STEPS; i++) {
        x[i] = _mm512_loadu_si512(q + 64 * i);
    }
    __m512i quarters[4];
    __m512i mins[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(),
                       _mm512_setzero_si512(), _mm512_setzero_si512()};
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m512i p[4];
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m128i m;
            p[i] = dot_super(type, w[4 * g + i] + at, x, sums, &m);
            mins[i] = _mm512_mask_broadcast_i32x4(mins[i],
                                                  (__mmask16)(0xf << 4 * g), m);
        }
        quarters[g] = tree_quarters(p[0], p[1], p[2], p[3]);
    }
    __m512i low = tree_quarters(mins[0], mins[1], mins[2], mins[3]);
    return add_super(type, total, tree_all(quarters), low, tree_widen(d),
                     tree_widen(dmin), step);
}

ALWAYS void matmul_one(uint32_t type, const struct ops_matrix *matrix,
                       const uint8_t *row, float *out, uint32_t begin,
                       uint32_t end)
{
    uint32_t count = matrix->columns / SUPER;
    size_t stride = (size_t)count * super_bytes(type);
    const int16_t *sums = row_sums(row, matrix->columns);
    const float *steps = row_steps(row, matrix->columns);
    for (uint32_t i = begin; i < end; i += PANEL_HALF) {
        const uint8_t *w[PANEL_HALF];
        tree_point(matrix->data, stride, i, end, PANEL_HALF, w);
        const uint8_t *ahead = w[0] + PANEL_HALF * stride;
        const size_t SIZE = PANEL_HALF * super_bytes(type);
        __m512 total = _mm512_setzero_ps();
        for (uint32_t s = 0; s < count; s++) {
            simd_prefetch(ahead + s * SIZE, SIZE);
            total = dot_panel_super(type, w, (size_t)s * super_bytes(type),
                                    row + s * SUPER, sums + s * 16, steps[s],
                                    total);
        }
        _mm512_mask_storeu_ps(out + i, simd_mask(end - i), total);
    }
}

/* ---- many rows ---- */

ALWAYS void pack_scales(uint32_t type, const uint8_t *const *w, size_t at,
                        int32_t (*lines)[PANEL])
{
    const bool IS_SHORT = group_count(type) == 8;
    __m512i scale[16];
    __m512i min[16];
    for (int r = 0; r < 16; r++) {
        struct scales s = scales_of(type, w[r] + at);
        __m256i words = min_words(type, s);
        scale[r] = _mm512_cvtepi8_epi32(s.scale);
        if (IS_SHORT) {
            scale[r] = _mm512_inserti64x4(scale[r], words, 1);
        } else {
            min[r] = _mm512_zextsi256_si512(words);
        }
    }
    simd_transpose(scale);
    for (uint32_t i = 0; i < (IS_SHORT ? 12 : 16); i++) {
        _mm512_store_si512(lines[i], scale[i]);
    }
    if (!IS_SHORT) {
        simd_transpose(min);
        for (uint32_t i = 0; i < 8; i++) {
            _mm512_store_si512(lines[16 + i], min[i]);
        }
    }
}

ALWAYS void pack_bytes(uint32_t type, const uint8_t *const *w, size_t at,
                       uint8_t *to)
{
    UNROLL
    for (int step = 0; step < STEPS; step++) {
        __m512i v[16];
        UNROLL
        for (int r = 0; r < 16; r++) {
            v[r] = unpack(type, w[r] + at, step);
        }
        simd_transpose(v);
        UNROLL
        for (int j = 0; j < 16; j++) {
            _mm512_store_si512(to + (16 * step + j) * 128, v[j]);
        }
    }
}

/* `count` super-blocks from `first`, of 16 matrix rows. */
ALWAYS void pack_half(uint32_t type, const uint8_t *const *w, uint32_t first,
                      uint32_t count, uint32_t half, const uint8_t *ahead,
                      struct panel *out)
{
    for (uint32_t s = 0; s < count; s++) {
        size_t at = (size_t)(first + s) * super_bytes(type);
        simd_prefetch(ahead + at * PANEL_HALF, PANEL_HALF * super_bytes(type));
        _Alignas(64) uint16_t d[PANEL_HALF];
        _Alignas(64) uint16_t dmin[PANEL_HALF] = {0};
        gather_steps(type, w, at, d, dmin);
        pack_bytes(type, w, at, out->q + s * SUPER * PANEL + half * 64);
        pack_scales(type, w, at, (void *)&out->scales[s][0][half * PANEL_HALF]);
        _mm512_store_ps(&out->d[s][half * PANEL_HALF], tree_widen(d));
        _mm512_store_ps(&out->dmin[s][half * PANEL_HALF], tree_widen(dmin));
    }
}

struct tile {
    const struct panel *panel;
    const uint8_t *rows[ROWS];
    uint32_t columns;
    uint32_t first; /* super-block */
    uint32_t count; /* super-blocks */
    float *out;
    size_t out_stride;
    uint32_t width; /* matrix rows, up to PANEL */
};

ALWAYS __m512i line_load(const struct panel *panel, uint32_t s, uint32_t line,
                         uint32_t half)
{
    return _mm512_load_si512(&panel->scales[s][line][half * PANEL_HALF]);
}

/* Bytes of one group, not yet scaled. */
ALWAYS void tile_group(uint32_t rows, uint32_t halves, const uint8_t *q,
                       uint32_t columns, const uint8_t *const *x,
                       __m512i sums[][2])
{
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            sums[r][h] = _mm512_setzero_si512();
        }
    }
    UNROLL
    for (uint32_t k = 0; k < columns; k += 4) {
        __m512i w[2];
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            w[h] = _mm512_load_si512(q + k * PANEL + h * 64);
        }
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __m512i four = _mm512_set1_epi32((int)word_at(x[r] + k));
            UNROLL
            for (uint32_t h = 0; h < halves; h++) {
                sums[r][h] = _mm512_dpbusd_epi32(sums[r][h], w[h], four);
            }
        }
    }
}

ALWAYS __m512i tile_mins(uint32_t groups, const struct tile *t, uint32_t s,
                         uint32_t half, const uint8_t *sums)
{
    __m512i total = _mm512_setzero_si512();
    UNROLL
    for (uint32_t p = 0; p < groups / 2; p++) {
        __m512i pair = _mm512_set1_epi32((int)word_at(sums + 4 * p));
        total = _mm512_dpwssd_epi32(
            total, line_load(t->panel, s, groups + p, half), pair);
    }
    return total;
}

/* Scaled sums of one super-block's groups. */
ALWAYS void tile_groups(uint32_t type, uint32_t rows, uint32_t halves,
                        const struct tile *t, uint32_t s, __m512i scaled[][2])
{
    const uint32_t GROUPS = group_count(type);
    const uint32_t COLUMNS = SUPER / GROUPS;
    const uint8_t *q = t->panel->q + s * SUPER * PANEL;
    const uint8_t *x[ROWS];
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        x[r] = t->rows[r] + (t->first + s) * SUPER;
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            scaled[r][h] = _mm512_setzero_si512();
        }
    }
    for (uint32_t g = 0; g < GROUPS; g++) {
        __m512i sums[ROWS][2];
        tile_group(rows, halves, q + g * COLUMNS * PANEL, COLUMNS, x, sums);
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            x[r] += COLUMNS;
            UNROLL
            for (uint32_t h = 0; h < halves; h++) {
                __m512i scale = line_load(t->panel, s, g, h);
                scaled[r][h] = _mm512_add_epi32(
                    scaled[r][h], _mm512_mullo_epi32(sums[r][h], scale));
            }
        }
    }
}

/* One super-block into the totals. */
ALWAYS void tile_super(uint32_t type, uint32_t rows, uint32_t halves,
                       const struct tile *t, uint32_t s, __m512 totals[][2])
{
    __m512i scaled[ROWS][2];
    tile_groups(type, rows, halves, t, s, scaled);
    UNROLL
    for (uint32_t h = 0; h < halves; h++) {
        __m512 d = _mm512_load_ps(&t->panel->d[s][h * PANEL_HALF]);
        __m512 dmin = _mm512_load_ps(&t->panel->dmin[s][h * PANEL_HALF]);
        UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            const int16_t *sums =
                row_sums(t->rows[r], t->columns) + (t->first + s) * 16;
            float step = row_steps(t->rows[r], t->columns)[t->first + s];
            __m512i mins =
                tile_mins(group_count(type), t, s, h, (const void *)sums);
            __m512i sum = has_min(type) ? scaled[r][h]
                                        : _mm512_add_epi32(scaled[r][h], mins);
            totals[r][h] =
                add_super(type, totals[r][h], sum, mins, d, dmin, step);
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
    __m512 totals[ROWS][2];
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        UNROLL
        for (uint32_t h = 0; h < halves; h++) {
            const float *old = t->out + r * t->out_stride + h * PANEL_HALF;
            totals[r][h] = t->first == 0
                               ? _mm512_setzero_ps()
                               : _mm512_maskz_loadu_ps(tile_mask(t, h), old);
        }
    }
    for (uint32_t s = 0; s < t->count; s++) {
        tile_super(type, rows, halves, t, s, totals);
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
    default:
        tile_run(type, 4, halves, t);
    }
}

ALWAYS void sweep(uint32_t type, struct tile *t, const uint8_t *rows,
                  uint32_t row_count)
{
    size_t stride = ops_supers_avx512_row_bytes(t->columns);
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

/* Panels look the same for types with the same groups and mins: one of each
 * kind stands for all. */
static void sweep_kind(uint32_t type, struct tile *t, const uint8_t *rows,
                       uint32_t row_count)
{
    switch (type) {
    case GGUF_Q2_K:
        sweep(GGUF_Q2_K, t, rows, row_count);
        return;
    case GGUF_Q4_K:
    case GGUF_Q5_K:
        sweep(GGUF_Q4_K, t, rows, row_count);
        return;
    default:
        sweep(GGUF_Q6_K, t, rows, row_count);
    }
}

ALWAYS void matmul_many(uint32_t type, const struct ops_matrix *matrix,
                        const uint8_t *rows, uint32_t row_count, float *out,
                        size_t out_stride, uint32_t begin, uint32_t end)
{
    uint32_t super_count = matrix->columns / SUPER;
    size_t stride = (size_t)super_count * super_bytes(type);
    struct panel panel;
    for (uint32_t i = begin; i < end; i += PANEL) {
        struct tile t = {.panel = &panel,
                         .columns = matrix->columns,
                         .out = out + i,
                         .out_stride = out_stride,
                         .width = end - i < PANEL ? end - i : PANEL};
        const uint8_t *w[PANEL];
        tree_point(matrix->data, stride, i, end, PANEL, w);
        for (uint32_t s = 0; s < super_count; s += CHUNK) {
            t.first = s;
            t.count = super_count - s < CHUNK ? super_count - s : CHUNK;
            for (uint32_t h = 0; h * PANEL_HALF < t.width; h++) {
                pack_half(type, w + h * PANEL_HALF, s, t.count, h,
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

void ops_supers_avx512_matmul(const struct ops_matrix *matrix,
                              const uint8_t *rows, uint32_t row_count,
                              float *out, size_t out_stride, uint32_t begin,
                              uint32_t end)
{
#define CASE(name)                                                          \
    case name:                                                              \
        matmul(name, matrix, rows, row_count, out, out_stride, begin, end); \
        return
    switch (matrix->type) {
        CASE(GGUF_Q2_K);
        CASE(GGUF_Q3_K);
        CASE(GGUF_Q4_K);
        CASE(GGUF_Q5_K);
    default:
        matmul(GGUF_Q6_K, matrix, rows, row_count, out, out_stride, begin, end);
    }
#undef CASE
}
