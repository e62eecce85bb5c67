#include <stdarg.h>
#include <stdio.h>

#include "agree/word.h"
#include "base/check.h"
#include "kv/life.h"
#include "sim/cluster_world.h"

static const uint64_t LATE_NS_MAX = 1000 * CLUSTER_MS;

void cluster_fail(struct cluster *world, const char *format, ...)
{
    char text[200];
    va_list arguments;
    if (cluster_has_failed(world)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(world->summary.failure, sizeof(world->summary.failure),
             "%llu us: %s", (unsigned long long)(io_sim_now(world->io) / 1000),
             text);
    cluster_say(world, "FAILED %s", text);
}

bool cluster_has_failed(const struct cluster *world)
{
    return world->summary.failure[0] != 0;
}

/* ---- pages (I1) ---- */

static void check_block(struct cluster_worker *worker,
                        const struct model_run *run, uint32_t life,
                        uint32_t block)
{
    uint32_t size = worker->world->core_options.tokens_per_block;
    kv_page_id page = run->pages[life][block];
    if (page == KV_PAGE_NONE) {
        return;
    }
    uint64_t at = cluster_page_of(worker, life, page);
    bool is_written = (block + 1) * size > run->position;
    if (cluster_page_is_target(worker, at)) {
        cluster_fail(worker->world,
                     "worker %u uses page %d of life %u, which a peer may "
                     "write",
                     worker->index, page, life);
    }
    if (is_written && cluster_page_is_source(worker, at)) {
        cluster_fail(worker->world,
                     "worker %u writes page %d of life %u, which is being sent",
                     worker->index, page, life);
    }
}

void cluster_check_plan(struct cluster_worker *worker,
                        const struct engine_plan *plan)
{
    const struct engine_core_options *core = &worker->world->core_options;
    for (uint32_t i = 0; i < plan->run_count; i++) {
        const struct model_run *run = &plan->runs[i];
        uint32_t blocks = kv_blocks_of(run->position + run->token_count,
                                       core->tokens_per_block);
        for (uint32_t life = 0; life < core->life_count; life++) {
            for (uint32_t block = 0; block < blocks; block++) {
                check_block(worker, run, life, block);
            }
        }
    }
}

void cluster_check_copy(struct cluster_worker *worker,
                        const struct kv_order *order)
{
    uint64_t to = cluster_page_at(worker, order->group, order->to_slot);
    uint64_t from = cluster_page_at(worker, order->group, order->from_slot);
    if (cluster_page_is_target(worker, to) ||
        cluster_page_is_target(worker, from) ||
        cluster_page_is_source(worker, to)) {
        cluster_fail(worker->world,
                     "worker %u copies page %d to %d under a transfer",
                     worker->index, order->from_slot, order->to_slot);
    }
}

/* ---- each turn ---- */

/* No deadline is exceeded by more than a turn takes and a stopped process
 * sleeps (I23). */
static void check_deadline(struct cluster_worker *worker,
                           const struct cluster_session *session)
{
    uint64_t since_ns = session->deadline_ns > worker->awake_ns
                            ? session->deadline_ns
                            : worker->awake_ns;
    if (!(session->word & AGREE_TERMINAL) &&
        io_sim_now(worker->world->io) > since_ns + LATE_NS_MAX) {
        cluster_fail(worker->world,
                     "worker %u: rid %lld goes on after its deadline",
                     worker->index, (long long)session->rid);
    }
}

static uint32_t count_pages(const struct cluster_worker *worker,
                            const struct cluster_session *session)
{
    uint32_t count = 0;
    for (uint32_t life = 0; life < worker->world->core_options.life_count;
         life++) {
        uint32_t first, end;
        cluster_session_leased(session, life, &first, &end);
        for (uint32_t i = first; i < end; i++) {
            count += session->posted[life][i] != KV_PAGE_NONE;
        }
    }
    return count;
}

/* What the engine counts as leased is what its sessions hold, slice by slice;
 * slices that a cancel kept from being posted are leased all the same (I31). */
static void check_leases(struct cluster_worker *worker)
{
    struct engine_stats stats;
    engine_core_stats(worker->core, &stats);
    uint32_t pages = 0;
    uint32_t orders = 0;
    bool is_exact = true;
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        const struct cluster_session *session = &worker->sessions[i];
        if (session->ticket != 0) {
            pages += count_pages(worker, session);
            is_exact &=
                session->is_receive ||
                !(session->is_cancelled || session->word & AGREE_TERMINAL);
            check_deadline(worker, session);
        }
    }
    engine_core_orders(worker->core, &orders);
    if (orders == 0 && (stats.pages_leased < pages ||
                        (is_exact && stats.pages_leased != pages))) {
        cluster_fail(worker->world,
                     "worker %u leases %u pages, its sessions hold %u",
                     worker->index, stats.pages_leased, pages);
    }
}

void cluster_check_turn(struct cluster_worker *worker)
{
    /* The whole proof takes longer than a turn. */
    if (worker->turn_count++ % 16 == 0 && !engine_core_is_valid(worker->core)) {
        cluster_fail(worker->world, "the core of worker %u is not valid",
                     worker->index);
    }
    check_leases(worker);
}

/* ---- the end ---- */

static bool is_at_rest(const struct cluster_worker *worker)
{
    struct engine_stats stats;
    if (!worker->is_alive || worker->is_frozen) {
        return false;
    }
    engine_core_stats(worker->core, &stats);
    struct transfer_stats transfer;
    transfer_stats_read(worker->transfer, &transfer);
    return stats.waiting + stats.running + stats.receiving + stats.sending ==
               0 &&
           worker->inbox_count == 0 && transfer.sends == 0 &&
           transfer.receives == 0 && transfer.adverts == 0;
}

bool cluster_is_over(const struct cluster *world)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        if (!world->requests[i].has_ended) {
            return false;
        }
    }
    for (uint32_t i = 0; i < world->worker_count; i++) {
        if (!is_at_rest(&world->workers[i])) {
            return false;
        }
    }
    return world->message_count == 0;
}

static void check_worker(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    struct engine_stats stats;
    struct transfer_stats transfer;
    engine_core_stats(worker->core, &stats);
    transfer_stats_read(worker->transfer, &transfer);
    if (!is_at_rest(worker)) {
        cluster_fail(world,
                     "worker %u at the end: %u wait, %u run, %u receive, %u "
                     "send; transfer %u sends, %u receives, %u adverts",
                     worker->index, stats.waiting, stats.running,
                     stats.receiving, stats.sending, transfer.sends,
                     transfer.receives, transfer.adverts);
    }
    if (stats.pages_used > 0 || stats.pages_leased > 0 ||
        stats.pages_free + stats.pages_cached != stats.pages_total) {
        cluster_fail(world, "worker %u at the end: %u pages used, %u leased",
                     worker->index, stats.pages_used, stats.pages_leased);
    }
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        if (worker->sessions[i].ticket != 0) {
            cluster_fail(world, "worker %u: rid %lld is not quiet at the end",
                         worker->index, (long long)worker->sessions[i].rid);
        }
    }
    for (uint32_t i = 0; i < CLUSTER_CALL_MAX; i++) {
        if (worker->calls[i].call != 0) {
            cluster_fail(world, "worker %u: call %llu is open at the end",
                         worker->index,
                         (unsigned long long)worker->calls[i].call);
        }
    }
}

void cluster_check_end(struct cluster *world)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        const struct cluster_request *request = &world->requests[i];
        if (!request->has_ended) {
            cluster_fail(world, "request %u has not ended: %s", i,
                         route_state_name(request->route.state));
        }
    }
    for (uint32_t i = 0; i < world->worker_count; i++) {
        if (!world->workers[i].is_alive || world->workers[i].is_frozen) {
            cluster_fail(world, "worker %u is not there at the end", i);
            continue;
        }
        check_worker(&world->workers[i]);
    }
}
