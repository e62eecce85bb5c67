#pragma once
/* engine/schedule: one pass of the scheduler (engine.md 3.1 to 3.6, 3.8): who
 * computes what in this turn. Capacity and tokens are settled in one go, and
 * pages are taken on the way, so whatever is in the plan can run.
 *
 *   units by arrival --+--> phase 1: receives, decodes (evict when they cannot
 * grow) |    planner: who waits for a prefix (engine/prefix_wait.h)
 *                      +--> phase 2: prompts, ordered, while tokens last
 *                           --> plan: decodes, chunks, suspended, paused,
 * receives
 *
 * Every page taken in a pass can be given back (sched_veto). Counters are of
 * passes and tokens, never of time, so replicas that see the same units decide
 * alike; scores are integers. The pass knows nothing of pages: it asks the
 * cache through a table, which tests fill with a mock. Pure, one thread,
 * allocates nothing after creation. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct prefix_wait_request;

enum sched_kind {
    SCHED_CONTEXT, /* computes a prompt, or what a pause made it lose */
    SCHED_GENERATION, /* decodes */
    SCHED_RECEIVE, /* wants pages for KV that comes from elsewhere */
};

/* One thing to schedule: a prompt, a decoding choice, a receive. The owner
 * embeds it and keeps the facts true before each pass; the counters are ours.
 */
struct sched_unit {
    enum sched_kind kind;
    uint64_t arrival; /* grows with arrival, unique */
    uint8_t priority; /* smaller goes first */
    bool is_started; /* has a sequence */
    bool is_suspended; /* ... which is suspended */
    bool is_in_flight; /* computed just now: hands off */
    bool is_finishing; /* its last token is under way: never a victim */
    bool is_replayable; /* may be freed and computed anew (recompute pause) */
    /* A transfer touches its pages while it runs: all it needs is set aside when
     * it starts, and it never gives way. */
    bool has_session;
    bool is_multimodal;
    bool is_ready; /* encoder done, pages arrived: may run */
    uint32_t
        target; /* CONTEXT: tokens to compute in all; RECEIVE: to receive */
    uint32_t position; /* CONTEXT: tokens in place, or soon */
    uint32_t under_way; /* ... those of them that are being computed */
    uint32_t growth; /* tokens it may still grow by after `target`, at most */
    uint32_t draft; /* GENERATION, last chunk: extra tokens a step */
    uint32_t beam; /* GENERATION: rows a step; 1 */
    uint32_t chunk_max; /* tokens of one chunk at most; 0: no such limit */
    uint32_t span_first, span_end; /* multimodal, not to be cut; equal: none */
    /* CONTEXT: what the planner knows of it; NULL: neither waits nor owns. */
    struct prefix_wait_request *prefix;
    void *owner;
    uint32_t owner_kind; /* the owner's own */
    /* ours; sched_unit_init */
    uint32_t passes_waited; /* since first considered, planner waits left out */
    uint32_t waits; /* planner's: cumulative */
    uint32_t full_passes; /* in a row with the whole budget */
    uint32_t yields; /* demoted passes in this demotion */
    uint32_t probed; /* tokens that a look-up found last */
    uint64_t suspended_pass; /* 0: never */
    uint32_t recent_tokens; /* a pass, of late, times 256 */
    uint64_t touched_pass; /* scheduled, suspended or paused in it */
    bool lacks_pages; /* tried last, and found too few */
};
void sched_unit_init(struct sched_unit *unit, enum sched_kind kind,
                     uint64_t arrival);

/* What the pass asks of the cache; `context` comes first. */
struct sched_cache {
    /* Tokens of a prompt that are here now; no claim. unit->probed still holds
     * the answer of the last time. */
    uint32_t (*probe)(void *context, const struct sched_unit *unit);
    /* CONTEXT or RECEIVE without a sequence: look up, claim, make it ACTIVE, and
     * set aside what the policy asks (`reserve_tokens` in all; 0: nothing).
     * `reused_out`. ERR_FULL, ERR_BUSY: nothing is left behind. */
    enum err (*start)(void *context, struct sched_unit *unit,
                      uint32_t reserve_tokens, uint32_t *reused_out);
    /* Room for tokens up to `capacity`. ERR_FULL: nothing changed. */
    enum err (*grow)(void *context, struct sched_unit *unit, uint32_t capacity);
    /* Takes the last grow of this pass back. */
    void (*revert)(void *context, struct sched_unit *unit);
    /* Takes the start of this pass back, or frees a started one: a pause. */
    void (*release)(void *context, struct sched_unit *unit);
    void (*suspend)(void *context, struct sched_unit *unit);
    enum err (*resume)(void *context, struct sched_unit *unit);
    /* Would `tokens` more of this unit fit into what is free and evictable and
     * set aside for nobody? (whole-prompt rule) */
    bool (*fits)(void *context, const struct sched_unit *unit, uint32_t tokens);
    /* Pages whose release waits for something under way. */
    uint32_t (*pending_free)(void *context);
    /* Used and set aside, of the fullest pool, in thousandths. */
    uint32_t (*committed)(void *context);
    /* Is there a level below the first (suspending then frees pages)? */
    bool has_lower_level;
    void *context;
};

enum sched_policy {
    SCHED_GUARANTEED_NO_EVICT,
    SCHED_MAX_UTILIZATION,
    SCHED_BOUNDED_OVERCOMMIT,
};

struct sched_options {
    enum sched_policy policy;
    uint32_t unit_max; /* units in a pass */
    uint32_t chunk_unit; /* a chunk is a multiple, or the last */
    bool is_chunked;
    bool is_shortest_first;
    bool is_prefix_aware; /* the budget is charged for what is not reused */
    bool looks_two_ahead; /* MAX_UTILIZATION: admit on two steps' need */
    uint32_t starved_passes; /* 64 */
    uint32_t demote_factor, demote_passes, yield_passes; /* 8, 4, 4 */
    uint32_t thrash_passes; /* 32 */
    uint32_t stall_passes; /* 1000 */
    uint32_t receive_window_tokens; /* 0: no window */
    uint32_t tokens_per_block;
    uint32_t seq_tokens_max; /* stands in for an unknown growth */
    /* BOUNDED_OVERCOMMIT: how long an answer is taken to be before the first
     * twenty have ended; 0: seq_tokens_max. */
    uint32_t answer_tokens;
};
/* The numbers of engine.md. */
struct sched_options sched_options_default(void);

struct sched_budget {
    uint32_t tokens; /* UINT32_MAX: unlimited */
    uint32_t requests; /* that run a forward: contexts and decodes */
    uint32_t rows; /* page-table rows free, for receives */
    uint32_t receiving_tokens; /* of receives under way */
    bool is_transfer_pending; /* something still holds pages: no stall */
    bool is_jam_real; /* ... but none of it comes back by itself */
};

struct sched_chunk {
    struct sched_unit *unit;
    uint32_t first, count; /* tokens; a decode has count 1 + draft */
    bool is_last;
};
struct sched_plan {
    struct sched_chunk *decodes;
    uint32_t decode_count;
    struct sched_chunk *chunks; /* those that end no prompt first */
    uint32_t chunk_count;
    struct sched_unit **receives; /* got their pages */
    uint32_t receive_count;
    struct sched_unit **suspended;
    uint32_t suspended_count;
    struct sched_unit **paused; /* freed, to be computed anew */
    uint32_t paused_count;
    uint32_t waiting_count; /* deferred by the planner */
    uint32_t token_count;
    bool is_stalled; /* stall_passes without progress: fail loudly */
    bool is_stall_warning; /* a quarter of them more */
};

struct sched;
struct prefix_wait;
/* `waits` may be NULL: nobody waits for a prefix. ERR_INVALID names the field.
 */
MUST_USE enum err sched_create(const struct sched_options *options,
                               struct prefix_wait *waits, struct why *why,
                               struct sched **sched_out);
void sched_destroy(struct sched *sched); /* NULL is fine */

/* One pass over `units` (by arrival, unit_count <= unit_max). The plan is the
 * scheduler's, valid until the next pass. */
const struct sched_plan *sched_pass(struct sched *sched,
                                    struct sched_unit *const *units,
                                    uint32_t unit_count,
                                    const struct sched_budget *budget,
                                    const struct sched_cache *cache);
/* The group said no: all that the last pass took is given back. */
void sched_veto(struct sched *sched, const struct sched_cache *cache);
/* A request ended after `token_count` new tokens: teaches BOUNDED_OVERCOMMIT.
 */
void sched_learn_length(struct sched *sched, uint32_t token_count);
/* Tokens that policy sets aside for a request that grows by `growth` at most.
 */
uint32_t sched_reserve_tokens(const struct sched *sched, uint32_t target,
                              uint32_t growth);

struct sched_stats {
    uint64_t passes, suspends, pauses, waits, stalls, trims;
    uint64_t started, starts_failed;
    uint32_t stall_count;
    uint32_t predicted_length; /* BOUNDED_OVERCOMMIT */
};
struct sched_stats sched_stats(const struct sched *sched);
