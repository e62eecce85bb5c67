#pragma once
/* An engine core with a hash model, a pool and a sampler around it, on one
 * thread: what the shell does, without threads, clocks or mailboxes. After every
 * step the core proves itself valid. With overlap a batch is computed as late as
 * may be: when the next one has been planned and its copies are done. */
#include <stdio.h>

#include "unit/base/test.h"

#include "base/mem.h"
#include "engine/core.h"
#include "model/model.h"

enum { RIG_EVENT_MAX = 20000, RIG_PROMPT_MAX = 512 };

struct rig {
    struct engine_core *core;
    struct model_hash_options hash;
    struct model *model;
    struct kv_pool_view pool;
    struct kv_pool_view more[KV_LIFE_COUNT_MAX]; /* of life cycles 1 .. */
    struct kv_pool_view host;
    struct sampler *sampler;
    float *logits;
    struct sampler_result *results[2]; /* of the last batches, in turn */
    const struct engine_plan *flights[2]; /* under way, in the same places */
    uint64_t launched, settled;
    uint64_t now_ns;
    uint64_t step_ns; /* a turn takes so long */
    bool gives_up; /* the next forward passes compute, then give up */
    bool holds_events;
    struct engine_event *events; /* all so far */
    uint32_t event_count;
    /* Of the last turn. */
    uint32_t run_count, row_count;
    uint32_t run_tokens[64];
};

static inline struct engine_core_options rig_options(void)
{
    return (struct engine_core_options){
        .life_count = 1,
        .group_count = 1,
        .page_counts = {64},
        .tokens_per_block = 4,
        .max_batch = 8,
        .max_seq = 128,
        .row_count_max = 64,
        .chunk_tokens = 64,
        .chunk_unit = 4,
        .is_chunked = true,
        .turn_ns_max = 100000000,
        .queue_limit = 16,
        .session_max = 4,
        .kv_transfer_timeout_ns = 60000000000,
        .vocab_size = 1000,
        .enable_block_reuse = true,
        .secret = {5},
        .score_row_max = 32,
    };
}

/* A pool a life cycle; the first one is `pool`. */
static inline void rig_set_pools(struct rig *rig,
                                 const struct engine_core_options *options)
{
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX] = {rig->pool};
    for (uint32_t i = 1; i < options->life_count; i++) {
        rig->more[i] = rig->pool;
        rig->more[i].page_count = options->page_counts[i];
        rig->more[i].base =
            mem_try_aligned(64, rig->pool.page_bytes * options->page_counts[i]);
        pools[i] = rig->more[i];
    }
    rig->model->ops->set_pool(rig->model, pools);
}

static inline struct rig *rig_create(const struct engine_core_options *options)
{
    struct rig *rig = mem_new(sizeof(*rig));
    struct why why;
    rig->hash = (struct model_hash_options){.vocab_size = options->vocab_size,
                                            .context_length = options->max_seq,
                                            .layer_count = 2,
                                            .tokens_per_block =
                                                options->tokens_per_block,
                                            .seed = 11};
    rig->hash.life_count = options->life_count;
    memcpy(rig->hash.lives, options->lives, sizeof(rig->hash.lives));
    rig->model = model_hash_create(&rig->hash);
    assert_int_equal(engine_core_create(options, &why, &rig->core), OK);
    rig->pool.layout = rig->model->info.shape.layouts[0];
    rig->pool.page_bytes = kv_layout_page_bytes(&rig->pool.layout);
    rig->pool.page_count = options->page_counts[0];
    rig->pool.base =
        mem_try_aligned(64, rig->pool.page_bytes * options->page_counts[0]);
    rig->host = rig->pool;
    rig->host.page_count = options->host_page_counts[0];
    rig->host.base =
        mem_try_aligned(64, rig->pool.page_bytes * (rig->host.page_count + 1));
    rig_set_pools(rig, options);
    rig->sampler = sampler_create(options->vocab_size);
    rig->logits = mem_new_array(engine_core_logit_row_max(rig->core),
                                options->vocab_size * sizeof(float));
    for (int i = 0; i < 2; i++) {
        rig->results[i] = mem_new_array(engine_core_job_max(rig->core),
                                        sizeof(struct sampler_result));
    }
    rig->events = mem_new_array(RIG_EVENT_MAX, sizeof(rig->events[0]));
    rig->now_ns = 1000;
    rig->step_ns = 1000000;
    return rig;
}

static inline void rig_destroy(struct rig *rig)
{
    engine_core_destroy(rig->core);
    rig->model->ops->destroy(rig->model);
    sampler_destroy(rig->sampler);
    for (uint32_t i = 0; i < rig->event_count; i++) {
        mem_free(rig->events[i].top);
    }
    for (uint32_t i = 1; i < KV_LIFE_COUNT_MAX; i++) {
        mem_free(rig->more[i].base);
    }
    mem_free(rig->pool.base);
    mem_free(rig->host.base);
    mem_free(rig->logits);
    mem_free(rig->results[0]);
    mem_free(rig->results[1]);
    mem_free(rig->events);
    mem_free(rig);
}

static inline void rig_drain(struct rig *rig)
{
    uint32_t count = 0;
    const struct engine_event *events = engine_core_events(rig->core, &count);
    assert_true(rig->event_count + count <= RIG_EVENT_MAX);
    memcpy(&rig->events[rig->event_count], events, count * sizeof(events[0]));
    rig->event_count += count;
    engine_core_events_taken(rig->core, count);
}

static inline const struct kv_pool_view *rig_level(const struct rig *rig,
                                                   uint8_t level)
{
    return level == 0 ? &rig->pool : &rig->host;
}

static inline void rig_copy(struct rig *rig)
{
    uint32_t count = 0;
    const struct kv_order *orders = engine_core_copies(rig->core, &count);
    while (count > 0) {
        struct kv_order order = orders[0];
        const struct kv_pool_view *to = rig_level(rig, order.to_level);
        const struct kv_pool_view *from = rig_level(rig, order.from_level);
        engine_core_copies_taken(rig->core, 1);
        memcpy(to->base + to->page_bytes * (size_t)order.to_slot,
               from->base + from->page_bytes * (size_t)order.from_slot,
               to->page_bytes);
        engine_core_copy_done(rig->core, order.ticket, true);
        orders = engine_core_copies(rig->core, &count);
    }
}

static inline void rig_sample(struct rig *rig, const struct engine_plan *plan,
                              struct sampler_result *results)
{
    uint32_t vocab = rig->hash.vocab_size;
    float *scratch = test_malloc(vocab * sizeof(float));
    for (uint32_t i = 0; i < plan->job_count; i++) {
        const struct engine_job *job = &plan->jobs[i];
        float *row = rig->logits + (size_t)job->row * vocab;
        assert_true(job->row < plan->logit_row_count);
        if (job->is_score) {
            sampler_score(rig->sampler, row, job->target,
                          job->input.logprob_count, &results[i]);
            continue;
        }
        struct sampler_input input = job->input;
        memcpy(scratch, row, vocab * sizeof(float));
        input.logits = scratch;
        sampler_run(rig->sampler, job->options, &input, &results[i]);
    }
    test_free(scratch);
}

/* The head of a turn alone: what would be computed now. */
static inline const struct engine_plan *rig_plan(struct rig *rig)
{
    const struct engine_plan *plan = engine_core_plan(rig->core, rig->now_ns);
    assert_true(engine_core_is_valid(rig->core));
    rig->run_count = plan->run_count;
    rig->row_count = plan->row_count;
    for (uint32_t i = 0; i < plan->run_count && i < 64; i++) {
        rig->run_tokens[i] = plan->runs[i].token_count;
    }
    assert_true(plan->logit_row_count <= engine_core_logit_row_max(rig->core));
    rig_copy(rig);
    return plan;
}

static inline uint32_t rig_flight_count(const struct rig *rig)
{
    return (uint32_t)(rig->launched - rig->settled);
}

/* The oldest batch under way is computed and applied. */
static inline void rig_settle(struct rig *rig)
{
    uint64_t at = rig->settled++;
    const struct engine_plan *plan = rig->flights[at % 2];
    struct model_batch batch = {.runs = plan->runs,
                                .run_count = plan->run_count};
    engine_plan_feed(plan, rig->results[(at + 1) % 2]);
    assert_int_equal(rig->model->ops->forward(rig->model, &batch, rig->logits),
                     OK);
    rig_sample(rig, plan, rig->results[at % 2]);
    rig->now_ns += rig->step_ns;
    if (rig->gives_up) {
        rig->launched = rig->settled;
        engine_core_abort(rig->core);
    } else {
        engine_core_result(rig->core, rig->now_ns, rig->results[at % 2]);
    }
    assert_true(engine_core_is_valid(rig->core));
    rig_copy(rig);
}

/* False: the batch before it gave up, and this one with it. */
static inline bool rig_launch(struct rig *rig, const struct engine_plan *plan)
{
    while (engine_core_plan_state(rig->core) == ENGINE_PLAN_WAITS) {
        assert_true(rig_flight_count(rig) > 0);
        rig_settle(rig);
        if (engine_core_flight(rig->core) == 0) {
            return false;
        }
    }
    rig->flights[rig->launched++ % 2] = plan;
    return true;
}

/* One whole turn; false when there was nothing to compute. */
static inline bool rig_turn(struct rig *rig)
{
    const struct engine_plan *plan = rig_plan(rig);
    bool is_busy = plan->run_count > 0 || rig_flight_count(rig) > 0;
    bool is_launched = plan->run_count > 0 && rig_launch(rig, plan);
    uint32_t kept = is_launched && engine_core_depth(rig->core) > 1;
    while (rig_flight_count(rig) > kept) {
        rig_settle(rig);
    }
    if (!rig->holds_events) {
        rig_drain(rig);
    }
    return is_busy;
}

static inline void rig_run(struct rig *rig)
{
    for (int i = 0; i < 10000; i++) {
        if (!rig_turn(rig) && engine_core_wake_ns(rig->core) > rig->now_ns) {
            return;
        }
    }
}

/* Token i of the prompt that `kind` names. */
static inline int32_t rig_prompt_token(int kind, uint32_t i)
{
    return (int32_t)((uint32_t)kind * 131 + i * 7) % 997;
}

/* Greedy, four tokens, one choice; change what the test is about. */
static inline struct engine_request *rig_request(uint64_t id, int prompt_kind,
                                                 uint32_t prompt_count)
{
    struct engine_request *request = mem_new(sizeof(*request));
    request->id = id;
    request->prompt = mem_new_array(prompt_count, sizeof(int32_t));
    request->prompt_count = prompt_count;
    for (uint32_t i = 0; i < prompt_count; i++) {
        request->prompt[i] = rig_prompt_token(prompt_kind, i);
    }
    request->choice_count = 1;
    request->max_new_tokens = 4;
    request->sampling = sampler_defaults();
    request->sampling.temperature = 0;
    request->logprob_count = -1;
    request->rid = (int64_t)id;
    return request;
}

static inline void rig_submit(struct rig *rig, struct engine_request *request)
{
    assert_true(engine_core_has_room(rig->core));
    engine_core_command(rig->core, rig->now_ns,
                        &(struct engine_command){.kind = ENGINE_SUBMIT,
                                                 .id = request->id,
                                                 .request = request});
    assert_true(engine_core_is_valid(rig->core));
}

static inline void rig_command(struct rig *rig, enum engine_command_kind kind,
                               uint64_t id, uint32_t choice)
{
    engine_core_command(
        rig->core, rig->now_ns,
        &(struct engine_command){
            .kind = kind, .id = id, .choice = choice, .rid = (int64_t)id});
    assert_true(engine_core_is_valid(rig->core));
    rig_drain(rig);
}

/* The token that the model gives after prompt + output so far. */
static inline void rig_expect(const struct rig *rig, int prompt_kind,
                              uint32_t prompt_count, uint32_t count,
                              int32_t *out)
{
    int32_t tokens[2 * RIG_PROMPT_MAX];
    for (uint32_t i = 0; i < prompt_count; i++) {
        tokens[i] = rig_prompt_token(prompt_kind, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = model_hash_next(&rig->hash, tokens, prompt_count + i);
        tokens[prompt_count + i] = out[i];
    }
}

/* The last event of that kind for (id, choice), NULL when there is none. */
static inline const struct engine_event *rig_find(const struct rig *rig,
                                                  uint64_t id, uint32_t choice,
                                                  enum engine_event_kind kind)
{
    for (uint32_t i = rig->event_count; i > 0; i--) {
        const struct engine_event *event = &rig->events[i - 1];
        if (event->id == id && event->choice == choice && event->kind == kind) {
            return event;
        }
    }
    return NULL;
}

static inline uint32_t rig_count(const struct rig *rig, uint64_t id,
                                 enum engine_event_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->event_count; i++) {
        count += rig->events[i].id == id && rig->events[i].kind == kind;
    }
    return count;
}

/* Exactly these tokens, numbered from 0, and one FINISHED. */
static inline void rig_assert_tokens(const struct rig *rig, uint64_t id,
                                     uint32_t choice, const int32_t *expected,
                                     uint32_t count, enum engine_finish finish)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < rig->event_count; i++) {
        const struct engine_event *event = &rig->events[i];
        if (event->id != id || event->choice != choice ||
            event->kind != ENGINE_EVENT_TOKEN) {
            continue;
        }
        assert_true(seen < count);
        assert_int_equal(event->index, seen);
        assert_int_equal(event->token, expected[seen]);
        seen++;
    }
    assert_int_equal(seen, count);
    const struct engine_event *end =
        rig_find(rig, id, choice, ENGINE_EVENT_FINISHED);
    assert_non_null(end);
    assert_int_equal(end->finish, finish);
}

static inline void rig_assert_failed(const struct rig *rig, uint64_t id,
                                     enum err error, const char *words)
{
    const struct engine_event *event =
        rig_find(rig, id, 0, ENGINE_EVENT_FAILED);
    assert_non_null(event);
    assert_int_equal(event->error, error);
    assert_non_null(strstr(event->reason, words));
}

/* Nothing is held by anybody: pages are free or cached. */
static inline void rig_assert_idle(struct rig *rig)
{
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    assert_int_equal(stats.waiting + stats.running, 0);
    assert_int_equal(stats.receiving + stats.sending, 0);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.pages_leased, 0);
    assert_int_equal(stats.pages_free + stats.pages_cached, stats.pages_total);
}

/* ---- a transfer that is nothing but a copy ---- */

static inline bool rig_take_order(struct rig *rig,
                                  struct transfer_command *order_out)
{
    uint32_t count = 0;
    const struct transfer_command *orders =
        engine_core_orders(rig->core, &count);
    if (count == 0) {
        return false;
    }
    *order_out = orders[0];
    engine_core_orders_taken(rig->core, 1);
    return true;
}

static inline void rig_report(struct rig *rig,
                              const struct transfer_command *order,
                              uint8_t word, uint8_t reason, const char *text)
{
    struct transfer_report report = {.request = order->request,
                                     .word = word,
                                     .reason = reason,
                                     .moved_blocks = order->block_count,
                                     .backend = "copy",
                                     .lane = "memcpy"};
    snprintf(report.text, sizeof(report.text), "%s", text);
    engine_core_report(rig->core, rig->now_ns, &report);
    assert_true(engine_core_is_valid(rig->core));
}

static inline uint8_t *rig_page(const struct rig *rig, uint32_t life,
                                kv_page_id page)
{
    const struct kv_pool_view *pool = life == 0 ? &rig->pool : &rig->more[life];
    assert_true(page >= 0 && (uint32_t)page < pool->page_count);
    return pool->base + pool->page_bytes * (size_t)page;
}

/* Blocks [first, end) of one life cycle that the receiver wants. */
static inline void rig_move_blocks(const struct rig *from,
                                   const struct transfer_command *send,
                                   const struct rig *to,
                                   const struct transfer_command *receive,
                                   uint32_t life, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        if (receive->pages[life][i] != KV_PAGE_NONE) {
            memcpy(rig_page(to, life, receive->pages[life][i]),
                   rig_page(from, life, send->pages[life][i]),
                   to->pool.page_bytes);
        }
    }
}

static inline void rig_move_pages(const struct rig *from,
                                  const struct transfer_command *send,
                                  const struct rig *to,
                                  const struct transfer_command *receive)
{
    assert_int_equal(send->block_count, receive->block_count);
    for (uint32_t life = 0; life < receive->group_count; life++) {
        rig_move_blocks(from, send, to, receive, life, 0, receive->block_count);
    }
}
