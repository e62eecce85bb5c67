#include "sim/cluster_world.h"

bool cluster_chance(struct rng *rng, uint32_t per_1024)
{
    return rng_below(rng, 1024) < per_1024;
}

uint32_t cluster_range(struct rng *rng, uint32_t low, uint32_t high)
{
    return low + (uint32_t)rng_below(rng, high - low + 1);
}

static uint64_t draw_ms(struct rng *rng, uint32_t low, uint32_t high)
{
    return cluster_range(rng, low, high) * CLUSTER_MS;
}

static void draw_lengths(struct cluster *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    core->tokens_per_block = 2u << cluster_range(rng, 0, 2);
    world->prompt_max = cluster_range(rng, 8, 40);
    world->output_max = cluster_range(rng, 2, 14);
    world->stem_count = cluster_range(rng, 1, 6);
    world->stem_tokens = cluster_range(rng, 2, world->prompt_max);
    core->max_seq = world->prompt_max + world->output_max + 4;
    world->request_max = cluster_range(rng, 20, CLUSTER_REQUEST_MAX);
    world->arrival_ns_max = draw_ms(rng, 5, 120);
}

static void draw_engine(struct cluster *world, struct rng *rng)
{
    struct engine_core_options *core = &world->core_options;
    core->life_count = 1;
    core->group_count = 1;
    core->max_batch = cluster_range(rng, 2, 6);
    core->chunk_unit = 1u << cluster_range(rng, 0, 2);
    core->is_chunked = true;
    core->row_count_max = core->max_batch + core->chunk_unit +
                          cluster_range(rng, 0, world->prompt_max);
    core->score_row_max = 8;
    core->turn_ns_max = draw_ms(rng, 5, 50);
    core->queue_limit = cluster_range(rng, 4, 24);
    core->vocab_size = CLUSTER_VOCABULARY;
    core->policy = cluster_chance(rng, 512) ? SCHED_MAX_UTILIZATION
                                            : SCHED_GUARANTEED_NO_EVICT;
    core->enable_prefix_waits = cluster_chance(rng, 512);
    core->enable_block_reuse = !cluster_chance(rng, 128);
    core->enable_partial_reuse = cluster_chance(rng, 512);
    core->is_mixed = true;
    core->session_max = cluster_range(rng, 1, 8);
    core->kv_transfer_timeout_ns = draw_ms(rng, 100, 4000);
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
    world->context_count = cluster_range(rng, 1, 3);
    world->generation_count = cluster_range(rng, 1, 3);
    world->worker_count = world->context_count + world->generation_count;
    bool is_roomy = world->options.without_faults || cluster_chance(rng, 256);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        uint32_t extra =
            is_roomy ? 8 * longest : cluster_range(rng, 0, longest);
        world->page_counts[i] = longest + 2 + extra;
    }
    world->grace_ns = draw_ms(rng, 50, 2000);
    world->heartbeat_ns = draw_ms(rng, 20, 300);
    world->advert_ttl_ns = draw_ms(rng, 500, 4000);
    world->http_ns_max = draw_ms(rng, 1, 20);
}

/* One seed in eight has a sound backend, one in eight sound hosts, so that one
 * kind of fault does not hide what another shows. */
static void draw_hostility(struct cluster *world, struct rng *rng)
{
    struct cluster_hostility *bad = &world->hostility;
    bad->write_ns_max = draw_ms(rng, 1, 30);
    if (world->options.without_faults) {
        return;
    }
    bool has_bad_hosts = !cluster_chance(rng, 128);
    bool has_bad_backend = !cluster_chance(rng, 128);
    bad->fault = has_bad_hosts ? cluster_range(rng, 200, 1000) : 0;
    bad->fault_ns_max = draw_ms(rng, 20, 400);
    for (uint32_t i = 0; i < CLUSTER_FAULT_KIND_MAX; i++) {
        bad->weights[i] =
            cluster_chance(rng, 640) ? cluster_range(rng, 1, 8) : 0;
    }
    bad->cancel = cluster_range(rng, 0, 200);
    bad->deadline = cluster_range(rng, 0, 300);
    bad->abort = cluster_chance(rng, 512) ? cluster_range(rng, 1, 60) : 0;
    if (has_bad_backend) {
        bad->stop = cluster_range(rng, 0, 60);
        bad->doubt = cluster_chance(rng, 512) ? cluster_range(rng, 0, 30) : 0;
        bad->hang = cluster_range(rng, 0, 60);
        bad->flip = cluster_range(rng, 0, 60);
    }
}

static struct io_sim_options draw_io(struct rng *rng, struct rng own)
{
    struct io_sim_options options = {.rng = own, .start_ns = 1000000000};
    options.latency_ns_min = cluster_range(rng, 1, 100) * UINT64_C(1000);
    options.latency_ns_max =
        options.latency_ns_min + cluster_range(rng, 0, 5000) * UINT64_C(1000);
    options.turn_ns_max = cluster_range(rng, 1, 200) * UINT64_C(1000);
    options.buffer_size =
        cluster_chance(rng, 256) ? cluster_range(rng, 64, 4096) : 65536;
    options.part_per_1024 =
        cluster_chance(rng, 512) ? cluster_range(rng, 0, 400) : 0;
    return options;
}

void cluster_draw(struct cluster *world)
{
    struct rng root = rng_from_seed(world->options.seed);
    struct rng rng = rng_child(&root, 1);
    world->load_rng = rng_child(&root, 2);
    world->world_rng = rng_child(&root, 3);
    world->fault_rng = rng_child(&root, 4);
    world->write_rng = rng_child(&root, 5);
    draw_lengths(world, &rng);
    draw_engine(world, &rng);
    draw_workers(world, &rng);
    draw_hostility(world, &rng);
    struct io_sim_options io = draw_io(&rng, rng_child(&root, 6));
    world->io = io_sim_create(&io);
    world->hash = (struct model_hash_options){
        .vocab_size = CLUSTER_VOCABULARY,
        .context_length = world->core_options.max_seq,
        .layer_count = cluster_range(&rng, 1, 2),
        .tokens_per_block = world->core_options.tokens_per_block};
    world->hash.seed = rng_next(&rng);
}
