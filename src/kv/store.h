#pragma once
/* kv/store: pages on every level: who uses them, where they lie, which go first
 * (engine.md 1.5, 1.10, 6.4).
 *
 *   level 0   | group 0: slot slot slot ... | group 1: slot slot ... |   memory
 *   level 1   | group 0: slot ...           | group 1: ...           |   host
 *
 * A page is the storage of one block of one life cycle and occupies one slot of
 * its life cycle's pool group on one level. Life cycles of equal slot sizes
 * share a group.
 *
 *   state of a page               moved down  dropped  queued
 *   LOCKED  locks > 0, level 0    no          no       no
 *   HELD    holds > 0             yes [1]     no       yes [1]
 *   committed, neither            yes         yes      yes
 *   uncommitted, neither          does not exist: freed at once
 *                                 [1] not on the last level
 *
 * One queue a (level, group): lowest priority first, within a priority the one
 * released longest ago. Queue order survives a failed call: what is asked for is
 * first found feasible over all levels, then done.
 *
 * Pure. The store never touches bytes: moving a page is an order (struct
 * kv_order) with a ticket; a slot is not written, nor read, before the orders
 * that touched it last are done, so orders and users carry tickets to wait for.
 * Records are indices into arrays allocated once. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/ids.h"
#include "kv/view.h"

enum {
    KV_LEVEL_COUNT_MAX = 3,
    KV_PRIORITY_MAX = 100,
    KV_PRIORITY_DEFAULT = 35,
};

/* Names a page record, whatever its level and slot. */
typedef uint32_t kv_ref;
#define KV_REF_NONE UINT32_MAX
/* Names a tree node (kv/tree.h). */
typedef uint32_t kv_node;
#define KV_NODE_NONE UINT32_MAX
/* Names a copy order; they count up. 0: nothing to wait for. */
typedef uint64_t kv_ticket;

/* How the store tells its owner (kv/manager) what befell committed pages. Called
 * from inside store calls: the callee may read the store and call only what is
 * said here. */
struct kv_store_watch {
    /* A committed page is about to be dropped for room, or its bytes were lost
     * (failed copy). The callee forgets the page; it may kv_store_discard other
     * committed pages (the subtree), and this one, which changes nothing. */
    void (*lost)(void *context, kv_ref page);
    /* A committed page lies on another level; read only. May be NULL. */
    void (*moved)(void *context, kv_ref page, uint8_t from, uint8_t to);
    /* Leaf first: a page of the same queue to take instead of `page`, which is
     * at the queue's head; `page` itself when nothing below it is left. The
     * answer has KV_PAGE_QUEUED: pages that the call has chosen already have not.
     * Read only. May be NULL. */
    kv_ref (*victim)(void *context, kv_ref page);
    void *context;
};

struct kv_store_options {
    uint32_t life_count;
    uint8_t group_of[KV_LIFE_COUNT_MAX];
    uint32_t group_count;
    uint32_t level_count;
    uint32_t slot_counts[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX]; /* by group */
    /* Committed pages of a lower priority are dropped, not moved down. */
    uint8_t offload_priority_min;
    /* Outstanding at a time; full: ERR_FULL. One that is never done stops the
     * rest when four times as many have overtaken it. */
    uint32_t order_max;
    /* Pages that one call takes and locks at most; 0: as many as there are. Room
     * to plan is kept for that many, not for every page. */
    uint32_t batch_max;
    struct kv_store_watch watch;
};

/* Open for reading, except what is private. 32 bytes. */
struct kv_page {
    int32_t slot;
    kv_node node; /* KV_NODE_NONE: uncommitted, or an orphan */
    uint16_t locks;
    uint16_t holds;
    uint16_t tokens; /* of the block, covered; immutable up to here */
    uint8_t level : 4;
    uint8_t life : 4;
    uint8_t priority; /* effective now */
    uint8_t flags; /* KV_PAGE_* */
    /* private */
    uint8_t orders; /* outstanding ones that name this record */
    uint16_t timer; /* 1 + index of its expiry; 0: none */
    uint32_t prev, next; /* queue; free list */
    uint32_t released; /* stamp of the release, orders within a priority */
};
enum {
    KV_PAGE_COMMITTED = 1 << 0,
    KV_PAGE_QUEUED = 1 << 1,
    KV_PAGE_LOST = 1 << 2, /* its copy failed; users must let go of it */
    /* the other bits are private: kv/store_state.h */
};

struct kv_store;
struct kv_store *kv_store_create(const struct kv_store_options *options);
void kv_store_destroy(struct kv_store *store); /* NULL is fine */

const struct kv_page *kv_store_page(const struct kv_store *store, kv_ref page);
/* All records, by kv_ref: where they are for as long as the store lives. */
const struct kv_page *kv_store_pages(const struct kv_store *store);

/* -- room ----------------------------------------------------------------- */

/* Pages a group could hand out now on level 0: free + what may be moved down or
 * dropped; of held pages, those that the levels below have room for. Exact: so
 * many can be taken, in each group at a time, as long as there are orders left
 * for the copies. */
uint32_t kv_store_available(const struct kv_store *store, uint32_t group);
/* Takes `want[life]` new pages, LOCKED once, uncommitted, on level 0, all or
 * nothing; makes room as engine.md 1.10 says. `refs_out`: packed by life.
 * ERR_FULL: nothing changed, whatever the level it failed on.
 *
 * A held page that has no place below is passed over for a younger one that may
 * be dropped. Drops come before moves, those of the lowest level first. */
MUST_USE enum err kv_store_take(struct kv_store *store,
                                const uint32_t want[KV_LIFE_COUNT_MAX],
                                kv_ref *refs_out);
/* Locks `count` pages that the caller HOLDS (one hold of each becomes a lock),
 * bringing up what lies lower, and takes `want[life]` new pages in the same
 * step, all or nothing. `refs` may name a page once only. Its slot may change:
 * read it anew. ERR_FULL: nothing changed. Pages that go up and others that go
 * down change places through one slot that is free or made so; when all of both
 * levels must be kept there is none. */
MUST_USE enum err kv_store_lock(struct kv_store *store, const kv_ref *refs,
                                uint32_t count,
                                const uint32_t want[KV_LIFE_COUNT_MAX],
                                kv_ref *refs_out);
/* Best effort: brings held pages up to `level`; how many lie there, or above,
 * afterwards. Takes free and droppable slots only, moves no held page down. */
uint32_t kv_store_raise(struct kv_store *store, const kv_ref *refs,
                        uint32_t count, uint8_t level);

/* -- users ---------------------------------------------------------------- */

void kv_store_hold(struct kv_store *store, kv_ref page); /* any level */
void kv_store_unhold(struct kv_store *store, kv_ref page);
/* One more lock of a page that is LOCKED (a lease, a fork). */
void kv_store_relock(struct kv_store *store, kv_ref page);
/* One more lock of a page that lies on level 0, whatever it was: it takes no room
 * that others could not have had. */
void kv_store_lock_here(struct kv_store *store, kv_ref page);
/* The lock goes, a hold stays (suspend). */
void kv_store_unlock_to_hold(struct kv_store *store, kv_ref page);
/* The last one goes: committed pages to the queue's tail, others free; a page
 * that still has holds is HELD. */
void kv_store_unlock(struct kv_store *store, kv_ref page);

/* -- commitment ----------------------------------------------------------- */

/* The tree knows this page from now on, under `node`, `tokens` of its block
 * covered. May be repeated with larger coverage or another node. The page is not
 * LOST: look first. */
void kv_store_commit(struct kv_store *store, kv_ref page, kv_node node,
                     uint16_t tokens);
/* The tree forgets it: freed now when droppable, else when its last user lets go
 * (an orphan). The one call allowed from `watch.lost`, also for pages that the
 * present call has chosen as victims. */
void kv_store_discard(struct kv_store *store, kv_ref page);
/* From `priority` until `expiry_ms` (UINT64_MAX: for good), then the default.
 * Counted from the first commitment by the caller. Requeues by the page's own
 * release stamp. One in eight pages, but 1,024 at least and 65,534 at most, may
 * have a priority that ends; one more gets the default at once. */
void kv_store_retain(struct kv_store *store, kv_ref page, uint8_t priority,
                     uint64_t expiry_ms);
/* When the page's priority ends; UINT64_MAX: it does not. */
uint64_t kv_store_expiry(const struct kv_store *store, kv_ref page);
/* Pages whose priority is not the default. */
uint32_t kv_store_ranked(const struct kv_store *store);
/* Time goes on: what has expired ranks as the default. Cheap when nothing did. */
void kv_store_tick(struct kv_store *store, uint64_t now_ms);

/* -- copies --------------------------------------------------------------- */

struct kv_order {
    kv_ticket ticket;
    kv_ticket after[2]; /* of source and destination slot; 0: none */
    uint8_t group;
    uint8_t from_level, to_level;
    int32_t from_slot, to_slot;
};
/* Copies the bytes of one page to another of the same life cycle, both LOCKED
 * by the caller. ERR_FULL: too many orders. */
MUST_USE enum err kv_store_copy(struct kv_store *store, kv_ref from, kv_ref to);
/* Orders not yet taken, oldest first, in an order in which they may be started
 * one after the other. Valid until the next call that makes an order. */
const struct kv_order *kv_store_orders(const struct kv_store *store,
                                       uint32_t *count_out);
void kv_store_orders_taken(struct kv_store *store, uint32_t count);
/* Orders are done in any sequence, each started after those it waits for. Failed:
 * the page that was to arrive is lost (KV_PAGE_LOST, watch.lost when committed),
 * its slot is free when its last user lets go. So are pages copied from it by
 * orders still outstanding; nobody else is harmed. */
void kv_store_order_done(struct kv_store *store, kv_ticket ticket, bool is_ok);
bool kv_store_is_done(const struct kv_store *store, kv_ticket ticket);
/* What a user of this page's bytes waits for. */
kv_ticket kv_store_ready(const struct kv_store *store, kv_ref page);

/* -- numbers -------------------------------------------------------------- */

struct kv_store_counts { /* of one (level, group) */
    uint32_t total, free, queued;
    uint32_t locked;
    uint32_t held; /* not queued ones on the last level too */
    uint32_t droppable; /* queued ones without holds */
    uint32_t free_min; /* since the last reset of peaks */
};
struct kv_store_counts kv_store_counts(const struct kv_store *store,
                                       uint8_t level, uint32_t group);
void kv_store_reset_peaks(struct kv_store *store);
struct kv_store_totals { /* since creation */
    uint64_t dropped, offloaded, onboarded, copied, lost;
    uint64_t leaf_swaps; /* watch.victim chose another */
};
struct kv_store_totals kv_store_totals(const struct kv_store *store);
/* Head to tail as they would be taken, up to `max`: for tests and statistics. */
uint32_t kv_store_queue(const struct kv_store *store, uint8_t level,
                        uint32_t group, uint32_t max, kv_ref *refs_out);
size_t kv_store_bytes(const struct kv_store *store); /* of its arrays */
/* Invariants 1, 2, 3, 4, 8, 9, 10 of engine.md 7.1. Slow. */
bool kv_store_is_valid(const struct kv_store *store);
