#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/mailbox.h"
#include "sim/cluster_world.h"

static uint64_t draw_incarnation(struct cluster *world)
{
    uint64_t drawn = rng_next(&world->world_rng);
    return drawn == 0 ? 1 : drawn;
}

static void create_mailboxes(struct cluster_worker *worker)
{
    struct io_sim *io = worker->world->io;
    CHECK(io_sim_waker_create(io, &worker->transfer_waker) == OK);
    CHECK(io_sim_waker_create(io, &worker->engine_waker) == OK);
    uint32_t sessions = worker->world->core_options.session_max;
    struct io_mailbox_options commands = {.message_size =
                                              sizeof(struct transfer_command),
                                          .capacity = 2 * sessions,
                                          .waker = worker->transfer_waker};
    struct io_mailbox_options reports = {.message_size =
                                             sizeof(struct transfer_report),
                                         .capacity = 4 * sessions,
                                         .waker = worker->engine_waker};
    CHECK(io_mailbox_create(&commands, &worker->commands) == OK);
    CHECK(io_mailbox_create(&reports, &worker->reports) == OK);
}

static void create_pool(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    struct kv_pool_view *pool = &worker->pool;
    *pool =
        (struct kv_pool_view){.layout = world->reference_pool.layout,
                              .page_bytes = world->reference_pool.page_bytes,
                              .page_count = world->page_counts[worker->index]};
    void *memory;
    struct why why;
    CHECK(transfer_backend_alloc(worker->backend,
                                 pool->page_bytes * pool->page_count, &why,
                                 &memory) == OK);
    pool->base = memory;
    for (uint32_t i = 0; i < pool->page_count; i++) {
        cluster_page_poison(pool, (kv_page_id)i, 0,
                            pool->layout.tokens_per_block);
    }
}

static void create_transfer(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    char host[32];
    snprintf(host, sizeof(host), "10.0.0.%u", worker->host);
    uint32_t sessions = world->core_options.session_max;
    struct transfer_options options = {
        .loop = worker->transfer_loop,
        .backend = worker->backend,
        .memory = worker->pool.base,
        .memory_size = worker->pool.page_bytes * worker->pool.page_count,
        .group_count = 1,
        .groups = {{.pool = worker->pool}},
        .incarnation = worker->incarnation,
        .identity = &worker->identity,
        .host = host,
        .listen_port = CLUSTER_TRANSFER_PORT,
        .port = {worker->commands, worker->reports},
        .commands_waker = worker->transfer_waker,
        .send_count_max = sessions,
        .receive_count_max = sessions,
        .peer_count_max = 2 * CLUSTER_WORKER_MAX,
        .grace_ns = world->grace_ns,
        .advert_ttl_ns = world->advert_ttl_ns,
        .heartbeat_ns = world->heartbeat_ns,
    };
    struct why why = {0};
    enum err err = transfer_create(&options, &why, &worker->transfer);
    if (err != OK) {
        cluster_fail(world, "worker %u: %s", worker->index, why.text);
    }
}

/* All live in one process of the real world, and say so: there whoever serves
 * no more is proven gone (transfer/process.h). */
static struct transfer_identity identity_of_all(void)
{
    return (struct transfer_identity){
        .host = "one host", .pid = 4711, .started = 1};
}

void cluster_worker_start(struct cluster *world, uint32_t index)
{
    struct cluster_worker *worker = &world->workers[index];
    uint64_t next_id = worker->next_id;
    *worker = (struct cluster_worker){
        .world = world,
        .index = index,
        .host = index + 1,
        .is_context = index < world->context_count,
        .is_alive = true,
        .incarnation = draw_incarnation(world),
        .identity = identity_of_all(),
        .next_id = next_id,
    };
    CHECK(io_sim_loop_create(world->io, worker->host, &worker->transfer_loop) ==
          OK);
    CHECK(io_sim_loop_create(world->io, worker->host, &worker->engine_loop) ==
          OK);
    create_mailboxes(worker);
    cluster_backend_create(worker);
    create_pool(worker);
    create_transfer(worker);
    if (cluster_engine_create(worker) != OK) {
        cluster_fail(world, "worker %u: no engine", index);
    }
    cluster_say(world, "worker %u starts, %u pages", index,
                worker->pool.page_count);
}

static void destroy_rest(struct cluster_worker *worker)
{
    worker->is_alive = false;
    cluster_engine_destroy(worker);
    transfer_backend_free(worker->backend, worker->pool.base);
    transfer_backend_destroy(worker->backend);
    io_waker_destroy(worker->transfer_waker);
    io_waker_destroy(worker->engine_waker);
    io_mailbox_destroy(worker->commands);
    io_mailbox_destroy(worker->reports);
    io_loop_destroy(worker->transfer_loop);
    io_loop_destroy(worker->engine_loop);
    for (uint32_t i = 0; i < CLUSTER_CALL_MAX; i++) {
        worker->calls[i].call = 0;
    }
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        worker->sessions[i].ticket = 0;
    }
}

void cluster_worker_crash(struct cluster_worker *worker)
{
    cluster_say(worker->world, "worker %u crashes", worker->index);
    cluster_backend_kill(worker);
    cluster_messages_lose(worker);
    if (worker->transfer != NULL) {
        transfer_abandon(worker->transfer);
    }
    destroy_rest(worker);
}

bool cluster_worker_stop(struct cluster_worker *worker)
{
    if (transfer_destroy(worker->transfer) != OK) {
        return false;
    }
    cluster_backend_kill(worker);
    cluster_messages_lose(worker);
    destroy_rest(worker);
    return true;
}

void cluster_worker_freeze(struct cluster_worker *worker, bool on)
{
    cluster_say(worker->world, "worker %u %s", worker->index,
                on ? "stops" : "goes on");
    worker->is_frozen = on;
    io_sim_freeze(worker->transfer_loop, on);
    io_sim_freeze(worker->engine_loop, on);
}
