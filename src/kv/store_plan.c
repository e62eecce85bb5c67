/* What must go, and where to, for a demand to be met (engine.md 1.10). All levels
 * and groups are planned before anything is done. Planning takes victims out of
 * their queues but keeps their links, so a failed plan is undone exactly.
 *
 *   top    victims: from the head            | arrive below, in their order
 *   lower  what fits stays, the newest first | older ones, and those of this
 *          level's own head, go further down
 *   last   held ones first, then the newest; the rest is dropped
 *
 * Pages that nobody may drop go down only as far as there is room for them on
 * all levels below together: that is the budget of a level. */
#include "base/check.h"
#include "kv/store_state.h"

static bool is_held(const struct kv_store *store, kv_ref ref)
{
    return kv_page_of(store, ref)->holds > 0;
}

static void push(struct kv_store *store, kv_ref ref, uint8_t target)
{
    struct kv_page *page = kv_page_of(store, ref);
    CHECK(store->item_count < store->item_max);
    kv_queue_unlink(store, ref);
    page->flags |= KV_PAGE_CHOSEN;
    store->items[store->item_count++] = ref | (uint32_t)target << KV_REF_BITS;
}

void kv_room_exclude(struct kv_store *store, kv_ref ref)
{
    push(store, ref, 0);
}

void kv_room_undo(struct kv_store *store, uint32_t item_count)
{
    while (store->item_count > item_count) {
        kv_ref ref = kv_item_ref(store->items[--store->item_count]);
        kv_page_of(store, ref)->flags &= (uint8_t)~KV_PAGE_CHOSEN;
        kv_queue_relink(store, ref);
    }
}

/* One group's plan in the making. */
struct plan {
    struct kv_store *store;
    struct kv_room *room;
    uint32_t group;
    bool has_spare; /* one slot that a riser leaves is not counted on */
};

static struct kv_shelf *shelf_of(const struct plan *plan, uint32_t level)
{
    return &plan->store->shelves[level][plan->group];
}

/* Slots of a lower level that are free, or will be when pages have risen. */
static uint32_t slots_to_be(const struct plan *plan, uint32_t level)
{
    uint32_t rise = plan->room->rise[plan->group][level];
    return shelf_of(plan, level)->slots.free_count + rise -
           (plan->has_spare && rise > 0);
}

/* How many pages that must be kept may leave `level` downwards. */
static uint32_t budget_of(const struct plan *plan, uint32_t level)
{
    if (plan->room->is_gentle) {
        return 0;
    }
    uint32_t budget = 0;
    for (uint32_t below = level + 1; below <= plan->store->last; below++) {
        budget += slots_to_be(plan, below) + shelf_of(plan, below)->droppable;
    }
    return budget;
}

/* Where a victim of `level` goes. */
static uint8_t target_of(const struct kv_store *store, kv_ref ref,
                         uint32_t level)
{
    bool is_kept =
        is_held(store, ref) ||
        kv_page_of(store, ref)->priority >= store->options.offload_priority_min;
    return level < store->last && is_kept ? (uint8_t)(level + 1) : 0;
}

/* The page to take when `ref`'s turn has come: a leaf below it, if it has any. */
static kv_ref ask_victim(struct plan *plan, kv_ref ref, bool may_be_held)
{
    struct kv_store *store = plan->store;
    const struct kv_store_watch *watch = &store->options.watch;
    if (watch->victim == NULL) {
        return ref;
    }
    kv_ref leaf = watch->victim(watch->context, ref);
    if (leaf == ref || (is_held(store, leaf) && !may_be_held)) {
        return ref;
    }
    const struct kv_page *page = kv_page_of(store, leaf);
    CHECK(page->flags & KV_PAGE_QUEUED);
    CHECK(kv_shelf_of(store, page) ==
          kv_shelf_of(store, kv_page_of(store, ref)));
    plan->room->leaf_swaps++;
    return leaf;
}

/* Takes up to `need` victims from a level's head; how many. */
static uint32_t pick(struct plan *plan, uint32_t level, uint32_t need,
                     uint32_t *budget)
{
    struct kv_store *store = plan->store;
    const struct kv_queue *queue = &shelf_of(plan, level)->queue;
    uint32_t count = 0;
    kv_ref at = kv_queue_first(queue);
    while (count < need && at != KV_REF_NONE) {
        if (is_held(store, at) && *budget == 0) {
            at = kv_queue_after(store, queue, at);
            continue;
        }
        kv_ref victim = ask_victim(plan, at, *budget > 0);
        *budget -= is_held(store, victim);
        if (victim == at) {
            at = kv_queue_after(store, queue, at);
        }
        push(store, victim, target_of(store, victim, level));
        count++;
    }
    return count;
}

/* Sends `count` arrivals of `level` further, the oldest first. Those of the level
 * just above are older than what fell through it. False: too few may go. */
static bool pass_on(struct plan *plan, const uint32_t *begins, uint32_t level,
                    uint32_t count, uint32_t *budget)
{
    struct kv_store *store = plan->store;
    uint32_t next = level < store->last ? level + 1 : 0;
    for (uint32_t from = level; from-- > plan->room->top && count > 0;) {
        for (uint32_t i = begins[from]; i < begins[from + 1] && count > 0;
             i++) {
            kv_ref ref = kv_item_ref(store->items[i]);
            bool is_kept = is_held(store, ref);
            if (kv_item_target(store->items[i]) != level ||
                (is_kept && *budget == 0)) {
                continue;
            }
            *budget -= is_kept;
            store->items[i] = ref | next << KV_REF_BITS;
            count--;
        }
    }
    return count == 0;
}

static uint32_t count_arrivals(const struct plan *plan, uint32_t level)
{
    const struct kv_store *store = plan->store;
    uint32_t count = 0;
    for (uint32_t i = plan->room->begin[plan->group]; i < store->item_count;
         i++) {
        count += kv_item_target(store->items[i]) == level;
    }
    return count;
}

static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

static bool rises(const struct plan *plan)
{
    uint32_t count = 0;
    for (uint32_t level = 0; level <= plan->store->last; level++) {
        count += plan->room->rise[plan->group][level];
    }
    return count > 0;
}

/* Chooses for all levels of the group. `begins`: where each level's items start. */
static bool choose(struct plan *plan)
{
    struct kv_store *store = plan->store;
    const struct kv_room *room = plan->room;
    uint32_t begins[KV_LEVEL_COUNT_MAX + 1] = {0};
    uint32_t top = room->top;
    uint32_t want = room->goal[plan->group];
    for (uint32_t level = top + 1; level <= store->last; level++) {
        want += room->rise[plan->group][level];
    }
    begins[top] = store->item_count;
    uint32_t need = less(want, shelf_of(plan, top)->slots.free_count);
    if (need == 0) {
        return true;
    }
    uint32_t budget = budget_of(plan, top);
    if (pick(plan, top, need, &budget) < need) {
        return false;
    }
    for (uint32_t level = top + 1; level <= store->last; level++) {
        begins[level] = store->item_count;
        budget = budget_of(plan, level);
        need = less(count_arrivals(plan, level), slots_to_be(plan, level));
        need -= pick(plan, level, need, &budget);
        if (!pass_on(plan, begins, level, need, &budget)) {
            return false;
        }
    }
    return true;
}

struct kv_flow kv_room_flow(const struct kv_store *store,
                            const struct kv_room *room, uint32_t group)
{
    struct kv_flow flow = {.top = room->top, .last = store->last};
    for (uint32_t level = room->top; level <= store->last; level++) {
        flow.free[level] = store->shelves[level][group].slots.free_count;
        flow.rise[level] = room->rise[group][level];
    }
    for (uint32_t i = room->begin[group]; i < room->end[group]; i++) {
        uint32_t item = store->items[i];
        uint8_t from = kv_page_of(store, kv_item_ref(item))->level;
        if (kv_item_target(item) == 0) {
            flow.free[from]++;
        } else {
            flow.fall[from][kv_item_target(item)]++;
        }
    }
    return flow;
}

bool kv_flow_next(const struct kv_flow *flow, struct kv_hop *hop_out)
{
    for (uint8_t to = flow->last; to > flow->top; to--) {
        for (uint8_t from = to; flow->free[to] > 0 && from-- > flow->top;) {
            if (flow->fall[from][to] > 0) {
                *hop_out = (struct kv_hop){from, to};
                return true;
            }
        }
    }
    for (uint8_t from = flow->last; from > flow->top; from--) {
        if (flow->free[flow->top] > 0 && flow->rise[from] > 0) {
            *hop_out = (struct kv_hop){from, flow->top};
            return true;
        }
    }
    return false;
}

void kv_flow_step(struct kv_flow *flow, struct kv_hop hop)
{
    uint32_t *left = hop.to == flow->top ? &flow->rise[hop.from]
                                         : &flow->fall[hop.from][hop.to];
    *left -= 1;
    flow->free[hop.to]--;
    flow->free[hop.from]++;
}

/* Pages that go up and down at a time need one slot to begin with: whether all
 * get where they should. */
static bool flows(const struct plan *plan)
{
    struct kv_flow flow = kv_room_flow(plan->store, plan->room, plan->group);
    struct kv_hop hop;
    while (kv_flow_next(&flow, &hop)) {
        kv_flow_step(&flow, hop);
    }
    uint32_t left = 0;
    for (uint32_t from = flow.top; from <= flow.last; from++) {
        left += flow.rise[from];
        for (uint32_t to = from + 1; to <= flow.last; to++) {
            left += flow.fall[from][to];
        }
    }
    return left == 0;
}

static bool plan_group(struct plan *plan)
{
    struct kv_room *room = plan->room;
    room->begin[plan->group] = plan->store->item_count;
    bool is_done = choose(plan);
    room->end[plan->group] = plan->store->item_count;
    /* Falls alone always flow, from the lowest level up. */
    return is_done && (!rises(plan) || flows(plan));
}

/* Orders that the plan makes, and whether there are that many. */
static bool has_orders(const struct kv_store *store, const struct kv_room *room)
{
    uint64_t count = 0;
    for (uint32_t group = 0; group < store->options.group_count; group++) {
        for (uint32_t level = 0; level <= store->last; level++) {
            count += room->rise[group][level];
        }
        for (uint32_t i = room->begin[group]; i < room->end[group]; i++) {
            uint32_t item = store->items[i];
            if (kv_item_target(item) == 0) {
                continue;
            }
            if (kv_page_of(store, kv_item_ref(item))->orders == UINT8_MAX) {
                return false;
            }
            count++;
        }
    }
    return count <= kv_orders_room(store);
}

bool kv_room_plan(struct kv_store *store, struct kv_room *room)
{
    for (uint32_t group = 0; group < store->options.group_count; group++) {
        struct plan plan = {.store = store, .room = room, .group = group};
        uint32_t leaf_swaps = room->leaf_swaps;
        if (plan_group(&plan)) {
            continue;
        }
        if (!rises(&plan)) {
            return false;
        }
        room->leaf_swaps = leaf_swaps;
        kv_room_undo(store, room->begin[group]);
        plan.has_spare = true;
        if (!plan_group(&plan)) {
            return false;
        }
    }
    return has_orders(store, room);
}
