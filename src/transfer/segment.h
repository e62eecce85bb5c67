#pragma once
/* transfer/segment: a System V shared memory segment that holds a pool, with a
 * seal behind it.
 *
 *   | pool, pool_size bytes, up to a whole page | seal, one page |
 *
 * Who maps a segment can see by the seal that it is the pool of the process it
 * talks to, and not some other segment of that number. Pure but for the calls
 * to the system; any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* No sum of sizes below it overflows. */
#define SEGMENT_POOL_SIZE_MAX ((size_t)1 << 46)

/* What the seal says. */
struct segment_seal {
    uint64_t magic;
    uint64_t incarnation;
    uint64_t pool_size;
};
struct segment_seal segment_seal_of(uint64_t incarnation, uint64_t pool_size);
/* Bytes a segment needs for a pool of that size. */
size_t segment_size(size_t pool_size);
void segment_write_seal(uint8_t *pool, const struct segment_seal *seal);
bool segment_has_seal(const uint8_t *pool, const struct segment_seal *seal);

/* The number of the segment mapped at `pool`. ERR_UNSUPPORTED: that is no
 * System V segment; ERR_IO. */
MUST_USE enum err segment_find(const uint8_t *pool, struct why *why,
                               int32_t *segment_out);
/* Attaches a segment that is large enough and has that seal; NULL when there
 * is none. While it is attached it cannot go away, whoever dies. */
void *segment_hold(int32_t segment, const struct segment_seal *seal);
void segment_release(void *held); /* NULL is fine */
/* The same on a thread of its own: whoever is the last to let a segment go frees
 * its pages, at a tenth of a second a gigabyte. */
void segment_release_aside(void *held);

/* Takes the first touch of a mapped pool's next bytes out of the way of later
 * writes; they keep their content. `done` is what this returned before, 0 at
 * first; pool_size: all of it. */
size_t segment_populate(uint8_t *pool, size_t pool_size, size_t done);
/* Unmaps a mapped pool's next bytes, which keep their content in the segment, so
 * that the mapping's end costs little. Counts as segment_populate does. */
size_t segment_drop(uint8_t *pool, size_t pool_size, size_t done);
