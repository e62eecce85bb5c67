#include <stdarg.h>
#include <stdio.h>

#include "agree/word.h"
#include "base/check.h"
#include "kv/life.h"
#include "sim/cluster_world.h"

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
                        const struct model_run *run, uint32_t block)
{
    uint32_t size = worker->pool.layout.tokens_per_block;
    kv_page_id page = run->pages[0][block];
    bool is_written = (block + 1) * size > run->position;
    if (cluster_page_is_target(worker, page)) {
        cluster_fail(worker->world,
                     "worker %u uses page %d, which a peer may write",
                     worker->index, page);
    }
    if (is_written && cluster_page_is_source(worker, page)) {
        cluster_fail(worker->world,
                     "worker %u writes page %d, which is being sent",
                     worker->index, page);
    }
}

void cluster_check_plan(struct cluster_worker *worker,
                        const struct engine_plan *plan)
{
    uint32_t size = worker->pool.layout.tokens_per_block;
    for (uint32_t i = 0; i < plan->run_count; i++) {
        const struct model_run *run = &plan->runs[i];
        uint32_t blocks = kv_blocks_of(run->position + run->token_count, size);
        for (uint32_t block = 0; block < blocks; block++) {
            check_block(worker, run, block);
        }
    }
}

void cluster_check_copy(struct cluster_worker *worker,
                        const struct kv_order *order)
{
    if (cluster_page_is_target(worker, order->to_slot) ||
        cluster_page_is_target(worker, order->from_slot) ||
        cluster_page_is_source(worker, order->to_slot)) {
        cluster_fail(worker->world,
                     "worker %u copies page %d to %d under a transfer",
                     worker->index, order->from_slot, order->to_slot);
    }
}

/* ---- sessions ---- */

static struct cluster_session *find_session(struct cluster_worker *worker,
                                            uint64_t ticket)
{
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        if (worker->sessions[i].ticket == ticket) {
            return &worker->sessions[i];
        }
    }
    return NULL;
}

static bool is_leased(const struct cluster_worker *worker, kv_page_id page,
                      bool by_receives_only)
{
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        const struct cluster_session *session = &worker->sessions[i];
        bool counts = session->ticket != 0 &&
                      (!by_receives_only || session->kind == TRANSFER_RECEIVE);
        for (uint32_t j = 0; counts && j < session->block_count; j++) {
            if (session->pages[j] == page) {
                return true;
            }
        }
    }
    return false;
}

/* A page that comes in is nobody else's; one that goes out may go to several,
 * but nobody writes it. */
static void check_pages(struct cluster_worker *worker,
                        const struct transfer_command *command)
{
    bool is_receive = command->kind == TRANSFER_RECEIVE;
    for (uint32_t i = 0; i < command->block_count; i++) {
        kv_page_id page = command->pages[0][i];
        if (page == KV_PAGE_NONE) {
            continue;
        }
        if (is_leased(worker, page, !is_receive) ||
            cluster_page_is_target(worker, page) ||
            (is_receive && cluster_page_is_source(worker, page))) {
            cluster_fail(worker->world,
                         "worker %u hands page %d to rid %lld, and it is "
                         "under a transfer",
                         worker->index, page, (long long)command->rid);
        }
    }
}

static struct cluster_request *owner_of(struct cluster *world, int64_t rid)
{
    CHECK(rid > 0);
    CHECK((uint64_t)rid <= world->rid_number);
    return &world->requests[world->rid_owner[rid]];
}

static void check_sent(struct cluster_worker *worker,
                       const struct transfer_command *command)
{
    struct cluster *world = worker->world;
    int32_t wrong = cluster_pages_compare(
        world, &worker->pool, owner_of(world, command->rid), command->pages[0],
        command->block_count);
    if (wrong >= 0) {
        cluster_fail(world, "worker %u sends rid %lld with block %d wrong",
                     worker->index, (long long)command->rid, wrong);
    }
}

/* Late words of an old session must not be a new one's (I14, I26). */
static void check_ticket(struct cluster_worker *worker, uint64_t ticket)
{
    for (uint32_t i = 0; i < worker->ticket_count; i++) {
        if (worker->tickets[i] == ticket) {
            cluster_fail(worker->world, "worker %u gives a ticket twice",
                         worker->index);
        }
    }
    CHECK(worker->ticket_count < CLUSTER_TICKET_MAX);
    worker->tickets[worker->ticket_count++] = ticket;
}

static uint32_t pages_of(const struct transfer_command *command)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < command->block_count; i++) {
        count += command->pages[0][i] != KV_PAGE_NONE;
    }
    return count;
}

/* Nobody may look at what is to come before it is there. */
static void scribble(struct cluster_worker *worker,
                     const struct transfer_command *command)
{
    for (uint32_t i = 0; i < command->block_count; i++) {
        if (command->pages[0][i] != KV_PAGE_NONE) {
            cluster_page_poison(&worker->pool, command->pages[0][i], 0,
                                worker->pool.layout.tokens_per_block);
        }
    }
}

void cluster_check_order(struct cluster_worker *worker,
                         const struct transfer_command *command)
{
    struct cluster *world = worker->world;
    cluster_say(world, "worker %u orders %d rid %lld blocks %u", worker->index,
                command->kind, (long long)command->rid, command->block_count);
    if (command->kind == TRANSFER_CANCEL) {
        return;
    }
    check_pages(worker, command);
    check_ticket(worker, command->request);
    struct cluster_session *session = find_session(worker, 0);
    CHECK(session != NULL);
    *session = (struct cluster_session){.ticket = command->request,
                                        .kind = command->kind,
                                        .rid = command->rid,
                                        .page_count = pages_of(command),
                                        .block_count = command->block_count,
                                        .pages = command->pages[0]};
    if (command->kind == TRANSFER_SEND) {
        world->summary.sends++;
        check_sent(worker, command);
    } else {
        world->summary.receives++;
        scribble(worker, command);
    }
}

/* Complete means: every page holds what the model computes (I2, I3, I6). */
static void check_received(struct cluster_worker *worker,
                           const struct cluster_session *session)
{
    struct cluster *world = worker->world;
    world->summary.receives_done++;
    int32_t wrong = cluster_pages_compare(world, &worker->pool,
                                          owner_of(world, session->rid),
                                          session->pages, session->block_count);
    if (wrong >= 0) {
        cluster_fail(world, "worker %u received block %d of rid %lld wrong",
                     worker->index, wrong, (long long)session->rid);
    }
}

static void check_quiet(struct cluster_worker *worker,
                        const struct cluster_session *session)
{
    for (uint32_t i = 0; i < session->block_count; i++) {
        kv_page_id page = session->pages[i];
        bool is_receive = session->kind == TRANSFER_RECEIVE;
        if (page != KV_PAGE_NONE && is_receive &&
            cluster_page_is_target(worker, page)) {
            cluster_fail(worker->world,
                         "worker %u calls rid %lld quiet, and page %d may be "
                         "written",
                         worker->index, (long long)session->rid, page);
        }
    }
}

void cluster_check_report(struct cluster_worker *worker,
                          const struct transfer_report *report)
{
    struct cluster *world = worker->world;
    struct cluster_session *session = find_session(worker, report->request);
    cluster_say(world, "worker %u hears word %02x reason %u", worker->index,
                report->word, report->reason);
    if (session == NULL) {
        cluster_fail(world, "worker %u hears of a session that has ended",
                     worker->index);
        return;
    }
    bool is_grown = session->word == 0 ||
                    agree_word_may_become(session->word, report->word);
    if (report->word != 0 && !agree_word_is_legal(report->word)) {
        cluster_fail(world, "word %02x is not legal", report->word);
    }
    if (!is_grown) {
        cluster_fail(world, "word %02x becomes %02x", session->word,
                     report->word);
    }
    bool is_done =
        (report->word & AGREE_TERMINAL) && !(report->word & AGREE_FAILED);
    if (is_done && session->kind == TRANSFER_RECEIVE) {
        check_received(worker, session);
    }
    bool is_new_quarantine =
        (report->word & AGREE_UNSAFE) && !(session->word & AGREE_UNSAFE);
    world->summary.quarantines += is_new_quarantine;
    bool is_new_failure =
        (report->word & AGREE_FAILED) && !(session->word & AGREE_FAILED);
    world->summary.integrity_failures +=
        is_new_failure && report->reason == AGREE_REASON_INTEGRITY;
    session->word = report->word;
    if (report->word & AGREE_QUIET) {
        check_quiet(worker, session);
        session->ticket = 0;
    }
}

/* ---- each turn (I31) ---- */

void cluster_check_turn(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    struct engine_stats stats;
    /* The whole proof takes longer than a turn. */
    if (worker->turn_count++ % 16 == 0 && !engine_core_is_valid(worker->core)) {
        cluster_fail(world, "the core of worker %u is not valid",
                     worker->index);
    }
    engine_core_stats(worker->core, &stats);
    uint32_t pages = 0;
    uint32_t orders = 0;
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        const struct cluster_session *session = &worker->sessions[i];
        pages += session->ticket != 0 ? session->page_count : 0;
    }
    engine_core_orders(worker->core, &orders);
    if (orders == 0 && stats.pages_leased != pages) {
        cluster_fail(world, "worker %u leases %u pages, its sessions hold %u",
                     worker->index, stats.pages_leased, pages);
    }
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
