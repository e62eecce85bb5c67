#include <stdio.h>

#include "base/check.h"
#include "engine/state.h"

static uint32_t blocks_of(const struct engine_core *core, uint32_t tokens)
{
    uint32_t block = core->options.tokens_per_block;
    return tokens / block + (tokens % block > 0);
}

/* Blocks of a choice that it shares with no other: from the prompt's last,
 * partial one to the end. */
uint32_t admit_tail_blocks(const struct engine_core *core,
                           const struct item *item)
{
    uint32_t prompt = item->request->prompt_count;
    return blocks_of(core, prompt + item->max_new) -
           prompt / core->options.tokens_per_block;
}

/* All that the request can need until its end (engine.md 3.5). */
static uint32_t block_total(const struct engine_core *core,
                            const struct item *item)
{
    uint32_t prompt = item->request->prompt_count;
    if (item->kind == ENGINE_CONTEXT_ONLY) {
        return blocks_of(core, prompt);
    }
    uint32_t choices = (uint32_t)__builtin_popcount(item->open_choices);
    return prompt / core->options.tokens_per_block +
           choices * admit_tail_blocks(core, item);
}

/* The most tokens a choice can have here, prompt included. */
static uint32_t token_limit(const struct engine_core *core,
                            const struct engine_request *request)
{
    uint32_t block = core->options.tokens_per_block;
    uint32_t shared = request->prompt_count / block;
    if (shared > core->options.page_count) {
        return 0;
    }
    uint32_t own = (core->options.page_count - shared) / request->choice_count;
    uint64_t limit = ((uint64_t)shared + own) * block;
    return limit < core->options.max_seq ? (uint32_t)limit
                                         : core->options.max_seq;
}

static enum err check_size(const struct engine_core *core,
                           const struct engine_request *request,
                           struct why *why)
{
    const struct engine_core_options *options = &core->options;
    uint32_t least = request->max_new_tokens == 0 ? 0 : 1;
    if (request->prompt_count > options->max_seq - least) {
        return why_say(why, ERR_INVALID,
                       "the prompt has %u tokens; with %u to generate that is "
                       "more than max_seq %u",
                       request->prompt_count, least, options->max_seq);
    }
    bool is_context = request->kind == ENGINE_CONTEXT_ONLY;
    uint32_t blocks = blocks_of(core, request->prompt_count);
    bool fits = is_context ? blocks <= options->page_count
                           : request->prompt_count + least <=
                                 token_limit(core, request);
    if (!fits) {
        return why_say(why, ERR_INVALID,
                       "a prompt of %u tokens for %u choices does not fit "
                       "into the cache of %u blocks of %u tokens",
                       request->prompt_count, request->choice_count,
                       options->page_count, options->tokens_per_block);
    }
    return OK;
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
    if (request->kind == ENGINE_CONTEXT_ONLY) {
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
        return why_say(why, ERR_INVALID, "n is %u, this worker does 1 to %u",
                       request->choice_count, choices_max);
    }
    if (request->stop_token_count > ENGINE_STOP_TOKEN_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "stop tokens: %u, at most %d",
                       request->stop_token_count, ENGINE_STOP_TOKEN_COUNT_MAX);
    }
    return OK;
}

static enum err check_request(const struct engine_core *core,
                              const struct engine_request *request,
                              struct why *why)
{
    if (core->is_draining || core->is_stopping) {
        return why_say(why, ERR_FULL, "this worker is draining");
    }
    if (core->waiting_count >= core->options.queue_limit) {
        return why_say(why, ERR_FULL, "queue is full: %u requests wait",
                       core->waiting_count);
    }
    enum err err = check_counts(core, request, why);
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

static void fill(const struct engine_core *core, struct item *item,
                 struct engine_request *request)
{
    item->state = ITEM_WAITING;
    item->request = request;
    item->id = request->id;
    item->rid = request->rid;
    item->kind = request->kind;
    item->open_choices = (1u << request->choice_count) - 1;
    uint32_t room = 1;
    if (request->kind != ENGINE_CONTEXT_ONLY) {
        room = token_limit(core, request) - request->prompt_count;
    }
    item->max_new =
        request->max_new_tokens < room ? request->max_new_tokens : room;
    item->journey.prompt_tokens = request->prompt_count;
    prefix_scope_init(&item->scope, core->options.secret, request->scope);
    add_ends(core, item);
}

static void enqueue(struct engine_core *core, struct item *item)
{
    if (core->wait_tail == NULL) {
        core->wait_head = item;
    } else {
        core->wait_tail->wait_next = item;
    }
    core->wait_tail = item;
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
    struct item *item = item_take(core);
    CHECK(item != NULL); /* queue_limit + lanes + sessions are provided for */
    fill(core, item, request);
    enqueue(core, item);
}

/* Keys of the blocks that a hit may save: the last prompt token is computed
 * anew for its logits. Kept while the same request stays first of its line:
 * generation-only requests have one of their own, since they pass the others. */
static const struct key_memo *find_keys(struct engine_core *core,
                                        const struct item *item)
{
    bool is_generation = item->kind == ENGINE_GENERATION_ONLY;
    struct key_memo *memo = &core->key_memos[is_generation];
    if (memo->item_id == item->id) {
        return memo;
    }
    const struct engine_request *request = item->request;
    bool is_whole = request->score_prompt || !core->options.enable_block_reuse;
    memo->item_id = item->id;
    memo->count = is_whole ? 0
                           : prefix_keys(&item->scope, request->prompt,
                                         request->prompt_count - 1,
                                         core->options.tokens_per_block,
                                         core->block_count_max, memo->keys);
    return memo;
}

static uint32_t lanes_needed(const struct item *item)
{
    if (item->kind == ENGINE_GENERATION_ONLY) {
        return 0; /* a receive computes nothing */
    }
    return item->kind == ENGINE_CONTEXT_ONLY
               ? 1
               : (uint32_t)__builtin_popcount(item->open_choices);
}

static void start(struct engine_core *core, struct item *item, uint64_t now_ns)
{
    item->scheduled_ns = now_ns;
    item->lanes_held = lanes_needed(item);
    core->lanes_free -= item->lanes_held;
    uint64_t arrival_ns = item->request->arrival_ns;
    item->journey.queue_ns = now_ns > arrival_ns ? now_ns - arrival_ns : 0;
    item->journey.cached_tokens = item->seq->length;
    core->stats.requests_started++;
    core->stats.cached_tokens += item->seq->length;
    if (item->kind == ENGINE_GENERATION_ONLY) {
        session_receive(core, item, now_ns);
        return;
    }
    item->state = ITEM_PREFILL;
    core->prefills[core->prefill_count++] = item;
}

/* What somebody ahead in the queue lacks; who wants the same waits behind. */
struct lack {
    bool lanes;
    bool sessions;
    bool pages; /* of who computes a prompt; receives may pass */
    bool handoff; /* the share of a worker that receives too */
};

/* Pages that a hand-off holds from its admission until its lease ends. */
static uint32_t handoff_blocks(const struct engine_core *core,
                               const struct item *item)
{
    return item->request == NULL ? item->session->block_count
                                 : blocks_of(core, item->request->prompt_count);
}

/* A hand-off keeps its pages until the peer pulls them, and the peer can only
 * pull into pages of its own. So that two workers never wait for each other,
 * the hand-offs of one that receives too take half of its pages and leave a
 * quarter of its sessions; one hand-off alone may be as large as it is. Blocks
 * that several share count once each: the sum is never below the truth. */
static bool may_hand_off(const struct engine_core *core,
                         const struct item *item)
{
    if (!core->has_seen_generation) {
        return true;
    }
    uint64_t blocks = handoff_blocks(core, item);
    uint32_t sessions = 0;
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        const struct item *other = core->sessions[i].item;
        if (other != NULL && other->kind == ENGINE_CONTEXT_ONLY) {
            blocks += handoff_blocks(core, other);
            sessions++;
        }
    }
    uint32_t kept = core->options.session_max / 4;
    kept = kept == 0 ? 1 : kept;
    return sessions == 0 || (sessions + kept < core->options.session_max &&
                             blocks <= core->options.page_count / 2);
}

/* For anything but pages; reserves the session of who need not wait. */
static bool must_wait(struct engine_core *core, struct item *item,
                      struct lack *lack)
{
    uint32_t lanes = lanes_needed(item);
    lack->lanes |= lanes > core->lanes_free;
    if (lanes > 0 && (lack->lanes || lack->pages)) {
        return true;
    }
    if (item->kind == ENGINE_CONTEXT_ONLY) {
        lack->handoff = lack->handoff || !may_hand_off(core, item);
        if (lack->handoff) {
            return true;
        }
    }
    if (item->kind != ENGINE_AGGREGATED) {
        lack->sessions = lack->sessions || session_reserve(core, item) == NULL;
        return lack->sessions;
    }
    return false;
}

static bool try_open(struct engine_core *core, struct item *item)
{
    const struct key_memo *memo = find_keys(core, item);
    if (kv_cache_open(core->cache, memo->keys, memo->count,
                      block_total(core, item), &item->seq) == OK) {
        return true;
    }
    if (item->session != NULL) {
        session_free(core, item->session);
    }
    return false;
}

static void unlink_waiting(struct engine_core *core, struct item *before,
                           struct item *item)
{
    *(before == NULL ? &core->wait_head : &before->wait_next) = item->wait_next;
    core->wait_tail = core->wait_tail == item ? before : core->wait_tail;
    item->wait_next = NULL;
    core->waiting_count--;
}

/* In order of arrival. A request that lacks a lane or session holds back only
 * those that want the same. One that lacks pages holds back all that compute a
 * prompt, so that a large one gets its turn, but no receive: its pull ends
 * leases of the peer, which may be what our own wait for. A receive that lacks
 * pages stops everything behind it. */
void admit_waiting(struct engine_core *core, uint64_t now_ns)
{
    struct lack lack = {0};
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        lack.lanes |= item->state == ITEM_RECEIVED;
    }
    struct item *before = NULL;
    struct item *item = core->wait_head;
    while (item != NULL) {
        struct item *next = item->wait_next;
        bool is_held = must_wait(core, item, &lack);
        if (!is_held && !try_open(core, item)) {
            if (item->kind == ENGINE_GENERATION_ONLY) {
                return;
            }
            lack.pages = true;
            is_held = true;
        }
        if (is_held) {
            before = item;
        } else {
            unlink_waiting(core, before, item);
            start(core, item, now_ns);
        }
        item = next;
    }
}
