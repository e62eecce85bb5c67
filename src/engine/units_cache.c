#include <string.h>

#include "base/check.h"
#include "engine/state.h"

static struct kv_seq **seq_of(const struct sched_unit *unit)
{
    struct lane *lane = unit_lane(unit);
    return lane != NULL ? &lane->seq : &unit_item(unit)->seq;
}

static struct kv_mark *mark_of(const struct sched_unit *unit)
{
    struct lane *lane = unit_lane(unit);
    return lane != NULL ? &lane->mark : &unit_item(unit)->mark;
}

static uint32_t *computed_of(const struct sched_unit *unit)
{
    struct lane *lane = unit_lane(unit);
    return lane != NULL ? &lane->computed : &unit_item(unit)->computed;
}

/* Tokens that may be found in the cache: the last one to compute is computed
 * anew, for its logits; a prompt that is scored, all of them. */
static struct kv_prompt prompt_of(const struct sched_unit *unit)
{
    const struct item *item = unit_item(unit);
    const struct lane *lane = unit_lane(unit);
    struct kv_prompt prompt = {.root = &item->scope.root};
    if (lane != NULL) {
        prompt.keys = lane->keys;
        prompt.key_count = lane->key_count;
        prompt.tokens = lane->history;
        prompt.token_count = unit->target - 1;
    } else {
        prompt.keys = item->keys;
        prompt.key_count = item->key_count;
        prompt.tokens = item->request->prompt;
        prompt.token_count = item->request->score_prompt ? 0 : unit->target - 1;
    }
    return prompt;
}

static uint64_t epoch_of(const struct engine_core *core)
{
    return kv_manager_epoch(core->cache) + 1;
}

static uint32_t probe(void *context, const struct sched_unit *unit)
{
    struct engine_core *core = context;
    struct item *item = unit_item(unit);
    if (unit_lane(unit) == NULL && item->probed_epoch == epoch_of(core)) {
        return unit->probed;
    }
    struct kv_prompt prompt = prompt_of(unit);
    prompt.guess = unit->probed / core->options.tokens_per_block;
    item->probed_epoch = unit_lane(unit) == NULL ? epoch_of(core) : 0;
    return kv_manager_probe(core->cache, &prompt).usable;
}

/* Adds the pages that a prompt under way to another worker, or from one, holds
 * from its admission until its lease ends. */
static void add_pages(const struct engine_core *core, const struct item *item,
                      uint32_t pages[KV_LIFE_COUNT_MAX])
{
    uint32_t held[KV_LIFE_COUNT_MAX];
    if (item->request == NULL) {
        memcpy(held, item->session->leased_pages, sizeof(held));
    } else {
        const struct kv_promise promise = {.token_total =
                                               item->request->prompt_count};
        admit_need(core, &promise, 0, held);
    }
    for (uint32_t i = 0; i < core->options.group_count; i++) {
        pages[i] += held[i];
    }
}

static bool is_half(const struct engine_core *core,
                    const uint32_t pages[KV_LIFE_COUNT_MAX])
{
    for (uint32_t i = 0; i < core->options.group_count; i++) {
        if (pages[i] > core->options.page_counts[i] / 2) {
            return false;
        }
    }
    return true;
}

/* A hand-off keeps its pages until the peer pulls them, and the peer can only
 * pull into pages of its own. So that two workers never wait for each other,
 * the hand-offs of one that receives too take half of its pages and leave a
 * quarter of its sessions; one hand-off alone may be as large as it is. Blocks
 * that several share count once each: the sum is never below the truth. */
static bool has_share(const struct engine_core *core, const struct item *item)
{
    uint32_t pages[KV_LIFE_COUNT_MAX] = {0};
    uint32_t sessions = 0;
    add_pages(core, item, pages);
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        const struct item *other = core->sessions[i].item;
        if (other != NULL && other != item && other->kind == item->kind) {
            add_pages(core, other, pages);
            sessions++;
        }
    }
    uint32_t kept = core->options.session_max / 4;
    kept = kept == 0 ? 1 : kept;
    return sessions == 0 || (sessions + kept < core->options.session_max &&
                             is_half(core, pages));
}

/* Generation-first it is the other way round: who receives holds pages until the
 * peer has computed the prompt, and the peer waits for pages of its own. A
 * prompt that is sent while it is computed waits for nobody. */
static bool must_leave_room(const struct engine_core *core,
                            const struct item *item)
{
    return item->kind == ENGINE_CONTEXT_ONLY
               ? core->has_seen_generation && !item->is_generation_first
               : core->has_seen_streams && item->is_generation_first;
}

static uint32_t lanes_needed(const struct engine_core *core,
                             const struct item *item)
{
    if (item->kind == ENGINE_GENERATION_ONLY &&
        core->options.policy == SCHED_GUARANTEED_NO_EVICT) {
        return 0; /* a receive computes nothing, and all lanes come free */
    }
    return item->kind == ENGINE_CONTEXT_ONLY
               ? 1
               : (uint32_t)__builtin_popcount(item->open_choices);
}

/* For anything but pages; reserves the session of who need not wait. Who lacks
 * a lane or a session holds back those behind that want the same, so that it
 * gets its turn. */
static bool must_wait(struct engine_core *core, struct item *item)
{
    struct lack *lack = &core->lack;
    uint32_t lanes = lanes_needed(core, item);
    lack->lanes |= lanes > core->lanes_free;
    if (lanes > 0 && lack->lanes) {
        return true;
    }
    bool *share =
        item->kind == ENGINE_CONTEXT_ONLY ? &lack->handoff : &lack->receive;
    if (item->kind != ENGINE_AGGREGATED && must_leave_room(core, item)) {
        *share = *share || !has_share(core, item);
        if (*share) {
            return true;
        }
    }
    if (item->kind != ENGINE_AGGREGATED && !session_is_live(item)) {
        lack->sessions = lack->sessions || session_reserve(core, item) == NULL;
        return lack->sessions;
    }
    return false;
}

/* Sequence with what it may need set aside, ready to compute; at most `limit`
 * tokens of it are found. */
/* A receive finds whole blocks: the rest of one that is found in part does not
 * come from the peer when its window has passed it. */
static uint32_t whole_blocks(struct engine_core *core,
                             const struct kv_prompt *prompt)
{
    uint32_t found = kv_manager_probe(core->cache, prompt).usable;
    return found - found % core->options.tokens_per_block;
}

static enum err try_open(struct engine_core *core, struct sched_unit *unit,
                         uint32_t reserve_tokens, uint32_t limit,
                         struct kv_seq **seq_out)
{
    struct kv_prompt prompt = prompt_of(unit);
    struct kv_seq *seq = NULL;
    if (unit->kind == SCHED_RECEIVE && limit > 0) {
        limit = whole_blocks(core, &prompt);
    }
    enum err err = kv_seq_open(core->cache, &prompt, limit, &seq);
    if (err != OK) {
        return err;
    }
    struct kv_promise promise = admit_promise(unit_item(unit));
    promise.token_total = reserve_tokens;
    promise.fork_count = unit_lane(unit) != NULL ? 0 : promise.fork_count;
    if (reserve_tokens > 0) {
        err = kv_seq_promise(core->cache, seq, &promise);
    }
    if (err == OK) {
        err = kv_seq_resume(core->cache, seq);
    }
    if (err != OK) {
        kv_seq_close(core->cache, seq);
        return err == ERR_BUSY ? ERR_FULL : err;
    }
    const struct engine_request *request = unit_item(unit)->request;
    kv_seq_retain(seq, &request->retention, request->prompt_count);
    *seq_out = seq;
    return OK;
}

/* Found pages that choices will share count for each of them: a request that
 * was found to fit alone may do so only when it computes them itself. */
static enum err open_seq(struct engine_core *core, struct sched_unit *unit,
                         uint32_t reserve_tokens, struct kv_seq **seq_out)
{
    enum err err = try_open(core, unit, reserve_tokens, UINT32_MAX, seq_out);
    bool is_alone = core->lanes_free == core->options.max_batch;
    return err == ERR_FULL && is_alone && reserve_tokens > 0
               ? try_open(core, unit, reserve_tokens, 0, seq_out)
               : err;
}

/* A receive takes the pages of the whole prompt at once; what its window does
 * not need it does not ask for. */
static enum err open_receive(struct engine_core *core, struct item *item,
                             uint32_t reserve_tokens)
{
    enum err err = open_seq(core, &item->unit, reserve_tokens, &item->seq);
    uint32_t prompt = item->request->prompt_count;
    if (err != OK) {
        return err;
    }
    err = kv_seq_resize(core->cache, item->seq, prompt, prompt, &item->mark);
    if (err != OK) {
        kv_seq_close(core->cache, item->seq);
        item->seq = NULL;
    }
    return err;
}

static void leave_waiting(struct engine_core *core, struct item *item)
{
    item->state = ITEM_PREFILL;
    item->lanes_held = lanes_needed(core, item);
    core->lanes_free -= item->lanes_held;
    core->waiting_count--;
}

static enum err start_item(struct engine_core *core, struct item *item,
                           uint32_t reserve_tokens)
{
    if (must_wait(core, item)) {
        return ERR_BUSY;
    }
    enum err err =
        item->kind == ENGINE_GENERATION_ONLY
            ? open_receive(core, item, reserve_tokens)
            : open_seq(core, &item->unit, reserve_tokens, &item->seq);
    if (err == OK) {
        leave_waiting(core, item);
    } else if (item->session != NULL && !session_is_live(item)) {
        session_free(core, item->session);
    }
    return err;
}

static enum err start(void *context, struct sched_unit *unit,
                      uint32_t reserve_tokens, uint32_t *reused_out)
{
    struct engine_core *core = context;
    struct lane *lane = unit_lane(unit);
    enum err err = lane != NULL
                       ? open_seq(core, unit, reserve_tokens, &lane->seq)
                       : start_item(core, unit_item(unit), reserve_tokens);
    if (err == OK) {
        *reused_out = (*seq_of(unit))->reused;
        *computed_of(unit) = *reused_out;
    }
    return err;
}

static enum err grow(void *context, struct sched_unit *unit, uint32_t capacity)
{
    struct engine_core *core = context;
    struct kv_seq *seq = *seq_of(unit);
    return kv_seq_resize(core->cache, seq, capacity, seq->history,
                         mark_of(unit));
}

static void revert(void *context, struct sched_unit *unit)
{
    struct engine_core *core = context;
    struct kv_seq *seq = *seq_of(unit);
    /* After a batch that was dropped it may have been less than before. */
    if (mark_of(unit)->capacity < seq->capacity) {
        kv_seq_revert(core->cache, seq, mark_of(unit));
    }
}

/* A prompt goes back into the queue; a choice has its tokens computed anew. */
static void release(void *context, struct sched_unit *unit)
{
    struct engine_core *core = context;
    struct kv_seq **seq = seq_of(unit);
    struct lane *lane = unit_lane(unit);
    kv_seq_close(core->cache, *seq);
    *seq = NULL;
    *computed_of(unit) = 0;
    unit->position = 0;
    unit->under_way = 0;
    if (lane != NULL) {
        overlap_forget_replay(core, lane);
        unit->kind = SCHED_CONTEXT;
        overlap_settle_lane(lane);
        return;
    }
    struct item *item = unit_item(unit);
    overlap_forget_item(core, item);
    unit->is_in_flight = false;
    item->state = ITEM_WAITING;
    core->lanes_free += item->lanes_held;
    core->waiting_count++;
    item->lanes_held = 0;
    if (item->session != NULL && !session_is_live(item)) {
        session_free(core, item->session);
    }
}

/* A copy failed: who was to use what it should have brought computes that anew;
 * a receive has nothing to compute it from, and what has been sent in part is
 * not sent again. */
static void drop_lost_unit(struct engine_core *core, struct sched_unit *unit)
{
    struct kv_seq *seq = *seq_of(unit);
    if (seq != NULL && kv_seq_is_lost(core->cache, seq)) {
        release(core, unit);
        unit->is_started = false;
        unit->is_suspended = false;
    }
}

static void drop_lost_transfer(struct engine_core *core, struct item *item,
                               uint64_t now_ns)
{
    bool is_lost = item->seq != NULL && kv_seq_is_lost(core->cache, item->seq);
    if (is_lost && item_room(core) >= STEP_EVENTS) {
        item_fail(core, item, now_ns, ERR_IO,
                  "a page of the KV cache was lost in a copy");
        return;
    }
    core->has_lost_pages |= is_lost;
}

/* Before anything else uses the sequences again. */
void units_drop_lost(struct engine_core *core, uint64_t now_ns)
{
    struct item *item = core->has_lost_pages ? core->oldest : NULL;
    core->has_lost_pages = false;
    while (item != NULL) {
        struct item *next = item->younger;
        bool is_received =
            item->state == ITEM_RECEIVING || item->state == ITEM_RECEIVED;
        bool is_computed = item->state == ITEM_PREFILL;
        if (is_received || (is_computed && session_is_live(item))) {
            drop_lost_transfer(core, item, now_ns);
            item = next;
            continue;
        }
        if (is_computed) {
            drop_lost_unit(core, &item->unit);
        }
        for (uint32_t i = 0; i < ENGINE_CHOICE_COUNT_MAX; i++) {
            if (item->state == ITEM_DECODE && item->lanes[i] != NULL) {
                drop_lost_unit(core, &item->lanes[i]->unit);
            }
        }
        item = next;
    }
}

static void suspend(void *context, struct sched_unit *unit)
{
    struct engine_core *core = context;
    kv_seq_suspend(core->cache, *seq_of(unit));
}

/* With what was computed when it was put away (apply.c). */
static void catch_up(struct engine_core *core, const struct sched_unit *unit)
{
    struct lane *lane = unit_lane(unit);
    if (lane != NULL) {
        lane_commit(core, lane, lane->computed);
    } else {
        item_commit(core, unit_item(unit), unit_item(unit)->computed);
    }
}

static enum err resume(void *context, struct sched_unit *unit)
{
    struct engine_core *core = context;
    struct kv_seq *seq = *seq_of(unit);
    enum err err = kv_seq_resume(core->cache, seq);
    if (err == OK && *computed_of(unit) > seq->history) {
        catch_up(core, unit);
    }
    return err;
}

/* Who waits for lanes does not wait for pages: it holds back nobody who has. */
static bool fits(void *context, const struct sched_unit *unit, uint32_t tokens)
{
    struct engine_core *core = context;
    uint32_t lanes =
        unit_lane(unit) == NULL ? lanes_needed(core, unit_item(unit)) : 0;
    if (lanes > 0 && (core->lack.lanes || lanes > core->lanes_free)) {
        return true;
    }
    struct kv_promise promise = {.token_total = unit->target};
    uint32_t pages[KV_LIFE_COUNT_MAX];
    admit_need(core, &promise, unit->target - tokens, pages);
    for (uint32_t i = 0; i < core->options.group_count; i++) {
        if (pages[i] > kv_manager_room(core->cache, i)) {
            return false;
        }
    }
    return true;
}

static uint32_t committed(void *context)
{
    struct engine_core *core = context;
    uint64_t most = 0;
    for (uint32_t i = 0; i < core->options.group_count; i++) {
        uint64_t total = core->options.page_counts[i];
        uint64_t used = total - kv_manager_room(core->cache, i);
        uint64_t share = used * 1000 / total;
        most = share > most ? share : most;
    }
    return (uint32_t)most;
}

struct sched_cache units_cache(struct engine_core *core)
{
    return (struct sched_cache){.probe = probe,
                                .start = start,
                                .grow = grow,
                                .revert = revert,
                                .release = release,
                                .suspend = suspend,
                                .resume = resume,
                                .fits = fits,
                                .committed = committed,
                                .has_lower_level =
                                    core->options.host_page_counts[0] > 0,
                                .context = core};
}
