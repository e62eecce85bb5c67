/* Does the engine allocate in steady state? A million turns of the core over the
 * real cache manager with the hash model, on a pool that is too small for those
 * that decode: turns suspend, resume, evict, and move pages to the second level
 * and back. Requests come and go; what a request brings and takes with it, its
 * prompt and its keys, is its own and not counted. One answer in 64 is compared
 * with what the model says without any page.
 *
 * usage: steady_bench [TURNS]      (1000000) */
#include <string.h>

#include "base/check.h"
#include "engine/core.h"
#include "line.h"
#include "model/model.h"

enum {
    BLOCK = 4,
    VOCAB = 64,
    BATCH = 4,
    PAGES = 20, /* four that have grown to the end want 48 */
    HOST_PAGES = 64,
    PROMPT = 16,
    OUTPUT = 32,
    MAX_SEQ = PROMPT + OUTPUT,
    SHARED = 8, /* tokens that every second prompt begins with */
    CHECKED_ONE_IN = 64,
};

struct bench {
    struct engine_core *core;
    struct model_hash_options hash;
    struct model *model;
    struct kv_pool_view levels[2];
    struct sampler *sampler;
    struct sampler_result *results;
    float *logits;
    uint64_t now_ns;
    uint64_t next_id, finished, checked;
    int32_t expected[OUTPUT]; /* of request `checked_id` */
    uint64_t checked_id; /* 0: none now */
};

static void stop(const char *what)
{
    fprintf(stderr, "steady_bench: %s\n", what);
    exit(1);
}

static struct kv_pool_view view_of(const struct model *model, uint32_t count)
{
    struct kv_pool_view view = {.layout = model->info.shape.layouts[0],
                                .page_count = count};
    view.page_bytes = kv_layout_page_bytes(&view.layout);
    view.base = mem_try_aligned(64, view.page_bytes * count);
    if (view.base == NULL) {
        stop("no memory");
    }
    return view;
}

static void create_core(struct bench *bench)
{
    struct engine_core_options options = {
        .life_count = 1,
        .group_count = 1,
        .page_counts = {PAGES},
        .host_page_counts = {HOST_PAGES},
        .tokens_per_block = BLOCK,
        .max_batch = BATCH,
        .max_seq = MAX_SEQ,
        .row_count_max = 64,
        .chunk_tokens = 32,
        .chunk_unit = BLOCK,
        .is_chunked = true,
        .turn_ns_max = 100000000,
        .queue_limit = 2 * BATCH,
        .vocab_size = VOCAB,
        .enable_block_reuse = true,
        .enable_partial_reuse = true,
        .policy = SCHED_MAX_UTILIZATION,
        .is_shortest_first = true,
        .enable_prefix_waits = true,
        .secret = {9},
        .score_row_max = 4,
    };
    struct why why = {0};
    if (engine_core_create(&options, &why, &bench->core) != OK) {
        stop(why.text);
    }
}

static void create(struct bench *bench)
{
    bench->hash = (struct model_hash_options){.vocab_size = VOCAB,
                                              .context_length = MAX_SEQ,
                                              .layer_count = 1,
                                              .tokens_per_block = BLOCK,
                                              .seed = 11};
    bench->model = model_hash_create(&bench->hash);
    create_core(bench);
    bench->levels[0] = view_of(bench->model, PAGES);
    bench->levels[1] = view_of(bench->model, HOST_PAGES);
    bench->model->ops->set_pool(bench->model, bench->levels);
    bench->sampler = sampler_create(VOCAB);
    bench->logits = mem_new_array(engine_core_logit_row_max(bench->core),
                                  VOCAB * sizeof(float));
    bench->results = mem_new_array(engine_core_job_max(bench->core),
                                   sizeof(bench->results[0]));
    bench->now_ns = 1;
    bench->next_id = 1;
}

static void destroy(struct bench *bench)
{
    engine_core_destroy(bench->core);
    bench->model->ops->destroy(bench->model);
    sampler_destroy(bench->sampler);
    mem_free(bench->levels[0].base);
    mem_free(bench->levels[1].base);
    mem_free(bench->logits);
    mem_free(bench->results);
}

/* What is to come, drawn from tokens alone. */
static void foretell(struct bench *bench, const struct engine_request *request)
{
    int32_t tokens[MAX_SEQ];
    memcpy(tokens, request->prompt, PROMPT * sizeof(tokens[0]));
    for (uint32_t i = 0; i < OUTPUT; i++) {
        tokens[PROMPT + i] = model_hash_next(&bench->hash, tokens, PROMPT + i);
        bench->expected[i] = tokens[PROMPT + i];
    }
    bench->checked_id = request->id;
}

static void submit(struct bench *bench)
{
    struct engine_request *request = mem_new(sizeof(*request));
    request->id = bench->next_id++;
    request->prompt = mem_new_array(PROMPT, sizeof(int32_t));
    request->prompt_count = PROMPT;
    for (uint32_t i = 0; i < PROMPT; i++) {
        bool is_shared = request->id % 2 == 0 && i < SHARED;
        uint64_t seed = is_shared ? 0 : request->id;
        request->prompt[i] = (int32_t)(rng_at(seed, 0, i) % VOCAB);
    }
    request->choice_count = 1;
    request->max_new_tokens = OUTPUT;
    request->ignore_end = true;
    request->sampling = sampler_defaults();
    request->sampling.temperature = 0;
    request->logprob_count = -1;
    if (bench->checked_id == 0 && request->id % CHECKED_ONE_IN == 0) {
        foretell(bench, request);
    }
    engine_core_command(bench->core, bench->now_ns,
                        &(struct engine_command){.kind = ENGINE_SUBMIT,
                                                 .id = request->id,
                                                 .request = request});
}

static void look_at(struct bench *bench, const struct engine_event *event)
{
    if (event->kind == ENGINE_EVENT_FAILED) {
        stop(event->reason);
    }
    bool is_checked = event->id == bench->checked_id;
    if (event->kind == ENGINE_EVENT_TOKEN && is_checked &&
        event->token != bench->expected[event->index]) {
        stop("a token is not what the model says");
    }
    if (event->kind == ENGINE_EVENT_FINISHED) {
        bench->finished++;
        bench->checked += is_checked;
        bench->checked_id = is_checked ? 0 : bench->checked_id;
    }
}

static void take_events(struct bench *bench)
{
    uint32_t count = 0;
    const struct engine_event *events = engine_core_events(bench->core, &count);
    for (uint32_t i = 0; i < count; i++) {
        look_at(bench, &events[i]);
    }
    engine_core_events_taken(bench->core, count);
}

static void do_copies(struct bench *bench)
{
    uint32_t count = 0;
    const struct kv_order *orders = engine_core_copies(bench->core, &count);
    while (count > 0) {
        struct kv_order order = orders[0];
        const struct kv_pool_view *to = &bench->levels[order.to_level];
        const struct kv_pool_view *from = &bench->levels[order.from_level];
        engine_core_copies_taken(bench->core, 1);
        memcpy(to->base + to->page_bytes * (size_t)order.to_slot,
               from->base + from->page_bytes * (size_t)order.from_slot,
               to->page_bytes);
        engine_core_copy_done(bench->core, order.ticket, true);
        orders = engine_core_copies(bench->core, &count);
    }
}

static void turn(struct bench *bench)
{
    const struct engine_plan *plan =
        engine_core_plan(bench->core, ++bench->now_ns);
    do_copies(bench);
    if (plan->run_count == 0) {
        return;
    }
    struct model_batch batch = {.runs = plan->runs,
                                .run_count = plan->run_count};
    if (bench->model->ops->forward(bench->model, &batch, bench->logits) != OK) {
        stop("the model failed");
    }
    for (uint32_t i = 0; i < plan->job_count; i++) {
        struct sampler_input input = plan->jobs[i].input;
        input.logits = bench->logits + (size_t)plan->jobs[i].row * VOCAB;
        sampler_run(bench->sampler, plan->jobs[i].options, &input,
                    &bench->results[i]);
    }
    engine_core_result(bench->core, ++bench->now_ns, bench->results);
    do_copies(bench);
}

static uint64_t run(struct bench *bench, uint32_t turn_count)
{
    uint64_t allocations = 0;
    for (uint32_t i = 0; i < turn_count; i++) {
        while (bench->next_id - 1 - bench->finished < BATCH + 2) {
            submit(bench);
        }
        uint64_t before = mem_allocation_count();
        turn(bench);
        allocations += mem_allocation_count() - before;
        take_events(bench);
    }
    return allocations;
}

static void print_count(const char *name, uint64_t count, bool must_be_zero,
                        uint32_t runs)
{
    line_print(&(struct line){.bench = "sched",
                              .name = name,
                              .value = (double)count,
                              .unit = "times",
                              .must_be_zero = must_be_zero,
                              .runs = runs});
}

int main(int argc, char **argv)
{
    unsigned long turns = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    if (argc > 2 || turns < 1000 || turns > 100000000) {
        fprintf(stderr, "usage: steady_bench [TURNS]\n");
        return 2;
    }
    struct bench bench = {0};
    create(&bench);
    uint64_t allocations = run(&bench, (uint32_t)turns);
    struct engine_stats stats;
    engine_core_stats(bench.core, &stats);
    if (bench.checked == 0 || stats.suspended_requests == 0 ||
        stats.onboarded_pages == 0 || stats.evicted_pages == 0) {
        stop(
            "turns without a suspension, a page moved or evicted prove little");
    }
    print_count("heap allocations in steady turns", allocations, true,
                (uint32_t)turns);
    print_count("suspensions in them", stats.suspended_requests, false, 1);
    print_count("pages moved down and up in them",
                stats.offloaded_pages + stats.onboarded_pages, false, 1);
    print_count("answers compared with the model's own", bench.checked, false,
                1);
    destroy(&bench);
    return 0;
}
