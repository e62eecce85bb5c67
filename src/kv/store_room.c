/* The demands: take, lock, raise. Each is planned, then done: drops first, which
 * are told to the owner, then moves, each into a slot that is free by then. */
#include "base/check.h"
#include "kv/store_state.h"

static void count_page(struct kv_store *store, const struct kv_page *page,
                       uint32_t one)
{
    struct kv_shelf *shelf = kv_shelf_of(store, page);
    *(page->holds > 0 ? &shelf->held : &shelf->droppable) += one;
}

/* To a free slot of another level; in no queue before or after. */
static void move(struct kv_store *store, kv_ref ref, uint8_t to)
{
    struct kv_page *page = kv_page_of(store, ref);
    uint8_t from = page->level;
    struct kv_shelf *shelf = kv_shelf_of(store, page);
    uint32_t old = (uint32_t)page->slot;
    uint8_t group = kv_page_group(store, page);
    uint32_t slot = kv_slots_take(&store->shelves[to][group].slots);
    kv_orders_add(store, ref, KV_REF_NONE, to, slot);
    kv_slots_give(&shelf->slots, old);
    count_page(store, page, -1u);
    page->level = to & 0xfu;
    page->slot = (int32_t)slot;
    count_page(store, page, 1);
    *(to > from ? &store->totals.offloaded : &store->totals.onboarded) += 1;
    const struct kv_store_watch *watch = &store->options.watch;
    if ((page->flags & KV_PAGE_COMMITTED) && watch->moved != NULL) {
        watch->moved(watch->context, ref, from, to);
    }
}

/* A chosen page that was discarded meanwhile is not waited for. */
static void drop(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    const struct kv_store_watch *watch = &store->options.watch;
    if (!(page->flags & KV_PAGE_GONE)) {
        store->totals.dropped++;
        page->flags |= KV_PAGE_LEAVING;
        watch->lost(watch->context, ref);
    }
    kv_shelf_of(store, page)->droppable--;
    kv_page_free(store, ref);
}

static void do_drops(struct kv_store *store, const struct kv_room *room,
                     uint32_t group, uint32_t level)
{
    for (uint32_t i = room->begin[group]; i < room->end[group]; i++) {
        kv_ref ref = kv_item_ref(store->items[i]);
        if (kv_item_target(store->items[i]) == 0 &&
            kv_page_of(store, ref)->level == level) {
            drop(store, ref);
        }
    }
}

static void fall(struct kv_store *store, kv_ref ref, uint8_t to)
{
    struct kv_page *page = kv_page_of(store, ref);
    if (page->flags & KV_PAGE_GONE) {
        drop(store, ref);
        return;
    }
    page->flags &= (uint8_t)~KV_PAGE_CHOSEN;
    move(store, ref, to);
    if (page->holds == 0 || to < store->last) {
        kv_queue_insert(store, ref);
    }
}

/* What is moved, and how far each kind of move has got through the lists. */
struct work {
    struct kv_store *store;
    const struct kv_room *room;
    const kv_ref *risers; /* (count) and others, which are passed over */
    uint32_t count;
    uint32_t group;
    uint32_t falls[KV_LEVEL_COUNT_MAX][KV_LEVEL_COUNT_MAX];
    uint32_t rises[KV_LEVEL_COUNT_MAX];
};

static void fall_next(struct work *work, struct kv_hop hop)
{
    struct kv_store *store = work->store;
    uint32_t *at = &work->falls[hop.from][hop.to];
    for (;; *at += 1) {
        CHECK(*at < work->room->end[work->group]);
        uint32_t item = store->items[*at];
        kv_ref ref = kv_item_ref(item);
        if (kv_item_target(item) == hop.to &&
            kv_page_of(store, ref)->level == hop.from) {
            *at += 1;
            fall(store, ref, hop.to);
            return;
        }
    }
}

static void rise_next(struct work *work, struct kv_hop hop)
{
    struct kv_store *store = work->store;
    uint32_t *at = &work->rises[hop.from];
    for (;; *at += 1) {
        CHECK(*at < work->count);
        kv_ref ref = work->risers[*at];
        const struct kv_page *page = kv_page_of(store, ref);
        if (page->level == hop.from &&
            kv_page_group(store, page) == work->group) {
            *at += 1;
            move(store, ref, hop.to);
            return;
        }
    }
}

static void do_moves(struct kv_store *store, const struct kv_room *room,
                     uint32_t group, const kv_ref *risers, uint32_t count,
                     struct kv_flow flow)
{
    struct kv_hop hop;
    if (!kv_flow_next(&flow, &hop)) {
        return;
    }
    struct work work = {store, room, risers, count, group, {{0}}, {0}};
    for (uint32_t from = 0; from < KV_LEVEL_COUNT_MAX; from++) {
        for (uint32_t to = 0; to < KV_LEVEL_COUNT_MAX; to++) {
            work.falls[from][to] = room->begin[group];
        }
    }
    do {
        kv_flow_step(&flow, hop);
        if (hop.to == flow.top) {
            rise_next(&work, hop);
        } else {
            fall_next(&work, hop);
        }
    } while (kv_flow_next(&flow, &hop));
}

/* Does what was planned. The risers end up on the top level, in no queue. */
static void do_plan(struct kv_store *store, const struct kv_room *room,
                    const kv_ref *risers, uint32_t count)
{
    uint32_t group_count = store->options.group_count;
    struct kv_flow flows[KV_LIFE_COUNT_MAX];
    for (uint32_t group = 0; group < group_count && store->last > 0; group++) {
        flows[group] = kv_room_flow(store, room, group);
    }
    for (uint32_t group = 0; group < group_count; group++) {
        for (uint32_t level = store->last + 1u; level-- > room->top;) {
            do_drops(store, room, group, level);
        }
    }
    for (uint32_t group = 0; group < group_count && store->last > 0; group++) {
        do_moves(store, room, group, risers, count, flows[group]);
    }
    store->totals.leaf_swaps += room->leaf_swaps;
    store->item_count = 0;
}

static void take_all(struct kv_store *store,
                     const uint32_t want[KV_LIFE_COUNT_MAX], kv_ref *refs_out)
{
    for (uint32_t life = 0; life < store->options.life_count; life++) {
        for (uint32_t i = 0; i < want[life]; i++) {
            *refs_out++ = kv_page_new(store, (uint8_t)life);
        }
    }
}

static bool is_enough(const struct kv_store *store, const struct kv_room *room)
{
    for (uint32_t group = 0; group < store->options.group_count; group++) {
        if (store->shelves[0][group].slots.free_count < room->goal[group]) {
            return false;
        }
    }
    return true;
}

static struct kv_room demand(const struct kv_store *store,
                             const uint32_t want[KV_LIFE_COUNT_MAX])
{
    struct kv_room room = {.top = 0};
    for (uint32_t life = 0; life < store->options.life_count; life++) {
        room.goal[store->options.group_of[life]] += want[life];
    }
    return room;
}

enum err kv_store_take(struct kv_store *store,
                       const uint32_t want[KV_LIFE_COUNT_MAX], kv_ref *refs_out)
{
    struct kv_room room = demand(store, want);
    if (!is_enough(store, &room)) {
        if (!kv_room_plan(store, &room)) {
            kv_room_undo(store, 0);
            return ERR_FULL;
        }
        do_plan(store, &room, NULL, 0);
    }
    take_all(store, want, refs_out);
    return OK;
}

/* Notes what rises and takes what is asked for out of the way. */
static bool set_out(struct kv_store *store, struct kv_room *room,
                    const kv_ref *refs, uint32_t count)
{
    bool has_orders = true;
    for (uint32_t i = 0; i < count; i++) {
        struct kv_page *page = kv_page_of(store, refs[i]);
        CHECK(page->holds > 0);
        if (page->level > room->top) {
            room->rise[kv_page_group(store, page)][page->level]++;
            has_orders = has_orders && page->orders < UINT8_MAX;
        }
        if (page->flags & KV_PAGE_QUEUED) {
            kv_room_exclude(store, refs[i]);
        }
    }
    return has_orders;
}

static void hold_to_lock(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    struct kv_shelf *shelf = kv_shelf_of(store, page);
    CHECK(page->level == 0);
    CHECK(page->holds > 0);
    page->flags &= (uint8_t)~KV_PAGE_CHOSEN;
    if (page->locks == 0) {
        shelf->held--;
        shelf->locked++;
    }
    CHECK(page->locks < UINT16_MAX);
    page->locks++;
    page->holds--;
}

enum err kv_store_lock(struct kv_store *store, const kv_ref *refs,
                       uint32_t count, const uint32_t want[KV_LIFE_COUNT_MAX],
                       kv_ref *refs_out)
{
    struct kv_room room = demand(store, want);
    if (!set_out(store, &room, refs, count) || !kv_room_plan(store, &room)) {
        kv_room_undo(store, 0);
        return ERR_FULL;
    }
    do_plan(store, &room, refs, count);
    for (uint32_t i = 0; i < count; i++) {
        hold_to_lock(store, refs[i]);
    }
    take_all(store, want, refs_out);
    return OK;
}

/* One page up to `level`, at nobody's cost who needs his own. */
static void raise_one(struct kv_store *store, kv_ref ref, uint8_t level)
{
    struct kv_page *page = kv_page_of(store, ref);
    struct kv_room room = {.top = level, .is_gentle = true};
    if (!set_out(store, &room, &ref, 1) || !kv_room_plan(store, &room)) {
        kv_room_undo(store, 0);
        return;
    }
    do_plan(store, &room, &ref, 1);
    page->flags &= (uint8_t)~KV_PAGE_CHOSEN;
    kv_queue_insert(store, ref);
}

uint32_t kv_store_raise(struct kv_store *store, const kv_ref *refs,
                        uint32_t count, uint8_t level)
{
    uint32_t raised = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct kv_page *page = kv_page_of(store, refs[i]);
        if (page->level > level) {
            raise_one(store, refs[i], level);
        }
        raised += page->level <= level;
    }
    return raised;
}

uint32_t kv_store_available(const struct kv_store *store, uint32_t group)
{
    const struct kv_shelf *shelf = &store->shelves[0][group];
    uint32_t below = 0;
    for (uint32_t level = 1; level <= store->last; level++) {
        const struct kv_shelf *lower = &store->shelves[level][group];
        below += lower->slots.free_count + lower->droppable;
    }
    uint32_t held = shelf->held < below ? shelf->held : below;
    return shelf->slots.free_count + shelf->droppable + held;
}
