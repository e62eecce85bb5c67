#include <string.h>

#include "agree/word.h"
#include "base/check.h"
#include "sim/engine_world.h"

/* The half that this transfer is of. */
static struct sim_request *owner_of(struct sim_world *world,
                                    const struct transfer_command *command)
{
    enum engine_kind kind = command->kind == TRANSFER_SEND
                                ? ENGINE_CONTEXT_ONLY
                                : ENGINE_GENERATION_ONLY;
    for (uint32_t i = world->request_count; i > 0; i--) {
        struct sim_request *request = &world->requests[i - 1];
        if (request->kind == kind && request->rid == command->rid) {
            return request;
        }
    }
    CHECK_UNREACHABLE();
}

/* ---- the bytes ---- */

/* The KV of the prompt, computed once more, away from the cache. */
static void recompute(struct sim_world *world,
                      const struct sim_request *request)
{
    struct model_run run = {.tokens = request->tokens,
                            .token_count = request->prompt_count,
                            .pages = {world->reference_table}};
    struct model_batch batch = {.runs = &run, .run_count = 1};
    CHECK(world->reference->ops->forward(world->reference, &batch,
                                         world->logits) == OK);
}

static uint8_t *page_at(const struct kv_pool_view *pool, kv_page_id page)
{
    CHECK(page >= 0);
    CHECK((uint32_t)page < pool->page_count);
    return pool->base + pool->page_bytes * (size_t)page;
}

/* Tokens [0, count) of two pages, all layers, K and V. */
static bool is_same(const struct kv_layout *layout, const uint8_t *a,
                    const uint8_t *b, uint32_t count)
{
    size_t bytes = (size_t)count * layout->head_dim * layout->element_bytes;
    size_t half = kv_layout_layer_bytes(layout) / 2;
    for (size_t i = 0; i < 2 * (size_t)layout->layer_count; i++) {
        if (memcmp(a + i * half, b + i * half, bytes) != 0) {
            return false;
        }
    }
    return true;
}

static void check_sent(struct sim_world *world,
                       const struct sim_transfer *transfer)
{
    const struct transfer_command *command = &transfer->command;
    const struct kv_layout *layout = &world->reference_pool.layout;
    uint32_t size = layout->tokens_per_block;
    recompute(world, transfer->request);
    for (uint32_t i = 0; i < command->block_count; i++) {
        uint32_t rest = transfer->request->prompt_count - i * size;
        if (command->pages[0][i] != KV_PAGE_NONE &&
            !is_same(layout, page_at(&world->pools[0][0], command->pages[0][i]),
                     page_at(&world->reference_pool, (kv_page_id)i),
                     rest < size ? rest : size)) {
            sim_fail(world, "block %u of request %llu was sent wrong", i,
                     (unsigned long long)transfer->request->id);
        }
    }
}

static void write_received(struct sim_world *world,
                           const struct sim_transfer *transfer)
{
    const struct transfer_command *command = &transfer->command;
    recompute(world, transfer->request);
    for (uint32_t i = 0; i < command->block_count; i++) {
        if (command->pages[0][i] != KV_PAGE_NONE) {
            memcpy(page_at(&world->pools[0][0], command->pages[0][i]),
                   page_at(&world->reference_pool, (kv_page_id)i),
                   world->reference_pool.page_bytes);
        }
    }
}

/* A peer may write whatever it likes until it is quiet. */
static void scribble(struct sim_world *world,
                     const struct sim_transfer *transfer)
{
    const struct transfer_command *command = &transfer->command;
    if (command->kind != TRANSFER_RECEIVE) {
        return;
    }
    for (uint32_t i = 0; i < command->block_count; i++) {
        if (command->pages[0][i] != KV_PAGE_NONE) {
            sim_page_poison(world, 0, command->pages[0][i], 0,
                            world->core_options.tokens_per_block);
        }
    }
}

/* ---- orders ---- */

static void start(struct sim_world *world,
                  const struct transfer_command *command)
{
    struct rng *rng = &world->transfer_rng;
    const struct sim_hostility *bad = &world->hostility;
    CHECK(world->transfer_count < SIM_TRANSFER_MAX);
    struct sim_transfer *transfer = &world->transfers[world->transfer_count++];
    *transfer = (struct sim_transfer){.command = *command,
                                      .request = owner_of(world, command)};
    uint64_t latency_ns = sim_range(rng, 0, 30) * (uint64_t)1000000;
    bool is_mute = !world->is_quiet && sim_chance(rng, bad->transfer_mute);
    transfer->is_failing =
        !world->is_quiet && sim_chance(rng, bad->transfer_fail);
    transfer->due_ns = is_mute ? UINT64_MAX : world->now_ns + latency_ns;
    transfer->is_unsafe = sim_chance(rng, 256);
    for (uint32_t i = 0; i < command->block_count; i++) {
        if (command->pages[0][i] != KV_PAGE_NONE) {
            sim_copies_await(world, 0, command->pages[0][i],
                             command->kind == TRANSFER_RECEIVE);
        }
    }
    scribble(world, transfer);
    world->summary.transfers++;
}

static struct sim_transfer *find(struct sim_world *world, uint64_t session)
{
    for (uint32_t i = 0; i < world->transfer_count; i++) {
        if (world->transfers[i].command.request == session) {
            return &world->transfers[i];
        }
    }
    return NULL;
}

/* When the peer will have let go, after it said that it failed. */
static void stop(struct sim_world *world, struct sim_transfer *transfer,
                 uint8_t word, uint8_t reason)
{
    transfer->word |= word | AGREE_TERMINAL | AGREE_FAILED;
    transfer->reason = reason;
    transfer->quiet_ns =
        world->now_ns +
        sim_range(&world->transfer_rng, 0, 20) * (uint64_t)1000000;
}

static void take(struct sim_world *world,
                 const struct transfer_command *command)
{
    sim_say(world, "order %d session %llx rid %lld blocks %u", command->kind,
            (unsigned long long)command->request, (long long)command->rid,
            command->block_count);
    for (uint32_t i = 0; i < command->block_count; i++) {
        sim_say(world, "  block %u page %d", i, command->pages[0][i]);
    }
    if (command->kind != TRANSFER_CANCEL) {
        start(world, command);
        return;
    }
    struct sim_transfer *transfer = find(world, command->request);
    if (transfer != NULL && transfer->word == 0) {
        transfer->due_ns = world->now_ns;
        transfer->is_failing = true;
        transfer->word = AGREE_CANCEL;
    }
}

void sim_transfers_take(struct sim_world *world)
{
    uint32_t count = 0;
    const struct transfer_command *orders =
        engine_core_orders(world->core, &count);
    for (uint32_t i = 0; i < count; i++) {
        take(world, &orders[i]);
    }
    engine_core_orders_taken(world->core, count);
}

/* ---- reports ---- */

static void report(struct sim_world *world, const struct sim_transfer *transfer)
{
    struct transfer_report report = {.request = transfer->command.request,
                                     .word = transfer->word,
                                     .reason = transfer->reason,
                                     .moved_blocks =
                                         transfer->command.block_count,
                                     .backend = "sim",
                                     .lane = "sim"};
    sim_say(world, "report %llx word %02x reason %u",
            (unsigned long long)report.request, report.word, report.reason);
    engine_core_report(world->core, world->now_ns, &report);
    sim_check_core(world, "report");
}

/* It comes to its end, well or not. */
static void end(struct sim_world *world, struct sim_transfer *transfer)
{
    bool is_cancelled = transfer->word & AGREE_CANCEL;
    bool is_late = world->now_ns >= transfer->command.deadline_ns;
    if (is_cancelled || is_late || transfer->is_failing) {
        uint8_t reason = is_cancelled ? AGREE_REASON_USER_CANCEL
                         : is_late    ? AGREE_REASON_DEADLINE
                                      : AGREE_REASON_TRANSPORT;
        world->summary.transfers_failed++;
        world->summary.faults += !is_cancelled;
        transfer->request->may_fail = true;
        stop(world, transfer, 0, reason);
        return;
    }
    if (transfer->command.kind == TRANSFER_SEND) {
        check_sent(world, transfer);
    } else {
        write_received(world, transfer);
    }
    transfer->word |= AGREE_TERMINAL | AGREE_QUIET;
}

/* A grace time may end before the proof that the peer has stopped. */
static void settle(struct sim_world *world, struct sim_transfer *transfer)
{
    scribble(world, transfer);
    if (transfer->is_unsafe && !(transfer->word & AGREE_UNSAFE)) {
        transfer->word |= AGREE_UNSAFE;
        transfer->quiet_ns = world->now_ns + 30000000;
    } else {
        transfer->word |= AGREE_QUIET;
    }
}

static uint64_t next_ns(const struct sim_transfer *transfer)
{
    if (transfer->word & AGREE_TERMINAL) {
        return transfer->quiet_ns;
    }
    uint64_t deadline_ns = transfer->command.deadline_ns;
    return transfer->due_ns < deadline_ns ? transfer->due_ns : deadline_ns;
}

static void step(struct sim_world *world, struct sim_transfer *transfer)
{
    if (transfer->word & AGREE_TERMINAL) {
        settle(world, transfer);
    } else {
        end(world, transfer);
    }
    report(world, transfer);
}

void sim_transfers_step(struct sim_world *world)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < world->transfer_count; i++) {
        struct sim_transfer *transfer = &world->transfers[i];
        bool is_failed = transfer->word & AGREE_FAILED;
        if (next_ns(transfer) <= world->now_ns &&
            engine_core_has_room(world->core)) {
            step(world, transfer);
        } else if (is_failed) {
            scribble(world, transfer);
        }
        if (!(transfer->word & AGREE_QUIET)) {
            world->transfers[kept++] = *transfer;
        }
    }
    world->transfer_count = kept;
}

uint64_t sim_transfers_next_ns(const struct sim_world *world)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < world->transfer_count; i++) {
        uint64_t one = next_ns(&world->transfers[i]);
        next = one < next ? one : next;
    }
    return next;
}
