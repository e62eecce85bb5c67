#pragma once
/* engine/prefix_wait: who waits for a prefix that somebody ahead is computing
 * (engine.md 4).
 *
 *   owner   0 ......... position ......... common ......... target
 *   waiter  0 . reused (R) ............... common ... target
 *                        '---- gain ------'  >= 64 blocks: worth waiting for
 *
 * Each pass plans anew from the state at its start, for all pending prompts in
 * the order they will be looked at, before any is admitted; nothing wakes a
 * waiter. It goes on when the prefix is in the tree, its owner is gone or
 * refuses, when computing it itself would be quicker, or after wait_max passes.
 *
 * An owner has a sequence and prompt left to compute, or it stands ahead in
 * this pass and does not wait itself. Prompts are found by tag at every 16th
 * block:
 *
 *   tag of block 16k - 1  ->  prompts with that prefix, oldest first
 *
 * From arrival to the end of its prompt a request is in that index; whether it
 * may own is asked when it is found, so nobody who failed, paused or finished
 * is waited for. Of those with one prefix the oldest few are asked.
 *
 * It knows nothing of pages. Pure, one thread, no allocation after creation. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/schedule.h"
#include "prefix/keys.h"

enum {
    PREFIX_WAIT_STRIDE = 16, /* blocks between indexed tags */
    PREFIX_WAIT_POINT_MAX = 8,
};

/* A prompt as the planner sees it. Its owner embeds it; zeroed before use. */
struct prefix_wait_request {
    struct sched_unit *unit;
    const struct prefix_key *keys; /* (key_count) of its full blocks */
    uint32_t key_count;
    uint32_t token_count;
    bool can_publish; /* what it computes becomes findable */
    /* Requested points, tokens, ascending: its chunks end there. */
    uint32_t points[PREFIX_WAIT_POINT_MAX];
    uint32_t point_count;
    /* private */
    uint32_t entry_first; /* of the index; 0: none */
    const struct prefix_wait_request *owner;
    uint64_t planned_pass, seen_pass;
    uint32_t first_reused;
    bool has_waited;
};

struct prefix_wait_options {
    uint32_t tokens_per_block;
    uint32_t gain_min; /* blocks; 64 */
    uint32_t wait_max; /* passes of a request, over its life; 128 */
    uint32_t request_max; /* prompts pending or under way */
    uint32_t entry_max; /* of the index; who finds no room owns nothing */
    bool is_cost_ruled; /* engine.md 4.9 */
    /* A prefix is reusable only where the owner was asked to stop (recurrent
     * layers); else any block it has computed is. */
    bool needs_points;
    uint32_t point_gap; /* blocks between points; 64 */
    /* The kill switch, and whether a prompt under way becomes reusable at all. */
    bool is_enabled;
};
struct prefix_wait_options prefix_wait_options_default(void);

struct prefix_wait;
/* ERR_INVALID names the field. */
MUST_USE enum err prefix_wait_create(const struct prefix_wait_options *options,
                                     struct why *why,
                                     struct prefix_wait **waits_out);
void prefix_wait_destroy(struct prefix_wait *waits); /* NULL is fine */

/* A prompt arrived; it ended, failed or was cancelled (idempotent). */
void prefix_wait_insert(struct prefix_wait *waits,
                        struct prefix_wait_request *request);
void prefix_wait_remove(struct prefix_wait *waits,
                        struct prefix_wait_request *request);

/* The plan stage: `pending` in this pass's order, started ones too, with
 * unit->probed the tokens that a look-up finds now. `budget_tokens`: what the
 * pass has for prompts. */
void prefix_wait_plan(struct prefix_wait *waits,
                      struct prefix_wait_request *const *pending,
                      uint32_t count, uint32_t budget_tokens);
/* The admission stage: must this one be passed over now? An owner that was not
 * admitted earlier in this pass and is not started is no reason. */
bool prefix_wait_defer(struct prefix_wait *waits,
                       struct prefix_wait_request *request);
/* It computes a chunk in this pass, from unit->position on. */
void prefix_wait_admitted(struct prefix_wait *waits,
                          struct prefix_wait_request *request);
/* It computes one since the pass before, which the tree does not have yet: after
 * prefix_wait_plan, before anybody is admitted. */
void prefix_wait_in_flight(struct prefix_wait *waits,
                           const struct prefix_wait_request *request);
/* For gains too small to wait for: does somebody in flight or admitted compute
 * the very block that this one, which reuses `reused` tokens, lacks first
 * (engine.md 4.8)? */
bool prefix_wait_is_duplicate(const struct prefix_wait *waits,
                              const struct prefix_wait_request *request,
                              uint32_t reused);
/* Asks `owner` to end a chunk at `depth` tokens: the depth granted (a block
 * boundary ahead of it and short of its end), 0: refused. */
uint32_t prefix_wait_request_point(const struct prefix_wait *waits,
                                   struct prefix_wait_request *owner,
                                   uint32_t depth);

struct prefix_wait_stats {
    uint64_t planned, waits, requests_waited, exhausted;
    uint64_t points, refusals, too_dear, duplicates, unindexed;
    uint64_t saved_tokens; /* of prefill that waiters found done */
    uint32_t requests, entries;
};
struct prefix_wait_stats prefix_wait_stats(const struct prefix_wait *waits);
/* Index and requests agree. Slow. */
bool prefix_wait_is_valid(const struct prefix_wait *waits);
