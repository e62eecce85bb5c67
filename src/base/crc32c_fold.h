#pragma once
/* base/crc32c_fold: CRC32C, 256 bytes a step, for processors that multiply
 * polynomials in 512-bit registers; alone, or on the way of a copy. For
 * base/digest and for who copies into foreign memory. Pure, any thread.
 *
 * `crc` is the bare register, without the complements of digest_crc32c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CRC32C_FOLD_SIZE = 256 };

bool crc32c_can_fold(void);
/* Only if we can; size > 0, a multiple of CRC32C_FOLD_SIZE. */
uint32_t crc32c_fold(uint32_t crc, const uint8_t *at, size_t size);
/* The same, and the bytes go to `target`, 64-byte aligned, by stores that pass
 * the cache: the caller fences before it tells anybody. What will be read
 * after these bytes begins at `ahead`, which may be any address. */
uint32_t crc32c_fold_copy(uint32_t crc, uint8_t *target, const uint8_t *at,
                          size_t size, const uint8_t *ahead);
