#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "engine/state.h"

struct kv_promise admit_promise(const struct item *item)
{
    uint32_t prompt = item->request->prompt_count;
    if (item->kind == ENGINE_CONTEXT_ONLY) {
        return (struct kv_promise){.token_total = prompt};
    }
    return (struct kv_promise){
        .token_total = prompt + item->max_new,
        .fork_at = prompt,
        .fork_count = (uint32_t)__builtin_popcount(item->open_choices) - 1};
}

void admit_need(const struct engine_core *core,
                const struct kv_promise *promise, uint32_t reused,
                uint32_t pages_out[KV_LIFE_COUNT_MAX])
{
    uint32_t need[KV_LIFE_COUNT_MAX] = {0};
    kv_manager_need(core->cache, promise, reused, need);
    memset(pages_out, 0, KV_LIFE_COUNT_MAX * sizeof(pages_out[0]));
    for (uint32_t i = 0; i < core->options.life_count; i++) {
        pages_out[core->options.group_of[i]] += need[i];
    }
}

/* Would it fit if nobody else were here? */
static bool fits_alone(const struct engine_core *core,
                       const struct kv_promise *promise)
{
    uint32_t pages[KV_LIFE_COUNT_MAX];
    admit_need(core, promise, 0, pages);
    for (uint32_t i = 0; i < core->options.group_count; i++) {
        if (pages[i] > core->options.page_counts[i]) {
            return false;
        }
    }
    return true;
}

/* The most tokens a choice can have here, prompt included; 0: not even that. */
static uint32_t token_limit(const struct engine_core *core,
                            const struct engine_request *request)
{
    struct kv_promise promise = {.token_total = request->prompt_count,
                                 .fork_at = request->prompt_count,
                                 .fork_count = request->choice_count - 1};
    if (!fits_alone(core, &promise)) {
        return 0;
    }
    uint32_t low = request->prompt_count;
    uint32_t high = core->options.max_seq;
    while (low < high) {
        promise.token_total = low + (high - low + 1) / 2;
        if (fits_alone(core, &promise)) {
            low = promise.token_total;
        } else {
            high = promise.token_total - 1;
        }
    }
    return low;
}

/* `room` tokens a choice fit behind the prompt, when it `fits` itself. */
static enum err check_room(const struct engine_core *core,
                           const struct engine_request *request, uint32_t room,
                           bool fits, struct why *why)
{
    const struct engine_core_options *options = &core->options;
    bool is_max = request->is_length_asked;
    uint32_t wanted = is_max ? request->max_new_tokens : request->min_tokens;
    if (!fits && request->choice_count > 1) {
        return why_say(why, ERR_INVALID,
                       "n: %u choices after a prompt of %u tokens do not fit "
                       "into the KV cache of %u blocks of %u",
                       request->choice_count, request->prompt_count,
                       options->page_counts[0], options->tokens_per_block);
    }
    if (!fits) {
        return why_say(why, ERR_INVALID,
                       "prompt: its %u tokens do not fit into the KV cache of "
                       "%u blocks of %u",
                       request->prompt_count, options->page_counts[0],
                       options->tokens_per_block);
    }
    if (wanted > room) {
        return why_say(why, ERR_INVALID,
                       "%s: %u for each of n = %u choices do not fit into the "
                       "KV cache, %u do",
                       is_max ? "max_tokens" : "min_tokens", wanted,
                       request->choice_count, room);
    }
    return OK;
}

static enum err check_size(const struct engine_core *core,
                           const struct engine_request *request,
                           struct why *why)
{
    const struct engine_core_options *options = &core->options;
    uint32_t least = request->max_new_tokens == 0 ? 0 : 1;
    if (request->prompt_count > options->max_seq - least) {
        return why_say(why, ERR_INVALID,
                       "prompt: has %u tokens; with %u to generate that is "
                       "more than max_seq %u",
                       request->prompt_count, least, options->max_seq);
    }
    struct kv_promise prompt = {.token_total = request->prompt_count};
    uint32_t limit = UINT32_MAX;
    if (request->kind != ENGINE_CONTEXT_ONLY) {
        limit = token_limit(core, request);
    } else if (!fits_alone(core, &prompt)) {
        limit = 0;
    }
    bool fits = limit >= request->prompt_count + least;
    return check_room(core, request, fits ? limit - request->prompt_count : 0,
                      fits, why);
}

static enum err check_tokens(const struct engine_core *core,
                             const struct engine_request *request,
                             struct why *why)
{
    for (uint32_t i = 0; i < request->prompt_count; i++) {
        int32_t token = request->prompt[i];
        if (token < 0 || (uint32_t)token >= core->options.vocab_size) {
            return why_say(why, ERR_INVALID,
                           "prompt token %u is %d, the vocabulary has %u", i,
                           token, core->options.vocab_size);
        }
    }
    return OK;
}

static bool is_known(const struct engine_core *core, enum engine_kind kind,
                     int64_t rid)
{
    const struct item *item = core->oldest;
    while (item != NULL && (item->kind != kind || item->rid != rid)) {
        item = item->younger;
    }
    return item != NULL;
}

/* What the two disaggregated kinds ask for on top. */
static enum err check_handoff(const struct engine_core *core,
                              const struct engine_request *request,
                              struct why *why)
{
    if (core->options.session_max == 0) {
        return why_say(why, ERR_UNSUPPORTED,
                       "this worker has no KV transfer backend");
    }
    if (request->max_new_tokens == 0) {
        return why_say(why, ERR_INVALID,
                       "max_tokens must be at least 1 for a hand-off");
    }
    if (is_known(core, request->kind, request->rid)) {
        return why_say(why, ERR_EXISTS, "request %lld is here already",
                       (long long)request->rid);
    }
    if (request->kind == ENGINE_CONTEXT_ONLY || request->is_generation_first) {
        return OK;
    }
    for (uint32_t i = 0; i < request->choice_count; i++) {
        int32_t token = request->first_tokens[i];
        if (token < 0 || (uint32_t)token >= core->options.vocab_size) {
            return why_say(why, ERR_INVALID,
                           "first token %d of choice %u is missing or outside "
                           "the vocabulary",
                           token, i);
        }
    }
    return OK;
}

static enum err check_counts(const struct engine_core *core,
                             const struct engine_request *request,
                             struct why *why)
{
    uint32_t choices_max = core->options.max_batch < ENGINE_CHOICE_COUNT_MAX
                               ? core->options.max_batch
                               : ENGINE_CHOICE_COUNT_MAX;
    if (request->prompt_count == 0) {
        return why_say(why, ERR_INVALID, "the prompt has no tokens");
    }
    if (request->choice_count == 0 || request->choice_count > choices_max) {
        return why_say(why, ERR_INVALID, "n: is %u, this worker does 1 to %u",
                       request->choice_count, choices_max);
    }
    if (request->stop_token_count > ENGINE_STOP_TOKEN_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "stop tokens: %u, at most %d",
                       request->stop_token_count, ENGINE_STOP_TOKEN_COUNT_MAX);
    }
    return OK;
}

/* Items are provided for queue_limit that wait, all lanes and all sessions: who
 * comes anew finds one. Who comes back may find none. */
static enum err check_turn(const struct engine_core *core,
                           const struct engine_request *request,
                           struct why *why)
{
    bool is_new = request->place == 0;
    if (core->is_stopping || (core->is_draining && is_new)) {
        return why_say(why, ERR_FULL, "this worker is draining");
    }
    bool is_full = is_new ? core->waiting_count >= core->options.queue_limit
                          : core->free_items == NULL;
    return is_full ? why_say(why, ERR_FULL, "queue is full: %u requests wait",
                             core->waiting_count)
                   : OK;
}

static enum err check_request(const struct engine_core *core,
                              const struct engine_request *request,
                              struct why *why)
{
    enum err err = check_turn(core, request, why);
    if (err == OK) {
        err = check_counts(core, request, why);
    }
    if (err == OK) {
        err = check_size(core, request, why);
    }
    if (err == OK) {
        err = check_tokens(core, request, why);
    }
    if (err == OK) {
        err = sampler_options_check(&request->sampling,
                                    core->options.vocab_size, why);
    }
    if (err == OK && request->kind != ENGINE_AGGREGATED) {
        err = check_handoff(core, request, why);
    }
    return err;
}

static void refuse(struct engine_core *core, struct engine_request *request,
                   enum err error, const char *reason)
{
    struct item item = {.id = request->id};
    struct engine_event *event = item_event(core, &item, ENGINE_EVENT_FAILED);
    event->error = error;
    event->journey.prompt_tokens = request->prompt_count;
    snprintf(event->reason, sizeof(event->reason), "%.119s", reason);
    core->stats.requests_failed++;
    engine_request_free(request);
}

static void add_ends(const struct engine_core *core, struct item *item)
{
    const struct engine_request *request = item->request;
    for (uint32_t i = 0; i < request->stop_token_count; i++) {
        item->ends[item->end_count++] = request->stop_tokens[i];
    }
    uint32_t count = request->ignore_end ? 0 : core->options.end_token_count;
    for (uint32_t i = 0; i < count; i++) {
        item->ends[item->end_count++] = core->end_tokens[i];
    }
}

/* Keys once and for all: look-up, planner and commits use the same. */
static void add_keys(const struct engine_core *core, struct item *item)
{
    const struct engine_request *request = item->request;
    struct prefix_prompt prompt = {.tokens = request->prompt,
                                   .token_count = request->prompt_count,
                                   .tokens_per_block =
                                       core->options.tokens_per_block,
                                   .with_tail = true};
    uint32_t block = prompt.tokens_per_block;
    uint32_t count = request->prompt_count / block + 1;
    item->keys = mem_new_array(count, sizeof(item->keys[0]));
    prefix_scope_init_for(&item->scope, core->options.secret, &request->scope);
    cache_events_note_scope(core, item);
    prefix_prompt_keys(&item->scope, &prompt, count, item->keys);
    item->key_count = request->prompt_count / block;
    item->tail_key = item->keys[item->key_count];
}

static void fill(struct engine_core *core, struct item *item,
                 struct engine_request *request)
{
    item->request = request;
    item->id = request->id;
    item->rid = request->rid;
    item->kind = request->kind;
    item->is_generation_first = request->is_generation_first;
    item->state = item_streams(item) ? ITEM_CONTEXT_WAIT : ITEM_WAITING;
    item->open_choices = (1u << request->choice_count) - 1;
    uint32_t room = 1;
    if (request->kind != ENGINE_CONTEXT_ONLY) {
        room = token_limit(core, request) - request->prompt_count;
    }
    item->max_new =
        request->max_new_tokens < room ? request->max_new_tokens : room;
    item->journey.prompt_tokens = request->prompt_count;
    add_keys(core, item);
    add_ends(core, item);
    units_init_item(core, item);
    core->waiting_count++;
}

void admit_submit(struct engine_core *core, uint64_t now_ns,
                  struct engine_request *request)
{
    (void)now_ns;
    struct why why = {.text = ""};
    enum err err = check_request(core, request, &why);
    if (err != OK) {
        refuse(core, request, err, why.text);
        return;
    }
    core->has_seen_generation |= request->kind == ENGINE_GENERATION_ONLY;
    core->has_seen_streams |=
        request->kind == ENGINE_CONTEXT_ONLY && request->is_generation_first;
    struct item *item = item_take(core);
    CHECK(item != NULL); /* check_turn has looked */
    fill(core, item, request);
}
