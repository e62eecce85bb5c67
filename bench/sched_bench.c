/* What one turn of the engine costs beside the forward pass: the core's plan and
 * result over the real cache manager, with 256 decodes, 8 prompts that are
 * computed and 100 or 1000 that wait (engine.md 6.7). No model runs: what it
 * would have answered is handed in. Every turn is checked to be of that shape.
 *
 *   in each turn   8 prompts of 4096 tokens begin: 3840 found, 256 computed
 *                  256 choices decode, each for 32 turns; so 8 of them end
 *   half of those that wait are more of these, half are long prompts of 8192
 *   tokens, eight to a prefix of 6144, for which there is never room: the planner
 *   and the look-up work on them in each turn. Every 48 turns their clients leave
 *   and others come, so that nobody starves.
 *
 * The pool is full of what was cached: pages are evicted all the time. The median
 * of all turns.
 *
 * usage: sched_bench [TURNS]      (960) */
#include <string.h>

#include "base/check.h"
#include "engine/core.h"
#include "line.h"

enum {
    BLOCK = 32,
    VOCAB = 32000,
    DECODES = 256,
    CHUNKS = 8,
    SYSTEMS = 4, /* beginnings that many prompts share */
    SYSTEM_TOKENS = 3840,
    OWN_TOKENS = 256,
    STEPS = DECODES / CHUNKS,
    LONG_TOKENS = 8192,
    LONG_SHARED = 6144,
    LONG_GROUP = 8,
    PENDING_MAX = 1000,
    MAX_SEQ = LONG_TOKENS + 64,
    PAGES = 16384,
    WARM_TURNS = 512,
    EPISODE = 48,
    TURNS_MAX = 100000,
};

struct bench {
    struct engine_core *core;
    struct sampler_result *results;
    uint64_t now_ns;
    uint64_t next_id;
    uint64_t next_seed;
    uint32_t waiting; /* by our own books */
    uint32_t long_count;
    uint64_t long_ids[PENDING_MAX];
    double command_ns; /* of this turn */
};

struct times {
    double *whole, *plan, *result, *command; /* (turn_count) ns */
};

static void stop(const char *what)
{
    fprintf(stderr, "sched_bench: %s\n", what);
    exit(1);
}

static void create(struct bench *bench, uint32_t life_count)
{
    struct engine_core_options options = {
        .life_count = life_count,
        .lives = {{0}, {.window = 1024}},
        .group_of = {0, 1},
        .group_count = life_count,
        .page_counts = {PAGES, life_count > 1 ? PAGES : 0},
        .tokens_per_block = BLOCK,
        .max_batch = DECODES + CHUNKS,
        .max_seq = MAX_SEQ,
        .row_count_max = DECODES + CHUNKS * OWN_TOKENS,
        .chunk_tokens = DECODES + CHUNKS * OWN_TOKENS,
        .chunk_unit = 16,
        .is_chunked = true,
        .turn_ns_max = 100000000,
        .queue_limit = PENDING_MAX + 2 * CHUNKS,
        .vocab_size = VOCAB,
        .enable_block_reuse = true,
        .enable_partial_reuse = true,
        .is_shortest_first = true,
        .enable_prefix_waits = true,
        .secret = {1},
        .score_row_max = 16,
    };
    struct why why = {0};
    if (engine_core_create(&options, &why, &bench->core) != OK) {
        stop(why.text);
    }
    bench->results = mem_new_array(engine_core_job_max(bench->core),
                                   sizeof(bench->results[0]));
    bench->now_ns = 1;
    bench->next_id = 1;
    bench->next_seed = 1000;
}

static void destroy(struct bench *bench)
{
    engine_core_destroy(bench->core);
    mem_free(bench->results);
    *bench = (struct bench){0};
}

static void command(struct bench *bench, const struct engine_command *command)
{
    uint64_t begin = io_clock_now_ns();
    engine_core_command(bench->core, bench->now_ns, command);
    bench->command_ns += (double)(io_clock_now_ns() - begin);
}

static void take_events(struct bench *bench)
{
    uint32_t count = 0;
    const struct engine_event *events = engine_core_events(bench->core, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].kind == ENGINE_EVENT_FAILED) {
            stop(events[i].reason);
        }
    }
    engine_core_events_taken(bench->core, count);
}

/* The first `shared` tokens are those of `shared_seed`, the rest nobody's from
 * the very first one on: of no block does it find a part. */
static uint64_t submit(struct bench *bench, uint64_t shared_seed,
                       uint32_t shared, uint32_t count, uint32_t max_new)
{
    struct engine_request *request = mem_new(sizeof(*request));
    uint64_t own_seed = bench->next_seed++;
    request->id = bench->next_id++;
    request->prompt = mem_new_array(count, sizeof(int32_t));
    request->prompt_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t seed = i < shared ? shared_seed : own_seed;
        uint64_t word = i == shared ? own_seed : rng_at(seed, 0, i);
        request->prompt[i] = (int32_t)(word % VOCAB);
    }
    request->choice_count = 1;
    request->max_new_tokens = max_new;
    request->ignore_end = true;
    request->sampling = sampler_defaults();
    request->logprob_count = -1;
    request->arrival_ns = bench->now_ns;
    uint64_t id = request->id;
    command(bench, &(struct engine_command){
                       .kind = ENGINE_SUBMIT, .id = id, .request = request});
    take_events(bench);
    bench->waiting++;
    return id;
}

static void submit_short(struct bench *bench, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        submit(bench, bench->next_id % SYSTEMS, SYSTEM_TOKENS,
               SYSTEM_TOKENS + OWN_TOKENS, STEPS + 1);
    }
}

/* Clients of long prompts leave, others come. */
static void renew_long(struct bench *bench, uint32_t count)
{
    for (uint32_t i = 0; i < bench->long_count; i++) {
        command(bench, &(struct engine_command){.kind = ENGINE_CANCEL,
                                                .id = bench->long_ids[i]});
        take_events(bench);
        bench->waiting--;
    }
    uint64_t seed = 0;
    for (uint32_t i = 0; i < count; i++) {
        seed = i % LONG_GROUP == 0 ? bench->next_seed++ : seed;
        bench->long_ids[i] = submit(bench, seed, LONG_SHARED, LONG_TOKENS, 16);
    }
    bench->long_count = count;
}

static void no_copies(struct bench *bench)
{
    uint32_t count = 0;
    engine_core_copies(bench->core, &count);
    if (count > 0) {
        stop("a page had to be copied");
    }
}

static const struct engine_plan *turn(struct bench *bench, double *plan_ns,
                                      double *result_ns)
{
    bench->now_ns += 20000000;
    uint64_t begin = io_clock_now_ns();
    const struct engine_plan *plan =
        engine_core_plan(bench->core, bench->now_ns);
    *plan_ns = (double)(io_clock_now_ns() - begin);
    no_copies(bench);
    if (plan->run_count == 0) {
        return plan;
    }
    for (uint32_t i = 0; i < plan->job_count; i++) {
        bench->results[i] = (struct sampler_result){.token = (int32_t)i};
    }
    bench->now_ns += 1000000;
    begin = io_clock_now_ns();
    engine_core_result(bench->core, bench->now_ns, bench->results);
    *result_ns = (double)(io_clock_now_ns() - begin);
    take_events(bench);
    return plan;
}

static void run_idle(struct bench *bench)
{
    double ns;
    while (turn(bench, &ns, &ns)->run_count > 0) {
    }
    bench->waiting = 0;
}

/* One turn of the shape that is measured, or the end. */
static void steady_turn(struct bench *bench, double *plan_ns, double *result_ns)
{
    const struct engine_plan *plan = turn(bench, plan_ns, result_ns);
    struct engine_stats stats;
    engine_core_stats(bench->core, &stats);
    bench->waiting -= CHUNKS;
    if (plan->run_count != DECODES + CHUNKS ||
        plan->row_count != DECODES + CHUNKS * OWN_TOKENS ||
        stats.waiting != bench->waiting) {
        fprintf(stderr,
                "sched_bench: a turn of %u runs and %u rows, %u wait of %u\n",
                plan->run_count, plan->row_count, stats.waiting,
                bench->waiting);
        exit(1);
    }
    bench->command_ns = 0;
    submit_short(bench, CHUNKS);
}

/* Shared beginnings cached, 256 decodes that end one after the other. */
static void begin(struct bench *bench)
{
    double ns;
    for (uint32_t i = 0; i < SYSTEMS; i++) {
        submit(bench, i, SYSTEM_TOKENS, SYSTEM_TOKENS + 1, 1);
    }
    run_idle(bench);
    for (uint32_t i = 0; i < STEPS; i++) {
        submit_short(bench, CHUNKS);
        turn(bench, &ns, &ns);
        bench->waiting -= CHUNKS;
    }
}

static void measure(struct bench *bench, uint32_t pending, uint32_t turn_count,
                    const struct times *times)
{
    double ns;
    begin(bench);
    submit_short(bench, pending - pending / 2);
    for (uint32_t i = 0; i < WARM_TURNS; i++) {
        steady_turn(bench, &ns, &ns);
    }
    for (uint32_t i = 0; i < turn_count; i++) {
        if (i % EPISODE == 0) {
            renew_long(bench, pending / 2);
            steady_turn(bench, &ns, &ns); /* looks all of them up at first */
        }
        steady_turn(bench, &times->plan[i], &times->result[i]);
        times->whole[i] = times->plan[i] + times->result[i];
        times->command[i] = bench->command_ns;
    }
}

static void print_us(const char *what, uint32_t pending, uint32_t life_count,
                     double ns, double goal, double aim, uint32_t runs)
{
    char name[96];
    snprintf(name, sizeof(name), "%s, %u wait, %u life cycle%s", what, pending,
             life_count, life_count > 1 ? "s" : "");
    line_print(&(struct line){.bench = "sched",
                              .name = name,
                              .value = ns / 1000,
                              .unit = "us",
                              .goal = goal,
                              .aim = aim,
                              .runs = runs});
}

/* The median turn. */
static double measure_pending(uint32_t pending, uint32_t life_count,
                              uint32_t turn_count, const struct times *times)
{
    struct bench bench = {0};
    create(&bench, life_count);
    measure(&bench, pending, turn_count, times);
    struct engine_counts counts;
    engine_core_counts(bench.core, &counts);
    struct engine_stats stats;
    engine_core_stats(bench.core, &stats);
    if (stats.evicted_pages == 0) {
        stop("the pool was never full");
    }
    destroy(&bench);
    uint32_t n = turn_count;
    double whole = line_median(times->whole, n);
    print_us("256 decodes, 8 chunks", pending, life_count, whole,
             pending > 100 ? 500 : 150, 0, n);
    print_us("one in a hundred over", pending, life_count,
             line_quantile(times->whole, n, 990), 0, 0, n);
    print_us("of it plan", pending, life_count, line_median(times->plan, n), 0,
             0, n);
    print_us("of it result", pending, life_count, line_median(times->result, n),
             0, 0, n);
    print_us("besides, 8 prompts of 4096 arrive", pending, life_count,
             line_median(times->command, n), 0, 0, n);
    return whole;
}

int main(int argc, char **argv)
{
    unsigned long turns = argc > 1 ? strtoul(argv[1], NULL, 10) : 960;
    if (argc > 2 || turns < EPISODE || turns > TURNS_MAX) {
        fprintf(stderr, "usage: sched_bench [TURNS]\n");
        return 2;
    }
    struct times times = {.whole = mem_new_array(turns, sizeof(double)),
                          .plan = mem_new_array(turns, sizeof(double)),
                          .result = mem_new_array(turns, sizeof(double)),
                          .command = mem_new_array(turns, sizeof(double))};
    for (uint32_t lives = 1; lives <= 2; lives++) {
        double few = measure_pending(100, lives, (uint32_t)turns, &times);
        double many =
            measure_pending(PENDING_MAX, lives, (uint32_t)turns, &times);
        print_us("each that waits adds", PENDING_MAX, lives,
                 (many - few) / (PENDING_MAX - 100), 0, 0.4, (uint32_t)turns);
    }
    mem_free(times.command);
    mem_free(times.result);
    mem_free(times.plan);
    mem_free(times.whole);
    return 0;
}
