#pragma once
/* engine/overlap: batches under way, for the core's own files (engine.md 5.3).
 * Without overlap there is one at a time: planned, computed, applied. With it
 * batch i is planned and handed to the model while batch i - 1 is still computed,
 * and only then is i - 1 applied:
 *
 *   plan i --launch--> [ i - 1 | i ] --collect i - 1--> apply i - 1 --> plan i + 1
 *
 * The pass for i sees the lengths of i - 1 as scheduled: a unit's position and a
 * lane's `pending` go ahead when a batch is planned, `computed` when it is
 * applied; a batch that is dropped takes the former back to the latter. Tokens of
 * i - 1 are fed to i where the model runs (engine_plan_feed).
 *
 * What the model reads of a batch is the batch's own: tokens, block tables,
 * histories, settings. So requests may end, grow, move and be put away meanwhile.
 * Their entries are then nobody's, and what comes of them is not looked at.
 *
 * Batches run one after the other, so a page that a batch under way uses may at
 * once go to a later batch. But copies and receives do not wait for the model:
 * those that touch such a page are kept back until the batch is over. */
#include "engine/core.h"

struct item;
struct lane;

enum { BATCH_DEPTH_MAX = 2 };

/* One run of a batch, and which jobs are its. */
struct entry {
    struct item *item; /* NULL: it ended, was paused or failed since */
    struct lane *lane; /* NULL: prefill */
    uint32_t token_count;
    uint32_t first_job;
    uint32_t job_count; /* none: a replay, or a prompt's inner chunk */
};

struct batch {
    struct engine_plan plan;
    uint64_t plan_ns;
    uint32_t prefill_rows;
    struct entry *entries; /* (max_batch) */
    struct model_run *runs; /* (max_batch) */
    struct engine_job *jobs; /* (job_max) */
    /* What the model reads; NULL without overlap: it reads the core's. */
    struct engine_feed *feeds; /* (max_batch) */
    int32_t *tokens; /* (row_count_max) */
    kv_page_id *tables; /* (max_batch, life_count, block_count_max) */
    int32_t *histories; /* (max_batch, max_seq) of those with penalties */
    int32_t *ends; /* (max_batch, END_COUNT_MAX of engine/state.h) */
    struct sampler_options *options; /* (max_batch) */
    struct sampler_bias *biases; /* (max_batch, SAMPLER_BIAS_COUNT_MAX) */
};

void overlap_init(struct engine_core *core);
void overlap_finish(struct engine_core *core);
/* How many batches may be under way. */
uint32_t overlap_depth(const struct engine_core *core);
/* Where the next one is built: becomes core->batch. */
void overlap_begin(struct engine_core *core, uint64_t now_ns);
/* It is built: its inputs become its own, its pages are marked. One without
 * runs is not under way. */
void overlap_commit(struct engine_core *core);
/* NULL: none is under way. */
const struct batch *overlap_newest(const struct engine_core *core);
/* The oldest one under way is over: becomes core->batch, to be applied. */
void overlap_pop(struct engine_core *core);
/* Nothing of what is under way counts; of `newest_only`, of that one. */
void overlap_drop(struct engine_core *core, bool newest_only);
/* What comes of these is of no use to anybody any more. */
void overlap_forget_item(struct engine_core *core, struct item *item);
void overlap_forget_lane(struct engine_core *core, const struct lane *lane);
/* Chunks of what the lane computes anew; its tokens under way still count. */
void overlap_forget_replay(struct engine_core *core, const struct lane *lane);

/* What is planned of the lane follows what it knows and what is under way. */
void overlap_settle_lane(struct lane *lane);

/* How many of the cache's orders, oldest first, may begin now. */
uint32_t overlap_free_copies(const struct engine_core *core,
                             const struct kv_order *orders, uint32_t count);
void overlap_copies_taken(struct engine_core *core, uint32_t count);
/* Of the outbox. */
uint32_t overlap_free_orders(const struct engine_core *core);
/* Events that a batch may give rise to, and all those under way. */
uint32_t overlap_events_max(const struct engine_core *core);
uint32_t overlap_event_reserve(const struct engine_core *core);
bool overlap_is_valid(const struct engine_core *core);
