#pragma once
/* model/ops_simd: the vector operations that the float kernels are written in,
 * for the instruction set the including file is compiled for: 16 lanes with
 * AVX-512, else 8 with AVX2, FMA and F16C. Only included by such files. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))
/* Unrolled and checked code would take minutes to compile. */
#if defined(__SANITIZE_ADDRESS__)
#define UNROLL
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNROLL
#endif
#endif
#ifndef UNROLL
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Hints the cache about `size` bytes that will be read soon. */
ALWAYS void simd_prefetch(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i += 64) {
        _mm_prefetch((const char *)at + i, _MM_HINT_T0);
    }
}

#ifdef __AVX512F__

enum { LANES = 16 };
typedef __m512 vec;

#define vec_zero _mm512_setzero_ps
#define vec_all _mm512_set1_ps
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_add _mm512_add_ps
#define vec_sub _mm512_sub_ps
#define vec_mul _mm512_mul_ps
#define vec_div _mm512_div_ps
#define vec_fma _mm512_fmadd_ps
#define vec_max _mm512_max_ps
#define vec_min _mm512_min_ps

ALWAYS __mmask16 simd_mask(size_t count)
{
    return (__mmask16)(count >= LANES ? 0xffff : (1u << count) - 1);
}

/* The first `count` lanes from memory, zero in the others. */
ALWAYS vec vec_load_some(const float *x, size_t count)
{
    return _mm512_maskz_loadu_ps(simd_mask(count), x);
}

ALWAYS void vec_store_some(float *x, size_t count, vec v)
{
    _mm512_mask_storeu_ps(x, simd_mask(count), v);
}

ALWAYS vec vec_load_f16(const uint8_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)x));
}

ALWAYS vec vec_load_f16_some(const uint8_t *x, size_t count)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(simd_mask(count), x));
}

ALWAYS vec simd_from_bf16(__m256i bits)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

ALWAYS vec vec_load_bf16(const uint8_t *x)
{
    return simd_from_bf16(_mm256_loadu_si256((const void *)x));
}

ALWAYS vec vec_load_bf16_some(const uint8_t *x, size_t count)
{
    return simd_from_bf16(_mm256_maskz_loadu_epi16(simd_mask(count), x));
}

ALWAYS void vec_store_f16_some(uint16_t *out, size_t count, vec v)
{
    __m256i half = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    _mm256_mask_storeu_epi16(out, simd_mask(count), half);
}

/* Lanes from `count` on become `other`. */
ALWAYS vec vec_keep(vec v, size_t count, vec other)
{
    return _mm512_mask_mov_ps(other, simd_mask(count), v);
}

ALWAYS vec vec_round(vec v)
{
    return _mm512_roundscale_ps(v,
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 2^n for whole n from -126 to 127. */
ALWAYS vec vec_power_of_two(vec n)
{
    __m512i bits = _mm512_cvtps_epi32(n);
    bits =
        _mm512_slli_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(127)), 23);
    return _mm512_castsi512_ps(bits);
}

/* Sums of four vectors' lanes; each in the same order. */
ALWAYS __m128 vec_sum_4(const vec v[4])
{
    vec ab =
        vec_add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    vec cd =
        vec_add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    vec all = vec_add(_mm512_shuffle_ps(ab, cd, 0x44),
                      _mm512_shuffle_ps(ab, cd, 0xee));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all),
                                _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half),
                      _mm256_extractf128_ps(half, 1));
}

ALWAYS float vec_first(vec v)
{
    return _mm_cvtss_f32(_mm512_castps512_ps128(v));
}

ALWAYS float vec_max_lane(vec v)
{
    return _mm512_reduce_max_ps(v);
}

/* Rows become columns. */
ALWAYS void simd_transpose(__m512i v[16])
{
    __m512i t[16];
    UNROLL
    for (int i = 0; i < 16; i += 4) {
        __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        __m512i b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]);
        __m512i d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88);
        __m512i b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88);
        __m512i d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
        v[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        v[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        v[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

ALWAYS void vec_transpose(vec v[LANES])
{
    __m512i bits[16];
    UNROLL
    for (int i = 0; i < 16; i++) {
        bits[i] = _mm512_castps_si512(v[i]);
    }
    simd_transpose(bits);
    UNROLL
    for (int i = 0; i < 16; i++) {
        v[i] = _mm512_castsi512_ps(bits[i]);
    }
}

#else

enum { LANES = 8 };
typedef __m256 vec;

#define vec_zero _mm256_setzero_ps
#define vec_all _mm256_set1_ps
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_add _mm256_add_ps
#define vec_sub _mm256_sub_ps
#define vec_mul _mm256_mul_ps
#define vec_div _mm256_div_ps
#define vec_fma _mm256_fmadd_ps
#define vec_max _mm256_max_ps
#define vec_min _mm256_min_ps

ALWAYS __m256i simd_mask(size_t count)
{
    const __m256i INDEX = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int limit = count >= LANES ? LANES : (int)count;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), INDEX);
}

ALWAYS vec vec_load_some(const float *x, size_t count)
{
    return _mm256_maskload_ps(x, simd_mask(count));
}

ALWAYS void vec_store_some(float *x, size_t count, vec v)
{
    _mm256_maskstore_ps(x, simd_mask(count), v);
}

ALWAYS __m128i simd_load_words(const uint8_t *x, size_t count)
{
    __m128i words = _mm_setzero_si128();
    memcpy(&words, x, 2 * (count < LANES ? count : LANES));
    return words;
}

ALWAYS vec vec_load_f16(const uint8_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)x));
}

ALWAYS vec vec_load_f16_some(const uint8_t *x, size_t count)
{
    return _mm256_cvtph_ps(simd_load_words(x, count));
}

ALWAYS vec simd_from_bf16(__m128i bits)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

ALWAYS vec vec_load_bf16(const uint8_t *x)
{
    return simd_from_bf16(_mm_loadu_si128((const void *)x));
}

ALWAYS vec vec_load_bf16_some(const uint8_t *x, size_t count)
{
    return simd_from_bf16(simd_load_words(x, count));
}

ALWAYS void vec_store_f16_some(uint16_t *out, size_t count, vec v)
{
    __m128i half = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    memcpy(out, &half, 2 * (count < LANES ? count : LANES));
}

ALWAYS vec vec_keep(vec v, size_t count, vec other)
{
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(simd_mask(count)));
}

ALWAYS vec vec_round(vec v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

ALWAYS vec vec_power_of_two(vec n)
{
    __m256i bits = _mm256_cvtps_epi32(n);
    bits =
        _mm256_slli_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(127)), 23);
    return _mm256_castsi256_ps(bits);
}

ALWAYS __m128 vec_sum_4(const vec v[4])
{
    vec ab =
        vec_add(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
    vec cd =
        vec_add(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
    vec all = vec_add(_mm256_shuffle_ps(ab, cd, 0x44),
                      _mm256_shuffle_ps(ab, cd, 0xee));
    return _mm_add_ps(_mm256_castps256_ps128(all),
                      _mm256_extractf128_ps(all, 1));
}

ALWAYS float vec_first(vec v)
{
    return _mm_cvtss_f32(_mm256_castps256_ps128(v));
}

ALWAYS float vec_max_lane(vec v)
{
    __m128 m =
        _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
    return _mm_cvtss_f32(m);
}

ALWAYS void vec_transpose(vec v[LANES])
{
    vec t[8];
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        vec a = _mm256_unpacklo_ps(v[i], v[i + 1]);
        vec b = _mm256_unpackhi_ps(v[i], v[i + 1]);
        vec c = _mm256_unpacklo_ps(v[i + 2], v[i + 3]);
        vec d = _mm256_unpackhi_ps(v[i + 2], v[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

#endif

/* The sum of all lanes, in the order of vec_sum_4. */
ALWAYS float vec_sum(vec v)
{
    const vec ALL[4] = {v, vec_zero(), vec_zero(), vec_zero()};
    return _mm_cvtss_f32(vec_sum_4(ALL));
}

/* e^x to about one unit in the last place: 2^n * p(r), r = x - n ln 2. Below
 * -87 it stays at the smallest normal number, above 88 at 2^127; NaN passes. */
ALWAYS vec vec_exp(vec x)
{
    x = vec_max(vec_all(-87.3f), x);
    x = vec_min(vec_all(88.3f), x);
    vec n = vec_round(vec_mul(x, vec_all(1.44269504f)));
    vec r = vec_fma(n, vec_all(-0.693359375f), x);
    r = vec_fma(n, vec_all(2.12194440e-4f), r);
    vec p = vec_all(1.9875691500e-4f);
    p = vec_fma(p, r, vec_all(1.3981999507e-3f));
    p = vec_fma(p, r, vec_all(8.3334519073e-3f));
    p = vec_fma(p, r, vec_all(4.1665795894e-2f));
    p = vec_fma(p, r, vec_all(1.6666665459e-1f));
    p = vec_fma(p, r, vec_all(5.0000001201e-1f));
    p = vec_fma(p, vec_mul(r, r), vec_add(r, vec_all(1.0f)));
    return vec_mul(p, vec_power_of_two(n));
}
