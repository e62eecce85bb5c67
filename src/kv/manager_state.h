#pragma once
/* kv/manager_state: the insides of a manager and its sequences, for the files
 * manager*.c and seq*.c only.
 *
 * Who pays for a page. A sequence with a promise has a quota, the most pages of
 * its own that it has at a time, a life cycle each:
 *
 *   own + promised + owed <= quota
 *
 * own: pages it took itself. promised: it can take them whenever it likes.
 * owed: it let go of them, but a lease still has them; they turn into promise
 * when the lease ends. For each pool group, while any promise is given:
 *
 *   promised + shadow + low <= free + droppable           (of level 0)
 *
 * shadow: windowed pages count once for each user beyond the first, since every
 * user is promised a page when it lets go, and only the last one frees any.
 * low: pages of suspended sequences with a promise that lie below level 0. */
#include "base/check.h"
#include "kv/events_tree.h"
#include "kv/manager.h"

/* What the manager knows of a page besides kv/store. 2 bytes. */
struct kv_side {
    uint16_t leases : 15;
    uint16_t is_counted : 1; /* scratch of a scan */
};
_Static_assert(sizeof(struct kv_side) == 2, "there is one for each page");
enum { KV_LEASE_MAX = INT16_MAX };

struct kv_seq_inside {
    struct kv_manager *manager;
    struct kv_seq *next_free;
    kv_ref *refs[KV_LIFE_COUNT_MAX]; /* (block_count_max) */
    struct kv_range stale[KV_LIFE_COUNT_MAX]; /* empty: behind the sinks */
    uint32_t next_stale; /* at this history one of them grows */
    uint32_t claimed; /* leading full blocks that it did not take itself */
    uint32_t own[KV_LIFE_COUNT_MAX];
    uint32_t quota[KV_LIFE_COUNT_MAX];
    uint32_t owed[KV_LIFE_COUNT_MAX];
    struct kv_promise promise; /* fork_count: to come yet */
    uint32_t fork_each[KV_LIFE_COUNT_MAX]; /* promised to each of them */
    uint32_t prompt_tokens;
    uint32_t counted; /* blocks that statistics know */
    uint8_t shared_tail; /* a bit a life: the last page is the tree's */
    bool has_promise;
    bool is_stopped; /* commits nothing more */
    bool is_ready; /* seen, and nothing new since */
    uint32_t ruled_tokens; /* where retention's prompt ends */
    struct kv_retention_plan retention;
    struct prefix_key root;
};

struct kv_manager {
    struct kv_manager_options options;
    uint32_t sinks[KV_LIFE_COUNT_MAX]; /* blocks */
    bool is_all_windowed; /* no life cycle is full attention */
    uint32_t page_count; /* records of the store */
    struct kv_store *store;
    const struct kv_page *pages; /* (page_count) of the store, read only */
    struct kv_tree *tree;
    struct kv_events *events; /* NULL: nobody reads them */
    struct kv_seq *seqs; /* (seq_count_max) */
    struct kv_seq_inside *insides; /* (seq_count_max) */
    struct kv_seq *free_seqs;
    kv_page_id *tables; /* (seq, life, block_count_max) */
    kv_ref *refs; /* (seq, life, block_count_max) */
    struct kv_side *sides; /* (page_count) */
    kv_node *chain; /* (block_count_max) scratch of a match */
    uint32_t batch_max; /* life_count * block_count_max, and the tails */
    kv_ref *batch; /* (batch_max) scratch: pages of a sequence */
    kv_ref *fresh; /* (batch_max) scratch: pages just taken */
    uint32_t victim_max;
    kv_ref *victims; /* (victim_max) scratch: of a queue */
    uint32_t promised[KV_LIFE_COUNT_MAX]; /* by group */
    uint32_t shadow[KV_LIFE_COUNT_MAX]; /* by group */
    uint32_t promise_count; /* sequences with a promise */
    uint32_t pinned_count; /* of them, suspended */
    uint32_t owed; /* sum */
    uint64_t orders_done;
    uint32_t seq_count, active_count;
    uint64_t now_ms;
    struct kv_manager_stats totals; /* its counters only */
};

/* -- small words ---------------------------------------------------------- */

static inline uint32_t kv_block_tokens(const struct kv_manager *manager)
{
    return manager->options.tokens_per_block;
}

static inline uint32_t kv_group_of(const struct kv_manager *manager,
                                   uint32_t life)
{
    return manager->options.group_of[life];
}

static inline const struct kv_page *kv_manager_page(
    const struct kv_manager *manager, kv_ref page)
{
    CHECK(page < manager->page_count);
    return &manager->pages[page];
}

static inline struct kv_side *kv_side_of(const struct kv_manager *manager,
                                         kv_ref page)
{
    CHECK(page < manager->page_count);
    return &manager->sides[page];
}

/* Sequences that use the page. */
static inline uint32_t kv_users(const struct kv_manager *manager, kv_ref page)
{
    const struct kv_page *record = kv_manager_page(manager, page);
    return (uint32_t)record->locks + record->holds -
           kv_side_of(manager, page)->leases;
}

/* Nobody else, no transfer either, knows of it. */
static inline bool kv_is_sole(const struct kv_manager *manager, kv_ref page)
{
    const struct kv_page *record = kv_manager_page(manager, page);
    return (uint32_t)record->locks + record->holds == 1;
}

static inline bool kv_is_in_tree(const struct kv_page *page)
{
    return (page->flags & KV_PAGE_COMMITTED) != 0 && page->node != KV_NODE_NONE;
}

/* Pages of this block come and go with the window. */
static inline bool kv_is_windowed(const struct kv_manager *manager,
                                  uint32_t life, uint32_t block)
{
    return manager->options.lives[life].window > 0 &&
           block >= manager->sinks[life];
}

/* ERR_INVALID names the field; ERR_FULL: see kv_manager_create
 * (kv/manager_options.c). */
MUST_USE enum err kv_manager_check(const struct kv_manager_options *options,
                                   struct why *why);

/* -- room (kv/manager_room.c) --------------------------------------------- */

/* Of level 0: free or droppable, and spoken for. */
uint32_t kv_room_strict(const struct kv_manager *manager, uint32_t group);
uint32_t kv_room_demand(const struct kv_manager *manager, uint32_t group);
/* What a sequence of `token_total` tokens has of its own at a time at most. */
void kv_room_need(const struct kv_manager *manager, uint32_t token_total,
                  uint32_t reused, uint32_t need_out[KV_LIFE_COUNT_MAX]);
/* What one fork of a promise does, and its shares of windowed pages. */
void kv_room_fork_need(const struct kv_manager *manager,
                       const struct kv_promise *promise,
                       uint32_t need_out[KV_LIFE_COUNT_MAX]);
/* May pages that nobody was promised be taken, so many of each group? Always
 * while there is no promise: then the store decides. */
bool kv_room_allows(const struct kv_manager *manager,
                    const uint32_t want[KV_LIFE_COUNT_MAX]);
/* Before a sequence becomes, or ceases to be, a user of a page that exists. */
void kv_room_enter(struct kv_manager *manager, uint32_t life, uint32_t block,
                   kv_ref page);
void kv_room_leave(struct kv_manager *manager, uint32_t life, uint32_t block,
                   kv_ref page);
/* A sequence took `count` pages: first what it was promised. */
void kv_room_charge(struct kv_manager *manager, struct kv_seq *seq,
                    uint32_t life, uint32_t count);
/* It lets go of own pages: `count` come free for others, or another user's
 * shadow does; `leased` come free with their leases. */
void kv_room_credit(struct kv_manager *manager, struct kv_seq *seq,
                    uint32_t life, uint32_t count, uint32_t leased);
/* How much of it `kv_room_credit` would turn into promise. */
uint32_t kv_room_credit_of(const struct kv_seq *seq, uint32_t life,
                           uint32_t count, uint32_t leased);
/* What is owed turns into promise where there is room. */
void kv_room_settle(struct kv_manager *manager);
/* Whether a sequence has a promise, be it of nothing. */
void kv_room_set_promise(struct kv_manager *manager, struct kv_seq *seq,
                         bool has_promise);
/* Sets how many forks are provided for: 0, one less. */
void kv_room_set_forks(struct kv_manager *manager, struct kv_seq *seq,
                       uint32_t fork_count);
/* The promise of a sequence ends, its forks to come included. */
void kv_room_forget(struct kv_manager *manager, struct kv_seq *seq);
/* As kv_store_take. What was promised is had even where no page can be moved:
 * then droppable ones are dropped. */
MUST_USE enum err kv_room_take(struct kv_manager *manager,
                               const uint32_t want[KV_LIFE_COUNT_MAX],
                               kv_ref *refs_out);
/* Copies that the store would still take orders for. */
uint32_t kv_room_orders(const struct kv_manager *manager);

/* -- sequences (kv/seq*.c) ------------------------------------------------ */

/* NULL: none left. SUSPENDED and empty. */
struct kv_seq *kv_seq_take(struct kv_manager *manager);
/* The stale ranges at `history`; an empty one lies behind the sinks. */
void kv_seq_stale(const struct kv_manager *manager, uint32_t history,
                  struct kv_range stale_out[KV_LIFE_COUNT_MAX]);
/* Moves history and what follows from it, once pages have been seen to. */
void kv_seq_set_history(struct kv_manager *manager, struct kv_seq *seq,
                        uint32_t history);
/* Nothing that is locked grows: history goes to `history`, what goes stale is
 * let go or kept for a commit. */
void kv_seq_advance(struct kv_manager *manager, struct kv_seq *seq,
                    uint32_t history);
/* Lets go of one page of the sequence, whatever it is to it. */
void kv_seq_drop(struct kv_manager *manager, struct kv_seq *seq, uint32_t life,
                 uint32_t block);
/* Stale pages kept for a commit that will not come. */
void kv_seq_drop_kept(struct kv_manager *manager, struct kv_seq *seq);
/* Makes the last block's page its own by taking it from the tree, when nobody
 * else uses it: for who cannot have room for a copy. */
void kv_seq_adopt_tail(struct kv_manager *manager, struct kv_seq *seq,
                       uint8_t lives);

/* -- rank of a page (kv/seq_retain.c) ------------------------------------- */

/* A priority, until when; afterwards it is the default. */
struct kv_rank {
    uint8_t priority;
    uint32_t until_s; /* 0: for good */
};
struct kv_rank kv_rank_of(const struct kv_manager *manager, kv_ref page);
/* The least that is enough for both, or a little more. */
struct kv_rank kv_rank_join(struct kv_rank a, struct kv_rank b);
/* Does the sequence ask for any, or has any page one? Else commits need not look. */
bool kv_rank_is_used(const struct kv_manager *manager,
                     const struct kv_seq *seq);
/* What a node's pages are worth to whom stands on them, before a commit puts
 * others in their place. */
struct kv_rank kv_rank_floor(const struct kv_manager *manager, kv_node node);
/* Gives the pages of a block just committed, old ones too, the rank that the
 * sequence's rules ask for, at least `least`, and no ancestor less. */
void kv_rank_node(struct kv_manager *manager, const struct kv_seq *seq,
                  kv_node node, uint32_t block, struct kv_rank least);

/* -- what befalls pages (kv/manager_watch.c) ------------------------------ */

struct kv_store_watch kv_watch(struct kv_manager *manager);
/* Takes a page out of the tree, with what stands on it. The page is freed with
 * its last user. */
void kv_watch_forget(struct kv_manager *manager, kv_ref page);
/* The same, but the page goes to another node at once. */
void kv_watch_leave(struct kv_manager *manager, kv_ref page);
/* Drops droppable pages from a queue's head until `free_min` slots are free, or
 * none is left. */
void kv_watch_drop(struct kv_manager *manager, uint8_t level, uint32_t group,
                   uint32_t free_min);
/* The page's place in the tree has been taken by another one. */
void kv_watch_displace(struct kv_manager *manager, kv_ref page);
