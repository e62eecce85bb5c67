#pragma once
/* device/copy_split: how the copies of a submission become pieces of work of a
 * fair size (engine.md 1.11). Pure.
 *
 *   copies   | 100 MiB page           |4K|4K|4K|0|4K| ...
 *   items    |1|2|3|  ...  |12|13|    |  1         | ...
 *
 * Pages may exceed 100 MB, and what one worker moves at a time is bounded, so a
 * large copy is spread over up to 16 shares; small ones go together, so that
 * what a piece costs beside its bytes does not count. A copy of 0 bytes makes
 * no piece; it may lie in the middle of a pack. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/copy.h"

enum {
    DEVICE_COPY_SHARE_BYTES = 8 << 20,
    DEVICE_COPY_SHARE_COUNT_MAX = 16,
    /* A pack ends with the copy that reaches one of these. */
    DEVICE_COPY_PACK_BYTES = 256 << 10,
    DEVICE_COPY_PACK_COUNT_MAX = 64,
};

/* clamp(ceil(bytes / 8 MiB), 1, 16); 0 for 0 bytes. */
uint32_t device_copy_share_count(size_t bytes);

struct device_copy_share {
    size_t offset; /* a multiple of DEVICE_COPY_UNIT */
    size_t bytes;
};
/* Share `index` of the device_copy_share_count(bytes): contiguous, the last one
 * takes what is left. */
struct device_copy_share device_copy_share(size_t bytes, uint32_t index);

/* Copies [first, first + count), of each its bytes from `offset` on. A share of
 * a large one: count 1, else the whole of each. */
struct device_copy_item {
    uint32_t first;
    uint32_t count;
    struct device_copy_share share; /* bytes 0: the whole */
};

/* The next piece to be cut. */
struct device_copy_cursor {
    uint32_t copy; /* one with bytes, or copy_count */
    uint32_t share;
};
struct device_copy_cursor device_copy_cursor_first(
    const struct device_copy *copies, uint32_t copy_count);
/* False: none is left. */
bool device_copy_cursor_next(struct device_copy_cursor *cursor,
                             const struct device_copy *copies,
                             uint32_t copy_count,
                             struct device_copy_item *item_out);
