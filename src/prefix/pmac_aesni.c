#include "prefix/pmac_aesni.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* AVX for its three-operand forms and loads without alignment. */
#define FAST __attribute__((target("aes,avx")))
#define FAST_INLINE FAST static inline __attribute__((always_inline))

enum { BLOCK = PREFIX_PMAC_BLOCK, WIDTH = 8, ROUNDS = 10 };

FAST_INLINE __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

FAST_INLINE void store(uint8_t *to, __m128i value)
{
    _mm_storeu_si128((__m128i *)(void *)to, value);
}

/* The next round key: `assist` carries the rotated, substituted last word. */
FAST_INLINE __m128i next_round_key(__m128i key, __m128i assist)
{
    assist = _mm_shuffle_epi32(assist, 0xff);
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, assist);
}

/* The round constant is part of the instruction. */
#define EXPAND(round, constant)                                              \
    do {                                                                     \
        key = next_round_key(key, _mm_aeskeygenassist_si128(key, constant)); \
        store(pmac->round_keys[round], key);                                 \
    } while (0)

FAST static void expand(struct prefix_pmac *pmac)
{
    __m128i key = load(pmac->key);
    store(pmac->round_keys[0], key);
    EXPAND(1, 0x01);
    EXPAND(2, 0x02);
    EXPAND(3, 0x04);
    EXPAND(4, 0x08);
    EXPAND(5, 0x10);
    EXPAND(6, 0x20);
    EXPAND(7, 0x40);
    EXPAND(8, 0x80);
    EXPAND(9, 0x1b);
    EXPAND(10, 0x36);
}

/* AES but for its first step, the addition of round key 0. */
FAST_INLINE __m128i rounds(const struct prefix_pmac *pmac, __m128i state)
{
    for (int r = 1; r < ROUNDS; r++) {
        state = _mm_aesenc_si128(state, load(pmac->round_keys[r]));
    }
    return _mm_aesenclast_si128(state, load(pmac->round_keys[ROUNDS]));
}

FAST static void encrypt(const struct prefix_pmac *pmac, uint8_t *blocks,
                         size_t block_count)
{
    __m128i first = load(pmac->round_keys[0]);
    for (size_t i = 0; i < block_count; i++) {
        __m128i state = _mm_xor_si128(load(blocks + i * BLOCK), first);
        store(blocks + i * BLOCK, rounds(pmac, state));
    }
}

/* Written out, so that the eight states are registers. */
FAST_INLINE void round_of_eight(__m128i s[WIDTH], __m128i key)
{
    s[0] = _mm_aesenc_si128(s[0], key);
    s[1] = _mm_aesenc_si128(s[1], key);
    s[2] = _mm_aesenc_si128(s[2], key);
    s[3] = _mm_aesenc_si128(s[3], key);
    s[4] = _mm_aesenc_si128(s[4], key);
    s[5] = _mm_aesenc_si128(s[5], key);
    s[6] = _mm_aesenc_si128(s[6], key);
    s[7] = _mm_aesenc_si128(s[7], key);
}

/* The last round of each, added up. It ends in the addition of a key, and an
 * even number of equal keys adds up to nothing. */
FAST_INLINE __m128i last_round_sum(__m128i s[WIDTH])
{
    __m128i none = _mm_setzero_si128();
    __m128i a = _mm_xor_si128(_mm_aesenclast_si128(s[0], none),
                              _mm_aesenclast_si128(s[1], none));
    __m128i b = _mm_xor_si128(_mm_aesenclast_si128(s[2], none),
                              _mm_aesenclast_si128(s[3], none));
    __m128i c = _mm_xor_si128(_mm_aesenclast_si128(s[4], none),
                              _mm_aesenclast_si128(s[5], none));
    __m128i d = _mm_xor_si128(_mm_aesenclast_si128(s[6], none),
                              _mm_aesenclast_si128(s[7], none));
    return _mm_xor_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d));
}

/* Blocks 8g + 1 to 8g + 8. Offsets are a Gray code: those of the first seven are
 * that of block 8g, `base`, and a constant; the eighth's is `next_base`. */
FAST_INLINE __m128i sum_of_eight(const struct prefix_pmac *pmac,
                                 const uint8_t *data, __m128i base,
                                 __m128i next_base)
{
    __m128i first = load(pmac->round_keys[0]);
    __m128i s[WIDTH];
    base = _mm_xor_si128(base, first);
    s[0] = _mm_xor_si128(load(data), load(pmac->offsets[0]));
    s[1] = _mm_xor_si128(load(data + 16), load(pmac->offsets[1]));
    s[2] = _mm_xor_si128(load(data + 32), load(pmac->offsets[2]));
    s[3] = _mm_xor_si128(load(data + 48), load(pmac->offsets[3]));
    s[4] = _mm_xor_si128(load(data + 64), load(pmac->offsets[4]));
    s[5] = _mm_xor_si128(load(data + 80), load(pmac->offsets[5]));
    s[6] = _mm_xor_si128(load(data + 96), load(pmac->offsets[6]));
    s[7] = _mm_xor_si128(load(data + 112), next_base);
    s[0] = _mm_xor_si128(s[0], base);
    s[1] = _mm_xor_si128(s[1], base);
    s[2] = _mm_xor_si128(s[2], base);
    s[3] = _mm_xor_si128(s[3], base);
    s[4] = _mm_xor_si128(s[4], base);
    s[5] = _mm_xor_si128(s[5], base);
    s[6] = _mm_xor_si128(s[6], base);
    s[7] = _mm_xor_si128(s[7], first);
    for (int r = 1; r < ROUNDS; r++) {
        round_of_eight(s, load(pmac->round_keys[r]));
    }
    return last_round_sum(s);
}

/* What the whole blocks of one message add up to. */
FAST_INLINE __m128i sum_of(const struct prefix_pmac *pmac, const uint8_t *data,
                           size_t block_count)
{
    __m128i sum = _mm_setzero_si128();
    __m128i base = _mm_setzero_si128();
    size_t i = 0;
    for (; i + WIDTH <= block_count; i += WIDTH) {
        __m128i next_base =
            _mm_xor_si128(_mm_xor_si128(base, load(pmac->offsets[6])),
                          load(pmac->powers[__builtin_ctzll(i + WIDTH)]));
        sum = _mm_xor_si128(
            sum, sum_of_eight(pmac, data + i * BLOCK, base, next_base));
        base = next_base;
    }
    base = _mm_xor_si128(base, load(pmac->round_keys[0]));
    for (size_t j = 0; i + j < block_count; j++) {
        __m128i state =
            _mm_xor_si128(load(data + (i + j) * BLOCK), load(pmac->offsets[j]));
        sum = _mm_xor_si128(sum, rounds(pmac, _mm_xor_si128(state, base)));
    }
    return sum;
}

FAST static void chain(const struct prefix_pmac *pmac, const uint8_t *data,
                       size_t size, size_t count, const uint8_t *first,
                       uint8_t *tags_out)
{
    __m128i constant =
        _mm_xor_si128(load(pmac->last_full), load(pmac->round_keys[0]));
    __m128i tag = load(first);
    for (size_t i = 0; i < count; i++) {
        __m128i sum = sum_of(pmac, data + i * size, size / BLOCK);
        tag = _mm_xor_si128(tag, _mm_xor_si128(sum, constant));
        tag = rounds(pmac, tag);
        store(tags_out + i * BLOCK, tag);
    }
}

const struct prefix_pmac_body PREFIX_PMAC_AESNI = {
    .name = "aesni",
    .expand = expand,
    .encrypt = encrypt,
    .chain = chain,
};

bool prefix_pmac_aesni_is_usable(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx");
}

#endif
