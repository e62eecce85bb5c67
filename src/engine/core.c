#include "engine/core.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/state.h"

static enum err check_options(const struct engine_core_options *options,
                              struct why *why)
{
    if (options->max_batch == 0 || options->max_seq < 2) {
        return why_say(why, ERR_INVALID,
                       "max_batch %u must be at least 1, max_seq %u at least 2",
                       options->max_batch, options->max_seq);
    }
    if (options->chunk_unit == 0 ||
        options->row_count_max < options->max_batch + options->chunk_unit) {
        return why_say(why, ERR_INVALID,
                       "row_count_max is %u, but a turn must hold max_batch "
                       "%u decodes and a chunk of %u tokens",
                       options->row_count_max, options->max_batch,
                       options->chunk_unit);
    }
    if (options->tokens_per_block == 0 ||
        options->tokens_per_block > PREFIX_BLOCK_TOKENS_MAX) {
        return why_say(why, ERR_INVALID, "tokens_per_block is %u, 1 to %d",
                       options->tokens_per_block, PREFIX_BLOCK_TOKENS_MAX);
    }
    if (options->end_token_count > ENGINE_END_TOKEN_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "%u end tokens, at most %d",
                       options->end_token_count, ENGINE_END_TOKEN_COUNT_MAX);
    }
    if (options->session_max > ENGINE_SESSION_COUNT_MAX ||
        options->score_row_max < options->chunk_unit) {
        return why_say(why, ERR_INVALID,
                       "session_max %u is above %d, or score_row_max %u "
                       "below chunk_unit %u",
                       options->session_max, ENGINE_SESSION_COUNT_MAX,
                       options->score_row_max, options->chunk_unit);
    }
    return OK;
}

static void create_items(struct engine_core *core)
{
    const struct engine_core_options *options = &core->options;
    core->item_count =
        options->queue_limit + options->max_batch + options->session_max;
    core->items = mem_new_array(core->item_count, sizeof(core->items[0]));
    for (uint32_t i = 0; i < core->item_count; i++) {
        core->items[i].wait_next = core->free_items;
        core->free_items = &core->items[i];
    }
}

static void create_lanes(struct engine_core *core)
{
    uint32_t count = core->options.max_batch;
    uint32_t seq = core->options.max_seq;
    core->lanes = mem_new_array(count, sizeof(core->lanes[0]));
    core->histories =
        mem_new_array((size_t)count * seq, sizeof(core->histories[0]));
    for (size_t i = 0; i < count; i++) {
        core->lanes[i].history = core->histories + i * seq;
    }
    core->lanes_free = count;
    core->prefills = mem_new_array(count, sizeof(core->prefills[0]));
    core->entries = mem_new_array(count, sizeof(core->entries[0]));
    core->runs = mem_new_array(count, sizeof(core->runs[0]));
    core->copies = mem_new_array(count, sizeof(core->copies[0]));
    core->job_max =
        count * ENGINE_CHOICE_COUNT_MAX + core->options.score_row_max;
    core->jobs = mem_new_array(core->job_max, sizeof(core->jobs[0]));
}

static void create_sessions(struct engine_core *core)
{
    uint32_t count = core->options.session_max;
    core->sessions = mem_new_array(count, sizeof(core->sessions[0]));
    core->session_pages = mem_new_array((size_t)count * core->block_count_max,
                                        sizeof(core->session_pages[0]));
    for (size_t i = 0; i < count; i++) {
        core->sessions[i].pages =
            core->session_pages + i * core->block_count_max;
    }
    core->order_max = 2 * count;
    core->orders = mem_new_array(core->order_max, sizeof(core->orders[0]));
    core->domain = count == 0 ? NULL : agree_domain_create(count, 1);
}

static void create_key_memos(struct engine_core *core)
{
    for (int i = 0; i < 2; i++) {
        struct key_memo *memo = &core->key_memos[i];
        memo->keys =
            mem_new_array(core->block_count_max, sizeof(memo->keys[0]));
        memo->item_id = UINT64_MAX;
    }
}

enum err engine_core_create(const struct engine_core_options *options,
                            struct why *why, struct engine_core **core_out)
{
    enum err err = check_options(options, why);
    if (err != OK) {
        return err;
    }
    struct engine_core *core = mem_new(sizeof(*core));
    core->options = *options;
    core->options.end_tokens = core->end_tokens;
    for (uint32_t i = 0; i < options->end_token_count; i++) {
        core->end_tokens[i] = options->end_tokens[i];
    }
    uint32_t block = options->tokens_per_block;
    core->block_count_max =
        options->max_seq / block + (options->max_seq % block > 0);
    core->has_seen_generation = options->is_mixed;
    create_key_memos(core);
    core->cache = kv_cache_create(&(struct kv_cache_options){
        .page_count = options->page_count,
        .tokens_per_block = block,
        .seq_count_max = options->max_batch + options->session_max,
        .block_count_max = core->block_count_max,
        .enable_reuse = options->enable_block_reuse});
    engine_pace_init(&core->pace, options->chunk_tokens, options->row_count_max,
                     options->turn_ns_max);
    create_items(core);
    create_lanes(core);
    create_sessions(core);
    core->event_max =
        2 * STEP_EVENTS * (options->max_batch + 1) + 2 * options->score_row_max;
    core->events = mem_new_array(core->event_max, sizeof(core->events[0]));
    core->wake_ns = UINT64_MAX;
    *core_out = core;
    return OK;
}

void engine_core_destroy(struct engine_core *core)
{
    if (core == NULL) {
        return;
    }
    for (struct item *item = core->oldest; item != NULL; item = item->younger) {
        engine_request_free(item->request);
    }
    for (uint32_t i = 0; i < core->event_count; i++) {
        mem_free(core->events[i].top);
    }
    mem_free(core->events);
    agree_domain_destroy(core->domain);
    mem_free(core->orders);
    mem_free(core->session_pages);
    mem_free(core->sessions);
    mem_free(core->jobs);
    mem_free(core->copies);
    mem_free(core->runs);
    mem_free(core->entries);
    mem_free(core->prefills);
    mem_free(core->histories);
    mem_free(core->lanes);
    mem_free(core->items);
    kv_cache_destroy(core->cache);
    mem_free(core->key_memos[0].keys);
    mem_free(core->key_memos[1].keys);
    mem_free(core);
}

bool engine_core_has_room(const struct engine_core *core)
{
    return item_room(core) >= STEP_EVENTS;
}

static struct item *find(const struct engine_core *core, uint64_t id)
{
    struct item *item = core->oldest;
    while (item != NULL && (item->id != id || item_is_answered(item))) {
        item = item->younger;
    }
    return item;
}

/* Every request of this rid, whichever half it is and wherever it stands. */
static void abort_rid(struct engine_core *core, uint64_t now_ns,
                      const struct engine_command *command)
{
    bool is_found = false;
    struct item *item = core->oldest;
    while (item != NULL) {
        struct item *next = item->younger;
        if (item->kind != ENGINE_AGGREGATED && item->rid == command->rid) {
            is_found = true;
            if (item_is_answered(item)) {
                item_let_go(core, item, AGREE_CANCEL, AGREE_REASON_USER_CANCEL);
            } else {
                item_cancel(core, item, now_ns);
            }
        }
        item = next;
    }
    struct item asked = {.id = command->id};
    item_event(core, &asked, ENGINE_EVENT_ABORTED)->found = is_found;
}

void engine_core_command(struct engine_core *core, uint64_t now_ns,
                         const struct engine_command *command)
{
    CHECK(!core->has_plan);
    struct item *item = find(core, command->id);
    switch (command->kind) {
    case ENGINE_SUBMIT:
        admit_submit(core, now_ns, command->request);
        return;
    case ENGINE_CANCEL:
        if (item != NULL) {
            item_cancel(core, item, now_ns);
        }
        return;
    case ENGINE_CANCEL_CHOICE:
        if (item != NULL) {
            item_cancel_choice(core, item, command->choice, now_ns);
        }
        return;
    case ENGINE_ABORT_RID:
        abort_rid(core, now_ns, command);
        return;
    case ENGINE_DRAIN:
        core->is_draining = true;
        return;
    case ENGINE_STOP:
        core->is_stopping = true;
        return;
    }
    CHECK_UNREACHABLE();
}

void engine_core_report(struct engine_core *core, uint64_t now_ns,
                        const struct transfer_report *report)
{
    (void)now_ns;
    CHECK(!core->has_plan);
    CHECK(core->domain != NULL);
    session_report(core, report);
}

/* Ends what is stopped or late; late is who has no first token yet. */
static void end_overdue(struct engine_core *core, uint64_t now_ns)
{
    core->wake_ns = UINT64_MAX;
    struct item *item = core->oldest;
    while (item != NULL) {
        struct item *next = item->younger;
        uint64_t deadline_ns = item->request == NULL || item->first_token_ns > 0
                                   ? 0
                                   : item->request->deadline_ns;
        bool is_late = deadline_ns != 0 && now_ns >= deadline_ns;
        if (item_is_answered(item) || item_room(core) < STEP_EVENTS) {
            item = next;
            continue;
        }
        if (core->is_stopping) {
            item_fail(core, item, now_ns, ERR_CLOSED, "the worker stops");
        } else if (is_late) {
            item_fail(core, item, now_ns, ERR_TIMEOUT,
                      "no first token within the deadline");
        } else if (deadline_ns != 0 && deadline_ns < core->wake_ns) {
            core->wake_ns = deadline_ns;
        }
        item = next;
    }
}

const struct engine_plan *engine_core_plan(struct engine_core *core,
                                           uint64_t now_ns)
{
    CHECK(!core->has_plan);
    CHECK(core->copy_count == 0);
    session_apply_agreed(core, now_ns);
    end_overdue(core, now_ns);
    apply_received(core, now_ns);
    if (!core->is_stopping) {
        admit_waiting(core, now_ns);
        give_way(core, now_ns);
    }
    batch_build(core, now_ns);
    return &core->plan;
}

static void end_plan(struct engine_core *core)
{
    CHECK(core->has_plan);
    core->has_plan = false;
}

void engine_core_result(struct engine_core *core, uint64_t now_ns,
                        const struct sampler_result *results)
{
    end_plan(core);
    engine_pace_learn(&core->pace, core->prefill_rows, core->plan.row_count,
                      now_ns - core->plan_ns);
    apply_results(core, now_ns, results);
    core->stats.turns++;
    if (now_ns - core->plan_ns > core->stats.turn_ns_max) {
        core->stats.turn_ns_max = now_ns - core->plan_ns;
    }
}

void engine_core_abort(struct engine_core *core)
{
    end_plan(core);
}

void engine_core_fail(struct engine_core *core, uint64_t now_ns, enum err error)
{
    end_plan(core);
    log_error("engine", "forward pass failed: %s", err_name(error));
    for (uint32_t i = 0; i < core->plan.run_count; i++) {
        struct item *item = core->entries[i].item;
        if (item->state != ITEM_FREE && !item_is_answered(item)) {
            item_fail(core, item, now_ns, ERR_INTERNAL, "the model failed");
        }
    }
}

const struct kv_copy *engine_core_copies(const struct engine_core *core,
                                         uint32_t *count_out)
{
    *count_out = core->copy_count;
    return core->copies;
}

void engine_core_copies_done(struct engine_core *core)
{
    core->copy_count = 0;
}

const struct engine_event *engine_core_events(const struct engine_core *core,
                                              uint32_t *count_out)
{
    *count_out = core->event_count;
    return core->events;
}

void engine_core_events_taken(struct engine_core *core, uint32_t count)
{
    CHECK(count <= core->event_count);
    core->event_count -= count;
    memmove(core->events, core->events + count,
            core->event_count * sizeof(core->events[0]));
}

const struct transfer_command *engine_core_orders(
    const struct engine_core *core, uint32_t *count_out)
{
    *count_out = core->order_count;
    return core->orders;
}

void engine_core_orders_taken(struct engine_core *core, uint32_t count)
{
    CHECK(count <= core->order_count);
    core->order_count -= count;
    memmove(core->orders, core->orders + count,
            core->order_count * sizeof(core->orders[0]));
}

uint32_t engine_core_logit_row_max(const struct engine_core *core)
{
    return core->options.max_batch + core->options.score_row_max;
}

uint32_t engine_core_job_max(const struct engine_core *core)
{
    return core->job_max;
}

uint64_t engine_core_wake_ns(const struct engine_core *core)
{
    return core->wake_ns;
}
