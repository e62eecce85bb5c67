#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/mailbox.h"
#include "sim/cluster_world.h"

enum { SPOILT = 0xa5 }; /* what nobody takes for KV */

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

enum { POOL_ALIGN = 64 };

static size_t aligned(size_t size)
{
    return (size + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
}

/* The pools of all groups, one behind the other. */
static void create_pools(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    const struct kv_pool_view *like = &world->reference_pools[0];
    uint32_t group_count = world->core_options.group_count;
    size_t sizes[KV_LIFE_COUNT_MAX];
    for (uint32_t i = 0; i < group_count; i++) {
        uint32_t pages = world->page_counts[worker->index][i];
        sizes[i] = aligned(like->page_bytes * pages);
        worker->memory_size += sizes[i];
    }
    void *memory;
    struct why why;
    CHECK(transfer_backend_alloc(worker->backend, worker->memory_size, &why,
                                 &memory) == OK);
    worker->memory = memory;
    size_t at = 0;
    for (uint32_t i = 0; i < group_count; i++) {
        worker->pools[i] = (struct kv_pool_view){
            .base = worker->memory + at,
            .page_bytes = like->page_bytes,
            .page_count = world->page_counts[worker->index][i],
            .layout = like->layout};
        at += sizes[i];
    }
    memset(worker->memory, SPOILT, worker->memory_size);
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
        .memory = worker->memory,
        .memory_size = worker->memory_size,
        .group_count = world->core_options.life_count,
        .incarnation = worker->incarnation,
        .key = span_of_string("the key of all in this world"),
        .chance = worker->incarnation,
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
    for (uint32_t i = 0; i < options.group_count; i++) {
        options.groups[i] =
            (struct transfer_group){.pool = *cluster_pool(worker, i),
                                    .life = world->core_options.lives[i]};
    }
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
    create_pools(worker);
    create_transfer(worker);
    if (cluster_engine_create(worker) != OK) {
        cluster_fail(world, "worker %u: no engine", index);
    }
    worker->awake_ns = io_sim_now(world->io);
    cluster_say(world, "worker %u starts, %u pages", index,
                world->page_counts[index][0]);
}

/* What nobody has taken goes with the process; first tokens are on the heap. */
static void empty_mailboxes(struct cluster_worker *worker)
{
    struct transfer_command command;
    struct transfer_report report;
    while (io_mailbox_take(worker->commands, &command)) {
        mem_free(command.aux);
    }
    while (io_mailbox_take(worker->reports, &report)) {
        mem_free(report.aux);
    }
}

static void destroy_rest(struct cluster_worker *worker)
{
    worker->is_alive = false;
    empty_mailboxes(worker);
    cluster_engine_destroy(worker);
    transfer_backend_free(worker->backend, worker->memory);
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
    worker->awake_ns = io_sim_now(worker->world->io);
    io_sim_freeze(worker->transfer_loop, on);
    io_sim_freeze(worker->engine_loop, on);
}
