#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/state.h"

static const uint64_t REST_NS = 1000000;

struct item *unit_item(const struct sched_unit *unit)
{
    return unit->owner_kind == UNIT_OF_LANE ? ((struct lane *)unit->owner)->item
                                            : unit->owner;
}

struct lane *unit_lane(const struct sched_unit *unit)
{
    return unit->owner_kind == UNIT_OF_LANE ? unit->owner : NULL;
}

void units_init_item(struct engine_core *core, struct item *item)
{
    const struct engine_request *request = item->request;
    bool is_receive = item->kind == ENGINE_GENERATION_ONLY;
    struct sched_unit *unit = &item->unit;
    /* Between two of those that came anew there is room for one that came
     * back, and for the choices of both. */
    uint64_t arrival = request->place != 0
                           ? request->place + ENGINE_CHOICE_COUNT_MAX
                           : ++core->arrivals * 2 * ENGINE_CHOICE_COUNT_MAX;
    sched_unit_init(unit, is_receive ? SCHED_RECEIVE : SCHED_CONTEXT, arrival);
    item_take_place(core, item);
    unit->target = request->prompt_count;
    unit->growth = item->kind == ENGINE_CONTEXT_ONLY ? 0 : item->max_new;
    unit->is_replayable = true;
    unit->has_session = item_streams(item);
    unit->owner = item;
    unit->owner_kind = UNIT_OF_ITEM;
    item->prefix =
        (struct prefix_wait_request){.unit = unit,
                                     .keys = item->keys,
                                     .key_count = item->key_count,
                                     .token_count = request->prompt_count,
                                     .can_publish = true};
    if (item->state != ITEM_CONTEXT_WAIT) {
        units_join_waits(core, item);
    }
}

void units_join_waits(struct engine_core *core, struct item *item)
{
    if (item->unit.kind == SCHED_CONTEXT && !item->request->score_prompt) {
        item->unit.prefix = &item->prefix;
        prefix_wait_insert(core->waits, &item->prefix);
    }
}

/* Its tokens are computed anew, up to the one that is fed next. */
void units_replay(struct lane *lane)
{
    struct sched_unit *unit = &lane->unit;
    unit->kind = SCHED_CONTEXT;
    unit->is_started = false;
    unit->position = 0;
    unit->target = lane->history_count - 1;
    unit->growth =
        lane->item->request->prompt_count + lane->item->max_new - unit->target;
}

void units_init_lane(struct engine_core *core, struct lane *lane)
{
    (void)core;
    struct item *item = lane->item;
    struct sched_unit *unit = &lane->unit;
    sched_unit_init(unit, SCHED_GENERATION, item->unit.arrival + lane->choice);
    unit->is_started = true;
    unit->position = lane->history_count - 1;
    unit->is_replayable = true;
    unit->owner = lane;
    unit->owner_kind = UNIT_OF_LANE;
    if (lane->seq == NULL) {
        units_replay(lane);
    }
}

/* Of the prompts that are scored one computes in a turn: the rows of logits
 * that all together would give have no room. */
static bool is_next_scored(struct engine_core *core, struct item *item,
                           bool *has_scored)
{
    if (!item->request->score_prompt) {
        return true;
    }
    bool is_first = !*has_scored;
    *has_scored = true;
    item->unit.chunk_max = core->options.score_row_max;
    return is_first;
}

static uint32_t add_item(struct engine_core *core, struct item *item,
                         uint32_t count, bool *has_scored)
{
    if (item->state == ITEM_WAITING || item->state == ITEM_PREFILL) {
        item->unit.is_ready = is_next_scored(core, item, has_scored);
        core->units[count++] = &item->unit;
    }
    for (uint32_t i = 0;
         item->state == ITEM_DECODE && i < ENGINE_CHOICE_COUNT_MAX; i++) {
        if (item->lanes[i] != NULL) {
            core->units[count++] = &item->lanes[i]->unit;
        }
    }
    return count;
}

/* All that could be scheduled, by arrival. */
static uint32_t gather(struct engine_core *core)
{
    uint32_t count = 0;
    bool has_scored = false;
    core->lack = (struct lack){0};
    for (struct item *item = core->oldest; item != NULL; item = item->younger) {
        core->lack.lanes |= item->state == ITEM_RECEIVED;
        count = add_item(core, item, count, &has_scored);
    }
    return count;
}

/* A full turn's events have room, or nothing is computed in this one. */
static bool has_room(const struct engine_core *core)
{
    return item_room(core) >= overlap_events_max(core);
}

static void note_start(struct engine_core *core, struct item *item,
                       uint64_t now_ns)
{
    if (item->scheduled_ns != 0) {
        return;
    }
    uint64_t arrival_ns = item->request->arrival_ns;
    item->scheduled_ns = now_ns;
    item->journey.queue_ns = now_ns > arrival_ns ? now_ns - arrival_ns : 0;
    item->journey.cached_tokens = item->seq->reused;
    core->stats.requests_started++;
    core->stats.cached_tokens += item->seq->reused;
}

static void note_starts(struct engine_core *core, const struct sched_plan *plan,
                        uint64_t now_ns)
{
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        if (unit_lane(plan->chunks[i].unit) == NULL) {
            note_start(core, unit_item(plan->chunks[i].unit), now_ns);
        }
    }
}

void units_post_receives(struct engine_core *core, uint64_t now_ns)
{
    const struct sched_plan *plan = core->schedule;
    for (uint32_t i = 0; i < plan->receive_count; i++) {
        struct item *item = unit_item(plan->receives[i]);
        note_start(core, item, now_ns);
        session_receive(core, item, now_ns);
    }
}

/* Loud: something that nobody can schedule is a fault of ours or of the limits;
 * who waits is told so instead of hanging. */
static void fail_stalled(struct engine_core *core, uint64_t now_ns)
{
    log_error("engine",
              "nothing could be scheduled for a long time: %u requests wait, "
              "%u lanes of %u are free; check max_tokens of kv_cache_config",
              core->waiting_count, core->lanes_free, core->options.max_batch);
    struct item *item = core->oldest;
    while (item != NULL) {
        struct item *next = item->younger;
        if (item->state == ITEM_WAITING && item_room(core) >= STEP_EVENTS) {
            item_fail(core, item, now_ns, ERR_FULL,
                      "the worker could not schedule this request");
        }
        item = next;
    }
}

/* Something holds pages until a transfer ends. One that waits for another
 * worker's prefill is no reason to leave prompts that jam each other alone: the
 * other may wait for ours. */
static void note_transfers(const struct engine_core *core,
                           struct sched_budget *budget)
{
    budget->is_jam_real = true;
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        const struct session *session = &core->sessions[i];
        bool is_live = session->item != NULL && session->ticket != 0;
        bool awaits_prefill = is_live && session->item->is_generation_first &&
                              (session->item->state == ITEM_RECEIVING ||
                               session->item->state == ITEM_CONTEXT_WAIT);
        budget->is_transfer_pending |= is_live;
        budget->is_jam_real &= !is_live || awaits_prefill;
    }
}

const struct sched_plan *units_schedule(struct engine_core *core,
                                        uint64_t now_ns)
{
    struct sched_cache cache = units_cache(core);
    bool may_run = !core->is_stopping && has_room(core);
    uint32_t count = may_run ? gather(core) : 0;
    struct sched_budget budget = batch_budget(core);
    note_transfers(core, &budget);
    const struct sched_plan *plan =
        sched_pass(core->sched, core->units, count, &budget, &cache);
    note_starts(core, plan, now_ns);
    core->stats.suspended_requests += plan->suspended_count;
    core->stats.paused_requests += plan->paused_count;
    if (plan->decode_count + plan->chunk_count == 0 &&
        plan->suspended_count + plan->paused_count > 0) {
        /* Who gave way made room for the next turn; but what a transfer
         * holds may be what lacks, and asking without a pause spins. */
        uint64_t rest_ns = budget.is_transfer_pending ? REST_NS : 0;
        uint64_t due_ns = now_ns + rest_ns;
        core->wake_ns = due_ns < core->wake_ns ? due_ns : core->wake_ns;
    }
    if (plan->is_stalled) {
        fail_stalled(core, now_ns);
    }
    return plan;
}
