/* Decoding when the KV of all who decode is twice what the pool holds: the engine
 * with its own thread, the CPU model on a GGUF file, and a second level in host
 * memory (engine.md 3.3). SEQUENCES prompts that share nothing arrive together
 * and decode to the end, in one of three ways:
 *
 *   all resident     the pool holds all of them
 *   suspended        half of that; MAX_UTILIZATION suspends and resumes
 *   one by one       half of that; GUARANTEED_NO_EVICT begins one when another
 *                    has ended: what suspending competes with
 *
 * Of the second the share of resident sequences is counted, those that decode in
 * a turn over all: that share of the first's speed is the limit put beside it. A
 * turn on a CPU takes the longer the more decode in it, which makes that limit a
 * mild one; the third is the strict one. Answers are compared, so a page lost on
 * the way down or up is seen. Who is not done in LATE times the first's time is
 * called livelocked.
 *
 * usage: pressure_bench MODEL [ROUNDS]      (5) */
#include <string.h>

#include "engine/engine.h"
#include "gguf/gguf.h"
#include "line.h"
#include "model/model.h"

enum {
    BLOCK = 32,
    SEQUENCES = 16,
    PROMPT = 60,
    OUTPUT = 452,
    MAX_SEQ = PROMPT + OUTPUT,
    PAGES = SEQUENCES * MAX_SEQ / BLOCK,
    ROWS = 512,
    ROUNDS_MAX = 99,
    LATE = 20,
    EVENTS = 4096,
};

struct world {
    struct gguf *gguf;
    struct model *model;
    struct kv_pool_view pool, host;
    struct io_waker *engine_waker, *own_waker;
    struct io_mailbox *commands, *events;
    struct engine_stats_cell *stats;
    atomic_bool cancel_hint;
};

enum way { RESIDENT, SUSPENDED, ONE_BY_ONE, WAYS };

struct outcome {
    double seconds; /* from the last prompt computed by all to the end */
    double share; /* of sequences that decode in a turn */
    uint64_t suspends, moved_pages, replayed;
    int32_t tokens[SEQUENCES][OUTPUT];
};

static void stop(const char *what)
{
    fprintf(stderr, "pressure_bench: %s\n", what);
    exit(1);
}

static void stop_if(enum err err, const char *what)
{
    if (err != OK) {
        stop(what);
    }
}

static struct io_mailbox *mailbox_of(size_t size, uint32_t capacity,
                                     struct io_waker *waker)
{
    struct io_mailbox *mailbox = NULL;
    struct io_mailbox_options options = {
        .message_size = size, .capacity = capacity, .waker = waker};
    stop_if(io_mailbox_create(&options, &mailbox), "mailbox");
    return mailbox;
}

static struct kv_pool_view view_of(const struct model *model, uint32_t count)
{
    struct kv_pool_view view = {.layout = model->info.shape.layouts[0],
                                .page_count = count};
    view.page_bytes = kv_layout_page_bytes(&view.layout);
    view.base = mem_try_aligned(64, view.page_bytes * count);
    stop_if(view.base == NULL ? ERR_NO_MEMORY : OK, "no memory for pages");
    memset(view.base, 0, view.page_bytes * count);
    return view;
}

static void create(struct world *world, const char *path)
{
    struct why why = {0};
    stop_if(gguf_open(path, &why, &world->gguf), why.text);
    struct model_cpu_options options = {.gguf = world->gguf,
                                        .tokens_per_block = BLOCK,
                                        .thread_count = 1,
                                        .row_count_max = ROWS,
                                        .context_max = MAX_SEQ};
    stop_if(model_cpu_create(&options, &why, &world->model), why.text);
    if (world->model->info.shape.life_count != 1) {
        stop("a model with one life cycle is wanted");
    }
    world->pool = view_of(world->model, PAGES);
    world->host = view_of(world->model, PAGES);
    stop_if(io_waker_create(&world->engine_waker), "waker");
    stop_if(io_waker_create(&world->own_waker), "waker");
    world->commands = mailbox_of(sizeof(struct engine_command), 2 * SEQUENCES,
                                 world->engine_waker);
    world->events =
        mailbox_of(sizeof(struct engine_event), EVENTS, world->own_waker);
    world->stats = engine_stats_cell_create();
}

static void destroy(struct world *world)
{
    engine_stats_cell_destroy(world->stats);
    io_mailbox_destroy(world->events);
    io_mailbox_destroy(world->commands);
    io_waker_destroy(world->own_waker);
    io_waker_destroy(world->engine_waker);
    world->model->ops->destroy(world->model);
    gguf_close(world->gguf);
    mem_free(world->pool.base);
    mem_free(world->host.base);
}

static struct engine *start(struct world *world, enum way way)
{
    struct engine_options options = {
        .model = world->model,
        .pools = {world->pool},
        .port = {world->commands, world->events, &world->cancel_hint},
        .waker = world->engine_waker,
        .stats = world->stats,
        .max_batch = SEQUENCES,
        .max_seq = MAX_SEQ,
        .row_count_max = ROWS,
        .turn_ns_max = 100000000,
        .queue_limit = SEQUENCES,
        .vocab_size = world->model->info.vocab_size,
        .enable_block_reuse = true,
        .enable_partial_reuse = true,
        .is_shortest_first = true,
        .enable_prefix_waits = true,
    };
    options.pools[0].page_count = way == RESIDENT ? PAGES : PAGES / 2;
    if (way == SUSPENDED) {
        options.policy = SCHED_MAX_UTILIZATION;
        options.host_pools[0] = world->host;
    }
    struct why why = {0};
    struct engine *engine = NULL;
    stop_if(engine_start(&options, &why, &engine), why.text);
    return engine;
}

static void post(struct world *world, struct engine_command command)
{
    struct engine_port port = {world->commands, world->events,
                               &world->cancel_hint};
    stop_if(engine_port_post(&port, &command), "a command found no room");
}

static void submit(struct world *world, uint64_t id)
{
    struct engine_request *request = mem_new(sizeof(*request));
    uint32_t vocab = world->model->info.vocab_size;
    request->id = id;
    request->prompt = mem_new_array(PROMPT, sizeof(int32_t));
    request->prompt_count = PROMPT;
    for (uint32_t i = 0; i < PROMPT; i++) {
        request->prompt[i] = (int32_t)(rng_at(id, 0, i) % vocab);
    }
    request->choice_count = 1;
    request->max_new_tokens = OUTPUT;
    request->ignore_end = true;
    request->sampling = sampler_defaults();
    request->sampling.temperature = 0;
    request->logprob_count = -1;
    post(world, (struct engine_command){
                    .kind = ENGINE_SUBMIT, .id = id, .request = request});
}

/* The next event, or the end: too late. */
static struct engine_event next_event(struct world *world, uint64_t late_ns)
{
    struct engine_event event;
    while (!io_mailbox_take(world->events, &event)) {
        if (io_clock_now_ns() > late_ns) {
            stop("livelock: a request is not done in time");
        }
        io_waker_wait(world->own_waker, 10000000);
    }
    if (event.kind == ENGINE_EVENT_FAILED) {
        stop(event.reason);
    }
    return event;
}

static void read_answers(struct world *world, uint64_t late_ns,
                         struct outcome *outcome)
{
    for (uint32_t finished = 0; finished < SEQUENCES;) {
        struct engine_event event = next_event(world, late_ns);
        if (event.kind == ENGINE_EVENT_TOKEN) {
            outcome->tokens[event.id - 1][event.index] = event.token;
        }
        finished += event.kind == ENGINE_EVENT_FINISHED;
    }
}

static void stop_engine(struct world *world, struct engine *engine)
{
    post(world, (struct engine_command){.kind = ENGINE_STOP});
    while (next_event(world, UINT64_MAX).kind != ENGINE_EVENT_STOPPED) {
    }
    engine_join(engine);
    engine_destroy(engine);
}

static void run(struct world *world, enum way way, double seconds_max,
                struct outcome *outcome)
{
    struct engine *engine = start(world, way);
    struct engine_stats stats;
    uint64_t begin = io_clock_now_ns();
    uint64_t late_ns = begin + (uint64_t)(seconds_max * 1e9);
    for (uint64_t id = 1; id <= SEQUENCES; id++) {
        submit(world, id);
    }
    read_answers(world, late_ns, outcome);
    outcome->seconds = (double)(io_clock_now_ns() - begin) * 1e-9;
    stop_engine(world, engine);
    engine_stats_read(world->stats, &stats);
    outcome->share =
        (double)stats.decode_tokens / (double)stats.turns / SEQUENCES;
    outcome->suspends = stats.suspended_requests;
    outcome->moved_pages = stats.offloaded_pages + stats.onboarded_pages;
    outcome->replayed = stats.replayed_tokens;
}

static void print_rate(const char *name, const double *seconds,
                       const char *against, double ratio, double goal,
                       double aim, uint32_t rounds)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, seconds, rounds * sizeof(sorted[0]));
    line_print(&(struct line){.bench = "pressure",
                              .name = name,
                              .value = SEQUENCES * OUTPUT /
                                       line_median(sorted, rounds),
                              .unit = "tokens/s",
                              .against = against,
                              .ratio = ratio,
                              .goal = goal,
                              .aim = aim,
                              .runs = rounds});
}

static double median_of(const double *values, uint32_t rounds)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, rounds * sizeof(sorted[0]));
    return line_median(sorted, rounds);
}

static void print_share(const char *name, uint64_t count)
{
    line_print(
        &(struct line){.bench = "pressure",
                       .name = name,
                       .value = (double)count * 1000.0 / (SEQUENCES * OUTPUT),
                       .unit = "times",
                       .runs = 1});
}

static void report(double seconds[WAYS][ROUNDS_MAX], uint32_t rounds,
                   const struct outcome *suspended, double full_share)
{
    double median[WAYS];
    for (int way = 0; way < WAYS; way++) {
        median[way] = median_of(seconds[way], rounds);
    }
    double share = suspended->share / full_share;
    char against[96];
    snprintf(against, sizeof(against), "all resident x %.2f that decode",
             share);
    print_rate("decode, all resident", seconds[RESIDENT], NULL, 0, 0, 0,
               rounds);
    print_rate("decode, working set twice the pool", seconds[SUSPENDED],
               against, median[RESIDENT] / (median[SUSPENDED] * share), 0.9, 0,
               rounds);
    print_rate("decode, suspending instead of queueing", seconds[SUSPENDED],
               "one begins when another ends",
               median[ONE_BY_ONE] / median[SUSPENDED], 0, 0.9, rounds);
    print_share("suspensions in 1000 tokens", suspended->suspends);
    print_share("pages moved in 1000 tokens", suspended->moved_pages);
    print_share("tokens computed anew in 1000", suspended->replayed);
}

static void measure(struct world *world, uint32_t rounds)
{
    static double seconds[WAYS][ROUNDS_MAX];
    static struct outcome outcomes[WAYS];
    run(world, RESIDENT, 600, &outcomes[RESIDENT]); /* warm */
    double late = LATE * outcomes[RESIDENT].seconds;
    for (uint32_t round = 0; round < rounds; round++) {
        for (int way = 0; way < WAYS; way++) {
            run(world, (enum way)way, late, &outcomes[way]);
            seconds[way][round] = outcomes[way].seconds;
            if (memcmp(outcomes[way].tokens, outcomes[RESIDENT].tokens,
                       sizeof(outcomes[way].tokens)) != 0) {
                stop("the answers differ");
            }
        }
    }
    if (outcomes[SUSPENDED].suspends == 0 ||
        outcomes[SUSPENDED].moved_pages == 0) {
        stop("nobody was suspended");
    }
    report(seconds, rounds, &outcomes[SUSPENDED], outcomes[RESIDENT].share);
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    if (argc < 2 || argc > 3 || rounds == 0 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: pressure_bench MODEL [ROUNDS]\n");
        return 2;
    }
    struct world world = {0};
    create(&world, argv[1]);
    measure(&world, (uint32_t)rounds);
    destroy(&world);
    return 0;
}
