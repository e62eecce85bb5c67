#include "kv/store.h"

#include "base/check.h"
#include "base/mem.h"
#include "kv/store_state.h"

/* A record that is free but named by an order is not used again until then: an
 * order names two at most. */
static uint32_t record_count(const struct kv_store_options *options)
{
    uint64_t count = UINT64_C(2) * options->order_max;
    for (uint32_t level = 0; level < options->level_count; level++) {
        for (uint32_t group = 0; group < options->group_count; group++) {
            count += options->slot_counts[level][group];
        }
    }
    CHECK(count < UINT64_C(1) << KV_REF_BITS);
    return (uint32_t)count;
}

/* What one call takes out of queues: what it asks to lock, and for that and what
 * it takes new as many victims on each level at most. A copy that fails takes its
 * page, and those copied from it by orders not done. */
static uint32_t item_count(const struct kv_store_options *options,
                           uint32_t page_count)
{
    uint64_t asked = options->batch_max;
    uint64_t count = asked + options->level_count * 2 * asked;
    if (count < options->order_max) {
        count = options->order_max;
    }
    return asked > 0 && count < page_count ? (uint32_t)count : page_count;
}

static void init_shelves(struct kv_store *store)
{
    for (uint32_t level = 0; level < store->options.level_count; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            struct kv_shelf *shelf = &store->shelves[level][group];
            kv_slots_init(&shelf->slots,
                          store->options.slot_counts[level][group],
                          store->orders.waits);
            kv_queue_init(&shelf->queue);
        }
    }
}

struct kv_store *kv_store_create(const struct kv_store_options *options)
{
    CHECK(options->level_count >= 1);
    CHECK(options->level_count <= KV_LEVEL_COUNT_MAX);
    CHECK(options->life_count >= 1);
    CHECK(options->life_count <= KV_LIFE_COUNT_MAX);
    CHECK(options->group_count <= options->life_count);
    for (uint32_t life = 0; life < options->life_count; life++) {
        CHECK(options->group_of[life] < options->group_count);
    }
    CHECK(options->watch.lost != NULL);
    struct kv_store *store = mem_new(sizeof(*store));
    store->options = *options;
    store->last = (uint8_t)(options->level_count - 1);
    store->page_count = record_count(options);
    store->pages = mem_new_array(store->page_count, sizeof(*store->pages));
    store->item_max = item_count(options, store->page_count);
    store->items = mem_new_array(store->item_max, sizeof(*store->items));
    store->next_stamp = 1;
    store->free_pages = KV_REF_NONE;
    for (kv_ref ref = store->page_count; ref > 0; ref--) {
        kv_page_recycle(store, ref - 1);
    }
    kv_orders_init(&store->orders, options->order_max);
    init_shelves(store);
    kv_timers_init(&store->timers, store->page_count);
    return store;
}

void kv_store_destroy(struct kv_store *store)
{
    if (store == NULL) {
        return;
    }
    for (uint32_t level = 0; level < store->options.level_count; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            kv_slots_finish(&store->shelves[level][group].slots);
        }
    }
    kv_orders_finish(&store->orders);
    kv_timers_finish(&store->timers);
    mem_free(store->items);
    mem_free(store->pages);
    mem_free(store);
}

/* -- records -------------------------------------------------------------- */

const struct kv_page *kv_store_page(const struct kv_store *store, kv_ref ref)
{
    CHECK(ref < store->page_count);
    return kv_page_of(store, ref);
}

const struct kv_page *kv_store_pages(const struct kv_store *store)
{
    return store->pages;
}

/* The page of a reference that is alive. */
static struct kv_page *used_page(struct kv_store *store, kv_ref ref)
{
    CHECK(ref < store->page_count);
    struct kv_page *page = kv_page_of(store, ref);
    CHECK(page->flags & KV_PAGE_USED);
    return page;
}

void kv_page_recycle(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    page->flags = 0;
    page->next = store->free_pages;
    store->free_pages = ref;
}

kv_ref kv_page_new(struct kv_store *store, uint8_t life)
{
    kv_ref ref = store->free_pages;
    CHECK(ref != KV_REF_NONE);
    struct kv_page *page = kv_page_of(store, ref);
    store->free_pages = page->next;
    uint8_t group = store->options.group_of[life];
    struct kv_shelf *shelf = &store->shelves[0][group];
    *page = (struct kv_page){
        .slot = (int32_t)kv_slots_take(&shelf->slots),
        .node = KV_NODE_NONE,
        .locks = 1,
        .life = life & 0xfu,
        .priority = KV_PRIORITY_DEFAULT,
        .flags = KV_PAGE_USED,
    };
    shelf->locked++;
    return ref;
}

void kv_page_free(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    CHECK(!(page->flags & KV_PAGE_QUEUED));
    kv_timers_cancel(store, page);
    store->ranked -= page->priority != KV_PRIORITY_DEFAULT;
    kv_slots_give(&kv_shelf_of(store, page)->slots, (uint32_t)page->slot);
    page->slot = -1;
    page->node = KV_NODE_NONE;
    page->flags = 0;
    if (page->orders == 0) {
        kv_page_recycle(store, ref);
    }
}

void kv_page_settle(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    if (!(page->flags & KV_PAGE_COMMITTED)) {
        kv_page_free(store, ref);
        return;
    }
    struct kv_shelf *shelf = kv_shelf_of(store, page);
    shelf->droppable++;
    kv_queue_append(store, &shelf->queue, ref);
}

void kv_page_orphan(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    page->flags &= (uint8_t)~KV_PAGE_COMMITTED;
    page->node = KV_NODE_NONE;
    if (page->locks > 0 || page->holds > 0) {
        return;
    }
    if (page->flags & KV_PAGE_CHOSEN) {
        page->flags |= KV_PAGE_GONE;
        return;
    }
    kv_queue_unlink(store, ref);
    kv_shelf_of(store, page)->droppable--;
    kv_page_free(store, ref);
}

/* -- users ---------------------------------------------------------------- */

void kv_store_hold(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = used_page(store, ref);
    CHECK(page->holds < UINT16_MAX);
    page->holds++;
    if (page->holds > 1 || page->locks > 0) {
        return;
    }
    struct kv_shelf *shelf = kv_shelf_of(store, page);
    shelf->droppable--;
    shelf->held++;
    if (page->level == store->last) {
        kv_queue_unlink(store, ref);
    }
}

void kv_store_unhold(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = used_page(store, ref);
    CHECK(page->holds > 0);
    page->holds--;
    if (page->holds > 0 || page->locks > 0) {
        return;
    }
    kv_shelf_of(store, page)->held--;
    if (page->flags & KV_PAGE_QUEUED) {
        kv_queue_unlink(store, ref);
    }
    kv_page_settle(store, ref);
}

void kv_store_relock(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = used_page(store, ref);
    CHECK(page->locks > 0);
    CHECK(page->locks < UINT16_MAX);
    page->locks++;
}

void kv_store_lock_here(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = used_page(store, ref);
    CHECK(page->level == 0);
    CHECK(page->locks < UINT16_MAX);
    page->locks++;
    if (page->locks > 1) {
        return;
    }
    struct kv_shelf *shelf = kv_shelf_of(store, page);
    *(page->holds > 0 ? &shelf->held : &shelf->droppable) -= 1;
    shelf->locked++;
    if (page->flags & KV_PAGE_QUEUED) {
        kv_queue_unlink(store, ref);
    }
}

void kv_store_unlock(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = used_page(store, ref);
    CHECK(page->locks > 0);
    page->locks--;
    if (page->locks > 0) {
        return;
    }
    struct kv_shelf *shelf = kv_shelf_of(store, page);
    shelf->locked--;
    if (page->holds == 0) {
        kv_page_settle(store, ref);
        return;
    }
    shelf->held++;
    if (page->level < store->last) {
        kv_queue_append(store, &shelf->queue, ref);
    } else {
        page->released = kv_store_stamp(store);
    }
}

void kv_store_unlock_to_hold(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = used_page(store, ref);
    CHECK(page->locks > 0);
    CHECK(page->holds < UINT16_MAX);
    page->holds++;
    kv_store_unlock(store, ref);
}

/* -- commitment ----------------------------------------------------------- */

void kv_store_commit(struct kv_store *store, kv_ref ref, kv_node node,
                     uint16_t tokens)
{
    struct kv_page *page = used_page(store, ref);
    CHECK(!(page->flags & KV_PAGE_LOST));
    page->flags |= KV_PAGE_COMMITTED;
    page->node = node;
    page->tokens = tokens;
}

void kv_store_discard(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = used_page(store, ref);
    if (page->flags & KV_PAGE_LEAVING) {
        return;
    }
    CHECK(page->flags & KV_PAGE_COMMITTED);
    kv_page_orphan(store, ref);
}

/* -- numbers -------------------------------------------------------------- */

struct kv_store_counts kv_store_counts(const struct kv_store *store,
                                       uint8_t level, uint32_t group)
{
    const struct kv_shelf *shelf = &store->shelves[level][group];
    return (struct kv_store_counts){
        .total = shelf->slots.capacity,
        .free = shelf->slots.free_count,
        .queued = shelf->queue.count,
        .locked = shelf->locked,
        .held = shelf->held,
        .droppable = shelf->droppable,
        .free_min = shelf->slots.free_min,
    };
}

void kv_store_reset_peaks(struct kv_store *store)
{
    for (uint32_t level = 0; level <= store->last; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            struct kv_slots *slots = &store->shelves[level][group].slots;
            slots->free_min = slots->free_count;
        }
    }
}

struct kv_store_totals kv_store_totals(const struct kv_store *store)
{
    return store->totals;
}

uint32_t kv_store_queue(const struct kv_store *store, uint8_t level,
                        uint32_t group, uint32_t max, kv_ref *refs_out)
{
    const struct kv_queue *queue = &store->shelves[level][group].queue;
    uint32_t count = 0;
    for (kv_ref at = kv_queue_first(queue); at != KV_REF_NONE && count < max;
         at = kv_queue_after(store, queue, at)) {
        refs_out[count++] = at;
    }
    return count;
}

size_t kv_store_bytes(const struct kv_store *store)
{
    size_t bytes = sizeof(*store);
    bytes += (size_t)store->page_count * sizeof(*store->pages);
    bytes += (size_t)store->item_max * sizeof(*store->items);
    bytes += ((size_t)store->orders.mask + 1) *
             (sizeof(struct kv_pending) + 2 * sizeof(struct kv_wait));
    bytes += (size_t)2 * store->options.order_max * sizeof(struct kv_order);
    bytes += (size_t)store->timers.capacity * sizeof(struct kv_timer);
    for (uint32_t level = 0; level <= store->last; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            size_t slots = store->options.slot_counts[level][group];
            bytes += slots * sizeof(kv_cell) + (slots / 64 + 1) * 8;
        }
    }
    return bytes;
}
