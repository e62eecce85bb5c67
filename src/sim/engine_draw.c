#include <string.h>

#include "sim/engine_world.h"

static uint32_t lives_in(const struct engine_core_options *core, uint32_t group)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->life_count; i++) {
        count += core->group_of[i] == group;
    }
    return count;
}

/* From hardly more than the longest request takes to more than all take. */
static void draw_pools(struct sim_world *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    uint32_t longest =
        (core->max_seq + core->tokens_per_block - 1) / core->tokens_per_block;
    bool is_roomy = world->options.without_faults || sim_chance(rng, 64);
    bool has_host = sim_chance(rng, 640);
    bool is_tight = sim_chance(rng, 640);
    for (uint32_t i = 0; i < core->group_count; i++) {
        uint32_t lives = lives_in(core, i);
        uint32_t extra = is_roomy
                             ? longest * core->max_batch * 4
                             : sim_range(rng, 0, is_tight ? 2 : 2 + longest);
        core->page_counts[i] = lives * (longest + 2) + extra;
        core->host_page_counts[i] =
            has_host ? sim_range(rng, 4, 2 * core->page_counts[i]) : 0;
    }
}

/* A quarter of the seeds has prompts so long that waiting for one pays. */
static void draw_lengths(struct sim_world *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    struct sim_load *load = &world->load;
    bool is_long = sim_chance(rng, 256);
    core->tokens_per_block = is_long ? 2 : 2u << sim_range(rng, 0, 2);
    load->prompt_max =
        is_long ? sim_range(rng, 160, 300) : sim_range(rng, 12, 48);
    load->output_max = is_long ? sim_range(rng, 2, 12) : sim_range(rng, 4, 64);
    core->max_seq = load->prompt_max + load->output_max + sim_range(rng, 0, 8);
    load->stem_count = sim_range(rng, 1, SIM_STEM_MAX);
    load->stem_tokens =
        is_long ? sim_range(rng, 60, 150) : sim_range(rng, 4, 24);
}

/* Who never evicts shows least: one seed in eight. */
static enum sched_policy draw_policy(struct rng *rng)
{
    if (sim_chance(rng, 128)) {
        return SCHED_GUARANTEED_NO_EVICT;
    }
    return sim_chance(rng, 300) ? SCHED_BOUNDED_OVERCOMMIT
                                : SCHED_MAX_UTILIZATION;
}

static void draw_limits(struct sim_world *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    static const uint32_t UNITS[] = {1, 2, 4, 16};
    core->max_batch = sim_range(rng, 2, 8);
    core->chunk_unit = UNITS[rng_below(rng, 4)];
    core->is_chunked = !sim_chance(rng, 200);
    core->row_count_max = core->max_batch + core->chunk_unit +
                          sim_range(rng, 0, world->load.prompt_max);
    if (!core->is_chunked) {
        /* Whole prompts only: a turn must be able to hold the longest. */
        core->row_count_max = core->max_batch + core->max_seq;
        core->chunk_tokens = core->row_count_max;
    } else if (sim_chance(rng, 640)) {
        core->chunk_tokens =
            sim_range(rng, core->chunk_unit, core->row_count_max);
    }
    core->score_row_max = sim_range(rng, core->chunk_unit, 32);
    core->turn_ns_max = (uint64_t)sim_range(rng, 2, 50) * 1000000;
    core->queue_limit = sim_range(rng, 2, 24);
    core->vocab_size = SIM_VOCABULARY;
    core->policy = draw_policy(rng);
    core->answer_tokens = sim_chance(rng, 768) ? sim_range(rng, 1, 8) : 0;
    core->is_shortest_first = sim_chance(rng, 512);
    core->enable_prefix_waits = sim_chance(rng, 768);
    core->enable_block_reuse = !sim_chance(rng, 64);
    core->enable_partial_reuse = sim_chance(rng, 640);
    core->is_mixed = sim_chance(rng, 512);
    core->kv_transfer_timeout_ns = (uint64_t)sim_range(rng, 50, 2000) * 1000000;
    for (uint32_t i = 0; i < sizeof(core->secret); i++) {
        core->secret[i] = (uint8_t)rng_below(rng, 256);
    }
}

static void draw_load(struct sim_world *world, struct rng *rng)
{
    struct sim_load *load = &world->load;
    struct engine_core_options *core = &world->core_options;
    core->session_max = sim_chance(rng, 768) ? sim_range(rng, 1, 6) : 0;
    if (core->session_max > 0) {
        load->handoff = sim_range(rng, 0, 400);
        load->receive = sim_range(rng, 0, 300);
        load->generation_first =
            sim_chance(rng, 256) ? 0 : sim_range(rng, 100, 1024);
    }
    load->choice_max = sim_chance(rng, 512) ? 1 : sim_range(rng, 2, 4);
    if (load->choice_max > core->max_batch) {
        load->choice_max = core->max_batch;
    }
    load->score = core->is_chunked && sim_chance(rng, 256) ? 150 : 0;
    load->again = sim_range(rng, 0, 300);
    load->scope_count = sim_chance(rng, 768) ? 1 : 2;
}

/* One seed in eight meets no fault at all, so that faults do not hide what goes
 * wrong without them. */
static void draw_hostility(struct sim_world *world, struct rng *rng)
{
    struct sim_hostility *bad = &world->hostility;
    bad->arrival = sim_range(rng, 200, 1000);
    bad->burst_max = sim_range(rng, 1, 6);
    bool is_calm = sim_chance(rng, 128);
    if (world->options.without_faults) {
        return;
    }
    bad->cancel = is_calm ? 20 : sim_range(rng, 10, 120);
    bad->copy_rest = is_calm ? 0 : sim_range(rng, 0, 900);
    if (is_calm) {
        return;
    }
    bad->deadline = sim_range(rng, 0, 100);
    bad->abort = sim_chance(rng, 512) ? sim_range(rng, 1, 80) : 0;
    bad->fail = sim_chance(rng, 128) ? sim_range(rng, 1, 20) : 0;
    bad->copy_fail = sim_chance(rng, 300) ? sim_range(rng, 1, 60) : 0;
    bad->transfer_fail = sim_range(rng, 0, 200);
    bad->transfer_mute = sim_range(rng, 0, 60);
    bad->aux_fail = sim_range(rng, 0, 100);
    bad->hold_events = sim_chance(rng, 512) ? sim_range(rng, 1, 300) : 0;
    bad->hold_orders = sim_chance(rng, 300) ? sim_range(rng, 1, 500) : 0;
    bad->stop = sim_chance(rng, 64) ? 20 : 0;
}

/* Apart from the rest, so that a world is the same one with and without. */
static void draw_overlap(struct sim_world *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    bool is_drawn = sim_chance(rng, 640);
    bool has_vote = sim_chance(rng, 256);
    enum sim_overlap overlap = world->options.overlap;
    core->is_overlapped =
        overlap == SIM_OVERLAP_DRAWN ? is_drawn : overlap == SIM_OVERLAP_ON;
    core->has_vote = has_vote && !world->options.without_faults;
    world->hostility.veto = sim_range(rng, 5, 150);
}

void sim_draw(struct sim_world *world)
{
    struct rng root = rng_from_seed(world->options.seed);
    struct rng rng = rng_child(&root, 1);
    world->load_rng = rng_child(&root, 2);
    world->world_rng = rng_child(&root, 3);
    world->transfer_rng = rng_child(&root, 4);
    draw_lengths(world, &rng);
    sim_draw_lives(&world->core_options, &rng, 64);
    draw_limits(world, &rng);
    draw_pools(world, &rng);
    draw_load(world, &rng);
    draw_hostility(world, &rng);
    struct rng overlap_rng = rng_child(&root, 5);
    draw_overlap(world, &overlap_rng);
    const struct engine_core_options *core = &world->core_options;
    world->hash =
        (struct model_hash_options){.vocab_size = core->vocab_size,
                                    .context_length = core->max_seq,
                                    .layer_count = sim_range(&rng, 1, 2),
                                    .tokens_per_block = core->tokens_per_block,
                                    .seed = rng_next(&rng),
                                    .life_count = core->life_count};
    memcpy(world->hash.lives, core->lives, sizeof(core->lives));
    world->core_options.enable_prefix_waits &= !world->options.without_waits;
}
