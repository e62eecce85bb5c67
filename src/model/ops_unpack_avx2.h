#pragma once
/* model/ops_unpack_avx2: one block of any integer type in one shape, 32
 * columns at a time:
 *
 *   weight[i] = q[i] * scale[i / 16] - min[i / 16]
 *
 * Scales are spread over the 8 lanes that the products of 32 columns have. */
#include "model/ops.h"
#include "model/ops_simd.h"

/* Where the columns of one block go. */
struct unpacked {
    int8_t *q;
    float *scale; /* 8 for each 32 columns: 4 times one, 4 times the other */
    float *min; /* 2 for each 32 columns; untouched where the type has none */
};

ALWAYS uint32_t unpack_block_bytes(uint32_t type)
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
    case GGUF_Q5_1:
        return 24;
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

ALWAYS uint32_t unpack_block_columns(uint32_t type)
{
    return type >= GGUF_Q2_K && type <= GGUF_Q6_K ? 256 : 32;
}

ALWAYS bool unpack_has_min(uint32_t type)
{
    return type == GGUF_Q4_1 || type == GGUF_Q5_1 || type == GGUF_Q2_K ||
           type == GGUF_Q4_K || type == GGUF_Q5_K;
}

ALWAYS float unpack_half(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof(bits));
    return _cvtsh_ss(bits);
}

ALWAYS __m256i unpack_load(const uint8_t *at)
{
    return _mm256_loadu_si256((const void *)at);
}

ALWAYS __m256i unpack_and(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Bits of each byte from `shift` on. */
ALWAYS __m256i unpack_bits(__m256i v, int shift, int mask)
{
    __m128i count = _mm_cvtsi32_si128(shift);
    return unpack_and(_mm256_srl_epi16(v, count), mask);
}

ALWAYS void unpack_put(const struct unpacked *to, uint32_t at, __m256i q,
                       int offset)
{
    q = _mm256_sub_epi8(q, _mm256_set1_epi8((char)offset));
    _mm256_storeu_si256((void *)(to->q + at), q);
}

ALWAYS void unpack_put_scale(const struct unpacked *to, uint32_t part,
                             float first, float second)
{
    _mm_storeu_ps(to->scale + part * 8, _mm_set1_ps(first));
    _mm_storeu_ps(to->scale + part * 8 + 4, _mm_set1_ps(second));
}

ALWAYS void unpack_put_min(const struct unpacked *to, uint32_t part,
                           float first, float second)
{
    to->min[2 * part] = first;
    to->min[2 * part + 1] = second;
}

/* ---- blocks of 32 ---- */

ALWAYS __m256i unpack_nibbles(const uint8_t *at)
{
    __m128i v = _mm_loadu_si128((const void *)at);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(v),
                                           _mm_srli_epi16(v, 4), 1);
    return unpack_and(both, 15);
}

/* 16 where the bit of that number is set. */
ALWAYS __m256i unpack_fifth(const uint8_t *at)
{
    const __m256i SPREAD = _mm256_setr_epi64x(
        0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i BITS = _mm256_set1_epi64x((long long)0x8040201008040201);
    int bits;
    memcpy(&bits, at, sizeof(bits));
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), SPREAD);
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, BITS), BITS);
    return unpack_and(v, 16);
}

ALWAYS void unpack_32(uint32_t type, const uint8_t *at,
                      const struct unpacked *to)
{
    float d = unpack_half(at);
    unpack_put_scale(to, 0, d, d);
    if (unpack_has_min(type)) {
        float m = -unpack_half(at + 2);
        unpack_put_min(to, 0, m, m);
    }
    switch (type) {
    case GGUF_Q8_0:
        unpack_put(to, 0, unpack_load(at + 2), 0);
        return;
    case GGUF_Q4_0:
        unpack_put(to, 0, unpack_nibbles(at + 2), 8);
        return;
    case GGUF_Q4_1:
        unpack_put(to, 0, unpack_nibbles(at + 4), 0);
        return;
    case GGUF_Q5_0:
        unpack_put(
            to, 0,
            _mm256_or_si256(unpack_nibbles(at + 6), unpack_fifth(at + 2)), 16);
        return;
    default:
        unpack_put(
            to, 0,
            _mm256_or_si256(unpack_nibbles(at + 8), unpack_fifth(at + 4)), 0);
    }
}

/* ---- super-blocks of 256 ---- */

/* Two-bit columns: part p of eight has bits 2 (p % 4) of half p / 4. */
ALWAYS __m256i unpack_twos(const uint8_t *at, int part)
{
    return unpack_bits(unpack_load(at + 32 * (part / 4)), 2 * (part % 4), 3);
}

ALWAYS __m256i unpack_fours(const uint8_t *at, int part)
{
    return unpack_bits(unpack_load(at + 32 * (part / 2)), 4 * (part % 2), 15);
}

/* `value` where bit `part` is set. */
ALWAYS __m256i unpack_high(const uint8_t *at, int part, int value)
{
    __m256i bit = _mm256_set1_epi8((char)(1 << part));
    __m256i v = _mm256_and_si256(unpack_load(at), bit);
    return unpack_and(_mm256_cmpeq_epi8(v, bit), value);
}

ALWAYS void unpack_q2_k(const uint8_t *at, const struct unpacked *to)
{
    float d = unpack_half(at + 80);
    float dmin = unpack_half(at + 82);
    UNROLL
    for (int p = 0; p < 8; p++) {
        const uint8_t *s = at + 2 * p;
        unpack_put(to, 32 * (uint32_t)p, unpack_twos(at + 16, p), 0);
        unpack_put_scale(to, (uint32_t)p, d * (float)(s[0] & 15),
                         d * (float)(s[1] & 15));
        unpack_put_min(to, (uint32_t)p, dmin * (float)(s[0] >> 4),
                       dmin * (float)(s[1] >> 4));
    }
}

/* The six-bit scale of a group of 16, less 32. */
ALWAYS float unpack_three_scale(const uint8_t *scales, int group)
{
    int low = scales[group % 8] >> 4 * (group / 8) & 15;
    int high = scales[8 + group % 4] >> 2 * (group / 4) & 3;
    return (float)((low | high << 4) - 32);
}

ALWAYS void unpack_q3_k(const uint8_t *at, const struct unpacked *to)
{
    float d = unpack_half(at + 108);
    UNROLL
    for (int p = 0; p < 8; p++) {
        __m256i q =
            _mm256_or_si256(unpack_twos(at + 32, p), unpack_high(at, p, 4));
        unpack_put(to, 32 * (uint32_t)p, q, 4);
        unpack_put_scale(to, (uint32_t)p,
                         d * unpack_three_scale(at + 96, 2 * p),
                         d * unpack_three_scale(at + 96, 2 * p + 1));
    }
}

/* Number `group` of eight six-bit scales, and its min. */
ALWAYS void unpack_pair(const uint8_t *s, int group, float *scale_out,
                        float *min_out)
{
    int scale = group < 4 ? s[group] & 63
                          : (s[group + 4] & 15) | (s[group - 4] >> 6) << 4;
    int min = group < 4 ? s[group + 4] & 63
                        : s[group + 4] >> 4 | (s[group] >> 6) << 4;
    *scale_out = (float)scale;
    *min_out = (float)min;
}

/* Q4_K and Q5_K. */
ALWAYS void unpack_q45_k(uint32_t type, const uint8_t *at,
                         const struct unpacked *to)
{
    float d = unpack_half(at);
    float dmin = unpack_half(at + 2);
    const uint8_t *low = at + (type == GGUF_Q5_K ? 48 : 16);
    UNROLL
    for (int p = 0; p < 8; p++) {
        float scale;
        float min;
        unpack_pair(at + 4, p, &scale, &min);
        __m256i q = unpack_fours(low, p);
        if (type == GGUF_Q5_K) {
            q = _mm256_or_si256(q, unpack_high(at + 16, p, 16));
        }
        unpack_put(to, 32 * (uint32_t)p, q, 0);
        unpack_put_scale(to, (uint32_t)p, d * scale, d * scale);
        unpack_put_min(to, (uint32_t)p, dmin * min, dmin * min);
    }
}

ALWAYS void unpack_q6_k(const uint8_t *at, const struct unpacked *to)
{
    float d = unpack_half(at + 208);
    const int8_t *scales = (const int8_t *)at + 192;
    UNROLL
    for (int p = 0; p < 8; p++) {
        const uint8_t *low = at + 64 * (p / 4) + 32 * (p % 2);
        __m256i q = unpack_bits(unpack_load(low), 4 * (p / 2 % 2), 15);
        __m256i high = unpack_twos(at + 128, p);
        q = _mm256_or_si256(q, _mm256_slli_epi16(high, 4));
        unpack_put(to, 32 * (uint32_t)p, q, 32);
        unpack_put_scale(to, (uint32_t)p, d * (float)scales[2 * p],
                         d * (float)scales[2 * p + 1]);
    }
}

ALWAYS void unpack_block(uint32_t type, const uint8_t *at,
                         const struct unpacked *to)
{
    switch (type) {
    case GGUF_Q2_K:
        unpack_q2_k(at, to);
        return;
    case GGUF_Q3_K:
        unpack_q3_k(at, to);
        return;
    case GGUF_Q4_K:
    case GGUF_Q5_K:
        unpack_q45_k(type, at, to);
        return;
    case GGUF_Q6_K:
        unpack_q6_k(at, to);
        return;
    default:
        unpack_32(type, at, to);
    }
}
