/* Priorities and when they end: a heap by the time of it, the soonest on top, of
 * those pages only whose priority does end. */
#include "base/check.h"
#include "base/mem.h"
#include "kv/store_state.h"

enum { TIMER_NONE = UINT16_MAX };

/* A share of the pages: what is kept for a while is kept instead of others. */
static uint32_t timer_count(uint32_t page_count)
{
    uint32_t count = page_count / 8;
    count = count > KV_TIMER_COUNT_MIN ? count : KV_TIMER_COUNT_MIN;
    count = count < KV_TIMER_COUNT_MAX ? count : KV_TIMER_COUNT_MAX;
    return count < page_count ? count : page_count;
}

void kv_timers_init(struct kv_timers *timers, uint32_t page_count)
{
    uint32_t capacity = timer_count(page_count);
    *timers = (struct kv_timers){.capacity = capacity, .free = TIMER_NONE};
    timers->timers = mem_new_array(capacity, sizeof(*timers->timers));
    for (uint32_t i = capacity; i > 0; i--) {
        timers->timers[i - 1].page = timers->free;
        timers->free = i - 1;
    }
}

void kv_timers_finish(struct kv_timers *timers)
{
    mem_free(timers->timers);
}

static uint64_t expiry_at(const struct kv_timers *timers, uint32_t at)
{
    return timers->timers[timers->timers[at].heap].expiry_ms;
}

static void put(struct kv_timers *timers, uint32_t at, uint16_t timer)
{
    timers->timers[at].heap = timer;
    timers->timers[timer].heap_at = (uint16_t)at;
}

/* Finds the place of `timer`, given that `at` is empty. */
static void settle(struct kv_timers *timers, uint32_t at, uint16_t timer)
{
    uint64_t expiry_ms = timers->timers[timer].expiry_ms;
    while (at > 0 && expiry_at(timers, (at - 1) / 2) > expiry_ms) {
        put(timers, at, timers->timers[(at - 1) / 2].heap);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < timers->count &&
            expiry_at(timers, child + 1) < expiry_at(timers, child)) {
            child++;
        }
        if (child >= timers->count || expiry_at(timers, child) >= expiry_ms) {
            break;
        }
        put(timers, at, timers->timers[child].heap);
        at = child;
    }
    put(timers, at, timer);
}

void kv_timers_cancel(struct kv_store *store, struct kv_page *page)
{
    struct kv_timers *timers = &store->timers;
    if (page->timer == 0) {
        return;
    }
    uint16_t timer = (uint16_t)(page->timer - 1);
    uint32_t at = timers->timers[timer].heap_at;
    page->timer = 0;
    timers->count--;
    if (at < timers->count) {
        settle(timers, at, timers->timers[timers->count].heap);
    }
    timers->timers[timer].page = timers->free;
    timers->free = timer;
}

static void arm(struct kv_store *store, kv_ref ref, uint64_t expiry_ms)
{
    struct kv_timers *timers = &store->timers;
    uint16_t timer = (uint16_t)timers->free;
    timers->free = timers->timers[timer].page;
    timers->timers[timer].page = ref;
    timers->timers[timer].expiry_ms = expiry_ms;
    kv_page_of(store, ref)->timer = (uint16_t)(timer + 1);
    timers->count++;
    settle(timers, timers->count - 1, timer);
}

static void set_priority(struct kv_store *store, kv_ref ref, uint8_t priority)
{
    struct kv_page *page = kv_page_of(store, ref);
    if (page->priority == priority) {
        return;
    }
    store->ranked -= page->priority != KV_PRIORITY_DEFAULT;
    store->ranked += priority != KV_PRIORITY_DEFAULT;
    if (!(page->flags & KV_PAGE_QUEUED)) {
        page->priority = priority;
        return;
    }
    kv_queue_unlink(store, ref);
    page->priority = priority;
    kv_queue_insert(store, ref);
}

void kv_store_retain(struct kv_store *store, kv_ref ref, uint8_t priority,
                     uint64_t expiry_ms)
{
    struct kv_page *page = kv_page_of(store, ref);
    CHECK(page->flags & KV_PAGE_USED);
    CHECK(priority <= KV_PRIORITY_MAX);
    kv_timers_cancel(store, page);
    if (expiry_ms != UINT64_MAX) {
        bool is_over = expiry_ms <= store->now_ms;
        if (is_over || store->timers.free == TIMER_NONE) {
            priority = KV_PRIORITY_DEFAULT;
        } else {
            arm(store, ref, expiry_ms);
        }
    }
    set_priority(store, ref, priority);
}

uint64_t kv_store_expiry(const struct kv_store *store, kv_ref ref)
{
    uint16_t timer = kv_store_page(store, ref)->timer;
    return timer == 0 ? UINT64_MAX : store->timers.timers[timer - 1].expiry_ms;
}

uint32_t kv_store_ranked(const struct kv_store *store)
{
    return store->ranked;
}

void kv_store_tick(struct kv_store *store, uint64_t now_ms)
{
    struct kv_timers *timers = &store->timers;
    store->now_ms = now_ms;
    while (timers->count > 0 && expiry_at(timers, 0) <= now_ms) {
        kv_ref ref = timers->timers[timers->timers[0].heap].page;
        kv_timers_cancel(store, kv_page_of(store, ref));
        set_priority(store, ref, KV_PRIORITY_DEFAULT);
    }
}

bool kv_timers_are_valid(const struct kv_store *store)
{
    const struct kv_timers *timers = &store->timers;
    for (uint32_t at = 0; at < timers->count; at++) {
        const struct kv_timer *timer = &timers->timers[timers->timers[at].heap];
        const struct kv_page *page = kv_page_of(store, timer->page);
        if (timer->heap_at != at || timer->expiry_ms <= store->now_ms ||
            page->timer != timers->timers[at].heap + 1 ||
            !(page->flags & KV_PAGE_USED) ||
            (at > 0 && expiry_at(timers, (at - 1) / 2) > timer->expiry_ms)) {
            return false;
        }
    }
    uint32_t timed = 0;
    uint32_t ranked = 0;
    for (kv_ref ref = 0; ref < store->page_count; ref++) {
        const struct kv_page *page = kv_page_of(store, ref);
        timed += page->timer != 0;
        ranked += (page->flags & KV_PAGE_USED) != 0 &&
                  page->priority != KV_PRIORITY_DEFAULT;
    }
    return timed == timers->count && ranked == store->ranked;
}
