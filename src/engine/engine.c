#include "engine/engine.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/copies.h"
#include "engine/core.h"
#include "engine/stream.h"
#include "io/clock.h"
#include "io/thread.h"

enum {
    CHUNK_UNIT = 16,
    ANSWER_TOKENS = 512, /* an answer's, before any has ended */
    SCORE_ROW_MAX = 64,
    REPORTS_A_SESSION = 4,
    RETRY_NS = 1000000,
    IDLE_NS = 1000000000,
};

struct engine {
    struct engine_options options;
    struct engine_copies *copies;
    struct engine_core *core;
    struct engine_stream *stream;
    struct io_thread *thread;
    bool has_aborted; /* the last batch did: the next one runs to its end */
    bool is_delayed; /* what is under way was left so, after a veto */
    uint64_t steady_allocations;
};

static void take_input(struct engine *engine, uint64_t now_ns)
{
    const struct engine_options *options = &engine->options;
    if (options->port.cancel_hint != NULL) {
        atomic_store(options->port.cancel_hint, false);
    }
    struct transfer_report report;
    while (options->transfer.reports != NULL &&
           io_mailbox_take(options->transfer.reports, &report)) {
        engine_core_report(engine->core, now_ns, &report);
    }
    struct engine_command command;
    while (engine_core_has_room(engine->core) &&
           io_mailbox_take(options->port.commands, &command)) {
        engine_core_command(engine->core, now_ns, &command);
    }
}

/* What does not fit now goes with a later turn. */
static void post_orders(struct engine *engine)
{
    uint32_t count = 0;
    const struct transfer_command *orders =
        engine_core_orders(engine->core, &count);
    uint32_t posted = 0;
    while (posted < count && io_mailbox_post(engine->options.transfer.commands,
                                             &orders[posted]) == OK) {
        posted++;
    }
    engine_core_orders_taken(engine->core, posted);
}

/* The answer of a hand-off never overtakes its order (transfer/port.h). */
static void post_events(struct engine *engine)
{
    struct io_mailbox *mailbox = engine->options.port.events;
    uint32_t count = 0;
    engine_core_orders(engine->core, &count);
    if (count > 0) {
        return;
    }
    const struct engine_event *events =
        engine_core_events(engine->core, &count);
    uint32_t room = io_mailbox_room(mailbox);
    count = count < room ? count : room;
    if (count > 0 && io_mailbox_post_many(mailbox, events, count) == OK) {
        engine_core_events_taken(engine->core, count);
    }
}

/* A peer may write into the pages of a receive as soon as it is posted. */
static void await_all_pages(struct engine *engine)
{
    uint32_t count = 0;
    engine_core_orders(engine->core, &count);
    engine_copies_run(engine->copies, engine->core);
    while (count > 0 &&
           engine_copies_are_pending(engine->copies, engine->core)) {
        io_waker_wait(engine->options.waker, RETRY_NS);
        engine_copies_run(engine->copies, engine->core);
    }
}

static bool has_tops(const struct engine_computed *computed)
{
    for (uint32_t i = 0; i < computed->plan->job_count; i++) {
        if (computed->plan->jobs[i].input.logprob_count > 0) {
            return true;
        }
    }
    return false;
}

/* What was launched after one that failed comes to nothing. */
static void drop_rest(struct engine *engine)
{
    while (engine_stream_count(engine->stream) > 0) {
        engine_stream_collect(engine->stream);
    }
}

/* The oldest batch under way is waited for and applied. */
static void settle(struct engine *engine)
{
    struct engine_computed computed = engine_stream_collect(engine->stream);
    engine->has_aborted = computed.err == ERR_CANCELLED;
    if (computed.err != OK) {
        drop_rest(engine);
    }
    if (computed.err == ERR_CANCELLED) {
        engine_core_abort(engine->core);
        return;
    }
    if (computed.err != OK) {
        engine_core_fail(engine->core, io_clock_now_ns(), computed.err);
        return;
    }
    uint64_t before = mem_allocation_count();
    engine_core_result(engine->core, io_clock_now_ns(), computed.results);
    if (!has_tops(&computed)) {
        engine->steady_allocations += mem_allocation_count() - before;
    }
}

/* Until the new batch's pages may be touched, after the end of the one under way
 * where they wait for that. False: it is gone. */
static bool await_pages(struct engine *engine)
{
    engine_copies_run(engine->copies, engine->core);
    enum engine_plan_state state = engine_core_plan_state(engine->core);
    while (state == ENGINE_PLAN_WAITS) {
        if (engine_stream_count(engine->stream) > 0) {
            settle(engine);
        } else {
            io_waker_wait(engine->options.waker, RETRY_NS);
        }
        if (engine_core_flight(engine->core) == 0) {
            return false;
        }
        engine_copies_run(engine->copies, engine->core);
        state = engine_core_plan_state(engine->core);
    }
    if (state == ENGINE_PLAN_LOST && engine_stream_count(engine->stream) > 0) {
        settle(engine);
    }
    if (state == ENGINE_PLAN_LOST && engine_core_flight(engine->core) > 0) {
        engine_core_abort(engine->core);
    }
    return state == ENGINE_PLAN_READY;
}

static void publish(struct engine *engine)
{
    struct engine_stats stats;
    engine_core_stats(engine->core, &stats);
    stats.copied_kv_bytes = model_copied_kv_bytes();
    stats.steady_allocations = engine->steady_allocations;
    engine_stats_publish(engine->options.stats, io_clock_now_ns(), &stats);
}

/* Who has heard an answer can rely on the numbers: a hand-off that waits to be
 * pulled is counted by then. */
static void tell(struct engine *engine)
{
    publish(engine);
    post_events(engine);
}

static bool has_chunk(const struct engine_plan *plan)
{
    return plan->row_count > plan->run_count;
}

static bool launch(struct engine *engine, const struct engine_plan *plan)
{
    if (!await_pages(engine)) {
        return false;
    }
    uint32_t count = 0;
    engine_core_events(engine->core, &count);
    if (count > 0) {
        tell(engine); /* a received first token waits for no pass */
    } else if (has_chunk(plan)) {
        publish(engine); /* nor does who asks what is free: it lasts */
    }
    engine_stream_launch(
        engine->stream, plan,
        engine->has_aborted ? NULL : engine->options.port.cancel_hint);
    engine->has_aborted = false;
    return true;
}

/* All ranks can run, or none does (engine.md 5.4). */
static bool is_agreed(struct engine *engine, bool can_run)
{
    const struct engine_options *options = &engine->options;
    if (options->vote == NULL) {
        return true;
    }
    bool is_go = options->vote(options->vote_context, can_run);
    engine_core_vote(engine->core, io_clock_now_ns(), is_go);
    return is_go;
}

/* What is under way is applied, but for what was launched in this turn, and, once,
 * for what a veto found under way (engine.md 5.3, d). */
static void settle_due(struct engine *engine, bool is_launched, bool is_vetoed)
{
    uint32_t kept = is_launched && engine->options.is_overlapped;
    engine->is_delayed = is_vetoed && !engine->is_delayed;
    while (!engine->is_delayed && engine_stream_count(engine->stream) > kept) {
        settle(engine);
    }
}

/* Answers whether there was something to compute. */
static bool turn(struct engine *engine)
{
    uint64_t now_ns = io_clock_now_ns();
    take_input(engine, now_ns);
    uint64_t before = mem_allocation_count();
    const struct engine_plan *plan = engine_core_plan(engine->core, now_ns);
    engine->steady_allocations += mem_allocation_count() - before;
    bool has_runs = plan->run_count > 0;
    bool is_go = is_agreed(engine, has_runs);
    bool is_busy = has_runs || engine_stream_count(engine->stream) > 0;
    await_all_pages(engine);
    post_orders(engine);
    bool is_launched = has_runs && is_go && launch(engine, plan);
    settle_due(engine, is_launched, has_runs && !is_go);
    if (is_busy) {
        await_all_pages(engine);
        post_orders(engine);
    }
    tell(engine);
    return is_busy;
}

static void wait(struct engine *engine)
{
    uint32_t events = 0;
    uint32_t orders = 0;
    engine_core_events(engine->core, &events);
    engine_core_orders(engine->core, &orders);
    uint64_t timeout_ns = events > 0 || orders > 0 ? RETRY_NS : IDLE_NS;
    uint64_t wake_ns = engine_core_wake_ns(engine->core);
    uint64_t now_ns = io_clock_now_ns();
    uint64_t left_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
    io_waker_wait(engine->options.waker,
                  left_ns < timeout_ns ? left_ns : timeout_ns);
}

static void run(void *context)
{
    struct engine *engine = context;
    for (;;) {
        bool is_busy = turn(engine);
        if (engine_core_is_stopped(engine->core)) {
            break;
        }
        if (!is_busy) {
            wait(engine);
        }
    }
    struct engine_event last = {.kind = ENGINE_EVENT_STOPPED};
    while (io_mailbox_post(engine->options.port.events, &last) != OK) {
        io_waker_wait(engine->options.waker, RETRY_NS);
    }
}

static uint32_t session_max_of(const struct engine_options *options)
{
    if (options->transfer.commands == NULL ||
        options->transfer.reports == NULL) {
        return 0;
    }
    uint32_t count =
        io_mailbox_room(options->transfer.reports) / REPORTS_A_SESSION;
    return count < ENGINE_SESSION_COUNT_MAX ? count : ENGINE_SESSION_COUNT_MAX;
}

static enum err create_core(struct engine *engine, struct why *why)
{
    const struct engine_options *options = &engine->options;
    struct engine_core_options core = {
        .life_count = options->model->info.shape.life_count,
        .group_count = options->model->info.shape.life_count,
        .tokens_per_block = options->pools[0].layout.tokens_per_block,
        .max_batch = options->max_batch,
        .max_seq = options->max_seq,
        .row_count_max = options->row_count_max,
        .chunk_tokens = options->chunk_tokens,
        .chunk_unit = CHUNK_UNIT,
        .is_chunked = true,
        .turn_ns_max = options->turn_ns_max,
        .queue_limit = options->queue_limit,
        .session_max = session_max_of(options),
        .is_mixed = options->is_mixed,
        .kv_transfer_timeout_ns = options->kv_transfer_timeout_ns,
        .vocab_size = options->vocab_size,
        .end_tokens = options->end_tokens,
        .end_token_count = options->end_token_count,
        .enable_block_reuse = options->enable_block_reuse,
        .enable_partial_reuse = options->enable_partial_reuse,
        .is_reuse_per_request = options->is_reuse_per_request,
        .offload_priority_min = options->offload_priority_min,
        .cache_event_max = options->cache_event_max,
        .policy = options->policy,
        .answer_tokens = ANSWER_TOKENS,
        .is_shortest_first = options->is_shortest_first,
        .enable_prefix_waits = options->enable_prefix_waits,
        .score_row_max = SCORE_ROW_MAX,
        .is_overlapped = options->is_overlapped,
        .has_vote = options->vote != NULL,
    };
    for (uint32_t i = 0; i < core.life_count; i++) {
        core.lives[i] = options->model->info.shape.lives[i];
        core.group_of[i] = (uint8_t)i;
        core.page_counts[i] = options->pools[i].page_count;
        core.host_page_counts[i] = options->host_pools[i].page_count;
    }
    for (size_t i = 0; i < sizeof(core.secret); i += sizeof(uint64_t)) {
        uint64_t word = rng_system();
        memcpy(core.secret + i, &word, sizeof(word));
    }
    return engine_core_create(&core, why, &engine->core);
}

/* A pool group is a life cycle here. */
static enum err create_copies(struct engine *engine, struct why *why)
{
    const struct engine_options *options = &engine->options;
    bool has_host = options->host_pools[0].page_count > 0;
    struct engine_copies_options copies = {
        .levels = {options->pools, has_host ? options->host_pools : NULL},
        .waker = options->waker};
    enum err err = engine_copies_create(&copies, &engine->copies);
    return err == OK ? OK
                     : why_say(why, err, "no thread for copies of KV pages");
}

static enum err create_stream(struct engine *engine, struct why *why)
{
    const struct engine_options *options = &engine->options;
    struct engine_stream_options stream = {
        .model = options->model,
        .vocab_size = options->vocab_size,
        .logit_row_max = engine_core_logit_row_max(engine->core),
        .job_max = engine_core_job_max(engine->core),
        .is_threaded = options->is_overlapped};
    return engine_stream_create(&stream, why, &engine->stream);
}

enum err engine_start(const struct engine_options *options, struct why *why,
                      struct engine **engine_out)
{
    CHECK(options->port.commands != NULL);
    CHECK(options->port.events != NULL);
    struct engine *engine = mem_new(sizeof(*engine));
    engine->options = *options;
    enum err err = create_core(engine, why);
    if (err == OK) {
        err = create_copies(engine, why);
    }
    if (err == OK) {
        options->model->ops->set_pool(options->model, options->pools);
        err = create_stream(engine, why);
    }
    if (err == OK) {
        err = io_thread_start("engine", run, engine, &engine->thread);
    }
    if (err != OK) {
        engine_destroy(engine);
        return err;
    }
    *engine_out = engine;
    return OK;
}

void engine_join(struct engine *engine)
{
    io_thread_join(engine->thread);
    engine->thread = NULL;
}

/* What serve and transfer posted after the end is nobody's but ours. */
static void free_unread(struct engine *engine)
{
    struct engine_command command;
    while (io_mailbox_take(engine->options.port.commands, &command)) {
        if (command.kind == ENGINE_SUBMIT) {
            engine_request_free(command.request);
        }
    }
    struct transfer_report report;
    while (engine->options.transfer.reports != NULL &&
           io_mailbox_take(engine->options.transfer.reports, &report)) {
        mem_free(report.aux);
    }
}

void engine_destroy(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    CHECK(engine->thread == NULL);
    free_unread(engine);
    engine_stream_destroy(engine->stream);
    engine_copies_destroy(engine->copies);
    engine_core_destroy(engine->core);
    mem_free(engine);
}
