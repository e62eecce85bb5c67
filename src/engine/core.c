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
        core->items[i].younger = core->free_items;
        core->free_items = &core->items[i];
    }
}

static void create_lanes(struct engine_core *core)
{
    uint32_t count = core->options.max_batch;
    uint32_t seq = core->options.max_seq;
    size_t blocks = core->block_count_max;
    core->lanes = mem_new_array(count, sizeof(core->lanes[0]));
    core->histories =
        mem_new_array((size_t)count * seq, sizeof(core->histories[0]));
    core->lane_keys = mem_new_array(count * blocks, sizeof(core->lane_keys[0]));
    for (size_t i = 0; i < count; i++) {
        core->lanes[i].history = core->histories + i * seq;
        core->lanes[i].keys = core->lane_keys + i * blocks;
    }
    core->lanes_free = count;
    core->job_max =
        count * ENGINE_CHOICE_COUNT_MAX + core->options.score_row_max;
    overlap_init(core);
}

static void create_sessions(struct engine_core *core)
{
    uint32_t count = core->options.session_max;
    core->sessions = mem_new_array(count, sizeof(core->sessions[0]));
    uint32_t lives = core->options.life_count;
    size_t lists = (size_t)count * lives;
    core->session_refs = mem_new_array(lists * core->block_count_max,
                                       sizeof(core->session_refs[0]));
    core->session_pages = mem_new_array(lists * core->block_count_max,
                                        sizeof(core->session_pages[0]));
    for (size_t i = 0; i < lists; i++) {
        struct session *session = &core->sessions[i / lives];
        session->pages[i % lives] =
            core->session_pages + i * core->block_count_max;
        session->leased[i % lives] =
            core->session_refs + i * core->block_count_max;
    }
    core->order_max = 3 * count; /* offer, slice, cancel */
    core->orders = mem_new_array(core->order_max, sizeof(core->orders[0]));
    core->domain = count == 0 ? NULL : agree_domain_create(count, 1);
}

/* Of a sequence of max_seq tokens, or as many as the smallest pool of full
 * attention has. */
static uint32_t blocks_of_longest(const struct engine_core_options *options)
{
    uint32_t blocks = kv_blocks_of(options->max_seq, options->tokens_per_block);
    for (uint32_t i = 0; i < options->life_count; i++) {
        uint32_t pages = options->page_counts[options->group_of[i]];
        if (options->lives[i].window == 0 && pages < blocks) {
            blocks = pages;
        }
    }
    return blocks;
}

static enum err create_cache(struct engine_core *core, struct why *why)
{
    const struct engine_core_options *options = &core->options;
    struct kv_manager_options cache = {
        .tokens_per_block = options->tokens_per_block,
        .life_count = options->life_count,
        .group_count = options->group_count,
        .level_count = options->host_page_counts[0] > 0 ? 2 : 1,
        .seq_count_max = options->max_batch + options->session_max,
        .block_count_max = core->block_count_max,
        .step_max = options->row_count_max * overlap_depth(core),
        .enable_reuse = options->enable_block_reuse,
        .enable_partial = options->enable_partial_reuse,
        .commit = options->is_reuse_per_request ? KV_COMMIT_PER_REQUEST
                                                : KV_COMMIT_ALL,
        .offload_priority_min = options->offload_priority_min,
        .event_max = options->cache_event_max,
    };
    memcpy(cache.lives, options->lives, sizeof(cache.lives));
    memcpy(cache.group_of, options->group_of, sizeof(cache.group_of));
    memcpy(cache.slot_counts[0], options->page_counts,
           sizeof(cache.slot_counts[0]));
    memcpy(cache.slot_counts[1], options->host_page_counts,
           sizeof(cache.slot_counts[1]));
    return kv_manager_create(&cache, why, &core->cache);
}

/* Room in the planner's index for every prompt, each as long as can be: a small
 * worker has no use for a large one's table. */
static uint32_t wait_entries(const struct engine_core *core, uint32_t limit)
{
    uint64_t each = core->block_count_max / PREFIX_WAIT_STRIDE + 1;
    uint64_t all = each * core->item_count;
    return all < limit ? (uint32_t)all : limit;
}

/* A prompt's unit until it decodes, a lane's after that. */
static enum err create_sched(struct engine_core *core, struct why *why)
{
    const struct engine_core_options *options = &core->options;
    struct prefix_wait_options waits = prefix_wait_options_default();
    waits.tokens_per_block = options->tokens_per_block;
    waits.request_max = core->item_count;
    waits.entry_max = wait_entries(core, waits.entry_max);
    /* Who publishes at its end only is nobody to wait for. */
    waits.is_enabled = options->enable_prefix_waits &&
                       options->enable_block_reuse &&
                       !options->is_reuse_per_request;
    enum err err = prefix_wait_create(&waits, why, &core->waits);
    if (err != OK) {
        return err;
    }
    struct sched_options sched = sched_options_default();
    core->unit_max = core->item_count + options->max_batch;
    core->units = mem_new_array(core->unit_max, sizeof(core->units[0]));
    sched.policy = options->policy;
    sched.unit_max = core->unit_max;
    sched.chunk_unit = options->chunk_unit;
    sched.is_chunked = options->is_chunked;
    sched.is_shortest_first = options->is_shortest_first;
    sched.tokens_per_block = options->tokens_per_block;
    sched.seq_tokens_max = options->max_seq;
    sched.answer_tokens = options->answer_tokens;
    return sched_create(&sched, core->waits, why, &core->sched);
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
    core->block_count_max = blocks_of_longest(options);
    core->has_seen_generation = options->is_mixed;
    err = create_cache(core, why);
    if (err != OK) {
        engine_core_destroy(core);
        return err;
    }
    cache_events_init(core);
    engine_pace_init(&core->pace, options->chunk_tokens, options->row_count_max,
                     options->turn_ns_max);
    create_items(core);
    err = create_sched(core, why);
    if (err != OK) {
        engine_core_destroy(core);
        return err;
    }
    create_lanes(core);
    create_sessions(core);
    core->event_max = 2 * STEP_EVENTS * (options->max_batch + 1) +
                      2 * options->score_row_max +
                      (overlap_depth(core) - 1) * overlap_events_max(core);
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
        mem_free(item->keys);
    }
    for (uint32_t i = 0; i < core->event_count; i++) {
        engine_event_finish(&core->events[i]);
    }
    for (uint32_t i = 0; i < core->order_count; i++) {
        mem_free(core->orders[i].aux);
    }
    for (uint32_t i = 0;
         core->sessions != NULL && i < core->options.session_max; i++) {
        mem_free(core->sessions[i].aux);
    }
    mem_free(core->events);
    mem_free(core->salts);
    agree_domain_destroy(core->domain);
    mem_free(core->orders);
    mem_free(core->session_refs);
    mem_free(core->session_pages);
    mem_free(core->sessions);
    overlap_finish(core);
    mem_free(core->lane_keys);
    mem_free(core->histories);
    mem_free(core->lanes);
    mem_free(core->items);
    mem_free(core->units);
    sched_destroy(core->sched);
    prefix_wait_destroy(core->waits);
    kv_manager_destroy(core->cache);
    mem_free(core);
}

bool engine_core_has_room(const struct engine_core *core)
{
    return item_room(core) >= STEP_EVENTS;
}

void engine_core_report(struct engine_core *core, uint64_t now_ns,
                        const struct transfer_report *report)
{
    (void)now_ns;
    CHECK(core->batch_count < overlap_depth(core));
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
    CHECK(core->batch_count < overlap_depth(core));
    kv_manager_tick(core->cache, now_ns / 1000000);
    session_apply_agreed(core, now_ns);
    end_overdue(core, now_ns);
    slices_turn(core, now_ns);
    units_drop_lost(core, now_ns);
    apply_received(core, now_ns);
    core->schedule = units_schedule(core, now_ns);
    if (!core->options.has_vote) {
        units_post_receives(core, now_ns);
    }
    give_way(core, now_ns);
    overlap_begin(core, now_ns);
    batch_build(core, core->schedule);
    overlap_commit(core);
    return &core->batch->plan;
}

void engine_core_vote(struct engine_core *core, uint64_t now_ns, bool is_go)
{
    CHECK(core->options.has_vote);
    if (is_go) {
        units_post_receives(core, now_ns);
        return;
    }
    if (core->batch->plan.run_count > 0) {
        overlap_drop(core, true);
    }
    struct sched_cache cache = units_cache(core);
    sched_veto(core->sched, &cache);
}

/* Of the model's time: batches are computed one after the other. */
static void note_time(struct engine_core *core, uint64_t now_ns)
{
    const struct batch *batch = core->batch;
    uint64_t began_ns =
        batch->plan_ns > core->result_ns ? batch->plan_ns : core->result_ns;
    uint64_t elapsed_ns = now_ns - began_ns;
    engine_pace_learn(&core->pace, batch->prefill_rows, batch->plan.row_count,
                      elapsed_ns);
    core->result_ns = now_ns;
    core->stats.turns++;
    if (elapsed_ns > core->stats.turn_ns_max) {
        core->stats.turn_ns_max = elapsed_ns;
    }
}

void engine_core_result(struct engine_core *core, uint64_t now_ns,
                        const struct sampler_result *results)
{
    overlap_pop(core);
    note_time(core, now_ns);
    apply_results(core, now_ns, results);
}

void engine_core_abort(struct engine_core *core)
{
    CHECK(core->batch_count > 0);
    overlap_drop(core, false);
}

void engine_core_fail(struct engine_core *core, uint64_t now_ns, enum err error)
{
    CHECK(core->batch_count > 0);
    struct batch *batch = &core->batches[core->batch_first];
    overlap_drop(core, false);
    log_error("engine", "forward pass failed: %s", err_name(error));
    for (uint32_t i = 0; i < batch->plan.run_count; i++) {
        struct item *item = batch->entries[i].item;
        if (item != NULL && !item_is_answered(item)) {
            item_fail(core, item, now_ns, ERR_INTERNAL, "the model failed");
        }
    }
}

const struct kv_order *engine_core_copies(const struct engine_core *core,
                                          uint32_t *count_out)
{
    uint32_t count = 0;
    const struct kv_order *orders = kv_manager_orders(core->cache, &count);
    *count_out = overlap_free_copies(core, orders, count);
    return orders;
}

void engine_core_copies_taken(struct engine_core *core, uint32_t count)
{
    kv_manager_orders_taken(core->cache, count);
    overlap_copies_taken(core, count);
}

void engine_core_copy_done(struct engine_core *core, kv_ticket ticket,
                           bool is_ok)
{
    core->has_lost_pages |= !is_ok;
    kv_manager_order_done(core->cache, ticket, is_ok);
}

const struct engine_event *engine_core_events(const struct engine_core *core,
                                              uint32_t *count_out)
{
    bool has_hidden = overlap_free_orders(core) < core->order_count;
    *count_out = has_hidden ? 0 : core->event_count; /* never overtake them */
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
    *count_out = overlap_free_orders(core);
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

uint32_t engine_core_depth(const struct engine_core *core)
{
    return overlap_depth(core);
}

uint32_t engine_core_flight(const struct engine_core *core)
{
    return core->batch_count;
}

uint32_t engine_core_job_max(const struct engine_core *core)
{
    return core->job_max;
}

uint64_t engine_core_wake_ns(const struct engine_core *core)
{
    return core->wake_ns;
}
