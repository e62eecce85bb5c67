#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/cluster_world.h"

static uint32_t add_tokens(int32_t *tokens, uint32_t count, uint32_t max,
                           uint64_t key, uint32_t more)
{
    for (uint32_t i = 0; i < more && count < max; i++) {
        tokens[count++] = (int32_t)(rng_at(key, 5, i) % CLUSTER_VOCABULARY);
    }
    return count;
}

/* One of a few beginnings, cut anywhere, and an end of its own. */
static uint32_t draw_prompt(struct cluster *world, int32_t *tokens)
{
    struct rng *rng = &world->load_rng;
    uint32_t max = world->prompt_max;
    uint64_t stem = rng_below(rng, world->stem_count);
    uint32_t length = sim_chance(rng, 300)
                          ? sim_range(rng, 1, world->stem_tokens)
                          : world->stem_tokens;
    uint32_t count =
        add_tokens(tokens, 0, max, rng_at(world->hash.seed, 7, stem), length);
    uint32_t more = sim_range(rng, 0, 1 + max / 2);
    return add_tokens(tokens, count, max, rng_next(rng), more);
}

/* What the model says to this prompt alone. */
static void foresee(struct cluster *world, struct cluster_request *request)
{
    struct model_hash_walk *walk = model_hash_walk_create(
        &world->hash, request->prompt_count + request->max_new);
    request->length = request->max_new;
    for (uint32_t i = 0; i < request->prompt_count + request->max_new; i++) {
        if (i >= request->prompt_count) {
            request->tokens[i] = model_hash_walk_next(walk);
        }
        model_hash_walk_add(walk, request->tokens[i]);
    }
    model_hash_walk_destroy(walk);
}

/* A stop token taken from it: where that is first said, it ends. */
static void draw_stop(struct cluster *world, struct cluster_request *request)
{
    if (!sim_chance(&world->load_rng, 200)) {
        return;
    }
    const int32_t *answer = request->tokens + request->prompt_count;
    uint32_t at = (uint32_t)rng_below(&world->load_rng, request->max_new);
    uint32_t first = 0;
    while (answer[first] != answer[at]) {
        first++;
    }
    request->length = first + 1;
}

static struct cluster_request *add_request(struct cluster *world)
{
    CHECK(world->request_count < CLUSTER_REQUEST_MAX + CLUSTER_PROBE_COUNT);
    struct cluster_request *request = &world->requests[world->request_count];
    *request = (struct cluster_request){.index = world->request_count++,
                                        .start_ns = io_sim_now(world->io)};
    request->tokens =
        mem_new_array(world->prompt_max + world->output_max, sizeof(int32_t));
    return request;
}

static void begin(struct cluster *world, struct cluster_request *request)
{
    world->summary.requests++;
    cluster_say(world, "request %u prompt %u new %u length %u", request->index,
                request->prompt_count, request->max_new, request->length);
    cluster_front_start(world, request);
}

static void arrive(struct cluster *world)
{
    struct rng *rng = &world->load_rng;
    const struct cluster_hostility *bad = &world->hostility;
    struct cluster_request *request = add_request(world);
    uint64_t now_ns = request->start_ns;
    request->prompt_count = draw_prompt(world, request->tokens);
    request->max_new = sim_range(rng, 1, world->output_max);
    request->is_stream = sim_chance(rng, 512);
    request->is_generation_first = sim_chance(rng, world->generation_first);
    foresee(world, request);
    draw_stop(world, request);
    if (sim_chance(rng, bad->cancel)) {
        request->cancel_ns = now_ns + 1 + rng_below(rng, 400 * CLUSTER_MS);
    }
    if (sim_chance(rng, bad->deadline)) {
        request->deadline_ns = now_ns + 1 + rng_below(rng, 3000 * CLUSTER_MS);
    }
    begin(world, request);
}

void cluster_load_ask(struct cluster *world, bool is_generation_first,
                      uint32_t prompt, uint32_t prompt_count, uint32_t max_new)
{
    CHECK(prompt_count <= world->prompt_max);
    CHECK(max_new <= world->output_max);
    struct cluster_request *request = add_request(world);
    request->prompt_count =
        add_tokens(request->tokens, 0, prompt_count,
                   rng_at(world->hash.seed, 7, prompt), prompt_count);
    request->max_new = max_new;
    request->is_generation_first = is_generation_first;
    foresee(world, request);
    begin(world, request);
}

uint64_t cluster_load_ns(const struct cluster *world)
{
    bool is_over = world->request_count >= world->request_max;
    return is_over ? UINT64_MAX : world->next_arrival_ns;
}

void cluster_load_step(struct cluster *world)
{
    while (cluster_load_ns(world) <= io_sim_now(world->io)) {
        arrive(world);
        world->next_arrival_ns =
            io_sim_now(world->io) + 1 +
            rng_below(&world->load_rng, world->arrival_ns_max);
    }
}
