#include "sim/engine.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/engine_world.h"

static void say_options(struct sim_world *world)
{
    const struct engine_core_options *core = &world->core_options;
    sim_say(world,
            "lives %u groups %u block %u batch %u seq %u rows %u chunk %u/%u "
            "%s policy %d",
            core->life_count, core->group_count, core->tokens_per_block,
            core->max_batch, core->max_seq, core->row_count_max,
            core->chunk_tokens, core->chunk_unit,
            core->is_chunked ? "chunked" : "whole", core->policy);
    sim_say(world,
            "pages %u %u %u host %u %u %u sessions %u queue %u shortest %d "
            "waits %d reuse %d partial %d mixed %d overlap %d vote %d",
            core->page_counts[0], core->page_counts[1], core->page_counts[2],
            core->host_page_counts[0], core->host_page_counts[1],
            core->host_page_counts[2], core->session_max, core->queue_limit,
            core->is_shortest_first, core->enable_prefix_waits,
            core->enable_block_reuse, core->enable_partial_reuse,
            core->is_mixed, core->is_overlapped, core->has_vote);
}

/* What a pool lacks for the longest sequence is given to it: the limit is a
 * matter of windows and sinks, and the core knows it best. */
static void create_core(struct sim_world *world)
{
    struct engine_core_options *core = &world->core_options;
    struct why why;
    while (engine_core_create(core, &why, &world->core) != OK) {
        for (uint32_t i = 0; i < core->group_count; i++) {
            core->page_counts[i]++;
            CHECK(core->page_counts[i] < 100000);
        }
    }
}

static struct sim_world *create(const struct sim_engine_options *options)
{
    struct sim_world *world = mem_new(sizeof(*world));
    world->options = *options;
    sim_trace_init(&world->trace, options->on_line, options->context);
    world->summary.seed = options->seed;
    world->now_ns = 1000000;
    sim_draw(world);
    create_core(world);
    say_options(world);
    sim_pages_create(world);
    uint32_t vocab = world->core_options.vocab_size;
    world->sampler = sampler_create(vocab);
    world->logits = mem_new_array(engine_core_logit_row_max(world->core),
                                  vocab * sizeof(float));
    world->scratch = mem_new_array(vocab, sizeof(float));
    for (uint32_t i = 0; i < SIM_FLIGHT_MAX; i++) {
        world->flights[i].results =
            mem_new_array(engine_core_job_max(world->core),
                          sizeof(world->flights[i].results[0]));
    }
    return world;
}

static void destroy(struct sim_world *world)
{
    engine_core_destroy(world->core);
    sim_transfers_destroy(world);
    sim_pages_destroy(world);
    sampler_destroy(world->sampler);
    for (uint32_t i = 0; i < world->request_count; i++) {
        mem_free(world->requests[i].tokens);
    }
    mem_free(world->logits);
    mem_free(world->scratch);
    for (uint32_t i = 0; i < SIM_FLIGHT_MAX; i++) {
        mem_free(world->flights[i].results);
    }
    mem_free(world);
}

/* Nothing to compute: time goes on to where something happens. */
static void rest(struct sim_world *world)
{
    uint64_t next_ns = sim_transfers_next_ns(world);
    uint64_t wake_ns = engine_core_wake_ns(world->core);
    next_ns = wake_ns < next_ns ? wake_ns : next_ns;
    uint64_t least_ns = world->now_ns + 1000000;
    bool is_far = next_ns != UINT64_MAX && next_ns > least_ns;
    world->now_ns = is_far && world->is_quiet ? next_ns : least_ns;
}

/* Copies first, then transfers, then answers, as the shell does it. */
static void take_all(struct sim_world *world)
{
    sim_copies_take(world);
    if (world->is_quiet ||
        !sim_chance(&world->world_rng, world->hostility.hold_orders)) {
        sim_transfers_take(world);
    }
    if (world->is_quiet ||
        !sim_chance(&world->world_rng, world->hostility.hold_events)) {
        sim_events_take(world);
    }
}

/* Another rank may say no (engine.md 5.3, d): what was planned is given back, and
 * the batch under way is left so for once. */
static bool is_vetoed(struct sim_world *world)
{
    if (!world->core_options.has_vote) {
        return false;
    }
    bool is_go = world->is_quiet ||
                 !sim_chance(&world->world_rng, world->hostility.veto);
    engine_core_vote(world->core, world->now_ns, is_go);
    sim_check_core(world, "vote");
    if (!is_go) {
        sim_say(world, "veto");
        world->summary.vetoes++;
    }
    return !is_go;
}

/* What was planned begins, what was under way before it ends. */
static void complete(struct sim_world *world, const struct engine_plan *plan)
{
    bool has_runs = plan->run_count > 0;
    bool is_no = is_vetoed(world);
    world->is_delayed = is_no && has_runs && !world->is_delayed;
    take_all(world);
    bool is_launched = has_runs && !is_no && sim_flight_launch(world, plan);
    uint32_t kept = is_launched && world->core_options.is_overlapped;
    bool has_moved = is_launched;
    while (!sim_has_failed(world) && !world->is_delayed &&
           world->flight_count > kept) {
        sim_flight_settle(world);
        has_moved = true;
    }
    if (has_moved || (has_runs && !is_no)) {
        take_all(world);
    } else if (!sim_has_failed(world)) {
        rest(world);
    }
}

static void sum_shares(struct sim_world *world, const struct engine_plan *plan)
{
    world->run_sum += plan->run_count;
    for (uint32_t i = 0; i < world->request_count; i++) {
        world->open_sum +=
            (uint64_t)__builtin_popcount(world->requests[i].open);
    }
}

static void step(struct sim_world *world)
{
    world->pass++;
    sim_load_step(world);
    sim_transfers_step(world);
    sim_copies_step(world);
    const struct engine_plan *plan =
        engine_core_plan(world->core, world->now_ns);
    sim_say(world, "pass %llu at %llu: runs %u rows %u jobs %u",
            (unsigned long long)world->pass, (unsigned long long)world->now_ns,
            plan->run_count, plan->row_count, plan->job_count);
    sim_check_core(world, "plan");
    sim_check_plan(world, plan);
    sum_shares(world, plan);
    if (sim_has_failed(world)) {
        return;
    }
    complete(world, plan);
}

static uint32_t load_passes(const struct sim_world *world)
{
    return world->options.pass_count > 0 ? world->options.pass_count
                                         : SIM_ENGINE_PASSES;
}

static void run(struct sim_world *world)
{
    while (!sim_has_failed(world) && world->pass < load_passes(world)) {
        step(world);
    }
    world->is_quiet = true;
    uint64_t last = world->pass + SIM_QUIET_PASSES;
    while (!sim_has_failed(world) && world->pass < last &&
           !sim_is_over(world)) {
        step(world);
    }
    /* What ended last is let go of at the heads of two turns. */
    for (int i = 0; i < 3 && !sim_has_failed(world); i++) {
        step(world);
    }
    if (!sim_has_failed(world)) {
        sim_copies_drain(world);
        sim_check_core(world, "the last copies");
        sim_check_end(world);
    }
}

static void sum_up(struct sim_world *world)
{
    struct sim_engine_summary *summary = &world->summary;
    struct engine_counts counts;
    struct engine_stats stats;
    engine_core_counts(world->core, &counts);
    engine_core_stats(world->core, &stats);
    summary->passes = world->pass;
    summary->prefill_tokens = stats.prefill_tokens + stats.replayed_tokens;
    summary->cached_tokens = stats.cached_tokens;
    summary->evictions = stats.evicted_pages;
    summary->suspensions = stats.suspended_requests;
    summary->pauses = stats.paused_requests;
    summary->waits = counts.sched.waits;
    summary->is_overlapped = world->core_options.is_overlapped;
    sim_say(world, "evicted %llu suspended %llu paused %llu waits %llu",
            (unsigned long long)summary->evictions,
            (unsigned long long)summary->suspensions,
            (unsigned long long)summary->pauses,
            (unsigned long long)summary->waits);
    summary->trace_hash = world->trace.hash;
}

static void check_policy(struct sim_world *world)
{
    const struct sim_engine_summary *summary = &world->summary;
    if (world->core_options.policy == SCHED_GUARANTEED_NO_EVICT &&
        summary->suspensions + summary->pauses > 0) {
        sim_fail(world, "%llu suspended and %llu paused without eviction",
                 (unsigned long long)summary->suspensions,
                 (unsigned long long)summary->pauses);
    }
}

bool sim_engine_run(const struct sim_engine_options *options,
                    struct sim_engine_summary *summary_out)
{
    struct sim_world *world = create(options);
    run(world);
    sum_up(world);
    check_policy(world);
    bool is_good = !sim_has_failed(world);
    if (!is_good && options->on_tail != NULL) {
        sim_trace_visit_tail(&world->trace, options->on_tail, options->context);
    }
    *summary_out = world->summary;
    destroy(world);
    return is_good;
}

bool sim_engine_counts(const struct sim_engine_summary *summary)
{
    return summary->evictions > 0 &&
           summary->suspensions + summary->pauses > 0 && summary->cancels > 0;
}
