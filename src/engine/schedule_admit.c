#include "base/check.h"
#include "engine/schedule_state.h"

enum admit { ADMIT_DONE, ADMIT_SKIP, ADMIT_STOP };

static void give_back(struct sched *sched, struct sched_unit *unit)
{
    CHECK(sched->taken_count > 0);
    CHECK(sched->taken[sched->taken_count - 1].unit == unit);
    CHECK(sched->taken[sched->taken_count - 1].act == SCHED_ACT_START);
    sched->taken_count--;
    sched->cache->release(sched->cache->context, unit);
    unit->is_started = false;
    unit->position = 0;
}

/* Twice the prompt's last step, when two steps are asked for. */
static bool has_room(const struct sched *sched, const struct sched_unit *unit)
{
    uint32_t tokens = unit->target - unit->probed;
    if (sched->options.looks_two_ahead) {
        tokens += 2 * (1 + unit->draft);
    }
    return sched->cache->fits == NULL ||
           sched->cache->fits(sched->cache->context, unit, tokens);
}

/* A first chunk: the whole prompt must fit, not just this much of it. */
static enum admit start(struct sched *sched, struct sched_unit *unit)
{
    uint32_t reserve =
        unit->has_session
            ? unit->target
            : sched_reserve_tokens(sched, unit->target, unit->growth);
    if (reserve == 0 && !has_room(sched, unit)) {
        return ADMIT_STOP;
    }
    uint32_t reused = 0;
    enum err err =
        sched->cache->start(sched->cache->context, unit, reserve, &reused);
    if (err != OK) {
        sched->stats.starts_failed++;
        unit->lacks_pages = err != ERR_BUSY;
        return err == ERR_BUSY ? ADMIT_SKIP : ADMIT_STOP;
    }
    unit->lacks_pages = false;
    CHECK(reused < unit->target);
    unit->is_started = true;
    unit->position = reused;
    sched_take_note(sched, unit, SCHED_ACT_START);
    return ADMIT_DONE;
}

static enum admit resume(struct sched *sched, struct sched_unit *unit)
{
    if (sched->cache->resume(sched->cache->context, unit) != OK) {
        return ADMIT_SKIP;
    }
    unit->is_suspended = false;
    sched_take_note(sched, unit, SCHED_ACT_RESUME);
    return ADMIT_DONE;
}

static void add_chunk(struct sched *sched, struct sched_unit *unit,
                      uint32_t count)
{
    struct sched_plan *plan = &sched->plan;
    bool is_last = unit->position + count == unit->target;
    uint32_t cost = count + (is_last ? unit->draft : 0);
    plan->chunks[plan->chunk_count++] =
        (struct sched_chunk){.unit = unit,
                             .first = unit->position,
                             .count = count,
                             .is_last = is_last};
    plan->token_count += cost;
    sched->tokens_left -= cost;
    sched->requests_left--;
    unit->touched_pass = sched->pass;
    unit->passes_waited = 0;
    unit->recent_tokens = unit->recent_tokens == 0
                              ? count * 256
                              : (unit->recent_tokens * 3 + count * 256) / 4;
    bool had_all = count + sched->options.chunk_unit > sched->prompt_tokens;
    unit->full_passes = had_all && !is_last ? unit->full_passes + 1 : 0;
    if (sched->waits != NULL && unit->prefix != NULL) {
        prefix_wait_admitted(sched->waits, unit->prefix);
    }
}

/* Reuse that is not credited costs tokens of the pass as if computed. */
static uint32_t tokens_for(const struct sched *sched,
                           const struct sched_unit *unit, bool is_first)
{
    if (sched->options.is_prefix_aware || !is_first) {
        return sched->tokens_left;
    }
    return sched->tokens_left > unit->position
               ? sched->tokens_left - unit->position
               : 0;
}

static enum admit grow(struct sched *sched, struct sched_unit *unit,
                       uint32_t chunk, bool is_first)
{
    bool is_last = unit->position + chunk == unit->target;
    uint32_t capacity = unit->position + chunk + (is_last ? unit->draft : 0);
    unit->lacks_pages =
        sched->cache->grow(sched->cache->context, unit, capacity) != OK;
    if (!unit->lacks_pages) {
        sched_take_note(sched, unit, SCHED_ACT_GROW);
        return ADMIT_DONE;
    }
    if (is_first) {
        give_back(sched, unit);
    }
    return sched_preempt_newest(sched, unit) ? ADMIT_STOP : ADMIT_SKIP;
}

static enum admit admit(struct sched *sched, struct sched_unit *unit)
{
    bool is_first = !unit->is_started;
    enum admit answer = ADMIT_DONE;
    if (is_first) {
        answer = start(sched, unit);
    } else if (unit->is_suspended) {
        answer = resume(sched, unit);
    }
    if (answer != ADMIT_DONE) {
        return answer;
    }
    uint32_t chunk = sched_chunk_size(sched, unit, unit->position,
                                      tokens_for(sched, unit, is_first));
    if (chunk == 0) {
        if (is_first) {
            give_back(sched, unit);
        }
        return sched->options.is_chunked ? ADMIT_SKIP : ADMIT_STOP;
    }
    answer = grow(sched, unit, chunk, is_first);
    if (answer == ADMIT_DONE) {
        sched->stats.started += is_first;
        add_chunk(sched, unit, chunk);
    } else if (is_first && !sched->options.is_chunked) {
        answer = ADMIT_STOP;
    }
    return answer;
}

/* Somebody ahead computes this prefix: let it. */
static bool is_deferred(struct sched *sched, struct sched_unit *unit)
{
    if (sched->waits == NULL || unit->prefix == NULL || unit->is_started) {
        return false;
    }
    if (prefix_wait_defer(sched->waits, unit->prefix)) {
        unit->waits++;
        sched->plan.waiting_count++;
        sched->stats.waits++;
        return true;
    }
    return prefix_wait_is_duplicate(sched->waits, unit->prefix, unit->probed);
}

static void plan_waits(struct sched *sched)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sched->ranked_count; i++) {
        if (sched->ranked[i].unit->prefix != NULL) {
            sched->pending[count++] = sched->ranked[i].unit->prefix;
        }
    }
    prefix_wait_plan(sched->waits, sched->pending, count, sched->tokens_left);
    for (uint32_t i = 0; i < sched->unit_count; i++) {
        const struct sched_unit *unit = sched->units[i];
        if (unit->under_way > 0 && unit->prefix != NULL) {
            prefix_wait_in_flight(sched->waits, unit->prefix);
        }
    }
}

/* Nobody takes pages from the old for ever: the arrival of the oldest prompt
 * that has starved for them. Younger receives, and younger prompts that have not
 * begun, leave it theirs. */
uint64_t sched_oldest_starved(const struct sched *sched)
{
    for (uint32_t i = 0; i < sched->unit_count; i++) {
        const struct sched_unit *unit = sched->units[i];
        if (unit->kind == SCHED_CONTEXT && unit->lacks_pages &&
            unit->passes_waited >= sched->options.starved_passes) {
            return unit->arrival;
        }
    }
    return UINT64_MAX;
}

void sched_admit_prompts(struct sched *sched, uint64_t blocked_arrival)
{
    uint32_t least = sched->options.is_chunked ? sched->options.chunk_unit : 1;
    bool is_over = false;
    uint64_t starved = sched_oldest_starved(sched);
    sched->prompt_tokens = sched->tokens_left;
    if (sched->waits != NULL) {
        plan_waits(sched);
    }
    for (uint32_t i = 0; i < sched->ranked_count; i++) {
        struct sched_unit *unit = sched->ranked[i].unit;
        if (unit->touched_pass == sched->pass) {
            continue; /* gave way above */
        }
        uint32_t rest = unit->target - unit->position;
        bool has_tokens = sched->tokens_left >= (rest < least ? rest : least);
        is_over |= sched->requests_left == 0 || !has_tokens;
        if (is_deferred(sched, unit)) {
            continue; /* counted even when no tokens are left for it */
        }
        bool is_first = !unit->is_started;
        bool may_start =
            unit->arrival < blocked_arrival && unit->arrival <= starved;
        bool may_try = !is_over && (!is_first || may_start);
        uint32_t paused = sched->plan.paused_count;
        enum admit answer = may_try ? admit(sched, unit) : ADMIT_SKIP;
        /* Who does not fit yet holds back those that have not begun; those under
         * way go on, and give back what it waits for. */
        bool is_held_back = is_first && sched->plan.paused_count == paused;
        if (answer == ADMIT_STOP && is_held_back) {
            blocked_arrival = 0;
        } else {
            is_over |= answer == ADMIT_STOP;
        }
        unit->passes_waited += answer != ADMIT_DONE;
    }
}
