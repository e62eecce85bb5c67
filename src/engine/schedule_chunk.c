#include "engine/schedule_state.h"

static uint32_t round_down(uint32_t value, uint32_t unit)
{
    return value - value % unit;
}

/* Where the planner asked for a chunk to end, the first one beyond `position`;
 * UINT32_MAX: nowhere. */
static uint32_t next_point(const struct sched_unit *unit, uint32_t position)
{
    const struct prefix_wait_request *prefix = unit->prefix;
    for (uint32_t i = 0; prefix != NULL && i < prefix->point_count; i++) {
        if (prefix->points[i] > position) {
            return prefix->points[i];
        }
    }
    return UINT32_MAX;
}

static bool is_inside(const struct sched_unit *unit, uint32_t end)
{
    return unit->span_first < end && end < unit->span_end;
}

/* A span that the chunk's end would cut goes in whole, or not yet. */
static uint32_t keep_span(const struct sched *sched,
                          const struct sched_unit *unit, uint32_t position,
                          uint32_t chunk, uint32_t limit)
{
    if (!is_inside(unit, position + chunk)) {
        return chunk;
    }
    uint32_t step = sched->options.chunk_unit;
    uint32_t whole = unit->span_end - position;
    whole = round_down(whole + step - 1, step);
    uint32_t remaining = unit->target - position;
    whole = whole < remaining ? whole : remaining;
    if (whole <= limit) {
        return whole;
    }
    return unit->span_first > position
               ? round_down(unit->span_first - position, step)
               : 0;
}

uint32_t sched_chunk_size(const struct sched *sched,
                          const struct sched_unit *unit, uint32_t position,
                          uint32_t tokens)
{
    uint32_t remaining = unit->target - position;
    uint32_t limit = tokens;
    if (unit->chunk_max != 0 && unit->chunk_max < limit) {
        limit = unit->chunk_max;
    }
    bool is_whole =
        remaining <= limit && (uint64_t)remaining + unit->draft <= tokens;
    if (!sched->options.is_chunked) {
        return is_whole ? remaining : 0;
    }
    uint32_t point = next_point(unit, position);
    if (point < unit->target && point - position <= limit) {
        return point - position;
    }
    if (is_whole) {
        return remaining;
    }
    uint32_t most = limit < remaining ? limit : remaining - 1;
    uint32_t chunk = round_down(most, sched->options.chunk_unit);
    return keep_span(sched, unit, position, chunk, limit);
}
