#pragma once
/* engine/core: all decisions of the engine as steps: state and an event that
 * carries its time in, actions out. It reads no clock, draws nothing, does no
 * I/O and touches no page; engine/engine.c is the shell that does.
 *
 *   turn head   engine_core_command, engine_core_report     what came in
 *               engine_core_plan        -> the batch to compute, or nothing
 *   then        engine_core_result, _abort or _fail         how it went
 *
 * With overlap a plan may be made while the batch before it is computed, and how
 * that one went comes after (engine/overlap.h); else no plan is made before the
 * last one's end.
 *
 *   any time    outbox: events, transfer commands, page copies
 *
 * States of a request (engine.md 5.1):
 *
 *  [CONTEXT_WAIT ->]                              (context, generation-first)
 *   WAITING -> PREFILL ----------> DECODE ------------> over
 *      |          `-> SENDING -----------------------> over   (context only)
 *      `-> RECEIVING -> RECEIVED -> DECODE                    (generation only)
 *             `------------------> DRAINING ---------> over   (answered, but
 *                                                     pages under a transfer)
 *
 * A choice that runs holds a lane (max_batch of them), a hand-off a session.
 * State that depends on a transfer changes only at a turn's head, when the
 * agreement says so (agree/domain.h). A turn allocates nothing but the
 * alternatives of logprobs; a request that arrives brings its block keys, and
 * answers about the cache's events are made when asked for. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/port.h"
#include "engine/schedule.h"
#include "kv/manager.h"
#include "model/model.h"
#include "model/sampler.h"
#include "transfer/port.h"

struct engine_core;

struct engine_core_options {
    uint32_t life_count; /* of the model; engine.md 1.2 */
    struct kv_life lives[KV_LIFE_COUNT_MAX];
    uint8_t group_of[KV_LIFE_COUNT_MAX]; /* pool group of a life cycle */
    uint32_t group_count;
    uint32_t page_counts[KV_LIFE_COUNT_MAX]; /* by group */
    uint32_t host_page_counts[KV_LIFE_COUNT_MAX]; /* of the level below */
    uint32_t tokens_per_block;
    uint32_t max_batch;
    uint32_t max_seq;
    uint32_t row_count_max;
    uint32_t chunk_tokens; /* 0: adapts */
    uint32_t chunk_unit; /* tokens; a chunk is a multiple, or the last */
    bool is_chunked;
    uint64_t turn_ns_max;
    uint32_t queue_limit;
    uint32_t session_max; /* 0: no transfer */
    /* Both halves come here: hand-offs leave room for receives from the start,
     * not only from the first generation-only request on. */
    bool is_mixed;
    uint64_t kv_transfer_timeout_ns;
    uint32_t vocab_size;
    const int32_t *end_tokens; /* copied */
    uint32_t end_token_count;
    bool enable_block_reuse;
    bool enable_partial_reuse;
    bool is_reuse_per_request; /* only a prompt's end is worth keeping */
    uint8_t offload_priority_min; /* below: dropped, not moved down */
    uint32_t cache_event_max; /* kept until asked for; 0: none */
    enum sched_policy policy;
    uint32_t answer_tokens; /* engine/schedule.h; 0: as long as can be */
    bool is_shortest_first;
    bool enable_prefix_waits;
    uint8_t secret[PREFIX_SECRET_SIZE]; /* of this process (prefix/keys.h) */
    /* A hostile or huge model must not make the logits of one turn huge. */
    uint32_t score_row_max; /* prompt rows with logits a turn */
    /* Two batches under way at a time (engine.md 5.3). */
    bool is_overlapped;
    /* Each plan waits for engine_core_vote (5.4). */
    bool has_vote;
};
/* ERR_INVALID names the field. */
MUST_USE enum err engine_core_create(const struct engine_core_options *options,
                                     struct why *why,
                                     struct engine_core **core_out);
void engine_core_destroy(struct engine_core *core); /* NULL is fine */

/* Room for what one more command or report can give rise to? Without it leave
 * them in their mailbox: the events must be taken first. */
bool engine_core_has_room(const struct engine_core *core);
/* Owns command->request from here on. */
void engine_core_command(struct engine_core *core, uint64_t now_ns,
                         const struct engine_command *command);
void engine_core_report(struct engine_core *core, uint64_t now_ns,
                        const struct transfer_report *report);

/* One row of logits to look at. */
struct engine_job {
    uint32_t row;
    bool is_score; /* sampler_score of `target`; else sampler_run */
    int32_t target;
    const struct sampler_options *options;
    struct sampler_input input; /* without logits; the caller's copy changes */
};
/* A token of the batch before, not known when this one was planned. */
struct engine_feed {
    uint32_t job; /* of the batch before: whose token it is */
    int32_t *token; /* the run's; negative until it is fed */
    int32_t *history; /* the last of the job's; NULL: it needs none */
};
struct engine_plan {
    const struct model_run *runs; /* (run_count); none: nothing to do now */
    uint32_t run_count;
    uint32_t row_count; /* tokens */
    uint32_t logit_row_count; /* rows of logits, at most logit_row_max */
    const struct engine_job *jobs; /* (job_count) */
    uint32_t job_count;
    const struct engine_feed *feeds; /* (feed_count) */
    uint32_t feed_count;
};
/* Applies what was agreed, ends what is late, admits, and picks a batch.
 * The plan is the core's, valid until its result, abort or fail; with overlap
 * all that it points to stays as it is until then, whatever is asked of the core,
 * so another thread may read it. Not more than engine_core_depth are under way. */
const struct engine_plan *engine_core_plan(struct engine_core *core,
                                           uint64_t now_ns);
uint32_t engine_core_depth(const struct engine_core *core);
/* Batches planned whose end was not said yet. */
uint32_t engine_core_flight(const struct engine_core *core);
/* Where the batch is computed, before that: `before` is what the batch before it
 * gave. Any thread. */
void engine_plan_feed(const struct engine_plan *plan,
                      const struct sampler_result *before);
/* With `has_vote`, once after each plan: did all ranks agree to run? If not, all
 * that the plan took is given back but what was put away for it, and its batch is
 * not under way (engine.md 5.4). */
void engine_core_vote(struct engine_core *core, uint64_t now_ns, bool is_go);
/* Of the oldest batch under way. `results`: (job_count), as the jobs stand. */
void engine_core_result(struct engine_core *core, uint64_t now_ns,
                        const struct sampler_result *results);
/* The forward pass gave up: nothing of what is under way counts. */
void engine_core_abort(struct engine_core *core);
/* The forward pass failed: so do the requests of the oldest batch under way;
 * nothing of the one after it counts. */
void engine_core_fail(struct engine_core *core, uint64_t now_ns,
                      enum err error);

/* Copies between pages, in an order in which they may be done one after the
 * other. Those that begin are taken; each is done once. Copies are done first,
 * then commands are posted: a freed page that a copy still reads may be the
 * destination of a new receive. Copies and commands that touch pages of a batch
 * under way are not shown until that one has ended. */
const struct kv_order *engine_core_copies(const struct engine_core *core,
                                          uint32_t *count_out);
void engine_core_copies_taken(struct engine_core *core, uint32_t count);
/* Failed: whoever lacks the page computes it anew; a receive fails. */
void engine_core_copy_done(struct engine_core *core, kv_ticket ticket,
                           bool is_ok);
/* May the pages of the newest plan be read and written now? Who does copies
 * beside the forward pass asks before it. */
enum engine_plan_state {
    ENGINE_PLAN_READY,
    ENGINE_PLAN_WAITS, /* for copies; ask again when one is done, or the
                        * batch before: it may keep them back */
    /* One failed, or a request in it ended with the batch before: abort, the next
     * plan makes up for it. */
    ENGINE_PLAN_LOST,
};
enum engine_plan_state engine_core_plan_state(const struct engine_core *core);
const struct engine_event *engine_core_events(const struct engine_core *core,
                                              uint32_t *count_out);
void engine_core_events_taken(struct engine_core *core, uint32_t count);
const struct transfer_command *engine_core_orders(
    const struct engine_core *core, uint32_t *count_out);
void engine_core_orders_taken(struct engine_core *core, uint32_t count);

uint32_t engine_core_logit_row_max(const struct engine_core *core);
uint32_t engine_core_job_max(const struct engine_core *core);
/* When the next deadline passes; UINT64_MAX: none. */
uint64_t engine_core_wake_ns(const struct engine_core *core);
/* After ENGINE_STOP: every request is answered and every event taken. */
bool engine_core_is_stopped(const struct engine_core *core);
void engine_core_stats(const struct engine_core *core,
                       struct engine_stats *stats_out);
/* What the parts counted, for tests and checkers. */
struct engine_counts {
    struct sched_stats sched;
    struct kv_manager_stats cache;
    uint32_t waits_max; /* passes that one of the live requests has waited */
};
void engine_core_counts(const struct engine_core *core,
                        struct engine_counts *counts_out);
/* Lanes, sessions, items and the cache agree. For tests and checkers. */
bool engine_core_is_valid(const struct engine_core *core);
