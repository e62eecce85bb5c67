/* Random work on tiny stores of one to three levels and groups. Beside the store
 * stands a slow model that knows who uses which page and when it was let go of.
 * After every operation the store proves itself valid, both agree on users, on
 * numbers and on the order of every queue; a call that fails changes no byte of
 * the store; what a take moves and drops is what a plain reading of engine.md
 * 1.10 says. A copy engine does orders in any sequence that their waits allow,
 * fails some, and writes bytes: every page that is not lost holds what was
 * written into it, and a lost one does not. [engine I1] [engine I2] [engine I3]
 * [engine I4] [engine I8] [engine I9] [engine I10] */
#include <stdio.h>
#include <stdlib.h>

#include "unit/base/test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "kv/store_state.h"

enum {
    SLOT_MAX = 8, /* of a shelf */
    REF_MAX = 256,
    ORDER_MAX = 24,
    OP_COUNT = 6000,
    SEED_COUNT = 30,
};
#define GARBAGE (UINT64_C(1) << 63)

struct slow_page {
    bool is_alive, is_committed, is_written;
    uint32_t locks, holds;
    uint8_t life, level, priority;
    uint64_t expiry_ms;
    uint64_t released;
    uint64_t payload;
};

struct world {
    struct rng rng;
    struct kv_store *store;
    struct kv_store_options options;
    bool has_leaves, has_subtrees, has_failures;
    struct slow_page pages[REF_MAX];
    uint64_t clock, now_ms;
    uint64_t bytes[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX][SLOT_MAX];
    struct kv_order orders[ORDER_MAX]; /* taken, not done */
    uint32_t order_count;
    uint32_t moved_count, lost_count; /* of the present call */
};

static uint32_t draw(struct world *world, uint32_t bound)
{
    return (uint32_t)rng_below(&world->rng, bound);
}

static const struct kv_page *page_of(const struct world *world, kv_ref ref)
{
    return kv_store_page(world->store, ref);
}

static uint8_t group_of(const struct world *world, kv_ref ref)
{
    return world->options.group_of[world->pages[ref].life];
}

/* -- what the store tells ------------------------------------------------- */

static bool is_idle(const struct slow_page *page)
{
    return page->locks == 0 && page->holds == 0;
}

static void forget(struct world *world, kv_ref ref)
{
    struct slow_page *page = &world->pages[ref];
    assert_true(page->is_alive);
    assert_true(page->is_committed);
    page->is_committed = false;
    page->is_alive = !is_idle(page);
}

static kv_ref draw_page(struct world *world,
                        bool (*fits)(const struct slow_page *))
{
    uint32_t start = draw(world, REF_MAX);
    for (uint32_t i = 0; i < REF_MAX; i++) {
        kv_ref ref = (start + i) % REF_MAX;
        if (world->pages[ref].is_alive && fits(&world->pages[ref])) {
            return ref;
        }
    }
    return KV_REF_NONE;
}

static bool fits_committed(const struct slow_page *page)
{
    return page->is_committed;
}

static void on_lost(void *context, kv_ref ref)
{
    struct world *world = context;
    world->lost_count++;
    forget(world, ref);
    if (draw(world, 2) == 0) {
        kv_store_discard(world->store, ref); /* allowed, does nothing */
    }
    while (world->has_subtrees && draw(world, 3) == 0) {
        kv_ref other = draw_page(world, fits_committed);
        if (other != KV_REF_NONE) {
            kv_store_discard(world->store, other);
            forget(world, other);
        }
    }
}

static void on_moved(void *context, kv_ref ref, uint8_t from, uint8_t to)
{
    struct world *world = context;
    assert_true(world->pages[ref].is_committed);
    assert_int_equal(world->pages[ref].level, from);
    assert_int_equal(page_of(world, ref)->level, to);
    world->moved_count++;
}

/* Any other page of the same queue. */
static kv_ref on_victim(void *context, kv_ref ref)
{
    struct world *world = context;
    if (!world->has_leaves || draw(world, 4) > 0) {
        return ref;
    }
    const struct kv_page *page = page_of(world, ref);
    assert_true(page->flags & KV_PAGE_QUEUED);
    for (kv_ref other = 0; other < REF_MAX; other++) {
        if (world->pages[other].is_alive &&
            (page_of(world, other)->flags & KV_PAGE_QUEUED) &&
            page_of(world, other)->level == page->level &&
            group_of(world, other) == group_of(world, ref) &&
            draw(world, 3) == 0) {
            return other;
        }
    }
    return ref;
}

/* -- a picture of the store, to see that nothing changed ------------------- */

struct picture {
    struct kv_store store;
    struct kv_page pages[REF_MAX];
    kv_cell cells[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX][SLOT_MAX];
};

static void picture_take(const struct world *world, struct picture *picture)
{
    memset(picture, 0, sizeof(*picture));
    memcpy(&picture->store, world->store, sizeof(picture->store));
    memcpy(picture->pages, world->store->pages,
           world->store->page_count * sizeof(struct kv_page));
    for (uint32_t level = 0; level < world->options.level_count; level++) {
        for (uint32_t group = 0; group < world->options.group_count; group++) {
            picture->store.shelves[level][group].queue.finger = 0;
            memcpy(picture->cells[level][group],
                   world->store->shelves[level][group].slots.cells,
                   world->options.slot_counts[level][group] * sizeof(kv_cell));
        }
    }
}

static void assert_unchanged(const struct world *world,
                             const struct picture *before)
{
    static struct picture after;
    picture_take(world, &after);
    assert_memory_equal(&after, before, sizeof(after));
    assert_int_equal(world->moved_count + world->lost_count, 0);
}

/* -- the slow reading of engine.md 1.10 ------------------------------------ */

enum { DROPPED = 99 };

struct list {
    kv_ref refs[REF_MAX];
    uint32_t count;
};

struct slow_room {
    const struct world *world;
    uint32_t group;
    uint8_t fate[REF_MAX]; /* level afterwards, or DROPPED */
};

static void append(struct list *list, kv_ref ref)
{
    list->refs[list->count++] = ref;
}

static bool is_held(const struct slow_room *room, kv_ref ref)
{
    return room->world->pages[ref].holds > 0;
}

static uint32_t slow_free(const struct slow_room *room, uint32_t level)
{
    uint32_t count = room->world->options.slot_counts[level][room->group];
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        count -= room->world->pages[ref].is_alive &&
                 room->world->pages[ref].level == level &&
                 group_of(room->world, ref) == room->group;
    }
    return count;
}

/* Places below `level` for what must be kept. */
static uint32_t slow_below(const struct slow_room *room, uint32_t level)
{
    uint32_t count = 0;
    for (uint32_t l = level + 1; l < room->world->options.level_count; l++) {
        count += slow_free(room, l);
        for (kv_ref ref = 0; ref < REF_MAX; ref++) {
            const struct slow_page *page = &room->world->pages[ref];
            count += page->is_alive && page->level == l && is_idle(page) &&
                     group_of(room->world, ref) == room->group;
        }
    }
    return count;
}

/* The first of `list` that may go, up to `need`; others stay in it. */
static struct list split(const struct slow_room *room, struct list *list,
                         uint32_t need, uint32_t *budget)
{
    struct list gone = {.count = 0};
    struct list rest = {.count = 0};
    for (uint32_t i = 0; i < list->count; i++) {
        bool may_go = !is_held(room, list->refs[i]) || *budget > 0;
        if (gone.count < need && may_go) {
            *budget -= is_held(room, list->refs[i]);
            append(&gone, list->refs[i]);
        } else {
            append(&rest, list->refs[i]);
        }
    }
    *list = rest;
    return gone;
}

static bool slow_cascade(struct slow_room *room, uint32_t want)
{
    const struct world *world = room->world;
    uint32_t last = world->options.level_count - 1;
    struct list arrivals = {.count = 0};
    for (uint32_t level = 0; level <= last; level++) {
        uint32_t coming = level == 0 ? want : arrivals.count;
        uint32_t room_here = slow_free(room, level);
        uint32_t need = coming > room_here ? coming - room_here : 0;
        uint32_t budget = slow_below(room, level);
        struct list queue;
        queue.count = kv_store_queue(world->store, (uint8_t)level, room->group,
                                     REF_MAX, queue.refs);
        struct list victims = split(room, &queue, need, &budget);
        need -= victims.count;
        if (level == 0 && need > 0) {
            return false;
        }
        struct list passing = split(room, &arrivals, need, &budget);
        if (passing.count < need) {
            return false;
        }
        for (uint32_t i = 0; i < arrivals.count; i++) {
            room->fate[arrivals.refs[i]] = (uint8_t)level;
        }
        arrivals.count = 0;
        for (uint32_t i = 0; i < victims.count + passing.count; i++) {
            bool is_own = i < victims.count;
            kv_ref ref =
                is_own ? victims.refs[i] : passing.refs[i - victims.count];
            bool is_low = is_own && !is_held(room, ref) &&
                          world->pages[ref].priority <
                              world->options.offload_priority_min;
            room->fate[ref] = DROPPED;
            if (level < last && !is_low) {
                append(&arrivals, ref);
            }
        }
    }
    return true;
}

/* Whether a take must succeed; what becomes of each page then. */
static bool slow_take(const struct world *world, const uint32_t *want,
                      uint8_t fate[REF_MAX])
{
    bool fits = true;
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        fate[ref] = world->pages[ref].level;
    }
    for (uint32_t group = 0; group < world->options.group_count; group++) {
        uint32_t sum = 0;
        for (uint32_t life = 0; life < world->options.life_count; life++) {
            sum += world->options.group_of[life] == group ? want[life] : 0;
        }
        struct slow_room room = {.world = world, .group = group};
        memcpy(room.fate, fate, REF_MAX);
        assert_int_equal(slow_cascade(&room, sum),
                         sum <= kv_store_available(world->store, group));
        fits = fits && slow_cascade(&room, sum);
        memcpy(fate, room.fate, REF_MAX);
    }
    return fits;
}

static uint32_t count_moves(const struct world *world, const uint8_t *fate)
{
    uint32_t count = 0;
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        count += world->pages[ref].is_alive && fate[ref] != DROPPED &&
                 fate[ref] != world->pages[ref].level;
    }
    return count;
}

/* -- operations ------------------------------------------------------------ */

static void meet(struct world *world, const uint32_t *want, const kv_ref *refs)
{
    for (uint8_t life = 0; life < world->options.life_count; life++) {
        for (uint32_t i = 0; i < want[life]; i++, refs++) {
            struct slow_page *page = &world->pages[*refs];
            assert_false(page->is_alive);
            *page = (struct slow_page){
                .is_alive = true,
                .locks = 1,
                .life = life,
                .priority = KV_PRIORITY_DEFAULT,
                .expiry_ms = UINT64_MAX,
                .payload = ++world->clock,
            };
            assert_int_equal(page_of(world, *refs)->life, life);
        }
    }
}

static void draw_want(struct world *world, uint32_t *want)
{
    for (uint32_t life = 0; life < world->options.life_count; life++) {
        want[life] = draw(world, 4);
    }
}

static void do_take(struct world *world)
{
    uint32_t want[KV_LIFE_COUNT_MAX] = {0};
    uint8_t fate[REF_MAX];
    kv_ref refs[16];
    static struct picture before;
    draw_want(world, want);
    bool fits = slow_take(world, want, fate);
    uint32_t orders_left = kv_orders_room(world->store);
    bool has_orders = count_moves(world, fate) <= orders_left;
    bool were_alive[REF_MAX];
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        were_alive[ref] = world->pages[ref].is_alive;
    }
    picture_take(world, &before);
    enum err err = kv_store_take(world->store, want, refs);
    bool is_plain = !world->has_leaves && !world->has_subtrees;
    /* With leaves other pages may move, but never more than 18. */
    if (!world->has_leaves || !fits || orders_left >= 18) {
        assert_int_equal(err, fits && has_orders ? OK : ERR_FULL);
    }
    if (err != OK) {
        assert_unchanged(world, &before);
        return;
    }
    for (kv_ref ref = 0; ref < REF_MAX && is_plain; ref++) {
        if (were_alive[ref]) {
            assert_int_equal(world->pages[ref].is_alive, fate[ref] != DROPPED);
        }
        if (world->pages[ref].is_alive) {
            assert_int_equal(page_of(world, ref)->level, fate[ref]);
        }
    }
    meet(world, want, refs);
}

static bool fits_held(const struct slow_page *page)
{
    return page->holds > 0;
}

/* Some pages that are held, each once. */
static uint32_t draw_held(struct world *world, uint32_t max, kv_ref *refs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < max; i++) {
        kv_ref ref = draw_page(world, fits_held);
        bool is_new = ref != KV_REF_NONE;
        for (uint32_t j = 0; j < count; j++) {
            is_new = is_new && refs[j] != ref;
        }
        if (is_new) {
            refs[count++] = ref;
        }
    }
    return count;
}

/* Enough on level 0 without moving any page that must be kept. */
static bool is_surely_room(const struct world *world, const kv_ref *refs,
                           uint32_t count, const uint32_t *want)
{
    for (uint32_t group = 0; group < world->options.group_count; group++) {
        struct kv_store_counts counts = kv_store_counts(world->store, 0, group);
        uint32_t need = 0;
        for (uint32_t life = 0; life < world->options.life_count; life++) {
            need += world->options.group_of[life] == group ? want[life] : 0;
        }
        for (uint32_t i = 0; i < count; i++) {
            need += group_of(world, refs[i]) == group &&
                    world->pages[refs[i]].level > 0;
        }
        if (need > counts.free + counts.droppable) {
            return false;
        }
    }
    return kv_orders_room(world->store) > 15;
}

static void do_lock(struct world *world)
{
    uint32_t want[KV_LIFE_COUNT_MAX] = {0};
    kv_ref refs[8];
    kv_ref news[16];
    static struct picture before;
    uint32_t count = draw_held(world, 1 + draw(world, 6), refs);
    if (draw(world, 2) == 0) {
        draw_want(world, want);
    }
    bool is_sure = is_surely_room(world, refs, count, want);
    picture_take(world, &before);
    enum err err = kv_store_lock(world->store, refs, count, want, news);
    if (err != OK) {
        assert_int_equal(err, ERR_FULL);
        assert_false(is_sure);
        assert_unchanged(world, &before);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        world->pages[refs[i]].holds--;
        world->pages[refs[i]].locks++;
        assert_int_equal(page_of(world, refs[i])->level, 0);
    }
    meet(world, want, news);
}

static void do_raise(struct world *world)
{
    kv_ref refs[8];
    uint32_t count = draw_held(world, 1 + draw(world, 6), refs);
    uint8_t level = (uint8_t)draw(world, world->options.level_count);
    uint32_t raised = kv_store_raise(world->store, refs, count, level);
    uint32_t above = 0;
    for (uint32_t i = 0; i < count; i++) {
        above += page_of(world, refs[i])->level <= level;
    }
    assert_int_equal(raised, above);
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        if (world->pages[ref].is_alive && world->pages[ref].holds > 0) {
            assert_true(page_of(world, ref)->level <= world->pages[ref].level);
        }
    }
}

static bool fits_any(const struct slow_page *page)
{
    (void)page;
    return true;
}

static bool fits_shared(const struct slow_page *page)
{
    return page->is_committed || !is_idle(page);
}

static bool fits_locked(const struct slow_page *page)
{
    return page->locks > 0;
}

static bool fits_written(const struct slow_page *page)
{
    return page->locks > 0 && page->is_written;
}

static void release(struct world *world, kv_ref ref)
{
    struct slow_page *page = &world->pages[ref];
    if (page->locks > 0) {
        return;
    }
    page->released = ++world->clock;
    page->is_alive = page->is_committed || page->holds > 0;
}

static void do_hold(struct world *world)
{
    kv_ref ref = draw_page(world, fits_shared);
    if (ref != KV_REF_NONE && world->pages[ref].is_written) {
        world->pages[ref].holds++;
        kv_store_hold(world->store, ref);
    }
}

static void do_unhold(struct world *world)
{
    kv_ref ref = draw_page(world, fits_held);
    if (ref != KV_REF_NONE) {
        kv_store_unhold(world->store, ref);
        if (--world->pages[ref].holds == 0) {
            release(world, ref);
        }
    }
}

static void do_unlock(struct world *world)
{
    kv_ref ref = draw_page(world, fits_locked);
    if (ref == KV_REF_NONE) {
        return;
    }
    if (draw(world, 3) == 0) {
        kv_store_relock(world->store, ref);
        world->pages[ref].locks++;
        return;
    }
    kv_store_unlock(world->store, ref);
    world->pages[ref].locks--;
    release(world, ref);
}

static void do_suspend(struct world *world)
{
    kv_ref ref = draw_page(world, fits_written);
    if (ref != KV_REF_NONE) {
        kv_store_unlock_to_hold(world->store, ref);
        world->pages[ref].locks--;
        world->pages[ref].holds++;
        release(world, ref);
    }
}

static void do_commit(struct world *world)
{
    kv_ref ref = draw_page(world, fits_written);
    if (ref == KV_REF_NONE || (page_of(world, ref)->flags & KV_PAGE_LOST)) {
        return;
    }
    kv_store_commit(world->store, ref, ref + 7, 3);
    world->pages[ref].is_committed = true;
    assert_int_equal(page_of(world, ref)->node, ref + 7);
}

static void do_discard(struct world *world)
{
    kv_ref ref = draw_page(world, fits_committed);
    if (ref != KV_REF_NONE) {
        kv_store_discard(world->store, ref);
        forget(world, ref);
    }
}

static void do_retain(struct world *world)
{
    static const uint8_t PRIORITIES[] = {0, 34, 35, 64, 100};
    kv_ref ref = draw_page(world, fits_any);
    if (ref == KV_REF_NONE) {
        return;
    }
    struct slow_page *page = &world->pages[ref];
    page->priority = PRIORITIES[draw(world, 5)];
    page->expiry_ms =
        draw(world, 2) == 0 ? UINT64_MAX : world->now_ms + draw(world, 50);
    kv_store_retain(world->store, ref, page->priority, page->expiry_ms);
}

static void do_tick(struct world *world)
{
    world->now_ms += draw(world, 20);
    kv_store_tick(world->store, world->now_ms);
}

static void do_copy(struct world *world)
{
    kv_ref from = draw_page(world, fits_written);
    kv_ref to = draw_page(world, fits_locked);
    if (from == KV_REF_NONE || to == KV_REF_NONE || from == to ||
        world->pages[from].life != world->pages[to].life ||
        world->pages[to].is_written) {
        return;
    }
    uint32_t room = kv_orders_room(world->store);
    enum err err = kv_store_copy(world->store, from, to);
    assert_int_equal(err, room > 0 ? OK : ERR_FULL);
    if (err == OK) {
        world->pages[to].payload = world->pages[from].payload;
        world->pages[to].is_written = true;
    }
}

/* -- the copy engine -------------------------------------------------------- */

static void accept_orders(struct world *world, uint32_t max)
{
    uint32_t count;
    const struct kv_order *orders = kv_store_orders(world->store, &count);
    count = count < max ? count : max;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(orders[i].after[0] < orders[i].ticket);
        assert_true(orders[i].after[1] < orders[i].ticket);
        world->orders[world->order_count++] = orders[i];
    }
    kv_store_orders_taken(world->store, count);
}

static bool is_startable(const struct world *world,
                         const struct kv_order *order)
{
    return kv_store_is_done(world->store, order->after[0]) &&
           kv_store_is_done(world->store, order->after[1]);
}

static void finish_order(struct world *world, uint32_t index)
{
    struct kv_order order = world->orders[index];
    world->orders[index] = world->orders[--world->order_count];
    bool is_ok = !world->has_failures || draw(world, 20) > 0;
    uint64_t bytes =
        world->bytes[order.from_level][order.group][order.from_slot];
    world->bytes[order.to_level][order.group][order.to_slot] =
        is_ok ? bytes : GARBAGE | ++world->clock;
    assert_false(kv_store_is_done(world->store, order.ticket));
    kv_store_order_done(world->store, order.ticket, is_ok);
    assert_true(kv_store_is_done(world->store, order.ticket));
}

static void do_engine(struct world *world)
{
    accept_orders(world, draw(world, 5));
    for (uint32_t tries = draw(world, 8); tries > 0; tries--) {
        uint32_t index = draw(world, ORDER_MAX);
        if (index < world->order_count &&
            is_startable(world, &world->orders[index])) {
            finish_order(world, index);
        }
    }
}

/* Writes into new pages whose slots may be written. */
static void compute(struct world *world)
{
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        struct slow_page *page = &world->pages[ref];
        if (page->is_alive && !page->is_written && page->locks > 0 &&
            kv_store_is_done(world->store, kv_store_ready(world->store, ref))) {
            const struct kv_page *where = page_of(world, ref);
            world->bytes[0][group_of(world, ref)][where->slot] = page->payload;
            page->is_written = true;
        }
    }
}

/* -- checks ----------------------------------------------------------------- */

static void check_page(const struct world *world, kv_ref ref)
{
    const struct slow_page *slow = &world->pages[ref];
    const struct kv_page *page = page_of(world, ref);
    assert_int_equal(page->locks, slow->locks);
    assert_int_equal(page->holds, slow->holds);
    assert_int_equal((page->flags & KV_PAGE_COMMITTED) != 0,
                     slow->is_committed);
    assert_int_equal(page->priority, slow->priority);
    if (slow->is_written &&
        kv_store_is_done(world->store, kv_store_ready(world->store, ref))) {
        uint64_t bytes =
            world->bytes[page->level][group_of(world, ref)][page->slot];
        bool is_lost = (page->flags & KV_PAGE_LOST) != 0;
        assert_int_equal(bytes != slow->payload, is_lost);
        assert_int_equal((bytes & GARBAGE) != 0, is_lost);
    }
}

static bool goes_before(const struct world *world, kv_ref a, kv_ref b)
{
    const struct slow_page *x = &world->pages[a];
    const struct slow_page *y = &world->pages[b];
    return x->priority < y->priority ||
           (x->priority == y->priority && x->released < y->released);
}

static void check_shelf(const struct world *world, uint8_t level,
                        uint32_t group)
{
    struct kv_store_counts counts = kv_store_counts(world->store, level, group);
    struct kv_store_counts slow = {.queued = 0};
    kv_ref queue[REF_MAX];
    uint32_t count = kv_store_queue(world->store, level, group, REF_MAX, queue);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(world->pages[queue[i]].is_alive);
        assert_true(i == 0 || goes_before(world, queue[i - 1], queue[i]));
    }
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        const struct slow_page *page = &world->pages[ref];
        if (page->is_alive && page->level == level &&
            group_of(world, ref) == group) {
            slow.total++;
            slow.locked += page->locks > 0;
            slow.held += page->locks == 0 && page->holds > 0;
            slow.droppable += is_idle(page);
        }
    }
    bool is_last = level + 1u == world->options.level_count;
    assert_int_equal(counts.locked, slow.locked);
    assert_int_equal(counts.held, slow.held);
    assert_int_equal(counts.droppable, slow.droppable);
    assert_int_equal(counts.queued, count);
    assert_int_equal(count, slow.droppable + (is_last ? 0 : slow.held));
    assert_int_equal(counts.free + slow.total, counts.total);
}

static void check(struct world *world)
{
    assert_true(kv_store_is_valid(world->store));
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        struct slow_page *page = &world->pages[ref];
        if (page->is_alive && page->expiry_ms <= world->now_ms) {
            page->priority = KV_PRIORITY_DEFAULT;
            page->expiry_ms = UINT64_MAX;
        }
        if (page->is_alive) {
            page->level = page_of(world, ref)->level;
            check_page(world, ref);
        }
    }
    for (uint8_t level = 0; level < world->options.level_count; level++) {
        for (uint32_t group = 0; group < world->options.group_count; group++) {
            check_shelf(world, level, group);
        }
    }
}

static void step(struct world *world)
{
    static void (*const OPS[])(struct world *) = {
        do_take,   do_take,   do_lock,   do_lock,    do_raise,  do_hold,
        do_unhold, do_unhold, do_unlock, do_unlock,  do_unlock, do_suspend,
        do_commit, do_commit, do_commit, do_discard, do_retain, do_tick,
        do_copy,   do_engine, do_engine,
    };
    world->moved_count = world->lost_count = 0;
    OPS[draw(world, sizeof(OPS) / sizeof(OPS[0]))](world);
    check(world);
    compute(world);
}

/* All orders done: now every page's bytes can be seen. */
static void drain(struct world *world)
{
    for (;;) {
        accept_orders(world, ORDER_MAX);
        if (world->order_count == 0) {
            break;
        }
        uint32_t start = draw(world, world->order_count);
        for (uint32_t i = 0; i < world->order_count; i++) {
            uint32_t index = (start + i) % world->order_count;
            if (is_startable(world, &world->orders[index])) {
                finish_order(world, index);
                break;
            }
        }
    }
    check(world);
}

static void let_go(struct world *world)
{
    for (kv_ref ref = 0; ref < REF_MAX; ref++) {
        struct slow_page *page = &world->pages[ref];
        for (; page->is_alive && page->locks > 0; page->locks--) {
            kv_store_unlock(world->store, ref);
        }
        for (; page->is_alive && page->holds > 0; page->holds--) {
            kv_store_unhold(world->store, ref);
        }
        if (page->is_alive && page->is_committed) {
            kv_store_discard(world->store, ref);
        }
        page->is_alive = false;
    }
    for (uint8_t level = 0; level < world->options.level_count; level++) {
        for (uint32_t group = 0; group < world->options.group_count; group++) {
            struct kv_store_counts counts =
                kv_store_counts(world->store, level, group);
            assert_int_equal(counts.free, counts.total);
        }
    }
    assert_true(kv_store_is_valid(world->store));
}

static struct world *create(uint64_t seed)
{
    struct world *world = test_calloc(1, sizeof(*world));
    world->rng = rng_from_seed(seed);
    world->has_leaves = draw(world, 3) == 0;
    world->has_subtrees = draw(world, 3) == 0;
    world->has_failures = draw(world, 2) == 0;
    struct kv_store_options *options = &world->options;
    options->level_count = 1 + draw(world, KV_LEVEL_COUNT_MAX);
    options->life_count = 1 + draw(world, 3);
    options->group_count = 1 + draw(world, options->life_count);
    for (uint32_t life = 0; life < options->life_count; life++) {
        options->group_of[life] =
            (uint8_t)(life < options->group_count
                          ? life
                          : draw(world, options->group_count));
    }
    for (uint32_t level = 0; level < options->level_count; level++) {
        for (uint32_t group = 0; group < options->group_count; group++) {
            options->slot_counts[level][group] = 1 + draw(world, SLOT_MAX);
        }
    }
    options->offload_priority_min = draw(world, 3) == 0 ? 35 : 0;
    options->order_max = draw(world, 3) == 0 ? 4 : ORDER_MAX;
    options->watch =
        (struct kv_store_watch){on_lost, on_moved, on_victim, world};
    world->store = kv_store_create(options);
    assert_true(world->store->page_count <= REF_MAX);
    return world;
}

static void run_seed(uint64_t seed, uint32_t op_count)
{
    struct world *world = create(seed);
    for (uint32_t i = 0; i < op_count; i++) {
        step(world);
        if (draw(world, 200) == 0) {
            drain(world);
        }
    }
    drain(world);
    let_go(world);
    kv_store_destroy(world->store);
    test_free(world);
}

/* BATON_SEED replays one seed, BATON_OPS sets how many operations. */
static void store_agrees_with_the_slow_model(void **state)
{
    (void)state;
    const char *text = getenv("BATON_SEED");
    const char *ops = getenv("BATON_OPS");
    uint64_t first = text == NULL ? 1 : strtoull(text, NULL, 10);
    uint32_t op_count =
        ops == NULL ? OP_COUNT : (uint32_t)strtoul(ops, NULL, 10);
    int seeds = text == NULL ? SEED_COUNT : 1;
    for (int i = 0; i < seeds; i++) {
        print_message("seed %llu\n", (unsigned long long)first + i);
        run_seed(first + (uint64_t)i, op_count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_agrees_with_the_slow_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
