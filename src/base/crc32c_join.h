#pragma once
/* base/crc32c_join: the CRC32C of bytes that follow each other from the CRC32C
 * of each stretch alone (both as digest_crc32c gives them). Pure, any thread.
 *
 *   join(crc(a), crc(b), reach(size of b)) == crc(a b) */
#include <stddef.h>
#include <stdint.h>

/* What `size` more bytes do to a sum: one for all stretches of that size. */
uint32_t crc32c_reach(size_t size);
uint32_t crc32c_join(uint32_t before, uint32_t after, uint32_t reach);
