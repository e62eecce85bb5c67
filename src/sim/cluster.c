#include "sim/cluster.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/cluster_world.h"

enum { LOAD_S_MAX = 60, QUIET_S_MAX = 40, PROBE_S = 10 };
static const uint64_t SECOND_NS = 1000 * CLUSTER_MS;

static void on_line(void *context, const char *line)
{
    struct cluster *world = context;
    cluster_story_hear(world, line);
    if (world->options.on_line != NULL) {
        world->options.on_line(world->options.context, line);
    }
}

static struct cluster *create(const struct sim_cluster_options *options)
{
    struct cluster *world = mem_new(sizeof(*world));
    world->options = *options;
    world->summary.seed = options->seed;
    sim_trace_init(&world->trace, on_line, world);
    cluster_draw(world);
    uint64_t now = io_sim_now(world->io);
    world->next_arrival_ns = now;
    world->next_fault_ns = now + 1;
    CHECK(io_sim_loop_create(world->io, CLUSTER_STRANGER_HOST,
                             &world->stranger_loop) == OK);
    cluster_pages_create(world);
    cluster_front_create(world);
    cluster_say(
        world,
        "context %u generation %u block %u sessions %u "
        "timeout %llu ms grace %llu ms",
        world->context_count, world->generation_count,
        world->core_options.tokens_per_block, world->core_options.session_max,
        (unsigned long long)(world->core_options.kv_transfer_timeout_ns /
                             CLUSTER_MS),
        (unsigned long long)(world->grace_ns / CLUSTER_MS));
    for (uint32_t i = 0; i < world->worker_count; i++) {
        cluster_worker_start(world, i);
    }
    return world;
}

static void destroy(struct cluster *world)
{
    for (uint32_t i = 0; i < world->worker_count; i++) {
        struct cluster_worker *worker = &world->workers[i];
        if (worker->is_alive) {
            cluster_worker_crash(worker);
        }
    }
    cluster_strangers_leave(world);
    io_loop_destroy(world->stranger_loop);
    cluster_pages_destroy(world);
    CHECK(world->writes == NULL);
    CHECK(world->memories == NULL);
    io_sim_destroy(world->io);
    for (uint32_t i = 0; i < world->request_count; i++) {
        mem_free(world->requests[i].tokens);
    }
    mem_free(world);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_ns(const struct cluster *world)
{
    uint64_t next = cluster_messages_ns(world);
    next = sooner(next, cluster_writes_ns(world));
    next = sooner(next, cluster_load_ns(world));
    next = sooner(next, cluster_faults_ns(world));
    return sooner(next, cluster_front_ns(world));
}

/* What is not on a host's loop. */
static void step_world(struct cluster *world)
{
    cluster_writes_step(world);
    cluster_faults_step(world);
    cluster_messages_step(world);
    cluster_front_step(world);
    cluster_load_step(world);
}

static bool has_load(const struct cluster *world)
{
    if (world->request_count < world->request_max) {
        return true;
    }
    for (uint32_t i = 0; i < world->request_count; i++) {
        if (!world->requests[i].has_ended) {
            return true;
        }
    }
    return false;
}

void cluster_run_until(struct cluster *world, uint64_t limit_ns,
                       bool (*goes_on)(const struct cluster *world))
{
    while (!cluster_has_failed(world) && goes_on(world) &&
           io_sim_now(world->io) < limit_ns) {
        if (!io_sim_step(world->io, sooner(next_ns(world), limit_ns))) {
            step_world(world);
        }
    }
}

/* In order, with nothing left (I32). */
static void stop_all(struct cluster *world)
{
    for (uint32_t i = 0; i < world->worker_count; i++) {
        if (!cluster_worker_stop(&world->workers[i])) {
            cluster_fail(world, "worker %u does not stop", i);
        }
    }
}

static bool goes_on(const struct cluster *world)
{
    (void)world;
    return true;
}

static bool is_not_over(const struct cluster *world)
{
    return !cluster_is_over(world);
}

/* Whatever happened, a cluster that is well again serves again, in both styles,
 * once the front end has found its workers; where a transfer may take as long as
 * it needs. */
static void probe(struct cluster *world)
{
    uint64_t limit_ns = io_sim_now(world->io) + PROBE_S * SECOND_NS;
    bool has_time = world->core_options.kv_transfer_timeout_ns > SECOND_NS / 2;
    cluster_run_until(world, limit_ns, goes_on);
    for (uint32_t i = 0; i < CLUSTER_PROBE_COUNT; i++) {
        uint32_t index = world->request_count;
        cluster_load_ask(world, i % 2 == 0, i, 1 + i,
                         1 + i % world->output_max);
        world->request_max = world->request_count;
        cluster_run_until(world,
                          io_sim_now(world->io) + QUIET_S_MAX * SECOND_NS,
                          is_not_over);
        if (has_time && !world->requests[index].is_answered) {
            cluster_fail(world, "request %u is not served, and all is well",
                         index);
        }
    }
}

static void run(struct cluster *world)
{
    if (world->options.story != NULL) {
        cluster_story_run(world);
    } else {
        cluster_run_until(world, io_sim_now(world->io) + LOAD_S_MAX * SECOND_NS,
                          has_load);
    }
    if (cluster_has_failed(world)) {
        return;
    }
    world->request_max = world->request_count;
    cluster_faults_heal(world);
    cluster_run_until(world, io_sim_now(world->io) + QUIET_S_MAX * SECOND_NS,
                      is_not_over);
    if (!cluster_has_failed(world)) {
        cluster_check_end(world);
    }
    if (!cluster_has_failed(world) && world->options.story == NULL) {
        probe(world);
    }
    if (!cluster_has_failed(world)) {
        cluster_check_end(world);
        stop_all(world);
    }
}

static void sum_up(struct cluster *world)
{
    struct sim_cluster_summary *summary = &world->summary;
    struct io_sim_counts io = io_sim_counts(world->io);
    summary->corruptions = io.corrupted;
    summary->faults += io.corrupted + summary->stops + summary->doubts +
                       summary->hangs + summary->flips;
    summary->virtual_ms = io_sim_now(world->io) / CLUSTER_MS - 1000;
    summary->settle_ms =
        world->is_quiet ? (io_sim_now(world->io) - world->quiet_ns) / CLUSTER_MS
                        : 0;
    summary->trace_hash = world->trace.hash;
}

bool sim_cluster_run(const struct sim_cluster_options *options,
                     struct sim_cluster_summary *summary_out)
{
    struct cluster *world = create(options);
    if (!cluster_has_failed(world)) {
        run(world);
    }
    sum_up(world);
    bool is_good = !cluster_has_failed(world);
    if (!is_good && options->on_tail != NULL) {
        sim_trace_visit_tail(&world->trace, options->on_tail, options->context);
    }
    *summary_out = world->summary;
    destroy(world);
    return is_good;
}

bool sim_cluster_counts(const struct sim_cluster_summary *summary)
{
    return summary->requests >= 20 && summary->faults >= 5;
}
