#pragma once
/* transfer/copy: the copy into a peer's memory, past our cache, with a digest
 * of what was read. Non-temporal stores neither read the target first nor push
 * our own lines out; the caller fences once a batch. */
#include <stddef.h>
#include <stdint.h>

/* Copies `size` bytes and returns the CRC32C of the source. Any alignment;
 * 64-byte aligned targets are fastest. The next copy's source is `ahead`. */
uint32_t transfer_copy(uint8_t *target, const uint8_t *source, size_t size,
                       const uint8_t *ahead);
/* The same without the digest. */
void transfer_copy_plain(uint8_t *target, const uint8_t *source, size_t size,
                         const uint8_t *ahead);
/* What was copied before is visible to whoever sees what we write next. */
void transfer_copy_fence(void);
