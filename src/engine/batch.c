#include "base/check.h"
#include "engine/state.h"

static struct entry *add_run(struct engine_core *core, struct item *item,
                             struct lane *lane, const struct model_run *run)
{
    struct engine_plan *plan = &core->plan;
    CHECK(plan->run_count < core->options.max_batch);
    struct entry *entry = &core->entries[plan->run_count];
    *entry = (struct entry){.item = item,
                            .lane = lane,
                            .token_count = run->token_count,
                            .first_job = plan->job_count};
    core->runs[plan->run_count++] = *run;
    plan->row_count += run->token_count;
    plan->logit_row_count += run->logit_count;
    return entry;
}

static struct engine_job *add_job(struct engine_core *core, struct entry *entry,
                                  uint32_t row)
{
    struct engine_plan *plan = &core->plan;
    CHECK(plan->job_count < core->job_max);
    struct engine_job *job = &core->jobs[plan->job_count++];
    const struct item *item = entry->item;
    entry->job_count++;
    *job = (struct engine_job){
        .row = row,
        .options = &item->request->sampling,
        .input = {.vocab_size = core->options.vocab_size,
                  .prompt_count = item->request->prompt_count,
                  .end_tokens = item->ends,
                  .end_count = item->end_count,
                  .logprob_count = item->request->logprob_count},
    };
    return job;
}

static void add_sample(struct engine_core *core, struct entry *entry,
                       uint32_t row, uint32_t choice, const int32_t *history,
                       uint32_t history_count)
{
    struct engine_job *job = add_job(core, entry, row);
    const struct engine_request *request = entry->item->request;
    job->input.history = history;
    job->input.history_count = history_count;
    job->input.choice = choice;
    job->input.forbid_end =
        history_count - request->prompt_count < request->min_tokens;
}

static bool plan_events(struct engine_core *core, uint32_t count)
{
    if (item_room(core) < core->events_planned + count) {
        return false;
    }
    core->events_planned += count;
    return true;
}

/* A token and perhaps an end. */
static bool try_decode(struct engine_core *core, struct lane *lane,
                       struct engine_budget *budget)
{
    if (budget->tokens_left == 0 || !plan_events(core, 2)) {
        return false;
    }
    CHECK(engine_budget_take_decode(budget, 0));
    uint32_t position = lane->history_count - 1;
    CHECK(lane->seq->length == position);
    CHECK(kv_cache_resize(core->cache, lane->seq, position + 1) == OK);
    struct model_run run = {.tokens = &lane->history[position],
                            .token_count = 1,
                            .position = position,
                            .pages = lane->seq->pages,
                            .logit_count = 1};
    uint32_t row = core->plan.logit_row_count;
    struct entry *entry = add_run(core, lane->item, lane, &run);
    add_sample(core, entry, row, lane->choice, lane->history,
               lane->history_count);
    return true;
}

/* Whoever was left out for lack of tokens goes first next time. */
static void add_decodes(struct engine_core *core, struct engine_budget *budget)
{
    uint32_t count = core->options.max_batch;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (core->lane_cursor + i) % count;
        struct lane *lane = &core->lanes[index];
        if (lane->item != NULL && !try_decode(core, lane, budget)) {
            core->lane_cursor = index;
            return;
        }
    }
}

static void add_scores(struct engine_core *core, struct entry *entry,
                       uint32_t row, uint32_t position)
{
    const struct engine_request *request = entry->item->request;
    for (uint32_t i = 0; i < entry->token_count; i++) {
        if (position + i + 1 < request->prompt_count) {
            struct engine_job *job = add_job(core, entry, row + i);
            job->is_score = true;
            job->target = request->prompt[position + i + 1];
        }
    }
}

static void add_first_samples(struct engine_core *core, struct entry *entry,
                              uint32_t row)
{
    const struct item *item = entry->item;
    for (uint32_t i = 0; i < ENGINE_CHOICE_COUNT_MAX; i++) {
        if (item->max_new > 0 && (item->open_choices & 1u << i)) {
            add_sample(core, entry, row, i, item->request->prompt,
                       item->request->prompt_count);
        }
    }
}

/* Tokens of the next chunk; 0: not this turn. */
static uint32_t take_chunk(struct engine_core *core, const struct item *item,
                           struct engine_budget *budget, uint32_t *score_rows)
{
    const struct engine_request *request = item->request;
    bool is_scored = request->score_prompt;
    uint32_t choices = (uint32_t)__builtin_popcount(item->open_choices);
    if (!plan_events(core, 2 * choices + (is_scored ? *score_rows : 0))) {
        return 0;
    }
    uint32_t remaining = request->prompt_count - item->seq->length;
    uint32_t chunk = engine_budget_take_chunk(
        budget, remaining, 0, is_scored ? *score_rows : UINT32_MAX);
    *score_rows -= is_scored ? chunk : 0;
    return chunk;
}

static void add_prefill(struct engine_core *core, struct item *item,
                        struct engine_budget *budget, uint32_t *score_rows)
{
    const struct engine_request *request = item->request;
    uint32_t position = item->seq->length;
    uint32_t chunk = take_chunk(core, item, budget, score_rows);
    if (chunk == 0) {
        return;
    }
    uint32_t end = position + chunk;
    bool is_last = end == request->prompt_count;
    CHECK(kv_cache_resize(core->cache, item->seq, end) == OK);
    struct model_run run = {.tokens = request->prompt + position,
                            .token_count = chunk,
                            .position = position,
                            .pages = item->seq->pages,
                            .logit_count = is_last};
    if (request->score_prompt) {
        run.logit_count = chunk;
    }
    uint32_t row = core->plan.logit_row_count;
    struct entry *entry = add_run(core, item, NULL, &run);
    core->prefill_rows += chunk;
    if (request->score_prompt) {
        add_scores(core, entry, row, position);
    }
    if (is_last) {
        add_first_samples(core, entry, core->plan.logit_row_count - 1);
    }
}

static struct engine_budget budget_of(const struct engine_core *core)
{
    uint32_t tokens = core->pace.tokens;
    uint32_t decodes = 0;
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        decodes += core->lanes[i].item != NULL;
    }
    /* An adaptive budget that decodes eat up must not starve the prompts. */
    uint32_t least = decodes + core->options.chunk_unit;
    if (!core->pace.is_fixed && tokens < least) {
        tokens = least;
    }
    if (tokens > core->options.row_count_max) {
        tokens = core->options.row_count_max;
    }
    return (struct engine_budget){.tokens_left = tokens,
                                  .unit = core->options.chunk_unit,
                                  .is_chunked = core->options.is_chunked};
}

/* Generation first: it is small, fixed, and must not wait for prompts; then
 * prompts in the order they were admitted (engine.md 3.2). */
void batch_build(struct engine_core *core, uint64_t now_ns)
{
    core->plan = (struct engine_plan){.runs = core->runs, .jobs = core->jobs};
    core->events_planned = 0;
    core->prefill_rows = 0;
    core->plan_ns = now_ns;
    struct engine_budget budget = budget_of(core);
    core->stats.chunk_budget = budget.tokens_left;
    uint32_t score_rows = core->options.score_row_max;
    add_decodes(core, &budget);
    for (uint32_t i = 0; i < core->prefill_count; i++) {
        add_prefill(core, core->prefills[i], &budget, &score_rows);
    }
    core->has_plan = core->plan.run_count > 0;
}
