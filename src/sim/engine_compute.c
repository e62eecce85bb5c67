#include <string.h>

#include "base/check.h"
#include "kv/life.h"
#include "sim/engine_world.h"

/* A page that a run sees or writes. */
struct use {
    uint32_t life, block;
    kv_page_id page;
    uint32_t first, end; /* tokens of it that are written; equal: none */
};

/* What the last `run` writes to a block, in tokens of the block. */
static struct use use_of(const struct sim_world *world,
                         const struct model_run *run, uint32_t life,
                         uint32_t block)
{
    uint32_t size = world->core_options.tokens_per_block;
    uint32_t start = block * size;
    uint32_t end = run->position + run->token_count;
    struct use use = {
        .life = life, .block = block, .page = run->pages[life][block]};
    if (end > start && run->position < start + size) {
        use.first = run->position > start ? run->position - start : 0;
        use.end = end < start + size ? end - start : size;
    }
    return use;
}

/* Calls `visit` for each page that the run has. */
static void visit_run(struct sim_world *world, const struct model_run *run,
                      void (*visit)(struct sim_world *world,
                                    const struct use *use))
{
    uint32_t blocks = kv_blocks_of(run->position + run->token_count,
                                   world->core_options.tokens_per_block);
    for (uint32_t life = 0; life < world->core_options.life_count; life++) {
        for (uint32_t block = 0; block < blocks; block++) {
            struct use use = use_of(world, run, life, block);
            if (use.page != KV_PAGE_NONE) {
                visit(world, &use);
            }
        }
    }
}

static void visit_plan(struct sim_world *world, const struct engine_plan *plan,
                       void (*visit)(struct sim_world *world,
                                     const struct use *use))
{
    for (uint32_t i = 0; i < plan->run_count; i++) {
        visit_run(world, &plan->runs[i], visit);
    }
}

/* The core says when its pages may be used; the copies under way are the
 * judges. */
static void check_quiet(struct sim_world *world, const struct use *use)
{
    uint32_t group = world->core_options.group_of[use->life];
    if (sim_page_is_busy(world, group, use->page, use->first < use->end)) {
        sim_fail(world, "page %d of life %u is used, and a copy is under way",
                 use->page, use->life);
    }
}

/* What lies behind the first new token was never written for this sequence:
 * whoever sees it sees garbage. The pass will write what it has to. */
static void poison(struct sim_world *world, const struct use *use)
{
    if (use->first < use->end) {
        sim_page_poison(world, use->life, use->page, use->first,
                        world->core_options.tokens_per_block);
    }
}

static void sample(struct sim_world *world, struct sim_flight *flight)
{
    uint32_t vocab = world->core_options.vocab_size;
    for (uint32_t i = 0; i < flight->plan->job_count; i++) {
        const struct engine_job *job = &flight->plan->jobs[i];
        float *row = world->logits + (size_t)job->row * vocab;
        if (job->is_score) {
            sampler_score(world->sampler, row, job->target,
                          job->input.logprob_count, &flight->results[i]);
            continue;
        }
        struct sampler_input input = job->input;
        memcpy(world->scratch, row, vocab * sizeof(float));
        input.logits = world->scratch;
        sampler_run(world->sampler, job->options, &input, &flight->results[i]);
    }
}

/* Whenever it is: copies and transfers that were begun since the batch was
 * planned have had their effect. */
void sim_compute(struct sim_world *world, struct sim_flight *flight,
                 const struct sim_flight *before)
{
    const struct engine_plan *plan = flight->plan;
    struct model_batch batch = {.runs = plan->runs,
                                .run_count = plan->run_count};
    visit_plan(world, plan, check_quiet);
    if (sim_has_failed(world)) {
        return;
    }
    engine_plan_feed(plan, before->results);
    visit_plan(world, plan, poison);
    CHECK(world->model->ops->forward(world->model, &batch, world->logits) ==
          OK);
    sample(world, flight);
    flight->is_computed = true;
}

void sim_spoil(struct sim_world *world, const struct engine_plan *plan)
{
    visit_plan(world, plan, poison);
}
