#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "engine/state.h"

static void say_token(struct engine_core *core, const struct item *item,
                      uint32_t choice, uint32_t index, int32_t token,
                      const struct sampler_result *result)
{
    struct engine_event *event = item_event(core, item, ENGINE_EVENT_TOKEN);
    event->choice = choice;
    event->index = index;
    event->token = token;
    if (result == NULL) {
        return;
    }
    event->logprob = result->logprob;
    event->top_count = result->top_count;
    if (result->top_count > 0) {
        event->top =
            mem_copy(result->top, result->top_count * sizeof(result->top[0]));
    }
}

static void say_score(struct engine_core *core, const struct item *item,
                      uint32_t index, int32_t token,
                      const struct sampler_result *result)
{
    say_token(core, item, 0, index, token, result);
    core->events[core->event_count - 1].kind = ENGINE_EVENT_SCORE;
}

/* Does this token, the output's `count`-th, end its choice? */
static bool is_over(const struct item *item, int32_t token, uint32_t count,
                    enum engine_finish *finish_out)
{
    bool may_end = count >= item->request->min_tokens;
    if (may_end && item_ends_with(item, token)) {
        *finish_out = ENGINE_FINISH_STOP;
        return true;
    }
    if (item->kind == ENGINE_CONTEXT_ONLY) {
        *finish_out = ENGINE_FINISH_HANDOFF;
        return true;
    }
    *finish_out = ENGINE_FINISH_LENGTH;
    return count >= item->max_new;
}

static void fill_lane(struct engine_core *core, struct item *item,
                      const struct first_token *first, struct kv_seq *seq)
{
    struct lane *lane = lane_take(core, item, first->choice);
    const struct engine_request *request = item->request;
    memcpy(lane->history, request->prompt,
           request->prompt_count * sizeof(lane->history[0]));
    lane->history[request->prompt_count] = first->token;
    lane->history_count = request->prompt_count + 1;
    memcpy(lane->keys, item->keys, item->key_count * sizeof(lane->keys[0]));
    lane->key_count = item->key_count;
    lane->seq = seq;
    lane->computed = seq == NULL ? 0 : request->prompt_count;
    units_init_lane(core, lane);
}

/* Gives up what was set aside for choices that are over already. */
static void forgo_rest(struct engine_core *core, const struct item *item)
{
    struct kv_promise rest = admit_promise(item);
    rest.fork_count = 0;
    rest.token_total = sched_reserve_tokens(core->sched, rest.fork_at,
                                            rest.token_total - rest.fork_at);
    if (core->options.policy == SCHED_MAX_UTILIZATION) {
        return; /* nothing was */
    }
    enum err err = kv_seq_promise(core->cache, item->seq, &rest);
    CHECK(err == OK || core->options.policy == SCHED_BOUNDED_OVERCOMMIT);
}

/* The first choice goes on with the prompt's sequence, the others fork it; one
 * that finds no page, or no room for the copy, begins paused. */
static void start_lanes(struct engine_core *core, struct item *item,
                        const struct first_token *alive, uint32_t count)
{
    item->state = ITEM_DECODE;
    prefix_wait_remove(core->waits, &item->prefix);
    for (uint32_t i = 1; i < count; i++) {
        struct kv_seq *child = NULL;
        if (kv_seq_fork(core->cache, item->seq, &child) != OK) {
            child = NULL;
        }
        fill_lane(core, item, &alive[i], child);
    }
    forgo_rest(core, item);
    fill_lane(core, item, &alive[0], item->seq);
    item->seq = NULL;
    core->lanes_free += item->lanes_held - count;
    item->lanes_held = count;
}

static void note_first_token(struct item *item, uint64_t now_ns)
{
    item->first_token_ns = now_ns;
    if (item->kind != ENGINE_GENERATION_ONLY) {
        item->journey.prefill_ns = now_ns - item->scheduled_ns;
    }
}

static void leave_lanes(struct engine_core *core, struct item *item)
{
    core->lanes_free += item->lanes_held;
    item->lanes_held = 0;
}

void apply_first_tokens(struct engine_core *core, struct item *item,
                        const struct first_token *firsts, uint32_t count,
                        uint64_t now_ns)
{
    struct first_token alive[ENGINE_CHOICE_COUNT_MAX];
    uint32_t alive_count = 0;
    bool is_handed_over = item_streams(item);
    note_first_token(item, now_ns);
    for (uint32_t i = 0; i < count; i++) {
        const struct first_token *first = &firsts[i];
        enum engine_finish finish = ENGINE_FINISH_LENGTH;
        say_token(core, item, first->choice, 0, first->token, first->result);
        if (!is_over(item, first->token, 1, &finish)) {
            alive[alive_count++] = *first;
            continue;
        }
        item_say_finished(core, item, first->choice, finish, first->token,
                          now_ns);
        is_handed_over |= finish == ENGINE_FINISH_HANDOFF;
    }
    if (is_handed_over) {
        leave_lanes(core, item);
        session_send(core, item, firsts, count, now_ns);
    } else if (alive_count > 0) {
        start_lanes(core, item, alive, alive_count);
    } else {
        item_let_go(core, item, AGREE_CANCEL, AGREE_REASON_NOT_NEEDED);
    }
}

/* What the request brought, or, generation-first, what came with the KV; `result`
 * has the room for the latter. */
static struct first_token received_first(struct item *item, uint32_t choice,
                                         struct sampler_result *result)
{
    struct first_token first = {.choice = choice,
                                .token = item->request->first_tokens[choice]};
    if (item->is_generation_first) {
        const struct transfer_aux *aux = item->session->aux;
        first_aux_result(item, aux, choice, result);
        first.token = result->token;
        first.result = result;
        item->journey.cached_tokens = aux->cached_tokens;
    }
    return first;
}

/* The KV of the whole prompt is here: its full blocks become findable, and the
 * first tokens, computed elsewhere, are treated like our own. */
static void start_received(struct engine_core *core, struct item *item,
                           uint64_t now_ns)
{
    const struct engine_request *request = item->request;
    struct sampler_result results[ENGINE_CHOICE_COUNT_MAX];
    struct first_token firsts[ENGINE_CHOICE_COUNT_MAX];
    uint32_t count = 0;
    uint32_t lanes = (uint32_t)__builtin_popcount(item->open_choices);
    core->lanes_free += item->lanes_held - lanes;
    item->lanes_held = lanes;
    item->computed = request->prompt_count;
    if (item->session->has_holes) {
        kv_seq_stop(item->seq); /* a block that others would find in part */
    }
    item_commit(core, item, request->prompt_count);
    for (uint32_t i = 0; i < request->choice_count; i++) {
        if (item->open_choices & 1u << i) {
            firsts[count++] = received_first(item, i, &results[i]);
        }
    }
    session_free(core, item->session);
    apply_first_tokens(core, item, firsts, count, now_ns);
}

void apply_received(struct engine_core *core, uint64_t now_ns)
{
    struct item *item = core->oldest;
    while (item != NULL) {
        struct item *next = item->younger;
        if (item->state == ITEM_RECEIVED && item->session->ticket == 0) {
            uint32_t lanes = (uint32_t)__builtin_popcount(item->open_choices);
            if (lanes > core->lanes_free + item->lanes_held ||
                item_room(core) < STEP_EVENTS) {
                return;
            }
            start_received(core, item, now_ns);
        }
        item = next;
    }
}

/* Those of a prompt that was paused and began anew are said once all the same. */
static uint32_t apply_scores(struct engine_core *core,
                             const struct entry *entry,
                             const struct sampler_result *results)
{
    uint32_t count = 0;
    const struct engine_job *jobs = core->batch->jobs;
    uint32_t index = entry->item->computed - entry->token_count + 1;
    while (count < entry->job_count &&
           jobs[entry->first_job + count].is_score) {
        const struct engine_job *job = &jobs[entry->first_job + count];
        if (index + count > entry->item->scored) {
            entry->item->scored = index + count;
            say_score(core, entry->item, index + count, job->target,
                      &results[entry->first_job + count]);
        }
        count++;
    }
    return count;
}

/* Nothing was to be generated: the prompt's scores were all. */
static void finish_unheard(struct engine_core *core, struct item *item,
                           uint64_t now_ns)
{
    note_first_token(item, now_ns);
    for (uint32_t i = 0; i < ENGINE_CHOICE_COUNT_MAX; i++) {
        if (item->open_choices & 1u << i) {
            item_say_finished(core, item, i, ENGINE_FINISH_LENGTH, 0, now_ns);
        }
    }
    item_let_go(core, item, AGREE_CANCEL, AGREE_REASON_NOT_NEEDED);
}

static void finish_prefill(struct engine_core *core, const struct entry *entry,
                           uint32_t score_count, uint64_t now_ns,
                           const struct sampler_result *results)
{
    struct item *item = entry->item;
    struct first_token firsts[ENGINE_CHOICE_COUNT_MAX];
    uint32_t count = 0;
    for (uint32_t i = score_count; i < entry->job_count; i++) {
        uint32_t job = entry->first_job + i;
        uint32_t choice = core->batch->jobs[job].input.choice;
        if (item->open_choices & 1u << choice) { /* it may have left */
            firsts[count++] = (struct first_token){.choice = choice,
                                                   .token = results[job].token,
                                                   .result = &results[job]};
        }
    }
    if (item->max_new == 0) {
        finish_unheard(core, item, now_ns);
    } else {
        apply_first_tokens(core, item, firsts, count, now_ns);
    }
}

/* A sequence that was put away meanwhile is told when it is back (engine.md 5.3,
 * a). */
static bool is_active(const struct kv_seq *seq)
{
    return seq->status == KV_SEQ_ACTIVE;
}

static void apply_prefill(struct engine_core *core, const struct entry *entry,
                          uint64_t now_ns, const struct sampler_result *results)
{
    struct item *item = entry->item;
    item->computed += entry->token_count;
    item->unit.under_way -= entry->token_count;
    item->unit.is_in_flight &= item->unit.under_way > 0;
    if (is_active(item->seq)) {
        item_commit(core, item, item->computed);
    }
    item->journey.chunk_count++;
    core->stats.prefill_tokens += entry->token_count;
    uint32_t score_count = apply_scores(core, entry, results);
    if (item->computed == item->request->prompt_count) {
        finish_prefill(core, entry, score_count, now_ns, results);
    } else {
        slices_after_chunk(core, item, now_ns);
    }
}

/* What a pause took is computed anew, up to the token that is fed next. */
static void apply_replay(struct engine_core *core, struct lane *lane,
                         uint32_t token_count)
{
    lane->computed += token_count;
    lane->unit.under_way -= token_count;
    if (is_active(lane->seq)) {
        lane_commit(core, lane, lane->computed);
    }
    core->stats.replayed_tokens += token_count;
    overlap_settle_lane(lane);
}

/* One that was paused meanwhile has the token, not its KV. */
static void note_decoded(struct engine_core *core, struct lane *lane,
                         int32_t token)
{
    if (lane->unit.kind == SCHED_GENERATION) {
        lane->computed = lane->history_count;
        if (is_active(lane->seq)) {
            lane_commit(core, lane, lane->computed);
        }
    }
    lane->history[lane->history_count++] = token;
    lane->pending--;
    overlap_settle_lane(lane);
}

static void apply_decode(struct engine_core *core, const struct entry *entry,
                         uint64_t now_ns, const struct sampler_result *result)
{
    struct lane *lane = entry->lane;
    struct item *item = entry->item;
    core->stats.decode_tokens++;
    note_decoded(core, lane, result->token);
    uint32_t count = lane->history_count - item->request->prompt_count;
    say_token(core, item, lane->choice, count - 1, result->token, result);
    enum engine_finish finish = ENGINE_FINISH_LENGTH;
    if (!is_over(item, result->token, count, &finish)) {
        return;
    }
    item_say_finished(core, item, lane->choice, finish, result->token, now_ns);
    sched_learn_length(core->sched, count);
    lane_free(core, lane);
    if (item_is_answered(item)) {
        item_let_go(core, item, AGREE_CANCEL, AGREE_REASON_NOT_NEEDED);
    }
}

void apply_results(struct engine_core *core, uint64_t now_ns,
                   const struct sampler_result *results)
{
    const struct batch *batch = core->batch;
    for (uint32_t i = 0; i < batch->plan.run_count; i++) {
        const struct entry *entry = &batch->entries[i];
        if (entry->item == NULL) {
            continue;
        }
        if (entry->lane == NULL) {
            apply_prefill(core, entry, now_ns, results);
        } else if (entry->job_count == 0) {
            apply_replay(core, entry->lane, entry->token_count);
        } else {
            apply_decode(core, entry, now_ns, &results[entry->first_job]);
        }
    }
}
