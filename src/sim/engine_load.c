#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/engine_world.h"

/* ---- prompts: a tree whose first branches are taken most ---- */

static uint32_t add_tokens(int32_t *tokens, uint32_t count, uint32_t max,
                           uint64_t key, uint32_t more)
{
    for (uint32_t i = 0; i < more && count < max; i++) {
        tokens[count++] = (int32_t)(rng_at(key, 5, i) % SIM_VOCABULARY);
    }
    return count;
}

/* Small numbers are more likely: the least of a few draws. */
static uint32_t draw_popular(struct rng *rng, uint32_t count)
{
    uint32_t least = count - 1;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t drawn = (uint32_t)rng_below(rng, count);
        least = drawn < least ? drawn : least;
    }
    return least;
}

/* A way down the tree, cut anywhere, and an end of its own. */
static uint32_t draw_stem(struct sim_world *world, int32_t *tokens)
{
    struct rng *rng = &world->load_rng;
    const struct sim_load *load = &world->load;
    uint32_t max = load->prompt_max;
    uint32_t count = 0;
    uint64_t key = world->hash.seed;
    do {
        uint32_t node = draw_popular(rng, load->stem_count);
        key = rng_at(key, 7, node);
        uint32_t length = sim_chance(rng, 200)
                              ? sim_range(rng, 1, load->stem_tokens)
                              : load->stem_tokens;
        count = add_tokens(tokens, count, max, key, length);
    } while (count < max && sim_chance(rng, 500));
    if (!sim_chance(rng, 150)) {
        uint32_t own = sim_range(rng, 1, 1 + load->prompt_max / 4);
        count = add_tokens(tokens, count, max, rng_next(rng), own);
    }
    return count;
}

/* What somebody asked before, the answer, and a new question. */
static uint32_t draw_again(struct sim_world *world, int32_t *tokens)
{
    struct rng *rng = &world->load_rng;
    const struct sim_request *old =
        &world->requests[rng_below(rng, world->request_count)];
    uint32_t count = old->prompt_count + old->length;
    if (count > world->load.prompt_max) {
        count = world->load.prompt_max;
    }
    memcpy(tokens, old->tokens, count * sizeof(tokens[0]));
    uint64_t key = rng_next(rng);
    uint32_t more = sim_range(rng, 0, 8);
    return add_tokens(tokens, count, world->load.prompt_max, key, more);
}

/* ---- requests ---- */

static bool is_stop(const struct engine_request *request, int32_t token)
{
    for (uint32_t i = 0; i < request->stop_token_count; i++) {
        if (request->stop_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

/* The sampler's choice when the model's own is forbidden: nothing else has a
 * chance above the others, so the smallest that may be. */
static int32_t allowed(const struct engine_request *request)
{
    int32_t token = 0;
    while (is_stop(request, token)) {
        token++;
    }
    return token;
}

/* What the model says to this prompt alone. */
static void foresee(struct sim_world *world, struct sim_request *request,
                    const struct engine_request *asked)
{
    struct model_hash_walk *walk = model_hash_walk_create(
        &world->hash, request->prompt_count + request->max_new);
    for (uint32_t i = 0; i < request->prompt_count; i++) {
        model_hash_walk_add(walk, request->tokens[i]);
    }
    request->length = request->max_new;
    for (uint32_t i = 0; i < request->length; i++) {
        uint32_t count = request->prompt_count + i;
        int32_t token = model_hash_walk_next(walk);
        if (i < asked->min_tokens && is_stop(asked, token)) {
            token = allowed(asked);
        }
        model_hash_walk_add(walk, token);
        request->tokens[count] = token;
        if (i + 1 >= asked->min_tokens && is_stop(asked, token)) {
            request->length = i + 1;
            request->is_stopped_by_token = true;
        }
    }
    model_hash_walk_destroy(walk);
}

/* Stop tokens are taken from the answer: where one is first said, it ends. */
static void draw_stops(struct sim_world *world, struct sim_request *request,
                       struct engine_request *asked)
{
    struct rng *rng = &world->load_rng;
    foresee(world, request, asked);
    if (!sim_chance(rng, 250)) {
        return;
    }
    uint32_t at = (uint32_t)rng_below(rng, request->max_new);
    asked->stop_tokens[asked->stop_token_count++] =
        request->tokens[request->prompt_count + at];
    asked->stop_tokens[asked->stop_token_count++] = 0;
    asked->min_tokens =
        sim_chance(rng, 512) ? sim_range(rng, 0, request->max_new) : 0;
    foresee(world, request, asked);
}

static enum engine_kind draw_kind(struct sim_world *world)
{
    uint32_t drawn = (uint32_t)rng_below(&world->load_rng, 1024);
    if (drawn < world->load.handoff) {
        return ENGINE_CONTEXT_ONLY;
    }
    return drawn < world->load.handoff + world->load.receive
               ? ENGINE_GENERATION_ONLY
               : ENGINE_AGGREGATED;
}

static uint64_t need_of_all(const struct sim_world *world)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < world->request_count; i++) {
        const struct sim_request *request = &world->requests[i];
        need += sim_need(world, request) *
                (uint64_t)__builtin_popcount(request->open);
    }
    return need;
}

static struct sim_request *add_request(struct sim_world *world,
                                       enum engine_kind kind)
{
    uint64_t need_before = need_of_all(world);
    struct sim_request *request = &world->requests[world->request_count++];
    *request = (struct sim_request){.id = world->request_count,
                                    .rid = (int64_t)world->request_count,
                                    .kind = kind,
                                    .first_pass = world->pass,
                                    .open_before = world->open_sum,
                                    .runs_before = world->run_sum,
                                    .need_before = need_before};
    return request;
}

/* The engine's copy; its counts are set already. */
static struct engine_request *ask(const struct sim_world *world,
                                  const struct sim_request *request)
{
    struct engine_request *asked = mem_new(sizeof(*asked));
    *asked = (struct engine_request){.id = request->id,
                                     .kind = request->kind,
                                     .arrival_ns = world->now_ns,
                                     .scope = request->scope,
                                     .prompt_count = request->prompt_count,
                                     .choice_count = request->choice_count,
                                     .max_new_tokens = request->max_new,
                                     .sampling = sampler_defaults(),
                                     .logprob_count = -1,
                                     .score_prompt = request->has_scores,
                                     .rid = request->rid,
                                     .is_generation_first =
                                         request->is_generation_first};
    asked->sampling.temperature = 0;
    asked->prompt =
        mem_copy(request->tokens, request->prompt_count * sizeof(int32_t));
    return asked;
}

static void submit(struct sim_world *world, struct sim_request *request,
                   struct engine_request *asked)
{
    if (request->kind == ENGINE_GENERATION_ONLY &&
        !request->is_generation_first) {
        for (uint32_t i = 0; i < request->choice_count; i++) {
            asked->first_tokens[i] = request->tokens[request->prompt_count];
        }
    }
    if (sim_chance(&world->load_rng, world->hostility.deadline)) {
        asked->deadline_ns =
            world->now_ns + sim_range(&world->load_rng, 1, 60) * 1000000u;
        request->may_fail = true;
    }
    request->open = (1u << request->choice_count) - 1;
    world->summary.requests++;
    sim_say(world, "submit %llu kind %d prompt %u new %u length %u n %u",
            (unsigned long long)request->id, request->kind,
            request->prompt_count, request->max_new, request->length,
            request->choice_count);
    struct engine_command command = {
        .kind = ENGINE_SUBMIT, .id = request->id, .request = asked};
    engine_core_command(world->core, world->now_ns, &command);
    sim_check_core(world, "submit");
}

static void arrive(struct sim_world *world)
{
    struct rng *rng = &world->load_rng;
    const struct sim_load *load = &world->load;
    bool is_again = world->request_count > 0 && sim_chance(rng, load->again);
    struct sim_request *request = add_request(world, draw_kind(world));
    request->is_generation_first = request->kind != ENGINE_AGGREGATED &&
                                   sim_chance(rng, load->generation_first);
    size_t capacity = load->prompt_max + load->output_max;
    request->tokens = mem_new_array(capacity, sizeof(int32_t));
    world->request_count--; /* not one of those that are gone on from */
    request->prompt_count = is_again ? draw_again(world, request->tokens)
                                     : draw_stem(world, request->tokens);
    world->request_count++;
    request->max_new = sim_range(rng, 1, load->output_max);
    request->choice_count =
        sim_chance(rng, 300) ? sim_range(rng, 1, load->choice_max) : 1;
    request->is_refusable = request->choice_count > 1;
    request->has_scores =
        request->kind == ENGINE_AGGREGATED && sim_chance(rng, load->score);
    request->scope.salt = rng_below(rng, load->scope_count);
    request->scope.has_salt = request->scope.salt > 0;
    struct engine_request *asked = ask(world, request);
    draw_stops(world, request, asked);
    submit(world, request, asked);
}

/* What the sender said first is this side's first token; a stop token that it
 * met would have ended it there. */
static void receive(struct sim_world *world, struct sim_request *request)
{
    request->is_handed_over = false;
    if (world->request_count == SIM_REQUEST_MAX) {
        return;
    }
    struct sim_request *other = add_request(world, ENGINE_GENERATION_ONLY);
    size_t capacity = request->prompt_count + request->max_new;
    other->rid = request->rid;
    other->scope = request->scope;
    other->tokens = mem_copy(request->tokens, capacity * sizeof(int32_t));
    other->prompt_count = request->prompt_count;
    other->max_new = request->max_new;
    other->choice_count = request->choice_count;
    other->is_refusable = request->is_refusable;
    other->may_fail = true; /* the half that sends may be gone already */
    struct engine_request *asked = ask(world, other);
    foresee(world, other, asked);
    submit(world, other, asked);
}

struct sim_request *sim_request_of(struct sim_world *world, uint64_t id)
{
    CHECK(id > 0);
    CHECK(id <= world->request_count);
    return &world->requests[id - 1];
}

/* ---- what takes work away ---- */

static void command(struct sim_world *world, enum engine_command_kind kind,
                    struct sim_request *request, uint32_t choice)
{
    struct engine_command command = {
        .kind = kind, .choice = choice, .id = request->id, .rid = request->rid};
    world->summary.cancels += request->open != 0;
    sim_say(world, "command %d of %llu choice %u", kind,
            (unsigned long long)request->id, choice);
    for (uint32_t i = 0; i < world->request_count; i++) {
        if (world->requests[i].rid == request->rid) {
            world->requests[i].is_cancelled = true;
        }
    }
    engine_core_command(world->core, world->now_ns, &command);
    sim_check_core(world, "command");
}

static void cancel(struct sim_world *world)
{
    static const enum engine_command_kind KINDS[] = {
        ENGINE_CANCEL, ENGINE_CANCEL_CHOICE, ENGINE_ABORT_RID, ENGINE_CANCEL};
    struct rng *rng = &world->load_rng;
    struct sim_request *request =
        &world->requests[rng_below(rng, world->request_count)];
    for (uint32_t i = 0; i < 8 && request->open == 0; i++) {
        request = &world->requests[rng_below(rng, world->request_count)];
    }
    enum engine_command_kind kind = KINDS[rng_below(rng, 4)];
    command(world, kind, request, sim_range(rng, 0, request->choice_count));
}

static void stop(struct sim_world *world)
{
    world->is_stopped = true;
    sim_say(world, "stop");
    for (uint32_t i = 0; i < SIM_REQUEST_MAX; i++) {
        world->requests[i].may_fail = true;
    }
    struct engine_command command = {.kind = ENGINE_STOP};
    engine_core_command(world->core, world->now_ns, &command);
}

/* Those who were handed the first half of a request ask for the second. */
static void follow(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        if (world->requests[i].is_handed_over &&
            !world->requests[i].is_generation_first &&
            sim_chance(&world->load_rng, 300) &&
            engine_core_has_room(world->core)) {
            receive(world, &world->requests[i]);
        }
    }
}

/* Whoever comes to a full queue is turned away: that is seen now and then, and
 * leaves the load to those who find room. (Calm worlds are compared with each
 * other: there it does not depend on what has happened.) */
static bool is_turned_away(struct sim_world *world)
{
    if (world->options.without_faults) {
        return false;
    }
    const struct engine_core_options *core = &world->core_options;
    uint32_t open = 0;
    for (uint32_t i = 0; i < world->request_count; i++) {
        open += world->requests[i].open != 0;
    }
    return open >= core->queue_limit + core->max_batch / 2 &&
           !sim_chance(&world->load_rng, 64);
}

void sim_load_step(struct sim_world *world)
{
    struct rng *rng = &world->load_rng;
    const struct sim_hostility *bad = &world->hostility;
    if (world->is_stopped || world->is_quiet) {
        return;
    }
    uint32_t count =
        sim_chance(rng, bad->arrival) ? sim_range(rng, 1, bad->burst_max) : 0;
    for (uint32_t i = 0;
         i < count && engine_core_has_room(world->core) &&
         world->request_count < SIM_REQUEST_MAX && !is_turned_away(world);
         i++) {
        arrive(world);
    }
    if (world->request_count > 0 && sim_chance(rng, bad->cancel) &&
        engine_core_has_room(world->core)) {
        cancel(world);
    }
    follow(world);
    if (world->pass > 40 && sim_chance(rng, bad->stop)) {
        stop(world);
    }
}
