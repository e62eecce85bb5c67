#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "kv/life.h"
#include "sim/engine_world.h"

enum { WAITS_MAX = 128 };

void sim_fail(struct sim_world *world, const char *format, ...)
{
    char text[200];
    va_list arguments;
    if (sim_has_failed(world)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(world->summary.failure, sizeof(world->summary.failure),
             "pass %llu: %s", (unsigned long long)world->pass, text);
    sim_say(world, "FAILED %s", text);
}

bool sim_has_failed(const struct sim_world *world)
{
    return world->summary.failure[0] != 0;
}

void sim_check_core(struct sim_world *world, const char *step)
{
    if (!engine_core_is_valid(world->core)) {
        sim_fail(world, "the core is not valid after %s", step);
    }
    if (world->options.on_step != NULL) {
        world->options.on_step(world->options.context, world->core);
    }
}

/* ---- a batch ---- */

static bool writes(const struct sim_world *world, const struct model_run *run,
                   uint32_t block)
{
    uint32_t size = world->core_options.tokens_per_block;
    return (block + 1) * size > run->position;
}

static uint32_t blocks_of(const struct sim_world *world,
                          const struct model_run *run)
{
    return kv_blocks_of(run->position + run->token_count,
                        world->core_options.tokens_per_block);
}

static bool sees(const struct sim_world *world, const struct model_run *run,
                 uint32_t group, kv_page_id page)
{
    uint32_t count = blocks_of(world, run);
    for (uint32_t life = 0; life < world->core_options.life_count; life++) {
        if (world->core_options.group_of[life] != group) {
            continue;
        }
        for (uint32_t block = 0; block < count; block++) {
            if (run->pages[life][block] == page) {
                return true;
            }
        }
    }
    return false;
}

/* What one run writes no other sees (engine.md 7.1, 18). */
static void check_apart(struct sim_world *world, const struct engine_plan *plan,
                        uint32_t index)
{
    const struct model_run *run = &plan->runs[index];
    uint32_t count = blocks_of(world, run);
    for (uint32_t life = 0; life < world->core_options.life_count; life++) {
        uint32_t group = world->core_options.group_of[life];
        for (uint32_t block = 0; block < count; block++) {
            kv_page_id page = run->pages[life][block];
            if (page == KV_PAGE_NONE || !writes(world, run, block)) {
                continue;
            }
            for (uint32_t i = 0; i < plan->run_count; i++) {
                if (i != index && sees(world, &plan->runs[i], group, page)) {
                    sim_fail(world,
                             "page %d is written by one and seen by "
                             "another",
                             page);
                }
            }
        }
    }
}

static uint32_t token_limit(const struct engine_core_options *core)
{
    return core->chunk_tokens > 0 && core->chunk_tokens < core->row_count_max
               ? core->chunk_tokens
               : core->row_count_max;
}

/* Nobody waits for a prefix beyond the bound (engine.md 7.1, 41). */
static void check_waits(struct sim_world *world)
{
    struct engine_counts counts;
    engine_core_counts(world->core, &counts);
    if (counts.waits_max > world->summary.waits_max) {
        world->summary.waits_max = counts.waits_max;
    }
    if (counts.waits_max > WAITS_MAX) {
        sim_fail(world, "somebody has waited %u passes", counts.waits_max);
    }
}

void sim_check_plan(struct sim_world *world, const struct engine_plan *plan)
{
    const struct engine_core_options *core = &world->core_options;
    uint32_t rows = 0;
    check_waits(world);
    for (uint32_t i = 0; i < plan->run_count; i++) {
        const struct model_run *run = &plan->runs[i];
        rows += run->token_count;
        sim_say(world, "run at %u count %u token %d page %d", run->position,
                run->token_count, run->tokens[0],
                run->pages[0][run->position / core->tokens_per_block]);
        if (run->position + run->token_count > core->max_seq) {
            sim_fail(world, "a run goes beyond max_seq");
            return;
        }
        check_apart(world, plan, i);
    }
    if (rows != plan->row_count || rows > token_limit(core)) {
        sim_fail(world, "a batch of %u tokens says %u, %u may be", rows,
                 plan->row_count, token_limit(core));
    }
    if (plan->run_count > core->max_batch) {
        sim_fail(world, "%u runs, max_batch is %u", plan->run_count,
                 core->max_batch);
    }
    if (plan->logit_row_count > engine_core_logit_row_max(world->core)) {
        sim_fail(world, "%u rows of logits", plan->logit_row_count);
    }
}

/* ---- events ---- */

static void hear_token(struct sim_world *world, struct sim_request *request,
                       const struct engine_event *event)
{
    uint32_t at = request->said[event->choice];
    if (event->index != at || at >= request->length) {
        sim_fail(world, "request %llu says token %u of %u after %u",
                 (unsigned long long)request->id, event->index, request->length,
                 at);
        return;
    }
    if (request->has_bad_aux) {
        sim_fail(world, "request %llu says what it should not believe",
                 (unsigned long long)request->id);
    }
    int32_t expected = request->tokens[request->prompt_count + at];
    if (event->token != expected) {
        sim_fail(world, "request %llu choice %u token %u is %d, not %d",
                 (unsigned long long)request->id, event->choice, at,
                 event->token, expected);
    }
    request->said[event->choice]++;
    world->summary.tokens++;
}

static void hear_score(struct sim_world *world, struct sim_request *request,
                       const struct engine_event *event)
{
    request->scored++;
    if (event->index != request->scored ||
        event->index >= request->prompt_count ||
        event->token != request->tokens[event->index]) {
        sim_fail(world, "request %llu scores token %u out of turn",
                 (unsigned long long)request->id, event->index);
    }
}

/* Did it say all that it had to before this end? */
static bool is_complete(const struct sim_request *request,
                        const struct engine_event *event)
{
    uint32_t said = request->said[event->choice];
    switch (event->finish) {
    case ENGINE_FINISH_STOP:
        return said == request->length && request->is_stopped_by_token;
    case ENGINE_FINISH_LENGTH:
        return (said == request->length && !request->is_stopped_by_token) ||
               (request->is_refusable && said > 0);
    case ENGINE_FINISH_HANDOFF:
        return said == 1 && request->kind == ENGINE_CONTEXT_ONLY;
    case ENGINE_FINISH_CANCELLED:
        return request->is_cancelled;
    }
    return false;
}

/* Nobody starves: a request may have to wait until all that came before it have
 * ended, one after the other, and then has a tenth of its share at least, were
 * the runs of each pass dealt evenly to all that are open (engine.md 7.3, F4).
 * Where pages wait for peers the time is not the worker's. */
static void check_share(struct sim_world *world,
                        const struct sim_request *request)
{
    enum { SHARE = 10, GRACE = 10 };
    uint64_t passes = world->pass - request->first_pass;
    uint64_t runs = world->run_sum - request->runs_before;
    uint64_t open = world->open_sum - request->open_before;
    uint64_t even = sim_need(world, request) * (open > runs ? open : runs);
    uint64_t free = request->need_before + GRACE;
    if (world->core_options.session_max == 0 && request->open == 0 &&
        passes > free && (passes - free) * runs > SHARE * even) {
        sim_fail(world, "request %llu took %llu passes, needing %llu",
                 (unsigned long long)request->id, (unsigned long long)passes,
                 (unsigned long long)sim_need(world, request));
    }
}

static void hear_finished(struct sim_world *world, struct sim_request *request,
                          const struct engine_event *event)
{
    if (!is_complete(request, event)) {
        sim_fail(world, "request %llu choice %u ends with %d after %u of %u",
                 (unsigned long long)request->id, event->choice, event->finish,
                 request->said[event->choice], request->length);
    }
    if (request->has_scores && event->finish != ENGINE_FINISH_CANCELLED &&
        request->scored + 1 != request->prompt_count) {
        sim_fail(world, "request %llu scored %u of %u tokens",
                 (unsigned long long)request->id, request->scored,
                 request->prompt_count);
    }
    request->open &= ~(1u << event->choice);
    check_share(world, request);
    request->is_handed_over |= event->finish == ENGINE_FINISH_HANDOFF;
}

/* Failing is an answer, but only where something went wrong or is too much. */
static bool may_fail(const struct sim_world *world,
                     const struct sim_request *request,
                     const struct engine_event *event)
{
    bool is_refused = strncmp(event->reason, "queue is full", 13) == 0;
    bool is_too_large = event->error == ERR_INVALID && request->is_refusable;
    bool is_lost = world->summary.copies_failed > 0 && event->error == ERR_IO;
    bool is_younger = strstr(event->reason, "older requests wait") != NULL;
    bool is_stalled = strstr(event->reason, "could not schedule") != NULL;
    return !is_stalled &&
           (is_refused || is_younger || is_too_large || is_lost ||
            request->may_fail || request->is_cancelled);
}

static void hear_failed(struct sim_world *world, struct sim_request *request,
                        const struct engine_event *event)
{
    if (!may_fail(world, request, event)) {
        sim_fail(world, "request %llu fails: %s",
                 (unsigned long long)request->id, event->reason);
    }
    request->open = 0;
}

static void hear(struct sim_world *world, const struct engine_event *event)
{
    struct sim_request *request = sim_request_of(world, event->id);
    if (event->kind == ENGINE_EVENT_SENT) {
        return; /* comes after its end, for people */
    }
    sim_say(world, "event %d of %llu choice %u index %u token %d end %d err %s",
            event->kind, (unsigned long long)event->id, event->choice,
            event->index, event->token, event->finish, err_name(event->error));
    if (event->kind == ENGINE_EVENT_ABORTED) {
        return;
    }
    if (event->choice >= request->choice_count ||
        !(request->open & 1u << event->choice)) {
        /* These two speak for all choices. */
        bool is_whole = (event->kind == ENGINE_EVENT_FAILED ||
                         event->kind == ENGINE_EVENT_SCORE) &&
                        request->open != 0;
        if (!is_whole) {
            sim_fail(world, "request %llu choice %u speaks after its end",
                     (unsigned long long)event->id, event->choice);
            return;
        }
    }
    switch (event->kind) {
    case ENGINE_EVENT_TOKEN:
        hear_token(world, request, event);
        return;
    case ENGINE_EVENT_SCORE:
        hear_score(world, request, event);
        return;
    case ENGINE_EVENT_FINISHED:
        hear_finished(world, request, event);
        return;
    case ENGINE_EVENT_FAILED:
        hear_failed(world, request, event);
        return;
    case ENGINE_EVENT_ABORTED:
    case ENGINE_EVENT_STOPPED:
    case ENGINE_EVENT_CACHE:
    case ENGINE_EVENT_SENT:
        break;
    }
    sim_fail(world, "an event of kind %d", event->kind);
}

/* As in the shell: an answer never overtakes its order. */
void sim_events_take(struct sim_world *world)
{
    uint32_t orders = 0;
    uint32_t count = 0;
    engine_core_orders(world->core, &orders);
    if (orders > 0) {
        return;
    }
    const struct engine_event *events = engine_core_events(world->core, &count);
    for (uint32_t i = 0; i < count; i++) {
        hear(world, &events[i]);
        mem_free(events[i].top);
    }
    engine_core_events_taken(world->core, count);
}

/* ---- the end ---- */

bool sim_is_over(const struct sim_world *world)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        if (world->requests[i].open != 0) {
            return false;
        }
    }
    return world->transfer_count == 0;
}

static void check_open(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        const struct sim_request *request = &world->requests[i];
        if (request->open != 0) {
            sim_fail(world,
                     "request %llu has not ended, asked for in pass %llu",
                     (unsigned long long)request->id,
                     (unsigned long long)request->first_pass);
        }
    }
}

static void check_held(struct sim_world *world)
{
    struct engine_stats stats;
    engine_core_stats(world->core, &stats);
    if (stats.waiting + stats.running + stats.receiving + stats.sending > 0) {
        sim_fail(world, "%u wait, %u run, %u receive, %u send at the end",
                 stats.waiting, stats.running, stats.receiving, stats.sending);
    }
    if (stats.pages_used > 0 || stats.pages_leased > 0) {
        sim_fail(world, "%u pages are held at the end, %u of them leased",
                 stats.pages_used, stats.pages_leased);
    }
    if (stats.pages_free + stats.pages_cached != stats.pages_total) {
        sim_fail(world, "%u pages free, %u cached, of %u", stats.pages_free,
                 stats.pages_cached, stats.pages_total);
    }
    if (world->is_stopped && !engine_core_is_stopped(world->core)) {
        sim_fail(world, "it does not stop");
    }
}

void sim_check_end(struct sim_world *world)
{
    check_open(world);
    if (!sim_has_failed(world)) {
        check_held(world);
    }
}
