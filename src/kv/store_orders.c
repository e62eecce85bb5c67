/* Copies under way: a ring by ticket, whose start is the oldest that is not done. */
#include "base/check.h"
#include "base/mem.h"
#include "kv/store_state.h"

#include <string.h>

void kv_orders_init(struct kv_orders *orders, uint32_t order_max)
{
    /* Room for a straggler to be overtaken by many. */
    uint32_t size = 16;
    while (size < 4 * order_max) {
        size *= 2;
    }
    *orders = (struct kv_orders){.mask = size - 1, .low = 1, .next = 1};
    orders->ring = mem_new_array(size, sizeof(*orders->ring));
    orders->waits = mem_new_array(2 * (size_t)size, sizeof(*orders->waits));
    orders->queue = mem_new_array(2 * order_max, sizeof(*orders->queue));
}

void kv_orders_finish(struct kv_orders *orders)
{
    mem_free(orders->ring);
    mem_free(orders->waits);
    mem_free(orders->queue);
}

uint32_t kv_orders_room(const struct kv_store *store)
{
    const struct kv_orders *orders = &store->orders;
    uint64_t ring = orders->mask + 1 - (orders->next - orders->low);
    uint32_t left = store->options.order_max - orders->outstanding;
    return ring < left ? (uint32_t)ring : left;
}

static struct kv_pending *pending_of(const struct kv_store *store,
                                     kv_ticket ticket)
{
    return &store->orders.ring[ticket & store->orders.mask];
}

static struct kv_slots *slots_of(struct kv_store *store, uint8_t level,
                                 uint8_t group)
{
    return &store->shelves[level][group].slots;
}

/* What a slot that is out waits for, as a whole ticket: that of the one
 * outstanding order with this place in the ring. */
static kv_ticket ticket_of(const struct kv_store *store,
                           const struct kv_slots *slots, uint32_t slot)
{
    const struct kv_orders *orders = &store->orders;
    kv_cell cell = slots->cells[slot];
    if (cell == 0) {
        return 0;
    }
    uint64_t index = (cell - 1) / 2;
    return orders->low + ((index - orders->low) & orders->mask);
}

static kv_end end_of(const struct kv_store *store, kv_ticket ticket)
{
    return 2 * (kv_end)(ticket & store->orders.mask);
}

static void enqueue(struct kv_store *store, const struct kv_order *order)
{
    struct kv_orders *orders = &store->orders;
    if (orders->end == 2 * store->options.order_max) {
        uint32_t count = orders->end - orders->first;
        memmove(orders->queue, orders->queue + orders->first,
                count * sizeof(*orders->queue));
        orders->first = 0;
        orders->end = count;
    }
    orders->queue[orders->end++] = *order;
}

void kv_orders_add(struct kv_store *store, kv_ref page, kv_ref source,
                   uint8_t to_level, uint32_t to_slot)
{
    struct kv_orders *orders = &store->orders;
    CHECK(kv_orders_room(store) > 0);
    struct kv_page *reader = kv_page_of(store, page);
    struct kv_page *from =
        source == KV_REF_NONE ? reader : kv_page_of(store, source);
    uint8_t group = kv_page_group(store, reader);
    uint32_t from_slot = (uint32_t)from->slot;
    struct kv_slots *from_slots = slots_of(store, from->level, group);
    struct kv_slots *to_slots = slots_of(store, to_level, group);
    kv_ticket ticket = orders->next++;
    enqueue(store, &(struct kv_order){
                       .ticket = ticket,
                       .after = {ticket_of(store, from_slots, from_slot),
                                 ticket_of(store, to_slots, to_slot)},
                       .group = group,
                       .from_level = from->level,
                       .to_level = to_level,
                       .from_slot = from->slot,
                       .to_slot = (int32_t)to_slot,
                   });
    *pending_of(store, ticket) = (struct kv_pending){
        .page = page,
        .source = source,
        .from_slot = from->slot,
        .to_slot = (int32_t)to_slot,
        .group = group,
        .from_level = from->level,
        .to_level = to_level,
    };
    kv_slots_touch(from_slots, from_slot, end_of(store, ticket));
    kv_slots_touch(to_slots, to_slot, end_of(store, ticket) + 1);
    reader->orders++;
    if (source != KV_REF_NONE) {
        from->orders++;
    }
    orders->outstanding++;
}

enum err kv_store_copy(struct kv_store *store, kv_ref from, kv_ref to)
{
    struct kv_page *source = kv_page_of(store, from);
    struct kv_page *page = kv_page_of(store, to);
    CHECK(source->locks > 0);
    CHECK(page->locks > 0);
    CHECK(from != to);
    CHECK(source->life == page->life);
    if (kv_orders_room(store) == 0 || source->orders == UINT8_MAX ||
        page->orders == UINT8_MAX) {
        return ERR_FULL;
    }
    kv_orders_add(store, to, from, page->level, (uint32_t)page->slot);
    page->flags |= source->flags & KV_PAGE_LOST;
    store->totals.copied++;
    return OK;
}

const struct kv_order *kv_store_orders(const struct kv_store *store,
                                       uint32_t *count_out)
{
    const struct kv_orders *orders = &store->orders;
    *count_out = orders->end - orders->first;
    return orders->queue + orders->first;
}

void kv_store_orders_taken(struct kv_store *store, uint32_t count)
{
    struct kv_orders *orders = &store->orders;
    CHECK(count <= orders->end - orders->first);
    orders->first += count;
    if (orders->first == orders->end) {
        orders->first = orders->end = 0;
    }
}

static void unname(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    page->orders--;
    if (page->orders == 0 && !(page->flags & KV_PAGE_USED)) {
        kv_page_recycle(store, ref);
    }
}

static void mark(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    if (!(page->flags & KV_PAGE_GONE)) {
        page->flags |= KV_PAGE_GONE;
        CHECK(store->item_count < store->item_max);
        store->items[store->item_count++] = ref;
    }
}

/* The page that should have arrived, and what is copied from it by orders that
 * came later: theirs are no better bytes. */
static void mark_lost(struct kv_store *store, kv_ticket ticket)
{
    mark(store, pending_of(store, ticket)->page);
    for (kv_ticket t = ticket + 1; t < store->orders.next; t++) {
        const struct kv_pending *later = pending_of(store, t);
        if (!later->is_done && later->source != KV_REF_NONE &&
            (kv_page_of(store, later->source)->flags & KV_PAGE_GONE)) {
            mark(store, later->page);
        }
    }
}

static void lose(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    bool is_news =
        (page->flags & (KV_PAGE_USED | KV_PAGE_LOST)) == KV_PAGE_USED;
    page->flags &= (uint8_t)~KV_PAGE_GONE;
    if (!is_news) {
        return;
    }
    page->flags |= KV_PAGE_LOST;
    store->totals.lost++;
    if (page->flags & KV_PAGE_COMMITTED) {
        page->flags |= KV_PAGE_LEAVING;
        store->options.watch.lost(store->options.watch.context, ref);
        page->flags &= (uint8_t)~KV_PAGE_LEAVING;
        kv_page_orphan(store, ref);
    }
}

static void fail(struct kv_store *store, kv_ticket ticket)
{
    CHECK(store->item_count == 0);
    mark_lost(store, ticket);
    for (uint32_t i = 0; i < store->item_count; i++) {
        lose(store, store->items[i]);
    }
    store->item_count = 0;
}

void kv_store_order_done(struct kv_store *store, kv_ticket ticket, bool is_ok)
{
    struct kv_orders *orders = &store->orders;
    CHECK(ticket >= orders->low);
    CHECK(ticket < orders->next - (orders->end - orders->first));
    struct kv_pending *order = pending_of(store, ticket);
    CHECK(!order->is_done);
    kv_end end = end_of(store, ticket);
    kv_slots_settle(slots_of(store, order->from_level, order->group),
                    (uint32_t)order->from_slot, end);
    kv_slots_settle(slots_of(store, order->to_level, order->group),
                    (uint32_t)order->to_slot, end + 1);
    if (!is_ok) {
        fail(store, ticket);
    }
    order->is_done = true;
    orders->outstanding--;
    unname(store, order->page);
    if (order->source != KV_REF_NONE) {
        unname(store, order->source);
    }
    while (orders->low < orders->next &&
           pending_of(store, orders->low)->is_done) {
        orders->low++;
    }
}

bool kv_store_is_done(const struct kv_store *store, kv_ticket ticket)
{
    CHECK(ticket < store->orders.next);
    return ticket < store->orders.low || pending_of(store, ticket)->is_done;
}

kv_ticket kv_store_ready(const struct kv_store *store, kv_ref ref)
{
    const struct kv_page *page = kv_page_of(store, ref);
    const struct kv_slots *slots = &kv_shelf_of(store, page)->slots;
    return ticket_of(store, slots, (uint32_t)page->slot);
}
