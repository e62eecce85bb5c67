/* The invariants of a store, counted anew from its records. */
#include "base/mem.h"
#include "kv/store_state.h"

static bool is_idle(const struct kv_page *page)
{
    return page->locks == 0 && page->holds == 0;
}

/* LOCKED: level 0, in no queue. HELD: queued but on the last level. Idle:
 * committed and queued. None is left half way through a call. */
static bool page_is_valid(const struct kv_store *store,
                          const struct kv_page *page)
{
    uint8_t passing = KV_PAGE_CHOSEN | KV_PAGE_GONE | KV_PAGE_LEAVING;
    if ((page->flags & passing) || page->level > store->last ||
        page->life >= store->options.life_count ||
        page->priority > KV_PRIORITY_MAX) {
        return false;
    }
    bool is_queued = (page->flags & KV_PAGE_QUEUED) != 0;
    bool is_committed = (page->flags & KV_PAGE_COMMITTED) != 0;
    if (is_committed && (page->flags & KV_PAGE_LOST)) {
        return false;
    }
    if (page->locks > 0) {
        return page->level == 0 && !is_queued;
    }
    if (page->holds > 0) {
        return is_queued == (page->level < store->last);
    }
    return is_committed && is_queued;
}

/* What the records alone say about a shelf. */
struct tally {
    uint32_t pages, locked, held, droppable, queued;
};

static void tally_page(const struct kv_page *page, struct tally *tally)
{
    tally->pages++;
    tally->locked += page->locks > 0;
    tally->held += page->locks == 0 && page->holds > 0;
    tally->droppable += is_idle(page);
    tally->queued += (page->flags & KV_PAGE_QUEUED) != 0;
}

/* Each class: the links agree, the priority is the class's, in order of release;
 * all that is queued is met. */
static bool queue_is_valid(const struct kv_store *store, uint8_t level,
                           uint32_t group, uint32_t queued)
{
    const struct kv_queue *queue = &store->shelves[level][group].queue;
    uint32_t count = 0;
    for (uint32_t class = 0; class < KV_CLASS_COUNT; class ++) {
        kv_ref before = KV_REF_NONE;
        for (kv_ref at = queue->heads[class]; at != KV_REF_NONE;
             at = kv_page_of(store, at)->next) {
            const struct kv_page *page = kv_page_of(store, at);
            if (count++ == queued || page->prev != before ||
                page->priority != class || page->level != level ||
                kv_page_group(store, page) != group ||
                !(page->flags & KV_PAGE_QUEUED) ||
                (before != KV_REF_NONE &&
                 kv_page_of(store, before)->released >= page->released)) {
                return false;
            }
            before = at;
        }
        bool is_marked = (queue->classes[class / 64] >> class % 64 & 1) != 0;
        if (queue->tails[class] != before ||
            is_marked != (before != KV_REF_NONE)) {
            return false;
        }
    }
    return count == queued && queue->count == queued;
}

static bool is_free(const struct kv_slots *slots, uint32_t slot)
{
    return slot < slots->high_water && !kv_slots_is_out(slots, slot);
}

/* Counts a free list; false: a slot that is out, or not really free. */
static bool ready_is_valid(const struct kv_slots *slots, uint32_t *count)
{
    uint32_t last = KV_SLOT_NONE;
    for (uint32_t slot = slots->ready.head; slot != KV_SLOT_NONE;
         slot = slots->cells[slot]) {
        if (*count == slots->capacity || !is_free(slots, slot)) {
            return false;
        }
        last = slot;
        *count += 1;
    }
    return slots->ready.tail == last;
}

static bool waiting_is_valid(const struct kv_slots *slots, uint32_t *count)
{
    kv_end last = KV_SLOT_NONE;
    for (kv_end end = slots->waiting.head; end != KV_SLOT_NONE;
         end = slots->waits[end].next) {
        const struct kv_wait *wait = &slots->waits[end];
        if (*count == slots->capacity || !is_free(slots, wait->slot) ||
            !wait->is_linked || wait->prev != last ||
            slots->cells[wait->slot] != 1 + end) {
            return false;
        }
        last = end;
        *count += 1;
    }
    return slots->waiting.tail == last;
}

static uint32_t count_out(const struct kv_slots *slots)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < slots->high_water; slot++) {
        count += kv_slots_is_out(slots, slot);
    }
    return count;
}

static bool shelf_is_valid(const struct kv_store *store, uint8_t level,
                           uint32_t group, const struct tally *tally)
{
    const struct kv_shelf *shelf = &store->shelves[level][group];
    const struct kv_slots *slots = &shelf->slots;
    uint32_t recycled = 0;
    return ready_is_valid(slots, &recycled) &&
           waiting_is_valid(slots, &recycled) &&
           slots->free_count ==
               recycled + slots->capacity - slots->high_water &&
           count_out(slots) == tally->pages &&
           slots->free_count + tally->pages == slots->capacity &&
           shelf->locked == tally->locked && shelf->held == tally->held &&
           shelf->droppable == tally->droppable &&
           queue_is_valid(store, level, group, tally->queued);
}

/* No two pages in one slot: each clears the bit of its slot in a copy. */
static bool slots_are_disjoint(
    const struct kv_store *store,
    uint8_t *taken[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX])
{
    for (kv_ref ref = 0; ref < store->page_count; ref++) {
        const struct kv_page *page = kv_page_of(store, ref);
        if (!(page->flags & KV_PAGE_USED)) {
            continue;
        }
        const struct kv_slots *slots = &kv_shelf_of(store, page)->slots;
        uint8_t *taken_here = taken[page->level][kv_page_group(store, page)];
        if (page->slot < 0 || (uint32_t)page->slot >= slots->high_water ||
            !kv_slots_is_out(slots, (uint32_t)page->slot) ||
            taken_here[page->slot]++ > 0) {
            return false;
        }
    }
    return true;
}

static bool pages_are_disjoint(const struct kv_store *store)
{
    uint8_t *taken[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX] = {{NULL}};
    for (uint32_t level = 0; level <= store->last; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            uint32_t count = store->options.slot_counts[level][group];
            taken[level][group] = mem_new(count + 1);
        }
    }
    bool is_valid = slots_are_disjoint(store, taken);
    for (uint32_t level = 0; level <= store->last; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            mem_free(taken[level][group]);
        }
    }
    return is_valid;
}

static bool shelves_are_valid(const struct kv_store *store)
{
    struct tally tallies[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX] = {{{0}}};
    for (kv_ref ref = 0; ref < store->page_count; ref++) {
        const struct kv_page *page = kv_page_of(store, ref);
        if (!(page->flags & KV_PAGE_USED)) {
            continue;
        }
        if (!page_is_valid(store, page)) {
            return false;
        }
        tally_page(page, &tallies[page->level][kv_page_group(store, page)]);
    }
    for (uint8_t level = 0; level <= store->last; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            if (!shelf_is_valid(store, level, group, &tallies[level][group])) {
                return false;
            }
        }
    }
    return true;
}

/* Each order that is not done is named by its pages; a slot waits for an order
 * that is not done and touches it. */
static bool orders_are_valid(const struct kv_store *store)
{
    const struct kv_orders *orders = &store->orders;
    uint32_t outstanding = 0;
    uint32_t named = 0;
    for (kv_ticket t = orders->low; t < orders->next; t++) {
        const struct kv_pending *order = &orders->ring[t & orders->mask];
        outstanding += !order->is_done;
        named += order->is_done ? 0 : 1 + (order->source != KV_REF_NONE);
    }
    for (kv_ref ref = 0; ref < store->page_count; ref++) {
        named -= kv_page_of(store, ref)->orders;
    }
    return named == 0 && outstanding == orders->outstanding &&
           outstanding <= store->options.order_max &&
           orders->next - orders->low <= orders->mask + UINT64_C(1);
}

/* The order at `end` is not done, and this slot is there. */
static bool end_is_valid(const struct kv_store *store, uint8_t level,
                         uint8_t group, uint32_t slot, kv_end end)
{
    const struct kv_orders *orders = &store->orders;
    if (end / 2 > orders->mask) {
        return false;
    }
    const struct kv_pending *order = &orders->ring[end / 2];
    uint8_t its_level = end % 2 == 0 ? order->from_level : order->to_level;
    int32_t its_slot = end % 2 == 0 ? order->from_slot : order->to_slot;
    return !order->is_done && order->group == group && its_level == level &&
           (uint32_t)its_slot == slot;
}

static bool cells_are_valid(const struct kv_store *store, uint8_t level,
                            uint8_t group)
{
    const struct kv_slots *slots = &store->shelves[level][group].slots;
    for (uint32_t slot = 0; slot < slots->capacity; slot++) {
        if (kv_slots_is_out(slots, slot) && slots->cells[slot] != 0 &&
            !end_is_valid(store, level, group, slot, slots->cells[slot] - 1)) {
            return false;
        }
    }
    for (kv_end end = slots->waiting.head; end != KV_SLOT_NONE;
         end = slots->waits[end].next) {
        if (!end_is_valid(store, level, group, slots->waits[end].slot, end)) {
            return false;
        }
    }
    return true;
}

static bool records_are_valid(const struct kv_store *store)
{
    uint32_t free_count = 0;
    uint32_t expected = 0;
    for (kv_ref at = store->free_pages; at != KV_REF_NONE;
         at = kv_page_of(store, at)->next) {
        const struct kv_page *page = kv_page_of(store, at);
        if (free_count++ == store->page_count || page->flags != 0 ||
            page->orders != 0) {
            return false;
        }
    }
    for (kv_ref ref = 0; ref < store->page_count; ref++) {
        const struct kv_page *page = kv_page_of(store, ref);
        expected += !(page->flags & KV_PAGE_USED) && page->orders == 0;
    }
    return free_count == expected;
}

bool kv_store_is_valid(const struct kv_store *store)
{
    for (uint8_t level = 0; level <= store->last; level++) {
        for (uint8_t group = 0; group < store->options.group_count; group++) {
            if (!cells_are_valid(store, level, group)) {
                return false;
            }
        }
    }
    return store->item_count == 0 && records_are_valid(store) &&
           shelves_are_valid(store) && pages_are_disjoint(store) &&
           orders_are_valid(store) && kv_timers_are_valid(store);
}
