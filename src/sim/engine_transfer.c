#include <string.h>

#include "agree/word.h"
#include "base/check.h"
#include "base/mem.h"
#include "sim/engine_world.h"

static const uint64_t MS_NS = 1000000;

static uint64_t later(struct sim_world *world, uint64_t since_ns,
                      uint32_t ms_max)
{
    return since_ns + sim_range(&world->transfer_rng, 0, ms_max) * MS_NS;
}

/* The half that this transfer is of. */
static struct sim_request *owner_of(struct sim_world *world,
                                    const struct transfer_command *command)
{
    enum engine_kind kind = command->kind == TRANSFER_RECEIVE
                                ? ENGINE_GENERATION_ONLY
                                : ENGINE_CONTEXT_ONLY;
    for (uint32_t i = world->request_count; i > 0; i--) {
        struct sim_request *request = &world->requests[i - 1];
        if (request->kind == kind && request->rid == command->rid) {
            return request;
        }
    }
    CHECK_UNREACHABLE();
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

static void free_transfer(struct sim_transfer *transfer)
{
    for (uint32_t i = 0; i < KV_LIFE_COUNT_MAX; i++) {
        mem_free(transfer->posted[i]);
    }
    mem_free(transfer->aux);
}

void sim_transfers_destroy(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->transfer_count; i++) {
        free_transfer(&world->transfers[i]);
    }
}

/* ---- orders ---- */

static struct sim_transfer *open_transfer(
    struct sim_world *world, const struct transfer_command *command)
{
    struct rng *rng = &world->transfer_rng;
    const struct sim_hostility *bad = &world->hostility;
    CHECK(world->transfer_count < SIM_TRANSFER_MAX);
    struct sim_transfer *transfer = &world->transfers[world->transfer_count++];
    *transfer = (struct sim_transfer){
        .command = *command,
        .is_send = command->kind != TRANSFER_RECEIVE,
        .request = owner_of(world, command),
        .awaited_ns = UINT64_MAX,
    };
    bool is_mute = !world->is_quiet && sim_chance(rng, bad->transfer_mute);
    transfer->is_failing =
        !world->is_quiet && sim_chance(rng, bad->transfer_fail);
    transfer->fail_slice = sim_range(rng, 0, 3);
    transfer->due_ns = is_mute ? UINT64_MAX : later(world, world->now_ns, 30);
    transfer->is_unsafe = sim_chance(rng, 256);
    world->summary.transfers++;
    return transfer;
}

/* What is sent is there (I29); what comes in may wait for what still leaves. */
static void await_copy(struct sim_world *world,
                       const struct sim_transfer *transfer, uint32_t life,
                       kv_page_id page)
{
    uint32_t group = world->core_options.group_of[life];
    if (!transfer->is_send) {
        sim_copies_await(world, group, page, true);
    } else if (sim_page_is_busy(world, group, page, false)) {
        sim_fail(world, "page %d is sent before it is there", page);
    }
}

static void await_copies(struct sim_world *world,
                         const struct sim_transfer *transfer, uint32_t first,
                         uint32_t end)
{
    const struct transfer_command *command = &transfer->command;
    for (uint32_t life = 0; life < command->group_count; life++) {
        for (uint32_t i = first; i < end; i++) {
            if (command->pages[life][i] != KV_PAGE_NONE) {
                await_copy(world, transfer, life, command->pages[life][i]);
            }
        }
    }
}

static void receive(struct sim_world *world,
                    const struct transfer_command *command)
{
    struct sim_transfer *transfer = open_transfer(world, command);
    if (command->is_generation_first !=
        transfer->request->is_generation_first) {
        sim_fail(world, "a receive of the wrong style");
    }
    await_copies(world, transfer, 0, command->block_count);
    sim_moved_scribble(world, transfer);
}

/* The receiver comes late, or never. */
static void offer(struct sim_world *world,
                  const struct transfer_command *command)
{
    struct sim_transfer *transfer = open_transfer(world, command);
    transfer->awaited_ns = transfer->due_ns;
    transfer->due_ns = UINT64_MAX;
}

/* Without a gap, and only what a receiver waits for. */
static void check_slice(struct sim_world *world,
                        const struct sim_transfer *transfer,
                        const struct transfer_command *command)
{
    uint32_t first = transfer->slice_count == 0
                         ? 0
                         : transfer->slices[transfer->slice_count - 1].end;
    bool is_offered = transfer->request->is_generation_first;
    if (command->slice_index != transfer->slice_count ||
        command->first_block != first || command->end_block <= first ||
        command->end_block > command->block_count || transfer->has_last ||
        command->is_last != (command->end_block == command->block_count)) {
        sim_fail(world, "slice %u [%u, %u) of %u after %u",
                 command->slice_index, command->first_block, command->end_block,
                 command->block_count, first);
    }
    if (transfer->is_cancelled || (is_offered && !transfer->is_awaited)) {
        sim_fail(world, "request %llu sends a slice out of turn",
                 (unsigned long long)transfer->request->id);
    }
    if (command->is_last && is_offered) {
        sim_aux_check(world, transfer->request, command->aux);
    }
}

/* What the slice names is remembered: it must be so until it has drained. */
static void remember(struct sim_world *world, struct sim_transfer *transfer,
                     const struct transfer_command *command)
{
    for (uint32_t life = 0; life < command->group_count; life++) {
        bool streams =
            sim_life_streams(world, life, transfer->request->prompt_count);
        uint32_t first = streams ? command->first_block : 0;
        uint32_t end = streams || command->is_last ? command->end_block : 0;
        if (transfer->posted[life] == NULL) {
            transfer->posted[life] =
                mem_new_array(command->block_count, sizeof(kv_page_id));
        }
        for (uint32_t i = first; i < end; i++) {
            transfer->posted[life][i] = command->pages[life][i];
        }
    }
}

static void send(struct sim_world *world,
                 const struct transfer_command *command)
{
    struct sim_transfer *transfer = find(world, command->request);
    bool is_new = transfer == NULL;
    if (is_new && owner_of(world, command)->is_generation_first) {
        /* It has failed and is quiet; the engine hears of that next. */
        mem_free(command->aux);
        return;
    }
    transfer = is_new ? open_transfer(world, command) : transfer;
    if (transfer->word & AGREE_TERMINAL) {
        mem_free(command->aux);
        return;
    }
    check_slice(world, transfer, command);
    if (sim_has_failed(world)) {
        mem_free(command->aux);
        return;
    }
    uint64_t deadline_ns = transfer->command.deadline_ns;
    transfer->command = *command;
    transfer->command.deadline_ns = deadline_ns;
    transfer->aux = command->aux;
    remember(world, transfer, command);
    await_copies(world, transfer, command->first_block, command->end_block);
    uint64_t since_ns =
        transfer->slice_count == 0
            ? world->now_ns
            : transfer->slices[transfer->slice_count - 1].due_ns;
    since_ns = since_ns < world->now_ns ? world->now_ns : since_ns;
    uint64_t due_ns = is_new ? transfer->due_ns : later(world, since_ns, 30);
    transfer->due_ns = UINT64_MAX;
    transfer->has_last = command->is_last;
    transfer->slices[transfer->slice_count++] =
        (struct sim_slice){command->first_block, command->end_block, due_ns};
    world->summary.slices++;
}

static void cancel(struct sim_world *world,
                   const struct transfer_command *command)
{
    struct sim_transfer *transfer = find(world, command->request);
    if (transfer != NULL && transfer->word == 0) {
        transfer->is_cancelled = true;
        transfer->cancel_reason = command->reason;
    }
}

/* Who asks for it later finds it offered again. */
static void withdraw(struct sim_world *world,
                     const struct transfer_command *command)
{
    struct sim_transfer *transfer = find(world, command->request);
    if (transfer == NULL || transfer->is_awaited || transfer->word != 0) {
        return;
    }
    if (!transfer->request->is_generation_first || transfer->slice_count > 0) {
        sim_fail(world, "request %llu withdraws what is no offer",
                 (unsigned long long)transfer->request->id);
    }
    transfer->is_withdrawn = true;
    world->summary.withdrawals++;
}

static void say_order(struct sim_world *world,
                      const struct transfer_command *command)
{
    sim_say(world, "order %d session %llx rid %lld blocks [%u, %u) of %u",
            command->kind, (unsigned long long)command->request,
            (long long)command->rid, command->first_block, command->end_block,
            command->block_count);
    for (uint32_t life = 0; life < command->group_count; life++) {
        for (uint32_t i = 0;
             command->pages[life] != NULL && i < command->block_count; i++) {
            sim_say(world, "  life %u block %u page %d", life, i,
                    command->pages[life][i]);
        }
    }
}

static void take(struct sim_world *world,
                 const struct transfer_command *command)
{
    say_order(world, command);
    switch (command->kind) {
    case TRANSFER_OFFER:
        offer(world, command);
        return;
    case TRANSFER_WITHDRAW:
        withdraw(world, command);
        return;
    case TRANSFER_SEND:
        send(world, command);
        return;
    case TRANSFER_RECEIVE:
        receive(world, command);
        return;
    case TRANSFER_CANCEL:
        cancel(world, command);
        return;
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

static void report(struct sim_world *world, struct sim_transfer *transfer)
{
    bool is_good =
        (transfer->word & AGREE_TERMINAL) && !(transfer->word & AGREE_FAILED);
    struct transfer_report report = {.request = transfer->command.request,
                                     .word = transfer->word,
                                     .reason = transfer->reason,
                                     .is_awaited = transfer->is_awaited,
                                     .is_withdrawn = transfer->is_withdrawn,
                                     .slice_index = transfer->drained_count,
                                     .moved_blocks =
                                         transfer->command.block_count,
                                     .backend = "sim",
                                     .lane = "sim"};
    if (is_good && !transfer->is_send &&
        transfer->request->is_generation_first) {
        report.aux = sim_aux_draw(world, transfer->request);
    }
    sim_say(world, "report %llx word %02x reason %u awaited %d drained %u",
            (unsigned long long)report.request, report.word, report.reason,
            report.is_awaited, report.slice_index);
    engine_core_report(world->core, world->now_ns, &report);
    sim_check_core(world, "report");
}

/* When the peer will have let go, after it said that it failed. */
static void stop(struct sim_world *world, struct sim_transfer *transfer,
                 uint8_t reason)
{
    bool is_cancelled = transfer->is_cancelled;
    transfer->word |= AGREE_TERMINAL | AGREE_FAILED;
    transfer->word |= is_cancelled ? AGREE_CANCEL : 0;
    transfer->reason = reason;
    transfer->quiet_ns = later(world, world->now_ns, 20);
    world->summary.transfers_failed++;
    world->summary.faults += !is_cancelled;
    transfer->request->may_fail = true;
}

static void drain_slice(struct sim_world *world, struct sim_transfer *transfer)
{
    const struct sim_slice *slice =
        &transfer->slices[transfer->drained_count++];
    bool is_last =
        transfer->has_last && transfer->drained_count == transfer->slice_count;
    sim_moved_prepare(world, transfer->request);
    for (uint32_t life = 0; life < transfer->command.group_count; life++) {
        if (sim_life_streams(world, life, transfer->request->prompt_count)) {
            sim_moved_check(world, transfer, life, slice->first, slice->end);
        } else if (is_last) {
            sim_moved_check(world, transfer, life, 0, slice->end);
        }
    }
    if (is_last) {
        transfer->word |= AGREE_TERMINAL | AGREE_QUIET;
    }
}

/* The next thing of a transfer that goes on. */
static void go_on(struct sim_world *world, struct sim_transfer *transfer)
{
    bool is_late = world->now_ns >= transfer->command.deadline_ns;
    bool is_failing =
        transfer->is_failing &&
        (!transfer->is_send || transfer->drained_count >= transfer->fail_slice);
    if (transfer->is_withdrawn) {
        transfer->word |= AGREE_TERMINAL | AGREE_FAILED | AGREE_QUIET;
        transfer->reason = AGREE_REASON_REFUSED;
    } else if (transfer->is_cancelled) {
        stop(world, transfer, transfer->cancel_reason);
    } else if (is_late) {
        stop(world, transfer, AGREE_REASON_DEADLINE);
    } else if (is_failing) {
        stop(world, transfer, AGREE_REASON_TRANSPORT);
    } else if (!transfer->is_send) {
        sim_moved_write(world, transfer);
        transfer->word |= AGREE_TERMINAL | AGREE_QUIET;
    } else if (transfer->awaited_ns != UINT64_MAX && !transfer->is_awaited) {
        transfer->is_awaited = true;
    } else {
        drain_slice(world, transfer);
    }
}

/* A grace time may end before the proof that the peer has stopped. */
static void settle(struct sim_world *world, struct sim_transfer *transfer)
{
    sim_moved_scribble(world, transfer);
    if (transfer->is_unsafe && !(transfer->word & AGREE_UNSAFE)) {
        transfer->word |= AGREE_UNSAFE;
        transfer->quiet_ns = world->now_ns + 30 * MS_NS;
    } else {
        transfer->word |= AGREE_QUIET;
    }
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_ns(const struct sim_transfer *transfer)
{
    uint64_t next = smaller(transfer->due_ns, transfer->command.deadline_ns);
    if (transfer->word & AGREE_TERMINAL) {
        return transfer->quiet_ns;
    }
    if (transfer->is_cancelled || transfer->is_withdrawn) {
        return 0;
    }
    if (!transfer->is_awaited) {
        next = smaller(next, transfer->awaited_ns);
    }
    if (transfer->drained_count < transfer->slice_count) {
        next = smaller(next, transfer->slices[transfer->drained_count].due_ns);
    }
    return next;
}

static void step(struct sim_world *world, struct sim_transfer *transfer)
{
    if (transfer->word & AGREE_TERMINAL) {
        settle(world, transfer);
    } else {
        go_on(world, transfer);
    }
    report(world, transfer);
}

void sim_transfers_step(struct sim_world *world)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < world->transfer_count; i++) {
        struct sim_transfer *transfer = &world->transfers[i];
        if (next_ns(transfer) <= world->now_ns &&
            engine_core_has_room(world->core)) {
            step(world, transfer);
        } else if (transfer->word & AGREE_FAILED) {
            sim_moved_scribble(world, transfer);
        }
        if (transfer->word & AGREE_QUIET) {
            free_transfer(transfer);
        } else {
            world->transfers[kept++] = *transfer;
        }
    }
    world->transfer_count = kept;
}

uint64_t sim_transfers_next_ns(const struct sim_world *world)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < world->transfer_count; i++) {
        next = smaller(next, next_ns(&world->transfers[i]));
    }
    return next;
}
