#include "text/merge.h"

#include "base/check.h"
#include "base/mem.h"

enum { NOBODY = UINT32_MAX };

struct text_candidate {
    uint64_t key; /* priority, then number of the left symbol */
    uint32_t right;
    uint32_t size; /* of both together: differs when one has grown since */
    text_token id;
};

void text_merger_init(struct text_merger *merger)
{
    *merger = (struct text_merger){0};
}

void text_merger_finish(struct text_merger *merger)
{
    mem_free(merger->symbols);
    mem_free(merger->heap);
    *merger = (struct text_merger){0};
}

enum err text_merger_reserve(struct text_merger *merger, uint32_t count)
{
    if (count <= merger->capacity) {
        return OK;
    }
    if (count > UINT32_MAX / 4) {
        return ERR_FULL;
    }
    text_merger_finish(merger);
    /* Each join takes one candidate and adds at most two, so twice as many as
     * symbols are enough. */
    uint32_t capacity = count < 64 ? 64 : count + count / 2;
    merger->symbols = mem_try_array(capacity, sizeof(*merger->symbols));
    merger->heap = mem_try_array((size_t)capacity * 2, sizeof(*merger->heap));
    if (merger->symbols == NULL || merger->heap == NULL) {
        text_merger_finish(merger);
        return ERR_NO_MEMORY;
    }
    merger->capacity = capacity;
    return OK;
}

static void heap_push(struct text_merger *merger,
                      struct text_candidate candidate)
{
    struct text_candidate *heap = merger->heap;
    CHECK(merger->heap_count < 2 * merger->capacity);
    uint32_t at = merger->heap_count++;
    while (at > 0 && heap[(at - 1) / 2].key > candidate.key) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = candidate;
}

static struct text_candidate heap_pop(struct text_merger *merger)
{
    struct text_candidate *heap = merger->heap;
    struct text_candidate top = heap[0];
    struct text_candidate last = heap[--merger->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= merger->heap_count) {
            break;
        }
        if (child + 1 < merger->heap_count &&
            heap[child + 1].key < heap[child].key) {
            child++;
        }
        if (heap[child].key >= last.key) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static void add_candidate(struct text_merger *merger, uint32_t left,
                          uint32_t right, text_pair_fn pair,
                          const void *context)
{
    if (left == NOBODY || right == NOBODY) {
        return;
    }
    const struct text_symbol *a = &merger->symbols[left];
    const struct text_symbol *b = &merger->symbols[right];
    struct text_merge merge;
    if (!pair(context, a, b, &merge)) {
        return;
    }
    heap_push(merger, (struct text_candidate){
                          .key = (uint64_t)merge.priority << 32 | left,
                          .right = right,
                          .size = a->size + b->size,
                          .id = merge.id});
}

/* Joins the pair unless one of the two has changed since it was proposed;
 * returns the left one, or NOBODY. */
static uint32_t join(struct text_symbol *symbols,
                     const struct text_candidate *candidate)
{
    uint32_t left = (uint32_t)candidate->key;
    struct text_symbol *a = &symbols[left];
    struct text_symbol *b = &symbols[candidate->right];
    if (a->size == 0 || a->next != candidate->right ||
        a->size + b->size != candidate->size) {
        return NOBODY;
    }
    a->size = candidate->size;
    a->id = candidate->id;
    a->next = b->next;
    if (b->next != NOBODY) {
        symbols[b->next].previous = left;
    }
    b->size = 0;
    return left;
}

void text_merger_run(struct text_merger *merger, uint32_t count,
                     text_pair_fn pair, const void *context)
{
    CHECK(count <= merger->capacity);
    struct text_symbol *symbols = merger->symbols;
    merger->heap_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        symbols[i].previous = i == 0 ? NOBODY : i - 1;
        symbols[i].next = i + 1 == count ? NOBODY : i + 1;
    }
    for (uint32_t i = 0; i + 1 < count; i++) {
        add_candidate(merger, i, i + 1, pair, context);
    }
    while (merger->heap_count > 0) {
        struct text_candidate top = heap_pop(merger);
        uint32_t at = join(symbols, &top);
        if (at != NOBODY) {
            add_candidate(merger, symbols[at].previous, at, pair, context);
            add_candidate(merger, at, symbols[at].next, pair, context);
        }
    }
}
