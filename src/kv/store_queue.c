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

/* -- after four thousand million releases --------------------------------- */

/* All pages by `next`, in any order. */
static kv_ref chain_pages(struct kv_store *store)
{
    kv_ref first = KV_REF_NONE;
    for (kv_ref ref = 0; ref < store->page_count; ref++) {
        struct kv_page *page = kv_page_of(store, ref);
        if (page->flags & KV_PAGE_USED) {
            page->next = first;
            first = ref;
        }
    }
    return first;
}

/* Two chains by release into one. */
static kv_ref merge(struct kv_store *store, kv_ref a, kv_ref b)
{
    kv_ref first = KV_REF_NONE;
    kv_ref *link = &first;
    while (a != KV_REF_NONE && b != KV_REF_NONE) {
        bool is_a =
            kv_page_of(store, a)->released <= kv_page_of(store, b)->released;
        kv_ref *from = is_a ? &a : &b;
        *link = *from;
        link = &kv_page_of(store, *from)->next;
        *from = *link;
    }
    *link = a != KV_REF_NONE ? a : b;
    return first;
}

/* Merges chains of 2^i pages as a binary counter carries. */
static kv_ref sort(struct kv_store *store, kv_ref chain)
{
    kv_ref runs[32];
    for (uint32_t i = 0; i < 32; i++) {
        runs[i] = KV_REF_NONE;
    }
    while (chain != KV_REF_NONE) {
        kv_ref run = chain;
        chain = kv_page_of(store, run)->next;
        kv_page_of(store, run)->next = KV_REF_NONE;
        uint32_t i = 0;
        for (; runs[i] != KV_REF_NONE; i++) {
            run = merge(store, runs[i], run);
            runs[i] = KV_REF_NONE;
        }
        runs[i] = run;
    }
    kv_ref all = KV_REF_NONE;
    for (uint32_t i = 0; i < 32; i++) {
        all = merge(store, runs[i], all);
    }
    return all;
}

static void empty_queues(struct kv_store *store)
{
    for (uint32_t level = 0; level <= store->last; level++) {
        for (uint32_t group = 0; group < store->options.group_count; group++) {
            kv_queue_init(&store->shelves[level][group].queue);
        }
    }
}

/* Stamps from 1 on, in the same order; the links lend their room to the sort, and
 * the queues are filled anew. */
void kv_store_renumber(struct kv_store *store)
{
    CHECK(store->item_count == 0);
    kv_ref chain = sort(store, chain_pages(store));
    empty_queues(store);
    store->next_stamp = 1;
    while (chain != KV_REF_NONE) {
        kv_ref ref = chain;
        struct kv_page *page = kv_page_of(store, ref);
        chain = page->next;
        page->released = store->next_stamp++;
        if (page->flags & KV_PAGE_QUEUED) {
            struct kv_queue *queue = &kv_shelf_of(store, page)->queue;
            page->prev = queue->tails[page->priority];
            page->next = KV_REF_NONE;
            link_in(store, queue, ref);
        }
    }
}
