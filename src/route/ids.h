#pragma once
/* route/ids: request ids, unique over front ends and restarts (serve.md 2.13).
 *
 *   raw = ms since 2024 (39 bits) | node (8) | process (6) | counter (10)
 *   id  = raw mod ((2^63 - 1) - 2^40) + 2^40
 *
 * Pure: time is handed in. Time never goes back here, and a full counter
 * borrows from the next millisecond. */
#include <stdint.h>

struct route_ids {
    uint32_t node; /* 0 .. 255 */
    uint32_t process; /* 0 .. 63 */
    /* private */
    uint64_t last_ms;
    uint32_t counter;
};

/* Milliseconds from 1970 to the beginning of 2024. */
#define ROUTE_IDS_EPOCH_MS 1704067200000u

int64_t route_ids_pack(uint64_t ms, uint32_t node, uint32_t process,
                       uint32_t counter);
/* `wall_ms` since 1970. */
int64_t route_ids_next(struct route_ids *ids, uint64_t wall_ms);
