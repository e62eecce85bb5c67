/* In which order pages go: a list for each priority, each in the order in which
 * its pages were let go of. */
#include "base/check.h"
#include "kv/store_state.h"

void kv_queue_init(struct kv_queue *queue)
{
    *queue = (struct kv_queue){.finger = KV_REF_NONE};
    for (uint32_t i = 0; i < KV_CLASS_COUNT; i++) {
        queue->heads[i] = KV_REF_NONE;
        queue->tails[i] = KV_REF_NONE;
    }
}

/* The lowest priority from `from` on that has pages; KV_CLASS_COUNT: none. */
static uint32_t next_class(const struct kv_queue *queue, uint32_t from)
{
    for (uint32_t word = from / 64; word < 2; word++) {
        uint64_t bits = queue->classes[word];
        if (word == from / 64) {
            bits &= ~UINT64_C(0) << from % 64;
        }
        if (bits != 0) {
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
        }
    }
    return KV_CLASS_COUNT;
}

kv_ref kv_queue_first(const struct kv_queue *queue)
{
    uint32_t class = next_class(queue, 0);
    return class < KV_CLASS_COUNT ? queue->heads[class] : KV_REF_NONE;
}

kv_ref kv_queue_after(const struct kv_store *store,
                      const struct kv_queue *queue, kv_ref ref)
{
    const struct kv_page *page = kv_page_of(store, ref);
    if (page->next != KV_REF_NONE) {
        return page->next;
    }
    uint32_t class = next_class(queue, page->priority + 1u);
    return class < KV_CLASS_COUNT ? queue->heads[class] : KV_REF_NONE;
}

/* Puts the page between its own links. */
static void link_in(struct kv_store *store, struct kv_queue *queue, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    uint32_t class = page->priority;
    *(page->prev == KV_REF_NONE ? &queue->heads[class]
                                : &kv_page_of(store, page->prev)->next) = ref;
    *(page->next == KV_REF_NONE ? &queue->tails[class]
                                : &kv_page_of(store, page->next)->prev) = ref;
    queue->classes[class / 64] |= UINT64_C(1) << class % 64;
    queue->count++;
    page->flags |= KV_PAGE_QUEUED;
}

void kv_queue_relink(struct kv_store *store, kv_ref ref)
{
    link_in(store, &kv_shelf_of(store, kv_page_of(store, ref))->queue, ref);
}

void kv_queue_unlink(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    struct kv_queue *queue = &kv_shelf_of(store, page)->queue;
    uint32_t class = page->priority;
    CHECK(page->flags & KV_PAGE_QUEUED);
    *(page->prev == KV_REF_NONE ? &queue->heads[class]
                                : &kv_page_of(store, page->prev)->next) =
        page->next;
    *(page->next == KV_REF_NONE ? &queue->tails[class]
                                : &kv_page_of(store, page->next)->prev) =
        page->prev;
    if (queue->heads[class] == KV_REF_NONE) {
        queue->classes[class / 64] &= ~(UINT64_C(1) << class % 64);
    }
    if (queue->finger == ref) {
        queue->finger = KV_REF_NONE;
    }
    queue->count--;
    page->flags &= (uint8_t)~KV_PAGE_QUEUED;
}

/* The last page of the class that was let go of before `stamp`. Searched from
 * both ends, and from where the last one was put: pages that change their class
 * together were often let go of together. */
static kv_ref find_before(const struct kv_store *store, struct kv_queue *queue,
                          uint32_t class, uint32_t stamp)
{
    kv_ref up = queue->heads[class];
    kv_ref down = queue->tails[class];
    kv_ref near = queue->finger;
    if (near != KV_REF_NONE && kv_page_of(store, near)->priority != class) {
        near = KV_REF_NONE;
    }
    bool is_near_before =
        near != KV_REF_NONE && kv_page_of(store, near)->released < stamp;
    for (;;) {
        const struct kv_page *low = kv_page_of(store, up);
        if (low->released > stamp) {
            return low->prev;
        }
        const struct kv_page *high = kv_page_of(store, down);
        if (high->released < stamp) {
            return down;
        }
        up = low->next;
        down = high->prev;
        if (near == KV_REF_NONE) {
            continue;
        }
        const struct kv_page *page = kv_page_of(store, near);
        if (is_near_before &&
            (page->next == KV_REF_NONE ||
             kv_page_of(store, page->next)->released > stamp)) {
            return near;
        }
        if (!is_near_before &&
            (page->prev == KV_REF_NONE ||
             kv_page_of(store, page->prev)->released < stamp)) {
            return page->prev;
        }
        near = is_near_before ? page->next : page->prev;
    }
}

void kv_queue_append(struct kv_store *store, struct kv_queue *queue, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    CHECK(!(page->flags & KV_PAGE_QUEUED));
    page->released = kv_store_stamp(store);
    page->prev = queue->tails[page->priority];
    page->next = KV_REF_NONE;
    link_in(store, queue, ref);
}

void kv_queue_insert(struct kv_store *store, kv_ref ref)
{
    struct kv_page *page = kv_page_of(store, ref);
    struct kv_queue *queue = &kv_shelf_of(store, page)->queue;
    uint32_t class = page->priority;
    CHECK(!(page->flags & KV_PAGE_QUEUED));
    kv_ref before = queue->tails[class];
    if (before != KV_REF_NONE &&
        kv_page_of(store, before)->released > page->released) {
        before = find_before(store, queue, class, page->released);
        queue->finger = ref;
    }
    page->prev = before;
    page->next = before == KV_REF_NONE ? queue->heads[class]
                                       : kv_page_of(store, before)->next;
    link_in(store, queue, ref);
}

/* Restores the heap below `at`: newest on top. */
static void sift(const struct kv_store *store, uint32_t *heap, uint32_t count,
                 uint32_t at)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count &&
            kv_page_of(store, heap[child])->released <
                kv_page_of(store, heap[child + 1])->released) {
            child++;
        }
        if (kv_page_of(store, heap[at])->released >=
            kv_page_of(store, heap[child])->released) {
            return;
        }
        uint32_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

/* After four thousand million releases: stamps from 1 on, in the same order. */
void kv_store_renumber(struct kv_store *store)
{
    CHECK(store->item_count == 0);
    uint32_t *heap = store->items;
    uint32_t count = 0;
    for (kv_ref ref = 0; ref < store->page_count; ref++) {
        if (kv_page_of(store, ref)->flags & KV_PAGE_USED) {
            heap[count++] = ref;
        }
    }
    for (uint32_t i = count / 2; i > 0; i--) {
        sift(store, heap, count, i - 1);
    }
    store->next_stamp = count + 1;
    for (uint32_t left = count; left > 0; left--) {
        kv_ref newest = heap[0];
        heap[0] = heap[left - 1];
        sift(store, heap, left - 1, 0);
        kv_page_of(store, newest)->released = left;
    }
}
