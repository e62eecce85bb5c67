#include "engine/schedule_state.h"

enum lane { LANE_STARVED, LANE_STARTED, LANE_NEW, LANE_DEMOTED };

static uint32_t log2_of(uint32_t value)
{
    return value == 0 ? 0 : 31 - (uint32_t)__builtin_clz(value);
}

/* A long prompt that had all the tokens for a while lets new ones pass, but not
 * for ever. */
static bool is_demoted(struct sched *sched, struct sched_unit *unit)
{
    const struct sched_options *options = &sched->options;
    uint64_t remaining = unit->target - unit->position;
    if (unit->full_passes < options->demote_passes ||
        remaining <= (uint64_t)options->demote_factor * sched->tokens_left) {
        unit->yields = 0;
        return false;
    }
    if (unit->yields < options->yield_passes) {
        unit->yields++;
        return true;
    }
    unit->yields = 0;
    unit->full_passes = 0;
    return false;
}

static enum lane lane_of(struct sched *sched, struct sched_unit *unit)
{
    if (unit->passes_waited >= sched->options.starved_passes) {
        return LANE_STARVED;
    }
    if (!sched->options.is_shortest_first) {
        return LANE_STARTED;
    }
    if (!unit->is_started) {
        return LANE_NEW;
    }
    return is_demoted(sched, unit) ? LANE_DEMOTED : LANE_STARTED;
}

/* lane, priority, size class; what is equal stays by arrival. */
static uint64_t rank_of(struct sched *sched, struct sched_unit *unit)
{
    enum lane lane = lane_of(sched, unit);
    bool is_plain = !sched->options.is_shortest_first && lane != LANE_STARVED;
    uint64_t rank = (uint64_t)lane << 32;
    if (lane == LANE_NEW || is_plain) {
        rank |= (uint64_t)unit->priority << 8;
    }
    if (lane == LANE_NEW) {
        rank |= log2_of(unit->target - unit->probed);
    }
    return rank;
}

static void merge(const struct sched_ranked *from, struct sched_ranked *to,
                  uint32_t first, uint32_t middle, uint32_t end)
{
    uint32_t left = first;
    uint32_t right = middle;
    for (uint32_t i = first; i < end; i++) {
        bool is_left = left < middle &&
                       (right == end || from[left].rank <= from[right].rank);
        to[i] = is_left ? from[left++] : from[right++];
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void sort(struct sched *sched)
{
    uint32_t count = sched->ranked_count;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t i = 0; i < count; i += 2 * width) {
            merge(sched->ranked, sched->spare, i, least(i + width, count),
                  least(i + 2 * width, count));
        }
        struct sched_ranked *sorted = sched->spare;
        sched->spare = sched->ranked;
        sched->ranked = sorted;
    }
}

static void rank(struct sched *sched, struct sched_unit *unit)
{
    /* The cache may know it from last time, by what stands there still. */
    bool is_asked = !unit->is_started && sched->cache->probe != NULL;
    unit->probed =
        is_asked ? sched->cache->probe(sched->cache->context, unit) : 0;
    sched->ranked[sched->ranked_count++] =
        (struct sched_ranked){.rank = rank_of(sched, unit), .unit = unit};
}

void sched_order_prompts(struct sched *sched)
{
    sched->ranked_count = 0;
    for (uint32_t i = 0; i < sched->unit_count; i++) {
        struct sched_unit *unit = sched->units[i];
        if (unit->kind == SCHED_CONTEXT && unit->is_ready &&
            !unit->is_in_flight && unit->touched_pass != sched->pass) {
            rank(sched, unit);
        }
    }
    sort(sched);
}
