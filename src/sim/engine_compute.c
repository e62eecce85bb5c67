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

static enum engine_plan_state await(struct sim_world *world)
{
    enum engine_plan_state state = engine_core_plan_state(world->core);
    while (state == ENGINE_PLAN_WAITS) {
        if (!sim_copies_end_one(world)) {
            sim_fail(world, "the batch waits for copies, and none is left");
            return state;
        }
        state = engine_core_plan_state(world->core);
    }
    return state;
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

static void sample(struct sim_world *world, const struct engine_plan *plan)
{
    uint32_t vocab = world->core_options.vocab_size;
    for (uint32_t i = 0; i < plan->job_count; i++) {
        const struct engine_job *job = &plan->jobs[i];
        float *row = world->logits + (size_t)job->row * vocab;
        if (job->is_score) {
            sampler_score(world->sampler, row, job->target,
                          job->input.logprob_count, &world->results[i]);
            continue;
        }
        struct sampler_input input = job->input;
        memcpy(world->scratch, row, vocab * sizeof(float));
        input.logits = world->scratch;
        sampler_run(world->sampler, job->options, &input, &world->results[i]);
    }
}

static void give_up(struct sim_world *world, const struct engine_plan *plan,
                    const char *why)
{
    visit_plan(world, plan, poison);
    sim_say(world, "abort %s", why);
    world->summary.faults++;
    engine_core_abort(world->core);
    sim_check_core(world, "abort");
}

/* The engine answers for those of a pass that failed. */
static void fail(struct sim_world *world, const struct engine_plan *plan)
{
    visit_plan(world, plan, poison);
    sim_say(world, "forward fails");
    world->summary.faults++;
    for (uint32_t i = 0; i < world->request_count; i++) {
        world->requests[i].may_fail = true;
    }
    engine_core_fail(world->core, world->now_ns, ERR_INTERNAL);
    sim_check_core(world, "fail");
}

void sim_compute(struct sim_world *world, const struct engine_plan *plan)
{
    struct model_batch batch = {.runs = plan->runs,
                                .run_count = plan->run_count};
    enum engine_plan_state state = await(world);
    if (state == ENGINE_PLAN_LOST) {
        sim_copies_drain(world); /* what is given up is written all over */
        give_up(world, plan, "a copy failed");
        return;
    }
    visit_plan(world, plan, check_quiet);
    if (sim_has_failed(world)) {
        return;
    }
    visit_plan(world, plan, poison);
    CHECK(world->model->ops->forward(world->model, &batch, world->logits) ==
          OK);
    world->now_ns += 1000000 + (uint64_t)plan->row_count * 50000;
    if (!world->is_quiet &&
        sim_chance(&world->world_rng, world->hostility.abort)) {
        give_up(world, plan, "as asked");
    } else if (!world->is_quiet &&
               sim_chance(&world->world_rng, world->hostility.fail)) {
        fail(world, plan);
    } else {
        sample(world, plan);
        engine_core_result(world->core, world->now_ns, world->results);
        sim_check_core(world, "result");
    }
}
