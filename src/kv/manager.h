#pragma once
/* kv/manager: the paged cache of one model: sequences over pages (kv/store) and
 * over the tree of cached prefixes (kv/tree). engine.md 1.6 to 1.8.
 *
 *   tokens of a sequence   | committed | ... | history | ... | capacity
 *   block table of a life  | -1 stale  |  slots ...............  | -1 ...
 *
 *   committed <= history <= capacity; blocks = ceil(capacity / B)
 *
 * committed: tokens that the tree knows. history: tokens that no longer have a
 * query to run (their KV is in place); it alone decides what is stale. capacity:
 * history and room for the next step.
 *
 *   open -> SUSPENDED --resume--> ACTIVE --suspend--> SUSPENDED ... close
 *
 * A table entry is a slot of level 0 exactly while the sequence has that page
 * locked, else KV_PAGE_NONE, the tail beyond the last block too.
 *
 * Two ways to be sure of room. A promise (GUARANTEED_NO_EVICT): what a sequence
 * may need until its end is set aside when it starts, a life cycle each, and
 * growth within it never fails. Without promise growth may answer ERR_FULL, and
 * somebody must be suspended or paused. For each pool group, once there is a
 * promise:
 *
 *   sum(promised) + shared windowed pages, once for each user beyond the first
 *     <= free + droppable, of level 0
 *
 * so what others hold, suspended, need not be moved for it. Claims, forks, growth
 * without promise and copies for the tree take only what is left over. A lease
 * keeps pages, not a promise: who closes gives it up, and the pages come free with
 * the lease.
 *
 * Every failed call leaves lengths, tables, queues and counts as they were.
 * Pure: bytes are moved by whoever takes the orders (kv/store.h); before a
 * sequence's pages are read or written its ticket must be done. Nothing
 * allocates after creation. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/events.h"
#include "kv/retention.h"
#include "kv/store.h"
#include "kv/tree.h"

enum kv_commit_policy {
    KV_COMMIT_ALL, /* each block when full; the partial tail at context end */
    KV_COMMIT_PER_REQUEST, /* what reuse at the context end needs */
};

struct kv_manager_options {
    uint32_t tokens_per_block; /* a power of two */
    uint32_t life_count;
    struct kv_life lives[KV_LIFE_COUNT_MAX];
    uint8_t group_of[KV_LIFE_COUNT_MAX]; /* equal slots share one */
    uint32_t group_count;
    uint32_t level_count;
    uint32_t slot_counts[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX];
    uint32_t seq_count_max;
    uint32_t block_count_max; /* of one sequence */
    uint32_t step_max; /* tokens of one resize at most, for promises */
    enum kv_commit_policy commit;
    bool enable_reuse; /* false: nothing matches, nothing is committed */
    bool enable_partial;
    uint8_t offload_priority_min;
    uint32_t event_max; /* kept for a reader; 0: no events */
    /* Copies outstanding at a time. 0: two a sequence and life cycle, and with
     * lower levels what moving the longest one up, and others down, takes. */
    uint32_t order_max;
};

struct kv_manager;
/* ERR_INVALID names the field; ERR_FULL: pools too small for one sequence of
 * block_count_max blocks, with the sums (engine.md 1.4). ERR_NO_MEMORY: the system
 * gave none for what is kept of pages and tokens. */
MUST_USE enum err kv_manager_create(const struct kv_manager_options *options,
                                    struct why *why,
                                    struct kv_manager **manager_out);
void kv_manager_destroy(struct kv_manager *manager); /* NULL is fine */

enum kv_seq_status { KV_SEQ_FREE, KV_SEQ_SUSPENDED, KV_SEQ_ACTIVE };

/* Open for reading; written by the calls below. */
struct kv_seq {
    kv_page_id *tables[KV_LIFE_COUNT_MAX]; /* (block_count_max) each */
    enum kv_seq_status status;
    uint32_t committed, history, capacity; /* tokens */
    uint32_t block_count;
    uint32_t reused; /* tokens that came from the tree */
    uint32_t promised[KV_LIFE_COUNT_MAX]; /* blocks still set aside for it,
                                           * those for its forks not counted */
    /* private: see kv/manager_state.h */
    struct kv_seq_inside *inside;
};

/* -- look-up -------------------------------------------------------------- */

/* What a sequence may need to its end: `token_total` tokens of its own, and
 * `fork_count` forks made when its history is `fork_at` tokens, each to
 * `token_total` too (they share the full blocks before fork_at). */
struct kv_promise {
    uint32_t token_total;
    uint32_t fork_at, fork_count;
};
/* No claim; stale as soon as anything is evicted. */
struct kv_match kv_manager_probe(const struct kv_manager *manager,
                                 const struct kv_prompt *prompt);
/* Pages of each life cycle that a sequence takes to keep `promise` when `reused`
 * tokens of it are found: what kv_seq_promise would set aside. */
void kv_manager_need(const struct kv_manager *manager,
                     const struct kv_promise *promise, uint32_t reused,
                     uint32_t need_out[KV_LIFE_COUNT_MAX]);
/* Pages of a group that nobody uses and nobody was promised: what a promise, or
 * growth beside promises, can still have. */
uint32_t kv_manager_room(const struct kv_manager *manager, uint32_t group);

/* -- life of a sequence --------------------------------------------------- */

/* Matches at most `limit` tokens and holds what is needed of them; SUSPENDED,
 * committed = history = capacity = reused. ERR_FULL: no sequence left, or the
 * pages held would break a promise; nothing changed. */
MUST_USE enum err kv_seq_open(struct kv_manager *manager,
                              const struct kv_prompt *prompt, uint32_t limit,
                              struct kv_seq **seq_out);
/* Sets that aside, less what the sequence holds already; replaces an earlier
 * promise. Less than before never fails. Growth within it, in steps of at most
 * step_max, never fails, whatever others do, suspended ones and copies under way
 * included. What a block that goes stale or is cut had taken is promised again at
 * once; while a lease has its page, when the lease ends. Where the copy of a partly
 * used last block would be the page too many, the tree gives that block up to us.
 * ERR_FULL: nothing changed. */
MUST_USE enum err kv_seq_promise(struct kv_manager *manager, struct kv_seq *seq,
                                 const struct kv_promise *promise);
/* Locks all that is needed, brings it up, and on the first time makes a partly
 * used last block its own (a copy order). ERR_BUSY: level 0 is too full (100 *
 * used > 97 * total in some group; a sequence with a promise is let through).
 * With no sequence ACTIVE nobody would be crowded: then it is let through too.
 * ERR_FULL: no room, or too many copies under way; where there is a promise only
 * the latter. ERR_CORRUPT: a page was lost, close it. Nothing is locked then. */
MUST_USE enum err kv_seq_resume(struct kv_manager *manager, struct kv_seq *seq);
/* Locks become holds, deepest block first; cannot fail. Idempotent. */
void kv_seq_suspend(struct kv_manager *manager, struct kv_seq *seq);
/* SUSPENDED only; best effort. */
void kv_seq_prefetch(struct kv_manager *manager, struct kv_seq *seq,
                     uint8_t level);
/* Lets go of everything, deepest block first, and of the promise. Pages under a
 * lease stay where they are until it ends, promised to nobody. */
void kv_seq_close(struct kv_manager *manager, struct kv_seq *seq);
/* A second ACTIVE sequence with the same history (n choices). Full blocks are
 * shared, a partial last one is copied (an order). What the parent has not
 * committed yet is never committed by either: commit first. When the parent
 * promised forks, the child takes one's share with it and fork_count falls by
 * one; it cannot fail then but for ERR_FULL of sequences or orders. Else it has
 * none, and takes what is left over. ERR_FULL: nothing changed. */
MUST_USE enum err kv_seq_fork(struct kv_manager *manager, struct kv_seq *parent,
                              struct kv_seq **child_out);

/* -- lengths -------------------------------------------------------------- */

/* What a resize changed, to take it back. */
struct kv_mark {
    uint32_t history, capacity;
};
/* One atomic step (engine.md 1.6). capacity >= history >= seq->history; shrinking
 * may not cut history or committed. ERR_FULL: nothing changed. */
MUST_USE enum err kv_seq_resize(struct kv_manager *manager, struct kv_seq *seq,
                                uint32_t capacity, uint32_t history,
                                struct kv_mark *mark_out);
/* Back to `mark`'s capacity, after a veto: history must not have passed it. */
void kv_seq_revert(struct kv_manager *manager, struct kv_seq *seq,
                   const struct kv_mark *mark);
/* The KV up to `position` is in place: history goes there and, as the policy
 * says, blocks are committed under `keys` (tags of full blocks) and `tokens`
 * (position of them, of the sequence from its start). `is_final`: the context
 * ends here, a partial tail may be published (`tail_key`, else NULL).
 * Commits may put the tree's page in place of ours: read the tables anew. */
void kv_seq_commit_to(struct kv_manager *manager, struct kv_seq *seq,
                      uint32_t position, const struct prefix_key *keys,
                      const int32_t *tokens, bool is_final,
                      const struct prefix_key *tail_key);
/* Nothing more of this sequence is committed. */
void kv_seq_stop(struct kv_seq *seq);
/* What becomes of its pages when nobody uses them: of those found in the cache
 * from now on, no page less than it is worth already; of others when they are
 * committed. Its first `prompt_tokens` tokens are the prompt. */
void kv_seq_retain(struct kv_seq *seq, const struct kv_retention_plan *plan,
                   uint32_t prompt_tokens);

/* All its pages can be read and written now. Ask before each use of its pages:
 * a resize, a commit and a fork may bring pages that are not. */
bool kv_seq_is_ready(const struct kv_manager *manager,
                     const struct kv_seq *seq);
/* A copy to one of its pages failed: it will never be ready again. Close it. */
bool kv_seq_is_lost(const struct kv_manager *manager, const struct kv_seq *seq);

/* -- leases --------------------------------------------------------------- */

/* Pages for a transfer: LOCKED and in place until given back, whatever becomes of
 * the sequence. `refs_out` (block_count) gets what to give back; stale blocks
 * give KV_REF_NONE. The sequence is ACTIVE. */
void kv_seq_lease(struct kv_manager *manager, const struct kv_seq *seq,
                  uint32_t life, uint32_t first_block, uint32_t block_count,
                  kv_ref *refs_out);
void kv_manager_unlease(struct kv_manager *manager, const kv_ref *refs,
                        uint32_t count);

/* -- the shell's side ----------------------------------------------------- */

/* Once a turn: expiry, events. */
void kv_manager_tick(struct kv_manager *manager, uint64_t now_ms);
const struct kv_order *kv_manager_orders(const struct kv_manager *manager,
                                         uint32_t *count_out);
void kv_manager_orders_taken(struct kv_manager *manager, uint32_t count);
void kv_manager_order_done(struct kv_manager *manager, kv_ticket ticket,
                           bool is_ok);
/* Drops all that nobody uses. */
void kv_manager_clear(struct kv_manager *manager);
/* The event log: NULL when event_max is 0. */
struct kv_events *kv_manager_events(struct kv_manager *manager);
/* Changes whenever a look-up could answer otherwise (kv_tree_epoch). */
uint64_t kv_manager_epoch(const struct kv_manager *manager);
/* Everything that is announced now, for a reader that lost its place. */
void kv_manager_resync(struct kv_manager *manager,
                       void (*visit)(void *context,
                                     const struct kv_event *event),
                       void *context);

/* -- numbers -------------------------------------------------------------- */

struct kv_manager_stats {
    struct kv_store_counts counts[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX];
    struct kv_store_totals totals;
    uint32_t promised[KV_LIFE_COUNT_MAX]; /* by group */
    uint32_t seqs, suspended;
    uint32_t nodes;
    uint64_t tree_epoch;
    uint64_t blocks_allocated; /* pages taken, of any life cycle */
    uint64_t blocks_reused_full, blocks_reused_partial; /* of prompts: once */
    uint64_t blocks_missed; /* a block, whatever life cycles there are */
    uint64_t tokens_lost_evicted; /* raw match less what was usable */
    uint64_t resumes, suspends, resume_refusals;
    uint64_t commits_stopped; /* node table full, partial sibling ... */
    size_t metadata_bytes;
};
void kv_manager_stats(const struct kv_manager *manager,
                      struct kv_manager_stats *stats_out);
/* counts.free_min begins anew: once a reader has what it was. */
void kv_manager_reset_peaks(struct kv_manager *manager);
/* Invariants 1 to 29 of engine.md 7.1, page by page. Slow. */
bool kv_manager_is_valid(const struct kv_manager *manager);
