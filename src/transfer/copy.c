#include "transfer/copy.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/crc32c_fold.h"
#include "base/digest.h"

/* Small enough that the copy finds the source in the first-level cache. */
enum { STEP = 4096 };

#ifdef __x86_64__
/* What is read next comes in meanwhile, from `ahead`. */
static void copy_step(uint8_t *target, const uint8_t *source, size_t size,
                      const uint8_t *ahead)
{
    size_t at = 0;
    if ((uintptr_t)target % 16 == 0) {
        for (; at + 64 <= size; at += 64) {
            __builtin_prefetch(ahead + at);
            __m128i a = _mm_loadu_si128((const void *)(source + at));
            __m128i b = _mm_loadu_si128((const void *)(source + at + 16));
            __m128i c = _mm_loadu_si128((const void *)(source + at + 32));
            __m128i d = _mm_loadu_si128((const void *)(source + at + 48));
            _mm_stream_si128((void *)(target + at), a);
            _mm_stream_si128((void *)(target + at + 16), b);
            _mm_stream_si128((void *)(target + at + 32), c);
            _mm_stream_si128((void *)(target + at + 48), d);
        }
    }
    memcpy(target + at, source + at, size - at);
}

void transfer_copy_fence(void)
{
    _mm_sfence();
}
#else
static void copy_step(uint8_t *target, const uint8_t *source, size_t size,
                      const uint8_t *ahead)
{
    (void)ahead;
    memcpy(target, source, size);
}

void transfer_copy_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

static uint32_t copy_stepwise(uint32_t crc, uint8_t *target,
                              const uint8_t *source, size_t size,
                              const uint8_t *ahead)
{
    for (size_t at = 0; at < size;) {
        size_t step = size - at < STEP ? size - at : STEP;
        bool is_last = at + step == size;
        crc = digest_crc32c(crc, span_of(source + at, step));
        copy_step(target + at, source + at, step,
                  is_last ? ahead : source + at + step);
        at += step;
    }
    return crc;
}

uint32_t transfer_copy(uint8_t *target, const uint8_t *source, size_t size,
                       const uint8_t *ahead)
{
    bool is_aligned = (uintptr_t)target % 64 == 0;
    size_t folded = size - size % CRC32C_FOLD_SIZE;
    if (folded == 0 || !is_aligned || !crc32c_can_fold()) {
        return copy_stepwise(0, target, source, size, ahead);
    }
    uint32_t crc = ~crc32c_fold_copy(~0u, target, source, folded, ahead);
    return copy_stepwise(crc, target + folded, source + folded, size - folded,
                         ahead);
}

/* Where the digest comes for nothing, its copy is the widest we have. */
void transfer_copy_plain(uint8_t *target, const uint8_t *source, size_t size,
                         const uint8_t *ahead)
{
    if (crc32c_can_fold()) {
        IGNORE(transfer_copy(target, source, size, ahead) != 0);
        return;
    }
    for (size_t at = 0; at < size;) {
        size_t step = size - at < STEP ? size - at : STEP;
        bool is_last = at + step == size;
        copy_step(target + at, source + at, step,
                  is_last ? ahead : source + at + step);
        at += step;
    }
}
