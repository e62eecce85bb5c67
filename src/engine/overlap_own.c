#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "engine/overlap_state.h"
#include "engine/state.h"

enum { TOKEN_UNKNOWN = -1 }; /* no model takes it: it must be fed */

void batch_init(const struct engine_core *core, struct batch *batch)
{
    const struct engine_core_options *options = &core->options;
    size_t count = options->max_batch;
    batch->entries = mem_new_array(count, sizeof(batch->entries[0]));
    batch->runs = mem_new_array(count, sizeof(batch->runs[0]));
    batch->jobs = mem_new_array(core->job_max, sizeof(batch->jobs[0]));
    if (!options->is_overlapped) {
        return;
    }
    size_t tables = count * options->life_count * core->block_count_max;
    batch->feeds = mem_new_array(count, sizeof(batch->feeds[0]));
    batch->tokens =
        mem_new_array(options->row_count_max, sizeof(batch->tokens[0]));
    batch->tables = mem_new_array(tables, sizeof(batch->tables[0]));
    batch->histories =
        mem_new_array(count * options->max_seq, sizeof(batch->histories[0]));
    batch->ends = mem_new_array(count * END_COUNT_MAX, sizeof(batch->ends[0]));
    batch->options = mem_new_array(count, sizeof(batch->options[0]));
    batch->biases =
        mem_new_array(count * SAMPLER_BIAS_COUNT_MAX, sizeof(batch->biases[0]));
}

void batch_finish(struct batch *batch)
{
    mem_free(batch->biases);
    mem_free(batch->options);
    mem_free(batch->ends);
    mem_free(batch->histories);
    mem_free(batch->tables);
    mem_free(batch->tokens);
    mem_free(batch->feeds);
    mem_free(batch->jobs);
    mem_free(batch->runs);
    mem_free(batch->entries);
}

static bool is_fed(const struct entry *entry)
{
    return entry->lane != NULL && entry->job_count > 0 &&
           entry->lane->pending > 0;
}

/* `tokens`: the batch's, from where the run's are put. */
static void own_tokens(struct model_run *run, bool is_unknown, int32_t *tokens)
{
    if (is_unknown) {
        CHECK(run->token_count == 1);
        tokens[0] = TOKEN_UNKNOWN;
    } else {
        memcpy(tokens, run->tokens, run->token_count * sizeof(tokens[0]));
    }
    run->tokens = tokens;
}

static void own_tables(const struct engine_core *core,
                       const struct batch *batch, uint32_t index)
{
    struct model_run *run = &batch->runs[index];
    uint32_t lives = core->options.life_count;
    uint32_t blocks = kv_blocks_of(run->position + run->token_count,
                                   core->options.tokens_per_block);
    for (uint32_t life = 0; life < lives; life++) {
        size_t at = ((size_t)index * lives + life) * core->block_count_max;
        memcpy(batch->tables + at, run->pages[life],
               blocks * sizeof(batch->tables[0]));
        run->pages[life] = batch->tables + at;
    }
}

static const struct sampler_options *own_options(
    const struct batch *batch, uint32_t index,
    const struct sampler_options *options)
{
    struct sampler_options *own = &batch->options[index];
    struct sampler_bias *biases =
        batch->biases + (size_t)index * SAMPLER_BIAS_COUNT_MAX;
    CHECK(options->bias_count <= SAMPLER_BIAS_COUNT_MAX);
    *own = *options;
    if (options->bias_count > 0) {
        memcpy(biases, options->biases,
               options->bias_count * sizeof(biases[0]));
    }
    own->biases = biases;
    return own;
}

/* Only penalties look at it (model/sampler.h). */
static bool needs_history(const struct sampler_options *options)
{
    return options->repetition_penalty != 1.0f ||
           options->presence_penalty != 0.0f ||
           options->frequency_penalty != 0.0f;
}

/* The entry's samples have one history: of one choice, or of a prompt. */
static void own_history(const struct engine_core *core,
                        const struct batch *batch, uint32_t index,
                        const struct sampler_input *input)
{
    const struct entry *entry = &batch->entries[index];
    int32_t *history = batch->histories + (size_t)index * core->options.max_seq;
    uint32_t known = input->history_count - is_fed(entry);
    memcpy(history, input->history, known * sizeof(history[0]));
}

/* They share settings and ends as well. */
static void own_jobs(const struct engine_core *core, struct batch *batch,
                     uint32_t index)
{
    const struct entry *entry = &batch->entries[index];
    struct engine_job *jobs = batch->jobs + entry->first_job;
    int32_t *history = batch->histories + (size_t)index * core->options.max_seq;
    int32_t *ends = batch->ends + (size_t)index * END_COUNT_MAX;
    if (entry->job_count == 0) {
        return;
    }
    const struct sampler_input *last = &jobs[entry->job_count - 1].input;
    const struct sampler_options *options =
        own_options(batch, index, jobs[0].options);
    bool has_history = last->history != NULL && needs_history(options);
    memcpy(ends, last->end_tokens, last->end_count * sizeof(ends[0]));
    if (has_history) {
        own_history(core, batch, index, last);
    }
    for (uint32_t i = 0; i < entry->job_count; i++) {
        jobs[i].options = options;
        jobs[i].input.end_tokens = ends;
        jobs[i].input.history =
            has_history && !jobs[i].is_score ? history : NULL;
    }
}

static uint32_t slot_before(const struct engine_core *core,
                            const struct batch *batch)
{
    uint32_t slot = (uint32_t)(batch - core->batches);
    return (slot + BATCH_DEPTH_MAX - 1) % BATCH_DEPTH_MAX;
}

static void add_feed(const struct engine_core *core, struct batch *batch,
                     uint32_t index, int32_t *token)
{
    const struct entry *entry = &batch->entries[index];
    const struct sampler_input *input = &batch->jobs[entry->first_job].input;
    int32_t *history = batch->histories + (size_t)index * core->options.max_seq;
    batch->feeds[batch->plan.feed_count++] = (struct engine_feed){
        .job = entry->lane->pending_job[slot_before(core, batch)],
        .token = token,
        .history =
            input->history == NULL ? NULL : &history[input->history_count - 1],
    };
}

void batch_own(const struct engine_core *core, struct batch *batch)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < batch->plan.run_count; i++) {
        const struct entry *entry = &batch->entries[i];
        struct model_run *run = &batch->runs[i];
        int32_t *tokens = batch->tokens + used;
        used += run->token_count;
        CHECK(used <= core->options.row_count_max);
        own_tokens(run, is_fed(entry), tokens);
        own_tables(core, batch, i);
        own_jobs(core, batch, i);
        if (is_fed(entry)) {
            add_feed(core, batch, i, tokens);
        }
    }
}

void engine_plan_feed(const struct engine_plan *plan,
                      const struct sampler_result *before)
{
    for (uint32_t i = 0; i < plan->feed_count; i++) {
        const struct engine_feed *feed = &plan->feeds[i];
        *feed->token = before[feed->job].token;
        if (feed->history != NULL) {
            *feed->history = *feed->token;
        }
    }
}
