#include "base/check.h"
#include "engine/state.h"

static struct entry *add_run(struct engine_core *core, struct item *item,
                             struct lane *lane, const struct model_run *run)
{
    struct engine_plan *plan = &core->batch->plan;
    CHECK(plan->run_count < core->options.max_batch);
    struct entry *entry = &core->batch->entries[plan->run_count];
    *entry = (struct entry){.item = item,
                            .lane = lane,
                            .token_count = run->token_count,
                            .first_job = plan->job_count};
    core->batch->runs[plan->run_count++] = *run;
    plan->row_count += run->token_count;
    plan->logit_row_count += run->logit_count;
    return entry;
}

static struct engine_job *add_job(struct engine_core *core, struct entry *entry,
                                  uint32_t row)
{
    struct engine_plan *plan = &core->batch->plan;
    CHECK(plan->job_count < core->job_max);
    struct engine_job *job = &core->batch->jobs[plan->job_count++];
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

static void set_tables(struct model_run *run, const struct engine_core *core,
                       const struct kv_seq *seq)
{
    for (uint32_t i = 0; i < core->options.life_count; i++) {
        run->pages[i] = seq->tables[i];
    }
}

static void add_decode(struct engine_core *core, const struct sched_unit *unit)
{
    struct lane *lane = unit->owner;
    uint32_t count = lane->history_count + lane->pending;
    uint32_t position = count - 1;
    CHECK(unit->position == position);
    CHECK(lane->computed + 1 == lane->history_count);
    struct model_run run = {.tokens = &lane->history[position],
                            .token_count = 1,
                            .position = position,
                            .logit_count = 1};
    set_tables(&run, core, lane->seq);
    uint32_t row = core->batch->plan.logit_row_count;
    struct entry *entry = add_run(core, lane->item, lane, &run);
    add_sample(core, entry, row, lane->choice, lane->history, count);
}

/* Tokens that a pause took: nothing is sampled, they were said before. */
static void add_replay(struct engine_core *core,
                       const struct sched_chunk *chunk)
{
    struct lane *lane = chunk->unit->owner;
    struct model_run run = {.tokens = lane->history + chunk->first,
                            .token_count = chunk->count,
                            .position = chunk->first};
    set_tables(&run, core, lane->seq);
    add_run(core, lane->item, lane, &run);
    core->batch->prefill_rows += chunk->count;
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

static void add_prefill(struct engine_core *core,
                        const struct sched_chunk *chunk)
{
    struct item *item = chunk->unit->owner;
    const struct engine_request *request = item->request;
    struct model_run run = {.tokens = request->prompt + chunk->first,
                            .token_count = chunk->count,
                            .position = chunk->first,
                            .logit_count = chunk->is_last};
    if (request->score_prompt) {
        run.logit_count = chunk->count;
    }
    set_tables(&run, core, item->seq);
    uint32_t row = core->batch->plan.logit_row_count;
    struct entry *entry = add_run(core, item, NULL, &run);
    core->batch->prefill_rows += chunk->count;
    if (request->score_prompt) {
        add_scores(core, entry, row, chunk->first);
    }
    if (chunk->is_last) {
        add_first_samples(core, entry, core->batch->plan.logit_row_count - 1);
    }
}

struct sched_budget batch_budget(const struct engine_core *core)
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
    return (struct sched_budget){.tokens = tokens,
                                 .requests = core->options.max_batch,
                                 .rows = UINT32_MAX};
}

/* Those whose token is known, of late received or resumed, go first: theirs is
 * copied, the others' is there when the batch begins (engine.md 5.3, e). */
static void add_decodes(struct engine_core *core,
                        const struct sched_plan *schedule, bool is_pending)
{
    for (uint32_t i = 0; i < schedule->decode_count; i++) {
        const struct sched_unit *unit = schedule->decodes[i].unit;
        if ((unit_lane(unit)->pending > 0) == is_pending) {
            add_decode(core, unit);
        }
    }
}

void batch_build(struct engine_core *core, const struct sched_plan *schedule)
{
    add_decodes(core, schedule, false);
    add_decodes(core, schedule, true);
    for (uint32_t i = 0; i < schedule->chunk_count; i++) {
        if (schedule->chunks[i].unit->owner_kind == UNIT_OF_LANE) {
            add_replay(core, &schedule->chunks[i]);
        } else {
            add_prefill(core, &schedule->chunks[i]);
        }
    }
}

enum engine_plan_state engine_core_plan_state(const struct engine_core *core)
{
    enum engine_plan_state state = ENGINE_PLAN_READY;
    const struct batch *batch = overlap_newest(core);
    for (uint32_t i = 0; batch != NULL && i < batch->plan.run_count; i++) {
        const struct entry *entry = &batch->entries[i];
        if (entry->item == NULL) {
            return ENGINE_PLAN_LOST; /* ended, and nobody says of its pages */
        }
        const struct kv_seq *seq =
            entry->lane != NULL ? entry->lane->seq : entry->item->seq;
        if (core->has_lost_pages && kv_seq_is_lost(core->cache, seq)) {
            return ENGINE_PLAN_LOST;
        }
        if (!kv_seq_is_ready(core->cache, seq)) {
            state = ENGINE_PLAN_WAITS;
        }
    }
    return state;
}
