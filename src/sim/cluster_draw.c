#include <string.h>

#include "sim/cluster_world.h"

static uint64_t draw_ms(struct rng *rng, uint32_t low, uint32_t high)
{
    return sim_range(rng, low, high) * CLUSTER_MS;
}

static void draw_lengths(struct cluster *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    core->tokens_per_block = 2u << sim_range(rng, 0, 2);
    bool is_long = sim_chance(rng, 400);
    world->prompt_max =
        is_long ? sim_range(rng, 40, 90) : sim_range(rng, 8, 40);
    world->output_max = sim_range(rng, 2, 14);
    world->stem_count = sim_range(rng, 1, 6);
    world->stem_tokens = sim_range(rng, 2, world->prompt_max);
    core->max_seq = world->prompt_max + world->output_max + 4;
    world->request_max = sim_range(rng, 20, CLUSTER_REQUEST_MAX);
    world->arrival_ns_max = draw_ms(rng, 5, 120);
}

/* Prompts in many chunks, in few, in one. */
static void draw_chunks(struct cluster *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    core->chunk_unit = 1u << sim_range(rng, 0, 2);
    core->is_chunked = true;
    core->row_count_max = core->max_batch + core->chunk_unit +
                          sim_range(rng, 0, world->prompt_max);
    if (sim_chance(rng, 768)) {
        uint32_t most = 2 * core->tokens_per_block;
        core->chunk_tokens =
            sim_range(rng, core->chunk_unit,
                      most < core->row_count_max ? most : core->row_count_max);
    }
    world->pass_ns = draw_ms(rng, 1, sim_chance(rng, 512) ? 2 : 20);
}

static void draw_engine(struct cluster *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    core->max_batch = sim_range(rng, 2, 6);
    sim_draw_lives(&world->core_options, rng, 128);
    draw_chunks(world, rng);
    core->score_row_max = 8;
    core->turn_ns_max = draw_ms(rng, 5, 50);
    core->queue_limit = sim_range(rng, 4, 24);
    core->vocab_size = CLUSTER_VOCABULARY;
    core->policy = sim_chance(rng, 512) ? SCHED_MAX_UTILIZATION
                                        : SCHED_GUARANTEED_NO_EVICT;
    core->enable_prefix_waits = sim_chance(rng, 512);
    core->enable_block_reuse = !sim_chance(rng, 128);
    core->enable_partial_reuse = sim_chance(rng, 512);
    core->is_mixed = true;
    core->session_max = sim_range(rng, 1, 8);
    core->kv_transfer_timeout_ns = draw_ms(rng, 100, 4000);
    if (world->options.without_faults) {
        /* Nobody is refused, nobody waits too long. */
        core->queue_limit = CLUSTER_REQUEST_MAX;
        core->kv_transfer_timeout_ns = draw_ms(rng, 60000, 60000);
    }
    for (uint32_t i = 0; i < sizeof(core->secret); i++) {
        core->secret[i] = (uint8_t)rng_below(rng, 256);
    }
}

/* From hardly more than the longest request takes to more than all take (T80). */
static void draw_workers(struct cluster *world, struct rng *rng)
{
    const struct engine_core_options *core = &world->core_options;
    uint32_t longest =
        (core->max_seq + core->tokens_per_block - 1) / core->tokens_per_block;
    world->context_count = sim_range(rng, 1, 3);
    /* A sender keeps as many offers as two receivers have (transfer.h). */
    world->generation_count =
        sim_range(rng, 1, world->options.without_faults ? 2 : 3);
    world->worker_count = world->context_count + world->generation_count;
    bool is_roomy = world->options.without_faults || sim_chance(rng, 256);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        for (uint32_t k = 0; k < core->group_count; k++) {
            uint32_t lives = core->group_count == 1 ? core->life_count : 1;
            uint32_t extra =
                is_roomy ? 8 * longest : sim_range(rng, 0, longest);
            world->page_counts[i][k] = lives * (longest + 2 + extra);
        }
    }
    world->grace_ns = draw_ms(rng, 50, 2000);
    world->heartbeat_ns = draw_ms(rng, 20, 300);
    world->advert_ttl_ns = draw_ms(rng, 500, 4000);
    world->http_ns_max = draw_ms(rng, 1, 20);
    world->keeps_peers = !sim_chance(rng, 300);
}

/* Where nothing goes wrong nothing fails. With both styles at once and few
 * sessions it could: of two workers that wait for each other's sessions one
 * gives way (engine/give_way). */
static void draw_styles(struct cluster *world, struct rng *rng)
{
    world->generation_first = sim_range(rng, 300, 1024);
    if (!world->options.without_faults) {
        return;
    }
    if (sim_chance(rng, 512)) {
        world->core_options.session_max = CLUSTER_SESSION_MAX;
    } else {
        world->generation_first = sim_chance(rng, 768) ? 1024 : 0;
    }
}

/* One seed in eight has a sound backend, one in eight sound hosts, so that one
 * kind of fault does not hide what another shows. */
static void draw_hostility(struct cluster *world, struct rng *rng)
{
    struct cluster_hostility *bad = &world->hostility;
    bad->write_ns_max = draw_ms(rng, 1, sim_chance(rng, 512) ? 2 : 30);
    if (world->options.without_faults) {
        return;
    }
    bool has_bad_hosts = !sim_chance(rng, 128);
    bool has_bad_backend = !sim_chance(rng, 128);
    bad->fault = has_bad_hosts ? sim_range(rng, 200, 1000) : 0;
    bad->fault_ns_max = draw_ms(rng, 20, 400);
    for (uint32_t i = 0; i < CLUSTER_FAULT_KIND_MAX; i++) {
        bad->weights[i] = sim_chance(rng, 640) ? sim_range(rng, 1, 8) : 0;
    }
    bad->cancel = sim_range(rng, 0, 200);
    bad->deadline = sim_range(rng, 0, 300);
    bad->abort = sim_chance(rng, 512) ? sim_range(rng, 1, 60) : 0;
    if (has_bad_backend) {
        bad->stop = sim_range(rng, 0, 60);
        bad->doubt = sim_chance(rng, 512) ? sim_range(rng, 0, 30) : 0;
        bad->hang = sim_range(rng, 0, 60);
        bad->flip = sim_range(rng, 0, 60);
    }
}

static struct io_sim_options draw_io(struct rng *rng, struct rng own)
{
    struct io_sim_options options = {.rng = own, .start_ns = 1000000000};
    options.latency_ns_min = sim_range(rng, 1, 100) * UINT64_C(1000);
    options.latency_ns_max =
        options.latency_ns_min + sim_range(rng, 0, 5000) * UINT64_C(1000);
    options.turn_ns_max = sim_range(rng, 1, 200) * UINT64_C(1000);
    options.buffer_size =
        sim_chance(rng, 256) ? sim_range(rng, 64, 4096) : 65536;
    options.part_per_1024 = sim_chance(rng, 512) ? sim_range(rng, 0, 400) : 0;
    return options;
}

/* Of a story: as even as can be. */
static struct io_sim_options even_io(struct rng own)
{
    return (struct io_sim_options){.rng = own,
                                   .start_ns = 1000000000,
                                   .latency_ns_min = 100000,
                                   .latency_ns_max = 100000,
                                   .turn_ns_max = 1,
                                   .buffer_size = 65536};
}

static void draw_all(struct cluster *world, struct rng *rng)
{
    draw_lengths(world, rng);
    draw_engine(world, rng);
    draw_workers(world, rng);
    draw_styles(world, rng);
    draw_hostility(world, rng);
}

/* Each host counts from its own start, up to a fortnight ago (transfer.md T90). */
static void skew_clocks(struct cluster *world)
{
    struct rng rng = rng_from_seed(world->options.skew_seed);
    for (uint32_t i = 1; i < IO_SIM_HOST_MAX; i++) {
        uint64_t skew_ns = rng_below(&rng, 1200000000000000u);
        io_sim_skew(world->io, i, world->options.skew_seed == 0 ? 0 : skew_ns);
    }
}

void cluster_draw(struct cluster *world)
{
    struct rng root = rng_from_seed(world->options.seed);
    struct rng rng = rng_child(&root, 1);
    world->load_rng = rng_child(&root, 2);
    world->world_rng = rng_child(&root, 3);
    world->fault_rng = rng_child(&root, 4);
    world->write_rng = rng_child(&root, 5);
    struct rng io_rng = rng_child(&root, 6);
    struct io_sim_options io;
    if (world->options.story != NULL) {
        cluster_story_draw(world);
        io = even_io(io_rng);
    } else {
        draw_all(world, &rng);
        io = draw_io(&rng, io_rng);
    }
    world->io = io_sim_create(&io);
    skew_clocks(world);
    world->hash = (struct model_hash_options){
        .vocab_size = CLUSTER_VOCABULARY,
        .context_length = world->core_options.max_seq,
        .layer_count = sim_range(&rng, 1, 2),
        .tokens_per_block = world->core_options.tokens_per_block,
        .life_count = world->core_options.life_count};
    memcpy(world->hash.lives, world->core_options.lives,
           sizeof(world->hash.lives));
    world->hash.seed = rng_next(&rng);
}
