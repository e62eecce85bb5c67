/* The turns of a worker's engine, as engine/engine.c takes them, in virtual
 * time: what a batch computes is there when its time is over. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/mailbox.h"
#include "kv/life.h"
#include "sim/cluster_world.h"

enum { SPIN_MAX = 200 }; /* turns that want another one at once, for nothing */

static void take_input(struct cluster_worker *worker, uint64_t now_ns)
{
    struct transfer_report report;
    while (io_mailbox_take(worker->reports, &report)) {
        cluster_check_report(worker, &report);
        engine_core_report(worker->core, now_ns, &report);
    }
    uint32_t taken = 0;
    while (taken < worker->inbox_count && engine_core_has_room(worker->core)) {
        engine_core_command(worker->core, now_ns, &worker->inbox[taken++]);
    }
    worker->inbox_count -= taken;
    memmove(worker->inbox, worker->inbox + taken,
            worker->inbox_count * sizeof(worker->inbox[0]));
}

/* Copies between pages take no time here (sim/engine looks after those). */
static void run_copies(struct cluster_worker *worker)
{
    uint32_t count = 0;
    const struct kv_order *orders = engine_core_copies(worker->core, &count);
    while (count > 0) {
        struct kv_order order = orders[0];
        engine_core_copies_taken(worker->core, 1);
        cluster_check_copy(worker, &order);
        memmove(worker->memory +
                    cluster_page_at(worker, order.group, order.to_slot),
                worker->memory +
                    cluster_page_at(worker, order.group, order.from_slot),
                worker->pools[order.group].page_bytes);
        engine_core_copy_done(worker->core, order.ticket, true);
        orders = engine_core_copies(worker->core, &count);
    }
}

/* What does not fit now goes with a later turn. */
static void post_orders(struct cluster_worker *worker)
{
    uint32_t count = 0;
    const struct transfer_command *orders =
        engine_core_orders(worker->core, &count);
    uint32_t posted = 0;
    while (posted < count && io_mailbox_room(worker->commands) > 0) {
        struct transfer_command command = orders[posted];
        cluster_check_order(worker, &command);
        cluster_story_tamper(worker->world, &command);
        CHECK(io_mailbox_post(worker->commands, &command) == OK);
        posted++;
    }
    engine_core_orders_taken(worker->core, posted);
}

/* The answer of a hand-off never overtakes its order (transfer/port.h). */
static void post_events(struct cluster_worker *worker)
{
    uint32_t count = 0;
    engine_core_orders(worker->core, &count);
    if (count > 0) {
        return;
    }
    const struct engine_event *events =
        engine_core_events(worker->core, &count);
    for (uint32_t i = 0; i < count; i++) {
        cluster_serve_event(worker, &events[i]);
        mem_free(events[i].top);
    }
    engine_core_events_taken(worker->core, count);
}

static void settle(struct cluster_worker *worker)
{
    run_copies(worker);
    post_orders(worker);
    post_events(worker);
    cluster_check_turn(worker);
}

/* What lies behind the first new token was never written for this sequence. */
static void poison_life(struct cluster_worker *worker,
                        const struct model_run *run, uint32_t life)
{
    uint32_t size = worker->world->core_options.tokens_per_block;
    uint32_t blocks = kv_blocks_of(run->position + run->token_count, size);
    for (uint32_t i = run->position / size; i < blocks; i++) {
        uint32_t first =
            i * size < run->position ? run->position - i * size : 0;
        if (run->pages[life][i] != KV_PAGE_NONE) {
            cluster_page_poison(worker, life, run->pages[life][i], first, size);
        }
    }
}

static void poison_run(struct cluster_worker *worker,
                       const struct model_run *run)
{
    for (uint32_t i = 0; i < worker->world->core_options.life_count; i++) {
        poison_life(worker, run, i);
    }
}

static void start_batch(struct cluster_worker *worker,
                        const struct engine_plan *plan)
{
    struct model_batch batch = {.runs = plan->runs,
                                .run_count = plan->run_count};
    for (uint32_t i = 0; i < plan->run_count; i++) {
        poison_run(worker, &plan->runs[i]);
    }
    CHECK(worker->model->ops->forward(worker->model, &batch, worker->logits) ==
          OK);
    worker->plan = plan;
    io_timer_start(worker->engine_timer,
                   worker->world->pass_ns + (uint64_t)plan->row_count * 50000);
}

static void sample(struct cluster_worker *worker,
                   const struct engine_plan *plan)
{
    for (uint32_t i = 0; i < plan->job_count; i++) {
        const struct engine_job *job = &plan->jobs[i];
        float *row = worker->logits + (size_t)job->row * CLUSTER_VOCABULARY;
        CHECK(!job->is_score);
        struct sampler_input input = job->input;
        memcpy(worker->scratch, row, CLUSTER_VOCABULARY * sizeof(float));
        input.logits = worker->scratch;
        sampler_run(worker->sampler, job->options, &input, &worker->results[i]);
    }
}

/* The pages of its tokens hold nothing of use. */
static void give_up(struct cluster_worker *worker,
                    const struct engine_plan *plan)
{
    for (uint32_t i = 0; i < plan->run_count; i++) {
        poison_run(worker, &plan->runs[i]);
    }
    worker->world->summary.passes_aborted++;
    engine_core_abort(worker->core);
}

static void end_batch(struct cluster_worker *worker)
{
    const struct engine_plan *plan = worker->plan;
    uint64_t now_ns = io_loop_now(worker->engine_loop);
    cluster_check_plan(worker, plan); /* nobody came in between */
    worker->plan = NULL;
    struct cluster *world = worker->world;
    if (!world->is_quiet &&
        sim_chance(&world->world_rng, world->hostility.abort)) {
        give_up(worker, plan);
    } else {
        sample(worker, plan);
        engine_core_result(worker->core, now_ns, worker->results);
    }
    settle(worker);
}

static void sleep_until_due(struct cluster_worker *worker, uint64_t now_ns)
{
    uint32_t events = 0;
    uint32_t orders = 0;
    engine_core_events(worker->core, &events);
    engine_core_orders(worker->core, &orders);
    bool is_waiting = events > 0 || orders > 0 || worker->inbox_count > 0;
    uint64_t wake_ns = engine_core_wake_ns(worker->core);
    uint64_t left_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
    worker->spin_count = left_ns == 0 ? worker->spin_count + 1 : 0;
    if (worker->spin_count > SPIN_MAX) {
        cluster_fail(worker->world, "the engine of worker %u spins",
                     worker->index);
    }
    uint64_t most_ns = is_waiting ? CLUSTER_MS : 1000 * CLUSTER_MS;
    io_timer_start(worker->engine_timer, left_ns < most_ns ? left_ns : most_ns);
}

static void turn(struct cluster_worker *worker)
{
    uint64_t now_ns = io_loop_now(worker->engine_loop);
    take_input(worker, now_ns);
    const struct engine_plan *plan = engine_core_plan(worker->core, now_ns);
    run_copies(worker);
    cluster_check_plan(worker, plan);
    settle(worker);
    if (cluster_has_failed(worker->world)) {
        return;
    }
    if (plan->run_count == 0) {
        sleep_until_due(worker, now_ns);
    } else {
        CHECK(engine_core_plan_state(worker->core) == ENGINE_PLAN_READY);
        start_batch(worker, plan);
    }
}

static void on_wake(void *context)
{
    struct cluster_worker *worker = context;
    if (worker->plan == NULL) {
        turn(worker);
    }
}

static void on_time(void *context)
{
    struct cluster_worker *worker = context;
    if (worker->plan != NULL) {
        end_batch(worker);
    }
    if (!cluster_has_failed(worker->world)) {
        turn(worker);
    }
}

void cluster_engine_post(struct cluster_worker *worker,
                         const struct engine_command *command)
{
    CHECK(worker->inbox_count < CLUSTER_MESSAGE_MAX);
    worker->inbox[worker->inbox_count++] = *command;
    io_waker_wake(worker->engine_waker);
}

enum err cluster_engine_create(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    struct engine_core_options options = world->core_options;
    memcpy(options.page_counts, world->page_counts[worker->index],
           sizeof(options.page_counts));
    struct why why;
    enum err err = engine_core_create(&options, &why, &worker->core);
    if (err != OK) {
        return err;
    }
    worker->model = model_hash_create(&world->hash);
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t i = 0; i < options.life_count; i++) {
        pools[i] = *cluster_pool(worker, i);
    }
    worker->model->ops->set_pool(worker->model, pools);
    worker->sampler = sampler_create(CLUSTER_VOCABULARY);
    worker->logits = mem_new_array(engine_core_logit_row_max(worker->core),
                                   CLUSTER_VOCABULARY * sizeof(float));
    worker->scratch = mem_new_array(CLUSTER_VOCABULARY, sizeof(float));
    worker->results = mem_new_array(engine_core_job_max(worker->core),
                                    sizeof(worker->results[0]));
    worker->engine_timer =
        io_timer_create(worker->engine_loop, on_time, worker);
    CHECK(io_waker_attach(worker->engine_waker, worker->engine_loop, on_wake,
                          worker) == OK);
    return OK;
}

void cluster_engine_destroy(struct cluster_worker *worker)
{
    for (uint32_t i = 0; i < worker->inbox_count; i++) {
        engine_request_free(worker->inbox[i].request);
    }
    worker->inbox_count = 0;
    engine_core_destroy(worker->core);
    worker->core = NULL;
    worker->model->ops->destroy(worker->model);
    sampler_destroy(worker->sampler);
    mem_free(worker->logits);
    mem_free(worker->scratch);
    mem_free(worker->results);
    io_timer_destroy(worker->engine_timer);
}
