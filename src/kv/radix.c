#include "kv/radix.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

struct node {
    struct prefix_key key;
    kv_page_id parent;
    kv_page_id bucket_next;
    kv_page_id older; /* neighbours in the idle queue */
    kv_page_id younger;
    uint32_t child_count;
    uint32_t users;
    bool is_present;
};

struct kv_radix {
    uint32_t page_count;
    uint32_t bucket_mask;
    uint32_t node_count;
    uint32_t idle_count;
    kv_page_id oldest;
    kv_page_id youngest;
    struct node *nodes; /* (page_count), named by page */
    kv_page_id *buckets; /* (bucket_mask + 1), heads of key chains */
};

struct kv_radix *kv_radix_create(uint32_t page_count)
{
    struct kv_radix *radix = mem_new(sizeof(*radix));
    uint32_t bucket_count = 1;
    while (bucket_count < page_count) {
        bucket_count *= 2;
    }
    radix->page_count = page_count;
    radix->bucket_mask = bucket_count - 1;
    radix->oldest = KV_PAGE_NONE;
    radix->youngest = KV_PAGE_NONE;
    radix->nodes = mem_new_array(page_count, sizeof(radix->nodes[0]));
    radix->buckets = mem_new_array(bucket_count, sizeof(radix->buckets[0]));
    for (uint32_t i = 0; i < bucket_count; i++) {
        radix->buckets[i] = KV_PAGE_NONE;
    }
    return radix;
}

void kv_radix_destroy(struct kv_radix *radix)
{
    if (radix == NULL) {
        return;
    }
    mem_free(radix->buckets);
    mem_free(radix->nodes);
    mem_free(radix);
}

static struct node *get(const struct kv_radix *radix, kv_page_id page)
{
    CHECK(kv_radix_has(radix, page));
    return &radix->nodes[page];
}

/* Keys are pseudo-random already: any of their bits spread well. */
static kv_page_id *bucket_of(const struct kv_radix *radix,
                             const struct prefix_key *key)
{
    uint32_t hash;
    memcpy(&hash, key->bytes, sizeof(hash));
    return &radix->buckets[hash & radix->bucket_mask];
}

kv_page_id kv_radix_find(const struct kv_radix *radix,
                         const struct prefix_key *key)
{
    kv_page_id page = *bucket_of(radix, key);
    while (page != KV_PAGE_NONE &&
           !prefix_key_equals(&radix->nodes[page].key, key)) {
        page = radix->nodes[page].bucket_next;
    }
    return page;
}

uint32_t kv_radix_match(const struct kv_radix *radix,
                        const struct prefix_key *keys, uint32_t key_count,
                        kv_page_id *pages_out)
{
    uint32_t here = 0; /* blocks known to be here */
    uint32_t end = key_count;
    kv_page_id deepest = KV_PAGE_NONE;
    while (here < end) {
        uint32_t middle = here + (end - here + 1) / 2;
        kv_page_id page = kv_radix_find(radix, &keys[middle - 1]);
        if (page == KV_PAGE_NONE) {
            end = middle - 1;
        } else {
            here = middle;
            deepest = page;
        }
    }
    for (uint32_t i = here; i > 0; i--) {
        pages_out[i - 1] = deepest;
        deepest = get(radix, deepest)->parent;
    }
    CHECK(deepest == KV_PAGE_NONE);
    return here;
}

static void queue_push(struct kv_radix *radix, kv_page_id page)
{
    struct node *node = &radix->nodes[page];
    node->older = radix->youngest;
    node->younger = KV_PAGE_NONE;
    if (radix->youngest == KV_PAGE_NONE) {
        radix->oldest = page;
    } else {
        radix->nodes[radix->youngest].younger = page;
    }
    radix->youngest = page;
    radix->idle_count++;
}

static void queue_remove(struct kv_radix *radix, kv_page_id page)
{
    const struct node *node = &radix->nodes[page];
    if (node->older == KV_PAGE_NONE) {
        radix->oldest = node->younger;
    } else {
        radix->nodes[node->older].younger = node->younger;
    }
    if (node->younger == KV_PAGE_NONE) {
        radix->youngest = node->older;
    } else {
        radix->nodes[node->younger].older = node->older;
    }
    radix->idle_count--;
}

void kv_radix_insert(struct kv_radix *radix, const struct prefix_key *key,
                     kv_page_id parent, kv_page_id page)
{
    CHECK(page >= 0);
    CHECK((uint32_t)page < radix->page_count);
    CHECK(!radix->nodes[page].is_present);
    CHECK(kv_radix_find(radix, key) == KV_PAGE_NONE);
    if (parent != KV_PAGE_NONE) {
        CHECK(get(radix, parent)->users > 0);
        radix->nodes[parent].child_count++;
    }
    kv_page_id *bucket = bucket_of(radix, key);
    radix->nodes[page] = (struct node){.key = *key,
                                       .parent = parent,
                                       .bucket_next = *bucket,
                                       .older = KV_PAGE_NONE,
                                       .younger = KV_PAGE_NONE,
                                       .users = 1,
                                       .is_present = true};
    *bucket = page;
    radix->node_count++;
}

void kv_radix_hold(struct kv_radix *radix, kv_page_id page)
{
    struct node *node = get(radix, page);
    if (node->users++ == 0) {
        queue_remove(radix, page);
    }
}

void kv_radix_drop(struct kv_radix *radix, kv_page_id page)
{
    struct node *node = get(radix, page);
    CHECK(node->users > 0);
    if (--node->users == 0) {
        queue_push(radix, page);
    }
}

static void bucket_remove(struct kv_radix *radix, kv_page_id page)
{
    kv_page_id *link = bucket_of(radix, &radix->nodes[page].key);
    while (*link != page) {
        CHECK(*link != KV_PAGE_NONE);
        link = &radix->nodes[*link].bucket_next;
    }
    *link = radix->nodes[page].bucket_next;
}

kv_page_id kv_radix_evict(struct kv_radix *radix)
{
    kv_page_id page = radix->oldest;
    if (page == KV_PAGE_NONE) {
        return KV_PAGE_NONE;
    }
    struct node *node = &radix->nodes[page];
    CHECK(node->users == 0);
    CHECK(node->child_count == 0);
    queue_remove(radix, page);
    bucket_remove(radix, page);
    if (node->parent != KV_PAGE_NONE) {
        radix->nodes[node->parent].child_count--;
    }
    *node = (struct node){.is_present = false};
    radix->node_count--;
    return page;
}

bool kv_radix_has(const struct kv_radix *radix, kv_page_id page)
{
    return page >= 0 && (uint32_t)page < radix->page_count &&
           radix->nodes[page].is_present;
}

uint32_t kv_radix_users(const struct kv_radix *radix, kv_page_id page)
{
    return get(radix, page)->users;
}

uint32_t kv_radix_node_count(const struct kv_radix *radix)
{
    return radix->node_count;
}

uint32_t kv_radix_idle_count(const struct kv_radix *radix)
{
    return radix->idle_count;
}

/* Each child present, counted by its parent, and used no more than it. */
static bool links_are_valid(const struct kv_radix *radix)
{
    uint32_t nodes = 0;
    uint64_t children = 0;
    uint64_t parented = 0;
    for (uint32_t i = 0; i < radix->page_count; i++) {
        const struct node *node = &radix->nodes[i];
        if (!node->is_present) {
            continue;
        }
        nodes++;
        children += node->child_count;
        if (kv_radix_find(radix, &node->key) != (kv_page_id)i) {
            return false;
        }
        if (node->parent == KV_PAGE_NONE) {
            continue;
        }
        parented++;
        if (!kv_radix_has(radix, node->parent) ||
            radix->nodes[node->parent].users < node->users) {
            return false;
        }
    }
    return nodes == radix->node_count && children == parented;
}

/* Walking from the oldest on, every child passed before its parent. */
static bool queue_is_valid(const struct kv_radix *radix)
{
    uint32_t *passed = mem_new_array(radix->page_count, sizeof(passed[0]));
    uint32_t count = 0;
    bool is_valid = true;
    kv_page_id older = KV_PAGE_NONE;
    kv_page_id page = radix->oldest;
    while (page != KV_PAGE_NONE && is_valid && count <= radix->node_count) {
        const struct node *node = &radix->nodes[page];
        is_valid = node->is_present && node->users == 0 &&
                   node->older == older && passed[page] == node->child_count;
        if (node->parent != KV_PAGE_NONE) {
            passed[node->parent]++;
        }
        count++;
        older = page;
        page = node->younger;
    }
    mem_free(passed);
    return is_valid && count == radix->idle_count && older == radix->youngest;
}

bool kv_radix_is_valid(const struct kv_radix *radix)
{
    uint32_t idle = 0;
    for (uint32_t i = 0; i < radix->page_count; i++) {
        const struct node *node = &radix->nodes[i];
        idle += node->is_present && node->users == 0;
    }
    return idle == radix->idle_count && links_are_valid(radix) &&
           queue_is_valid(radix);
}
