#include "engine/schedule_state.h"

enum {
    POOL_SHARE = 950, /* thousandths, in predicted terms */
    WINDOW = 100, /* passes before the share of suspends counts */
    STRICT = 1000, /* passes of NO_EVICT after too many */
    FIRST = 20, /* answers that are looked at before anything is predicted */
};

static bool is_strict(const struct sched *sched)
{
    return sched->options.policy == SCHED_GUARANTEED_NO_EVICT ||
           sched->pass < sched->strict_until;
}

uint32_t sched_reserve_tokens(const struct sched *sched, uint32_t target,
                              uint32_t growth)
{
    if (sched->options.policy == SCHED_MAX_UTILIZATION) {
        return 0;
    }
    uint32_t predicted = sched->predicted / SCHED_FIXED;
    if (is_strict(sched) || growth < predicted) {
        predicted = growth;
    }
    return target + predicted;
}

/* The longest of the first is a fair guess; small steps from the longest that
 * can be would take thousands of answers. */
static void learn_first(struct sched *sched, uint32_t token_count)
{
    sched->longest =
        token_count > sched->longest ? token_count : sched->longest;
    sched->learned++;
    if (sched->learned == FIRST && sched->longest > 0) {
        sched->predicted = sched->longest * SCHED_FIXED;
    }
}

/* A quantile by small steps: up by 19 for each one above, down by 1 for each
 * one below, so that it settles where one in twenty is above. */
void sched_learn_length(struct sched *sched, uint32_t token_count)
{
    if (sched->learned < FIRST) {
        learn_first(sched, token_count);
        return;
    }
    uint32_t step = sched->predicted / (64 * 20) + 1;
    uint64_t seen = (uint64_t)token_count * SCHED_FIXED;
    if (seen > sched->predicted) {
        uint64_t raised = sched->predicted + (uint64_t)19 * step;
        uint64_t limit = (uint64_t)sched->options.seq_tokens_max * SCHED_FIXED;
        sched->predicted = (uint32_t)(raised < limit ? raised : limit);
    } else if (sched->predicted > SCHED_FIXED + step) {
        sched->predicted -= step;
    }
}

/* Too much was promised to too many: no more of that for a while. */
void sched_watch_overcommit(struct sched *sched)
{
    sched->window_passes++;
    sched->window_suspends +=
        sched->plan.suspended_count + sched->plan.paused_count > 0;
    if (sched->window_passes < WINDOW) {
        return;
    }
    if (sched->window_suspends * 50 > sched->window_passes) {
        sched->strict_until = sched->pass + STRICT;
    }
    sched->window_passes = 0;
    sched->window_suspends = 0;
}

bool sched_is_overcommitted(const struct sched *sched)
{
    return sched->options.policy == SCHED_BOUNDED_OVERCOMMIT &&
           sched->cache->committed != NULL &&
           sched->cache->committed(sched->cache->context) > POOL_SHARE;
}
