#pragma once
/* model/ops_tree_avx512: matrix rows side by side. Integer sums of 16 rows are
 * brought into 16 lanes; being exact, their order does not matter. */
#include "model/ops_simd.h"

enum { PANEL_HALF = 16 };

/* Four vectors to one: lane i of each quarter is the sum of v[i]'s quarter. */
ALWAYS __m512i tree_quarters(__m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b),
                                  _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d),
                                  _mm512_unpackhi_epi32(c, d));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd),
                            _mm512_unpackhi_epi64(ab, cd));
}

/* q[g] holds rows 4g .. 4g+3 by quarters: sums of the first two quarters and
 * of the last two, 16 rows each. */
ALWAYS void tree_halves(const __m512i q[4], __m512i *low_out, __m512i *high_out)
{
    __m512i x = _mm512_add_epi32(_mm512_shuffle_i32x4(q[0], q[1], 0x88),
                                 _mm512_shuffle_i32x4(q[0], q[1], 0xdd));
    __m512i y = _mm512_add_epi32(_mm512_shuffle_i32x4(q[2], q[3], 0x88),
                                 _mm512_shuffle_i32x4(q[2], q[3], 0xdd));
    *low_out = _mm512_shuffle_i32x4(x, y, 0x88);
    *high_out = _mm512_shuffle_i32x4(x, y, 0xdd);
}

ALWAYS __m512i tree_all(const __m512i q[4])
{
    __m512i low;
    __m512i high;
    tree_halves(q, &low, &high);
    return _mm512_add_epi32(low, high);
}

/* Matrix rows from `begin`; where they end, the last one stands in. */
ALWAYS void tree_point(const uint8_t *data, size_t stride, uint32_t begin,
                       uint32_t end, uint32_t count, const uint8_t **rows_out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = begin + i < end ? begin + i : end - 1;
        rows_out[i] = data + row * stride;
    }
}

ALWAYS uint16_t tree_word(const uint8_t *at)
{
    uint16_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

ALWAYS __m512 tree_widen(const uint16_t *halves)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)halves));
}

/* Even shares of at most `most` rows. */
ALWAYS uint32_t tree_share(uint32_t left, uint32_t most)
{
    uint32_t parts = (left + most - 1) / most;
    return (left + parts - 1) / parts;
}
