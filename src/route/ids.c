#include "route/ids.h"

enum { COUNTER_COUNT = 1024 };

int64_t route_ids_pack(uint64_t ms, uint32_t node, uint32_t process,
                       uint32_t counter)
{
    const uint64_t least = 1ull << 40;
    uint64_t raw = (ms & ((1ull << 39) - 1)) << 24 |
                   (uint64_t)(node & 255) << 16 |
                   (uint64_t)(process & 63) << 10 | (counter & 1023);
    return (int64_t)(raw % ((uint64_t)INT64_MAX - least) + least);
}

int64_t route_ids_next(struct route_ids *ids, uint64_t wall_ms)
{
    uint64_t ms =
        wall_ms > ROUTE_IDS_EPOCH_MS ? wall_ms - ROUTE_IDS_EPOCH_MS : 0;
    if (ms > ids->last_ms) {
        ids->last_ms = ms;
        ids->counter = 0;
    } else if (ids->counter == COUNTER_COUNT) {
        ids->last_ms++;
        ids->counter = 0;
    }
    return route_ids_pack(ids->last_ms, ids->node, ids->process,
                          ids->counter++);
}
