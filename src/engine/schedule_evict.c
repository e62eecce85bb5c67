#include "engine/schedule_state.h"

/* What it was given in this pass has gone back with all it had: a veto finds
 * nothing of it to undo. */
static void forget_taken(struct sched *sched, const struct sched_unit *unit)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sched->taken_count; i++) {
        if (sched->taken[i].unit != unit) {
            sched->taken[kept++] = sched->taken[i];
        }
    }
    sched->taken_count = kept;
}

void sched_suspend(struct sched *sched, struct sched_unit *unit)
{
    if (!unit->is_suspended) {
        sched->cache->suspend(sched->cache->context, unit);
        unit->is_suspended = true;
    }
    forget_taken(sched, unit);
    unit->suspended_pass = sched->pass;
    unit->touched_pass = sched->pass;
    sched->plan.suspended[sched->plan.suspended_count++] = unit;
    sched->stats.suspends++;
}

static bool may_touch(const struct sched *sched, const struct sched_unit *unit)
{
    return unit->is_started && !unit->is_in_flight && !unit->is_finishing &&
           unit->touched_pass != sched->pass && unit->kind != SCHED_RECEIVE;
}

static bool may_suspend(const struct sched *sched,
                        const struct sched_unit *unit)
{
    return may_touch(sched, unit) && !unit->is_suspended && !unit->has_session;
}

/* Frees all it has, also what was put away before, even in this pass. A picture
 * cannot be shown to the model twice. */
static bool may_pause(const struct sched *sched, const struct sched_unit *unit)
{
    bool is_picture = unit->is_multimodal && unit->kind == SCHED_GENERATION;
    bool is_free = unit->touched_pass != sched->pass || unit->is_suspended;
    return unit->is_started && !unit->is_in_flight && !unit->is_finishing &&
           unit->kind != SCHED_RECEIVE && unit->is_replayable &&
           !unit->has_session && !is_picture && is_free;
}

/* A unit put away in this pass is paused instead. */
static void forget_suspended(struct sched *sched, const struct sched_unit *unit)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sched->plan.suspended_count; i++) {
        if (sched->plan.suspended[i] != unit) {
            sched->plan.suspended[kept++] = sched->plan.suspended[i];
        }
    }
    sched->plan.suspended_count = kept;
}

static void pause(struct sched *sched, struct sched_unit *unit)
{
    forget_suspended(sched, unit);
    forget_taken(sched, unit);
    sched->cache->release(sched->cache->context, unit);
    unit->is_started = false;
    unit->is_suspended = false;
    unit->touched_pass = sched->pass;
    sched->plan.paused[sched->plan.paused_count++] = unit;
    sched->stats.pauses++;
}

static bool grow(struct sched *sched, struct sched_unit *unit,
                 uint32_t capacity)
{
    if (sched->cache->grow(sched->cache->context, unit, capacity) != OK) {
        return false;
    }
    sched_take_note(sched, unit, SCHED_ACT_GROW);
    return true;
}

static bool is_pending(struct sched *sched)
{
    const struct sched_cache *cache = sched->cache;
    if (cache->pending_free != NULL &&
        cache->pending_free(cache->context) > 0) {
        sched->is_preempting_over = true;
    }
    return sched->is_preempting_over;
}

static bool suspend_for(struct sched *sched, uint32_t index,
                        struct sched_unit *unit, uint32_t capacity)
{
    while (sched->cache->has_lower_level && sched->suspend_end > index + 1) {
        struct sched_unit *victim = sched->units[--sched->suspend_end];
        if (victim != unit && may_suspend(sched, victim)) {
            sched_suspend(sched, victim);
            if (grow(sched, unit, capacity)) {
                return true;
            }
        }
    }
    return false;
}

/* From the tail, each tried once a pass. */
static bool pause_for(struct sched *sched, uint32_t index,
                      struct sched_unit *unit, uint32_t capacity)
{
    while (sched->pause_end > index + 1 && !is_pending(sched)) {
        struct sched_unit *victim = sched->units[--sched->pause_end];
        if (victim != unit && may_pause(sched, victim)) {
            pause(sched, victim);
            if (grow(sched, unit, capacity)) {
                return true;
            }
        }
    }
    return false;
}

bool sched_evict_for(struct sched *sched, uint32_t index,
                     struct sched_unit *unit, uint32_t capacity)
{
    if (is_pending(sched)) {
        return false;
    }
    return suspend_for(sched, index, unit, capacity) ||
           pause_for(sched, index, unit, capacity);
}

bool sched_pause_newest(struct sched *sched, uint64_t arrival)
{
    for (uint32_t i = sched->unit_count; i > 0; i--) {
        struct sched_unit *victim = sched->units[i - 1];
        if (victim->arrival > arrival && may_pause(sched, victim)) {
            pause(sched, victim);
            return true;
        }
    }
    return false;
}

bool sched_preempt_newest(struct sched *sched, const struct sched_unit *unit)
{
    return sched_may_evict(sched) && !sched->cache->has_lower_level &&
           !is_pending(sched) && sched_pause_newest(sched, unit->arrival);
}
