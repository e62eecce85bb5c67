#pragma once
/* base/crc32c: the bodies of digest_crc32c, fastest first; it takes the first
 * that this processor can. For digest's files and their tests.
 *
 * `crc` is the bare register, without the complements of digest_crc32c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
enum { CRC32C_BODY_COUNT = 3 };
#else
enum { CRC32C_BODY_COUNT = 1 };
#endif

struct crc32c_body {
    const char *name;
    bool (*can)(void);
    uint32_t (*sum)(uint32_t crc, const uint8_t *at, size_t size);
};
extern const struct crc32c_body crc32c_bodies[CRC32C_BODY_COUNT];
