#include "engine/overlap.h"

#include "base/check.h"
#include "engine/overlap_state.h"
#include "engine/state.h"

uint32_t overlap_depth(const struct engine_core *core)
{
    return core->options.is_overlapped ? BATCH_DEPTH_MAX : 1;
}

void overlap_init(struct engine_core *core)
{
    for (uint32_t i = 0; i < overlap_depth(core); i++) {
        batch_init(core, &core->batches[i]);
    }
    fence_init(core);
    core->batch = &core->batches[0];
}

void overlap_finish(struct engine_core *core)
{
    for (uint32_t i = 0; i < BATCH_DEPTH_MAX; i++) {
        batch_finish(&core->batches[i]);
    }
    fence_finish(core);
}

static struct batch *batch_at(struct engine_core *core, uint32_t index)
{
    return &core->batches[(core->batch_first + index) % overlap_depth(core)];
}

/* ---- what is scheduled, and what has come true ---- */

/* A lane's numbers follow from what it knows, what is under way, and whether it
 * decodes or computes anew. */
void overlap_settle_lane(struct lane *lane)
{
    struct sched_unit *unit = &lane->unit;
    const struct engine_request *request = lane->item->request;
    uint32_t next = lane->history_count + lane->pending - 1;
    if (unit->kind == SCHED_CONTEXT) {
        unit->target = next;
        unit->growth = request->prompt_count + lane->item->max_new - next;
    }
    bool is_replayed = unit->is_started && unit->under_way == 0;
    if (unit->kind == SCHED_CONTEXT && is_replayed && unit->position == next) {
        unit->kind = SCHED_GENERATION;
    }
    bool is_decoding = unit->kind == SCHED_GENERATION;
    if (is_decoding) {
        unit->position = next;
    }
    unit->is_in_flight =
        !is_decoding && unit->under_way > 0 && unit->position == next;
    unit->is_finishing =
        is_decoding && next + 1 >= request->prompt_count + lane->item->max_new;
}

/* The last chunk is on its way: what follows it is not known yet. */
static void note_chunk(struct sched_unit *unit, uint32_t token_count)
{
    unit->position += token_count;
    unit->under_way += token_count;
    unit->is_in_flight = unit->position == unit->target;
}

static void note_entry(const struct entry *entry, uint32_t slot)
{
    struct lane *lane = entry->lane;
    if (lane == NULL) {
        note_chunk(&entry->item->unit, entry->token_count);
    } else if (entry->job_count == 0) {
        note_chunk(&lane->unit, entry->token_count);
    } else {
        lane->pending++;
        lane->pending_job[slot] = entry->first_job;
        overlap_settle_lane(lane);
    }
}

static void drop_chunk(struct sched_unit *unit, uint32_t token_count)
{
    CHECK(unit->under_way >= token_count);
    unit->position -= token_count;
    unit->under_way -= token_count;
    unit->is_in_flight = false;
}

static void drop_entry(const struct entry *entry)
{
    struct lane *lane = entry->lane;
    if (entry->item == NULL) {
        return;
    }
    if (lane == NULL) {
        drop_chunk(&entry->item->unit, entry->token_count);
        return;
    }
    if (entry->job_count == 0) {
        drop_chunk(&lane->unit, entry->token_count);
    } else {
        CHECK(lane->pending > 0);
        lane->pending--;
    }
    overlap_settle_lane(lane);
}

/* ---- the ring ---- */

void overlap_begin(struct engine_core *core, uint64_t now_ns)
{
    CHECK(core->batch_count < overlap_depth(core));
    struct batch *batch = batch_at(core, core->batch_count);
    batch->plan = (struct engine_plan){
        .runs = batch->runs, .jobs = batch->jobs, .feeds = batch->feeds};
    batch->prefill_rows = 0;
    batch->plan_ns = now_ns;
    core->batch = batch;
}

void overlap_commit(struct engine_core *core)
{
    struct batch *batch = core->batch;
    if (batch->plan.run_count == 0) {
        return;
    }
    uint32_t slot = (uint32_t)(batch - core->batches);
    if (core->options.is_overlapped) {
        batch_own(core, batch);
    }
    for (uint32_t i = 0; i < batch->plan.run_count; i++) {
        note_entry(&batch->entries[i], slot);
    }
    core->batch_count++;
    fence_raise(core, batch);
}

const struct batch *overlap_newest(const struct engine_core *core)
{
    uint32_t newest = core->batch_first + core->batch_count - 1;
    return core->batch_count == 0
               ? NULL
               : &core->batches[newest % overlap_depth(core)];
}

void overlap_pop(struct engine_core *core)
{
    CHECK(core->batch_count > 0);
    core->batch = batch_at(core, 0);
    fence_lower(core, core->batch);
    core->batch_first = (core->batch_first + 1) % overlap_depth(core);
    core->batch_count--;
}

void overlap_drop(struct engine_core *core, bool newest_only)
{
    uint32_t kept = newest_only ? core->batch_count - 1 : 0;
    CHECK(core->batch_count > kept);
    while (core->batch_count > kept) {
        struct batch *batch = batch_at(core, core->batch_count - 1);
        for (uint32_t i = 0; i < batch->plan.run_count; i++) {
            drop_entry(&batch->entries[i]);
        }
        fence_lower(core, batch);
        core->batch_count--;
    }
}

/* ---- what has ended meanwhile ---- */

/* Calls `matches` for what is under way or being applied. */
static void forget(struct engine_core *core, const void *who,
                   bool (*matches)(const struct entry *entry, const void *who))
{
    for (uint32_t i = 0; i < overlap_depth(core); i++) {
        struct batch *batch = &core->batches[i];
        for (uint32_t j = 0; j < batch->plan.run_count; j++) {
            struct entry *entry = &batch->entries[j];
            if (matches(entry, who)) {
                entry->item = NULL;
                entry->lane = NULL;
            }
        }
    }
}

static bool is_of_item(const struct entry *entry, const void *who)
{
    return entry->item == who;
}

static bool is_of_lane(const struct entry *entry, const void *who)
{
    return entry->lane == who;
}

static bool is_replay_of(const struct entry *entry, const void *who)
{
    return entry->lane == who && entry->job_count == 0;
}

void overlap_forget_item(struct engine_core *core, struct item *item)
{
    forget(core, item, is_of_item);
    item->unit.under_way = 0;
}

void overlap_forget_lane(struct engine_core *core, const struct lane *lane)
{
    forget(core, lane, is_of_lane);
}

void overlap_forget_replay(struct engine_core *core, const struct lane *lane)
{
    forget(core, lane, is_replay_of);
}

/* ---- */

uint32_t overlap_events_max(const struct engine_core *core)
{
    return 2 * core->options.max_batch + core->options.score_row_max;
}

uint32_t overlap_event_reserve(const struct engine_core *core)
{
    return core->batch_count * overlap_events_max(core);
}

/* What is said to be under way is, and nothing else. */
bool overlap_is_valid(const struct engine_core *core)
{
    uint64_t chunks = 0;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < core->batch_count; i++) {
        uint32_t at = (core->batch_first + i) % overlap_depth(core);
        const struct batch *batch = &core->batches[at];
        for (uint32_t j = 0; j < batch->plan.run_count; j++) {
            const struct entry *entry = &batch->entries[j];
            bool is_chunk = entry->lane == NULL || entry->job_count == 0;
            if (entry->item != NULL) {
                chunks += is_chunk ? entry->token_count : 0;
                tokens += !is_chunk;
            }
        }
    }
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        chunks -= item->unit.under_way;
    }
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        chunks -= core->lanes[i].unit.under_way;
        tokens -= core->lanes[i].pending;
    }
    return chunks == 0 && tokens == 0;
}
