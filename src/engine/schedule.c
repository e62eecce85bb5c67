#include "engine/schedule.h"

#include "base/check.h"
#include "base/mem.h"
#include "engine/schedule_state.h"

enum { JAM_PASSES = 2 }; /* in which nothing is computed */

void sched_unit_init(struct sched_unit *unit, enum sched_kind kind,
                     uint64_t arrival)
{
    *unit = (struct sched_unit){
        .kind = kind, .arrival = arrival, .beam = 1, .is_ready = true};
}

struct sched_options sched_options_default(void)
{
    return (struct sched_options){
        .policy = SCHED_GUARANTEED_NO_EVICT,
        .unit_max = 1024,
        .chunk_unit = 32,
        .is_chunked = true,
        .is_shortest_first = true,
        .is_prefix_aware = true,
        .starved_passes = 64,
        .demote_factor = 8,
        .demote_passes = 4,
        .yield_passes = 4,
        .thrash_passes = 32,
        .stall_passes = 1000,
        .tokens_per_block = 32,
        .seq_tokens_max = 2048,
    };
}

static enum err check_options(const struct sched_options *options,
                              struct why *why)
{
    if (options->unit_max == 0 || options->chunk_unit == 0 ||
        options->tokens_per_block == 0 || options->seq_tokens_max == 0) {
        return why_say(why, ERR_INVALID,
                       "unit_max %u, chunk_unit %u, tokens_per_block %u and "
                       "seq_tokens_max %u must be at least 1",
                       options->unit_max, options->chunk_unit,
                       options->tokens_per_block, options->seq_tokens_max);
    }
    if (options->stall_passes < 4) {
        return why_say(why, ERR_INVALID, "stall_passes is %u, at least 4",
                       options->stall_passes);
    }
    return OK;
}

enum err sched_create(const struct sched_options *options,
                      struct prefix_wait *waits, struct why *why,
                      struct sched **sched_out)
{
    enum err err = check_options(options, why);
    if (err != OK) {
        return err;
    }
    struct sched *sched = mem_new(sizeof(*sched));
    size_t count = options->unit_max;
    sched->options = *options;
    sched->waits = waits;
    sched->predicted = (options->answer_tokens > 0 ? options->answer_tokens
                                                   : options->seq_tokens_max) *
                       SCHED_FIXED;
    struct sched_plan *plan = &sched->plan;
    plan->decodes = mem_new_array(count, sizeof(plan->decodes[0]));
    plan->chunks = mem_new_array(count, sizeof(plan->chunks[0]));
    plan->receives = mem_new_array(count, sizeof(plan->receives[0]));
    plan->suspended = mem_new_array(count, sizeof(plan->suspended[0]));
    plan->paused = mem_new_array(count, sizeof(plan->paused[0]));
    sched->taken = mem_new_array(3 * count, sizeof(sched->taken[0]));
    sched->ranked = mem_new_array(count, sizeof(sched->ranked[0]));
    sched->spare = mem_new_array(count, sizeof(sched->spare[0]));
    sched->pending = mem_new_array(count, sizeof(sched->pending[0]));
    *sched_out = sched;
    return OK;
}

void sched_destroy(struct sched *sched)
{
    if (sched == NULL) {
        return;
    }
    mem_free(sched->pending);
    mem_free(sched->spare);
    mem_free(sched->ranked);
    mem_free(sched->taken);
    mem_free(sched->plan.paused);
    mem_free(sched->plan.suspended);
    mem_free(sched->plan.receives);
    mem_free(sched->plan.chunks);
    mem_free(sched->plan.decodes);
    mem_free(sched);
}

void sched_take_note(struct sched *sched, struct sched_unit *unit,
                     enum sched_act act)
{
    CHECK(sched->taken_count < 3 * sched->options.unit_max);
    sched->taken[sched->taken_count++] =
        (struct sched_taken){.unit = unit, .act = act};
}

/* Growth beyond what was set aside is the only kind that can fail. */
bool sched_may_evict(const struct sched *sched)
{
    return sched->options.policy != SCHED_GUARANTEED_NO_EVICT;
}

static void begin(struct sched *sched, struct sched_unit *const *units,
                  uint32_t unit_count, const struct sched_budget *budget,
                  const struct sched_cache *cache)
{
    CHECK(unit_count <= sched->options.unit_max);
    struct sched_plan *plan = &sched->plan;
    *plan = (struct sched_plan){.decodes = plan->decodes,
                                .chunks = plan->chunks,
                                .receives = plan->receives,
                                .suspended = plan->suspended,
                                .paused = plan->paused};
    sched->pass++;
    sched->cache = cache;
    sched->units = units;
    sched->unit_count = unit_count;
    sched->tokens_left = budget->tokens;
    sched->requests_left = budget->requests;
    sched->suspend_end = unit_count;
    sched->pause_end = unit_count;
    sched->is_preempting_over = false;
    sched->taken_count = 0;
    sched->stats.passes++;
}

/* A sequence that was put away comes back; one put away of late may not push
 * others out for that. */
static bool try_resume(struct sched *sched, struct sched_unit *unit)
{
    if (!unit->is_suspended) {
        return true;
    }
    if (unit->touched_pass == sched->pass ||
        sched->cache->resume(sched->cache->context, unit) != OK) {
        return false;
    }
    unit->is_suspended = false;
    sched_take_note(sched, unit, SCHED_ACT_RESUME);
    return true;
}

static bool is_thrash_guarded(const struct sched *sched,
                              const struct sched_unit *unit)
{
    return unit->suspended_pass != 0 &&
           sched->pass < unit->suspended_pass + sched->options.thrash_passes;
}

enum decode { DECODE_DONE, DECODE_SKIPPED, DECODE_NO_TOKENS, DECODE_NO_PAGES };

static enum decode try_decode(struct sched *sched, uint32_t index,
                              struct sched_unit *unit)
{
    uint32_t rows = unit->beam + unit->draft;
    if (sched->requests_left == 0 || rows > sched->tokens_left) {
        return DECODE_NO_TOKENS;
    }
    if (!try_resume(sched, unit)) {
        return DECODE_SKIPPED;
    }
    uint32_t capacity = unit->position + 1 + unit->draft;
    bool may_evict = sched_may_evict(sched) && !is_thrash_guarded(sched, unit);
    if (sched->cache->grow(sched->cache->context, unit, capacity) == OK) {
        sched_take_note(sched, unit, SCHED_ACT_GROW);
    } else if (!may_evict || !sched_evict_for(sched, index, unit, capacity)) {
        return DECODE_NO_PAGES;
    }
    unit->touched_pass = sched->pass;
    sched->plan.decodes[sched->plan.decode_count++] = (struct sched_chunk){
        .unit = unit, .first = unit->position, .count = rows};
    sched->plan.token_count += rows;
    sched->tokens_left -= rows;
    sched->requests_left--;
    return DECODE_DONE;
}

/* Who lacked tokens last time goes first, then by arrival. */
static uint32_t first_decode(const struct sched *sched)
{
    uint32_t index = 0;
    while (index < sched->unit_count &&
           sched->units[index]->arrival < sched->decode_cursor) {
        index++;
    }
    return index == sched->unit_count ? 0 : index;
}

/* Puts itself away. Who does so while it may not push others out keeps the
 * pass from which that is counted: the guard ends some day. */
static void give_way(struct sched *sched, struct sched_unit *unit)
{
    uint64_t guarded_since =
        is_thrash_guarded(sched, unit) ? unit->suspended_pass : sched->pass;
    sched_suspend(sched, unit);
    unit->suspended_pass = guarded_since;
}

static void schedule_decodes(struct sched *sched)
{
    uint32_t first = first_decode(sched);
    sched->decode_cursor = 0;
    for (uint32_t i = 0; i < sched->unit_count; i++) {
        uint32_t index = (first + i) % sched->unit_count;
        struct sched_unit *unit = sched->units[index];
        if (unit->kind != SCHED_GENERATION || unit->is_in_flight ||
            unit->is_finishing || !unit->is_ready ||
            unit->touched_pass == sched->pass) {
            continue;
        }
        enum decode decode = try_decode(sched, index, unit);
        if (decode == DECODE_NO_TOKENS) {
            sched->decode_cursor = unit->arrival;
            return;
        }
        if (decode == DECODE_NO_PAGES && sched_may_evict(sched) &&
            !sched->is_preempting_over) {
            give_way(sched, unit);
        }
    }
}

static bool receive_fits(const struct sched *sched,
                         const struct sched_unit *unit, uint64_t moving_blocks)
{
    uint32_t block = sched->options.tokens_per_block;
    uint64_t window = sched->options.receive_window_tokens;
    if (window == 0 || moving_blocks == 0) {
        return true;
    }
    uint64_t need = ((uint64_t)unit->target + block - 1) / block;
    return moving_blocks + need <= (window + block - 1) / block;
}

/* In order of arrival; the arrival of the first that got nothing: who is
 * younger may not take the pages it waits for. */
static uint64_t schedule_receives(struct sched *sched,
                                  const struct sched_budget *budget)
{
    uint32_t block = sched->options.tokens_per_block;
    uint64_t moving = ((uint64_t)budget->receiving_tokens + block - 1) / block;
    uint32_t rows = budget->rows;
    uint64_t starved = 0; /* looked for when there is a receive */
    for (uint32_t i = 0; i < sched->unit_count; i++) {
        struct sched_unit *unit = sched->units[i];
        uint32_t reused = 0;
        if (unit->kind != SCHED_RECEIVE || unit->is_started ||
            !unit->is_ready) {
            continue;
        }
        starved = starved == 0 ? sched_oldest_starved(sched) : starved;
        if (rows == 0 || unit->arrival > starved ||
            !receive_fits(sched, unit, moving)) {
            return UINT64_MAX;
        }
        uint32_t reserve =
            sched_reserve_tokens(sched, unit->target, unit->growth);
        enum err err =
            sched->cache->start(sched->cache->context, unit, reserve, &reused);
        if (err == ERR_BUSY) {
            continue;
        }
        if (err != OK) {
            sched->stats.starts_failed++;
            return unit->arrival;
        }
        unit->is_started = true;
        unit->touched_pass = sched->pass;
        sched_take_note(sched, unit, SCHED_ACT_START);
        sched->plan.receives[sched->plan.receive_count++] = unit;
        sched->stats.started++;
        moving += ((uint64_t)unit->target - reused + block - 1) / block;
        rows--;
    }
    return UINT64_MAX;
}

static void undo(struct sched *sched, const struct sched_cache *cache,
                 const struct sched_taken *taken)
{
    struct sched_unit *unit = taken->unit;
    (void)sched;
    switch (taken->act) {
    case SCHED_ACT_GROW:
        cache->revert(cache->context, unit);
        return;
    case SCHED_ACT_START:
        cache->release(cache->context, unit);
        unit->is_started = false;
        return;
    case SCHED_ACT_RESUME:
        cache->suspend(cache->context, unit);
        unit->is_suspended = true;
        return;
    }
    CHECK_UNREACHABLE();
}

void sched_veto(struct sched *sched, const struct sched_cache *cache)
{
    while (sched->taken_count > 0) {
        undo(sched, cache, &sched->taken[--sched->taken_count]);
    }
    struct sched_plan *plan = &sched->plan;
    plan->decode_count = 0;
    plan->chunk_count = 0;
    plan->receive_count = 0;
    plan->token_count = 0;
}

/* No plan may be larger than its budget, whatever went wrong above. */
static void trim(struct sched *sched, const struct sched_budget *budget)
{
    struct sched_plan *plan = &sched->plan;
    while (plan->token_count > budget->tokens && plan->chunk_count > 0) {
        const struct sched_chunk *chunk = &plan->chunks[--plan->chunk_count];
        plan->token_count -= chunk->count;
        do {
            CHECK(sched->taken_count > 0);
            sched->taken_count--;
            undo(sched, sched->cache, &sched->taken[sched->taken_count]);
        } while (sched->taken_count > 0 &&
                 sched->taken[sched->taken_count - 1].unit == chunk->unit);
        sched->stats.trims++;
    }
    CHECK(plan->token_count <= budget->tokens);
}

/* Chunks that end no prompt come first. */
static void put_last_chunks_last(struct sched *sched)
{
    struct sched_plan *plan = &sched->plan;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        if (!plan->chunks[i].is_last) {
            struct sched_chunk chunk = plan->chunks[i];
            for (uint32_t j = i; j > kept; j--) {
                plan->chunks[j] = plan->chunks[j - 1];
            }
            plan->chunks[kept++] = chunk;
        }
    }
}

static bool has_work_in_flight(const struct sched *sched)
{
    for (uint32_t i = 0; i < sched->unit_count; i++) {
        if (sched->units[i]->is_in_flight) {
            return true;
        }
    }
    return false;
}

/* A wait is no progress; a transfer that still holds pages is a reason. */
static void watch_stall(struct sched *sched, const struct sched_budget *budget)
{
    struct sched_plan *plan = &sched->plan;
    bool has_moved = plan->decode_count + plan->chunk_count +
                         plan->receive_count + plan->suspended_count +
                         plan->paused_count >
                     0;
    if (has_moved || sched->unit_count == 0 || budget->is_transfer_pending ||
        has_work_in_flight(sched)) {
        sched->stall_count = 0;
        return;
    }
    sched->stall_count++;
    plan->is_stall_warning =
        sched->stall_count % (sched->options.stall_passes / 4) == 0;
    plan->is_stalled = sched->stall_count >= sched->options.stall_passes;
    sched->stats.stalls += plan->is_stalled;
}

/* Prompts under way may hold all pages between them, each too few to go on, and
 * nobody decodes who would make them give way: the newest goes back. */
static void break_jam(struct sched *sched, const struct sched_budget *budget)
{
    const struct sched_plan *plan = &sched->plan;
    bool is_idle =
        plan->decode_count + plan->chunk_count + plan->receive_count == 0;
    bool may_be_jam = is_idle && sched->unit_count > 0 &&
                      (!budget->is_transfer_pending || budget->is_jam_real);
    sched->idle_passes = may_be_jam ? sched->idle_passes + 1 : 0;
    if (sched_may_evict(sched) && sched->idle_passes > JAM_PASSES &&
        sched_pause_newest(sched, 0)) {
        sched->idle_passes = 0;
    }
}

const struct sched_plan *sched_pass(struct sched *sched,
                                    struct sched_unit *const *units,
                                    uint32_t unit_count,
                                    const struct sched_budget *budget,
                                    const struct sched_cache *cache)
{
    begin(sched, units, unit_count, budget, cache);
    if (unit_count > 0) {
        schedule_decodes(sched);
    }
    uint64_t blocked = schedule_receives(sched, budget);
    sched_order_prompts(sched);
    sched_admit_prompts(sched, sched_is_overcommitted(sched) ? 0 : blocked);
    break_jam(sched, budget);
    trim(sched, budget);
    put_last_chunks_last(sched);
    watch_stall(sched, budget);
    sched_watch_overcommit(sched);
    return &sched->plan;
}

struct sched_stats sched_stats(const struct sched *sched)
{
    struct sched_stats stats = sched->stats;
    stats.stall_count = sched->stall_count;
    stats.predicted_length = sched->predicted / SCHED_FIXED;
    return stats;
}
