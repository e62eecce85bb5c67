#include "base/crc32c_fold.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* A sum over GF(2) does not change when a stretch of the message is replaced
 * by another of the same remainder. So 256 bytes at a time are moved onto the
 * next 256: each lane of 16 bytes is multiplied by what x^2048, the distance,
 * leaves, its two halves apart. The 256 bytes that are left in the end are
 * summed by the instruction. */
#define FOLD __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
static const uint32_t POLYNOMIAL = 0x82f63b78;
enum {
    LANE_HALF_BITS = 32,
    DISTANCE_BITS = 8 * CRC32C_FOLD_SIZE,
    PREFETCH_DISTANCE = 4096
};

static uint64_t multiplier[2]; /* (low, high half of a lane) */

/* A step's 256 bytes, in registers: the loops below are unrolled by hand, as
 * an array of them would live in memory. */
struct lanes {
    __m512i a, b, c, d;
};

/* x^bits modulo the polynomial, reflected, one bit further left as the
 * product of two reflected numbers is one bit short. */
static uint64_t power(int bits)
{
    uint32_t value = 0x80000000u;
    for (int i = 0; i < bits; i++) {
        value = value >> 1 ^ ((value & 1) != 0 ? POLYNOMIAL : 0);
    }
    return (uint64_t)value << 1;
}

__attribute__((constructor)) static void set_up(void)
{
    multiplier[0] = power(DISTANCE_BITS + LANE_HALF_BITS);
    multiplier[1] = power(DISTANCE_BITS - LANE_HALF_BITS);
}

FOLD static inline struct lanes load(const uint8_t *at)
{
    return (struct lanes){_mm512_loadu_si512(at), _mm512_loadu_si512(at + 64),
                          _mm512_loadu_si512(at + 128),
                          _mm512_loadu_si512(at + 192)};
}

/* Nobody else asks for a line so early that the multiplier never waits. */
FOLD static inline void prefetch(const uint8_t *at)
{
    for (int line = 0; line < CRC32C_FOLD_SIZE; line += 64) {
        _mm_prefetch((const char *)at + line, _MM_HINT_T0);
    }
}

FOLD static inline void stream(uint8_t *target, const struct lanes *lanes)
{
    _mm512_stream_si512((void *)target, lanes->a);
    _mm512_stream_si512((void *)(target + 64), lanes->b);
    _mm512_stream_si512((void *)(target + 128), lanes->c);
    _mm512_stream_si512((void *)(target + 192), lanes->d);
}

FOLD static inline __m512i fold_one(__m512i sum, __m512i next, __m512i by)
{
    __m512i low = _mm512_clmulepi64_epi128(sum, by, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(sum, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* xor */
}

FOLD static inline void fold(struct lanes *sum, const struct lanes *next,
                             __m512i by)
{
    sum->a = fold_one(sum->a, next->a, by);
    sum->b = fold_one(sum->b, next->b, by);
    sum->c = fold_one(sum->c, next->c, by);
    sum->d = fold_one(sum->d, next->d, by);
}

FOLD static uint32_t reduce(const struct lanes *sum)
{
    uint64_t words[CRC32C_FOLD_SIZE / sizeof(uint64_t)];
    _mm512_storeu_si512(words, sum->a);
    _mm512_storeu_si512(words + 8, sum->b);
    _mm512_storeu_si512(words + 16, sum->c);
    _mm512_storeu_si512(words + 24, sum->d);
    uint64_t crc = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        crc = _mm_crc32_u64(crc, words[i]);
    }
    return (uint32_t)crc;
}

FOLD static inline __m512i by_multiplier(void)
{
    return _mm512_set4_epi64((int64_t)multiplier[1], (int64_t)multiplier[0],
                             (int64_t)multiplier[1], (int64_t)multiplier[0]);
}

FOLD static inline void begin(struct lanes *sum, uint32_t crc)
{
    __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
    sum->a = _mm512_xor_si512(sum->a, start);
}

FOLD uint32_t crc32c_fold(uint32_t crc, const uint8_t *at, size_t size)
{
    __m512i by = by_multiplier();
    struct lanes sum = load(at);
    begin(&sum, crc);
    for (size_t i = CRC32C_FOLD_SIZE; i < size; i += CRC32C_FOLD_SIZE) {
        prefetch(at + i + PREFETCH_DISTANCE);
        struct lanes next = load(at + i);
        fold(&sum, &next, by);
    }
    return reduce(&sum);
}

FOLD uint32_t crc32c_fold_copy(uint32_t crc, uint8_t *target, const uint8_t *at,
                               size_t size, const uint8_t *ahead)
{
    __m512i by = by_multiplier();
    struct lanes sum = load(at);
    stream(target, &sum);
    begin(&sum, crc);
    for (size_t i = CRC32C_FOLD_SIZE; i < size; i += CRC32C_FOLD_SIZE) {
        size_t soon = i + PREFETCH_DISTANCE;
        prefetch(soon < size ? at + soon : ahead + (soon - size));
        struct lanes next = load(at + i);
        stream(target + i, &next);
        fold(&sum, &next, by);
    }
    return reduce(&sum);
}

bool crc32c_can_fold(void)
{
    __builtin_cpu_init(); /* we may be asked before main */
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("sse4.2");
}

#else

#include "base/check.h"

bool crc32c_can_fold(void)
{
    return false;
}

uint32_t crc32c_fold(uint32_t crc, const uint8_t *at, size_t size)
{
    (void)crc, (void)at, (void)size;
    CHECK_UNREACHABLE();
}

uint32_t crc32c_fold_copy(uint32_t crc, uint8_t *target, const uint8_t *at,
                          size_t size, const uint8_t *ahead)
{
    (void)crc, (void)target, (void)at, (void)size, (void)ahead;
    CHECK_UNREACHABLE();
}

#endif
