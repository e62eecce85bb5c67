#pragma once
/* kv/store_state: the insides of a store, for its own files only.
 *
 *   store.c         records, who uses a page, what is committed
 *   store_slots.c   which slots of a shelf are free
 *   store_queue.c   in which order pages go
 *   store_timers.c  priorities and when they end
 *   store_plan.c    what must go, and where to, for a demand to be met
 *   store_room.c    the demands: take, lock, raise; does what was planned
 *   store_orders.c  copies under way
 *   store_proof.c   the invariants
 *
 * A shelf is what one group has on one level. */
#include "kv/store.h"

enum {
    KV_CLASS_COUNT = KV_PRIORITY_MAX + 1,
    KV_TIMER_COUNT_MIN = 1024, /* as far as there are pages */
    KV_TIMER_COUNT_MAX = UINT16_MAX - 1,
    KV_REF_BITS = 30, /* of an item of a plan; its target is above */
};
/* Private bits of kv_page.flags. */
enum {
    KV_PAGE_USED = 1 << 3, /* the record is a page */
    KV_PAGE_CHOSEN = 1 << 4, /* out of its queue for the present call */
    KV_PAGE_GONE = 1 << 5, /* chosen, and discarded meanwhile; marked lost */
    KV_PAGE_LEAVING = 1 << 6, /* its owner is being told */
};
#define KV_SLOT_NONE UINT32_MAX
_Static_assert(sizeof(struct kv_page) == 32, "two in a cache line");

/* -- slots ---------------------------------------------------------------- */

/* A slot has one word. Out: 1 + the end of the outstanding order that touched it
 * last, 0: nothing to wait for. Free and waiting: the same. Free and ready: the
 * next one of the list. */
typedef uint32_t kv_cell;
/* An order has two ends: 2 * its place in the ring is the slot that is read, one
 * more the slot that is written. Free slots that wait are a list over those. */
typedef uint32_t kv_end;
struct kv_wait {
    kv_end prev, next; /* KV_SLOT_NONE: none */
    uint32_t slot;
    bool is_linked;
};
struct kv_fifo {
    uint32_t head, tail;
};
struct kv_slots {
    kv_cell *cells; /* (capacity) */
    uint64_t *bits; /* (capacity / 64) which are out */
    struct kv_wait *waits; /* by end; the orders' */
    uint32_t capacity;
    uint32_t high_water; /* slots from here on were never out */
    uint32_t free_count, free_min;
    struct kv_fifo ready; /* slots: came back, nothing to wait for */
    struct kv_fifo waiting; /* ends: came back under an order */
};
void kv_slots_init(struct kv_slots *slots, uint32_t capacity,
                   struct kv_wait *waits);
void kv_slots_finish(struct kv_slots *slots);
/* There is a free one. Ready ones first, then never used ones. */
uint32_t kv_slots_take(struct kv_slots *slots);
void kv_slots_give(struct kv_slots *slots, uint32_t slot);
bool kv_slots_is_out(const struct kv_slots *slots, uint32_t slot);
/* An order touches a slot that is out; it is done. */
void kv_slots_touch(struct kv_slots *slots, uint32_t slot, kv_end end);
void kv_slots_settle(struct kv_slots *slots, uint32_t slot, kv_end end);

/* -- shelves -------------------------------------------------------------- */

struct kv_queue {
    uint64_t classes[2]; /* which priorities have pages */
    uint32_t count;
    kv_ref finger; /* inserted last in the middle of a class */
    kv_ref heads[KV_CLASS_COUNT], tails[KV_CLASS_COUNT];
};
struct kv_shelf {
    struct kv_slots slots;
    struct kv_queue queue;
    uint32_t locked;
    uint32_t held; /* and not locked */
    uint32_t droppable;
};

/* -- orders --------------------------------------------------------------- */

/* What is to be remembered of an order until it is done. */
struct kv_pending {
    kv_ref page; /* that arrives */
    kv_ref source; /* that is read: a copy's; KV_REF_NONE: the page moves */
    int32_t from_slot, to_slot;
    uint8_t group, from_level, to_level;
    bool is_done;
};
struct kv_orders {
    struct kv_pending *ring; /* (mask + 1) by ticket */
    struct kv_wait *waits; /* (2 * (mask + 1)) by end */
    uint32_t mask;
    uint32_t outstanding;
    kv_ticket low; /* all before it are done */
    kv_ticket next;
    struct kv_order *queue; /* (2 * order_max) not taken: [first, end) */
    uint32_t first, end;
};

/* -- timers --------------------------------------------------------------- */

struct kv_timer {
    uint64_t expiry_ms;
    kv_ref page; /* next free one when free */
    uint16_t heap_at;
    uint16_t heap; /* another thing: the heap's entry of this index */
};
_Static_assert(sizeof(struct kv_timer) == 16, "one page in eight has one");
struct kv_timers {
    struct kv_timer *timers; /* (capacity); heap (count), soonest first */
    uint32_t capacity, count;
    uint32_t free;
};

struct kv_store {
    struct kv_store_options options;
    uint8_t last; /* level */
    struct kv_shelf shelves[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX];
    struct kv_page *pages; /* (page_count) */
    uint32_t page_count;
    kv_ref free_pages;
    uint32_t ranked; /* pages whose priority is not the default */
    uint32_t next_stamp;
    uint64_t now_ms;
    struct kv_timers timers;
    struct kv_orders orders;
    struct kv_store_totals totals;
    /* Pages that the present call took out of their queues, in that order, each
     * with the level it goes to above KV_REF_BITS; 0: it is dropped. */
    uint32_t *items; /* (item_max) */
    uint32_t item_count, item_max;
};

static inline struct kv_page *kv_page_of(const struct kv_store *store,
                                         kv_ref ref)
{
    return &store->pages[ref];
}

static inline uint8_t kv_page_group(const struct kv_store *store,
                                    const struct kv_page *page)
{
    return store->options.group_of[page->life];
}

static inline struct kv_shelf *kv_shelf_of(const struct kv_store *store,
                                           const struct kv_page *page)
{
    struct kv_store *owner = (struct kv_store *)store;
    return &owner->shelves[page->level][kv_page_group(store, page)];
}

/* No user is left: into the queue, or free. It counts nowhere at the moment. */
void kv_page_settle(struct kv_store *store, kv_ref ref);
/* In no queue and counted nowhere: its slot and record are free. */
void kv_page_free(struct kv_store *store, kv_ref ref);
/* The tree has forgotten it: frees it when nobody uses it. */
void kv_page_orphan(struct kv_store *store, kv_ref ref);
kv_ref kv_page_new(struct kv_store *store, uint8_t life);
/* A free record that no order names may be used again. */
void kv_page_recycle(struct kv_store *store, kv_ref ref);

void kv_queue_init(struct kv_queue *queue);
/* A page just released: at the tail of its priority. */
void kv_queue_append(struct kv_store *store, struct kv_queue *queue,
                     kv_ref ref);
/* By priority and the stamp that it has. */
void kv_queue_insert(struct kv_store *store, kv_ref ref);
/* Leaves the page's own links, so that unlinks are undone in reverse order. */
void kv_queue_unlink(struct kv_store *store, kv_ref ref);
void kv_queue_relink(struct kv_store *store, kv_ref ref);
kv_ref kv_queue_first(const struct kv_queue *queue);
kv_ref kv_queue_after(const struct kv_store *store,
                      const struct kv_queue *queue, kv_ref ref);
void kv_store_renumber(struct kv_store *store);

static inline uint32_t kv_store_stamp(struct kv_store *store)
{
    if (store->next_stamp == UINT32_MAX) {
        kv_store_renumber(store);
    }
    return store->next_stamp++;
}

void kv_timers_init(struct kv_timers *timers, uint32_t page_count);
void kv_timers_finish(struct kv_timers *timers);
void kv_timers_cancel(struct kv_store *store, struct kv_page *page);
bool kv_timers_are_valid(const struct kv_store *store);

void kv_orders_init(struct kv_orders *orders, uint32_t order_max);
void kv_orders_finish(struct kv_orders *orders);
uint32_t kv_orders_room(const struct kv_store *store);
/* There is room. The page's bytes go from where they are, or from the source's
 * slot, to `to_slot`. */
void kv_orders_add(struct kv_store *store, kv_ref page, kv_ref source,
                   uint8_t to_level, uint32_t to_slot);

/* -- plans ---------------------------------------------------------------- */

/* A demand: `goal` more slots of each group on level `top`, and pages that rise
 * there from lower levels. */
struct kv_room {
    uint8_t top;
    bool is_gentle; /* no held page goes down */
    uint32_t goal[KV_LIFE_COUNT_MAX];
    uint32_t rise[KV_LIFE_COUNT_MAX][KV_LEVEL_COUNT_MAX]; /* (group, from) */
    /* the plan: items [begin, end) by group */
    uint32_t begin[KV_LIFE_COUNT_MAX], end[KV_LIFE_COUNT_MAX];
    uint32_t leaf_swaps;
};
/* How many pages of a group still go from where to where. */
struct kv_flow {
    uint8_t top, last;
    uint32_t free[KV_LEVEL_COUNT_MAX];
    uint32_t fall[KV_LEVEL_COUNT_MAX][KV_LEVEL_COUNT_MAX]; /* (from, to) */
    uint32_t rise[KV_LEVEL_COUNT_MAX]; /* (from) */
};
struct kv_hop {
    uint8_t from, to;
};
/* Chooses victims, takes them out of their queues and says where each goes. False:
 * there is no way; undo. */
bool kv_room_plan(struct kv_store *store, struct kv_room *room);
/* Takes a page that is asked for out of its queue, so that it is no victim. */
void kv_room_exclude(struct kv_store *store, kv_ref ref);
/* Every queue as it was before the call. */
void kv_room_undo(struct kv_store *store, uint32_t item_count);
struct kv_flow kv_room_flow(const struct kv_store *store,
                            const struct kv_room *room, uint32_t group);
/* The next page to move such that there is a slot for it. False: none. */
bool kv_flow_next(const struct kv_flow *flow, struct kv_hop *hop_out);
void kv_flow_step(struct kv_flow *flow, struct kv_hop hop);

static inline kv_ref kv_item_ref(uint32_t item)
{
    return item & ((UINT32_C(1) << KV_REF_BITS) - 1);
}

static inline uint8_t kv_item_target(uint32_t item)
{
    return (uint8_t)(item >> KV_REF_BITS);
}
