#include "kv/page_pool.h"

#include "base/check.h"
#include "base/mem.h"

struct page {
    uint32_t refs;
    uint32_t leases;
};

struct kv_page_pool {
    uint32_t page_count;
    uint32_t free_count;
    uint32_t leased_count;
    struct page *pages; /* (page_count) */
    kv_page_id *free_pages; /* (page_count), the first free_count count */
};

struct kv_page_pool *kv_page_pool_create(uint32_t page_count)
{
    struct kv_page_pool *pool = mem_new(sizeof(*pool));
    pool->page_count = page_count;
    pool->pages = mem_new_array(page_count, sizeof(pool->pages[0]));
    pool->free_pages = mem_new_array(page_count, sizeof(pool->free_pages[0]));
    while (pool->free_count < page_count) {
        kv_page_id page = (kv_page_id)(page_count - 1 - pool->free_count);
        pool->free_pages[pool->free_count++] = page;
    }
    return pool;
}

void kv_page_pool_destroy(struct kv_page_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    mem_free(pool->free_pages);
    mem_free(pool->pages);
    mem_free(pool);
}

static struct page *at(const struct kv_page_pool *pool, kv_page_id page)
{
    CHECK(page >= 0);
    CHECK((uint32_t)page < pool->page_count);
    return &pool->pages[page];
}

static void give_if_idle(struct kv_page_pool *pool, kv_page_id page)
{
    if (pool->pages[page].refs > 0 || pool->pages[page].leases > 0) {
        return;
    }
    CHECK(pool->free_count < pool->page_count);
    pool->free_pages[pool->free_count++] = page;
}

enum err kv_page_pool_take(struct kv_page_pool *pool, kv_page_id *page_out)
{
    if (pool->free_count == 0) {
        return ERR_FULL;
    }
    kv_page_id page = pool->free_pages[--pool->free_count];
    CHECK(pool->pages[page].refs == 0);
    CHECK(pool->pages[page].leases == 0);
    pool->pages[page].refs = 1;
    *page_out = page;
    return OK;
}

void kv_page_pool_ref(struct kv_page_pool *pool, kv_page_id page)
{
    CHECK(at(pool, page)->refs > 0);
    pool->pages[page].refs++;
}

void kv_page_pool_unref(struct kv_page_pool *pool, kv_page_id page)
{
    CHECK(at(pool, page)->refs > 0);
    pool->pages[page].refs--;
    give_if_idle(pool, page);
}

void kv_page_pool_lease(struct kv_page_pool *pool, kv_page_id page)
{
    CHECK(at(pool, page)->refs > 0);
    if (pool->pages[page].leases++ == 0) {
        pool->leased_count++;
    }
}

void kv_page_pool_unlease(struct kv_page_pool *pool, kv_page_id page)
{
    CHECK(at(pool, page)->leases > 0);
    if (--pool->pages[page].leases == 0) {
        pool->leased_count--;
    }
    give_if_idle(pool, page);
}

uint32_t kv_page_pool_page_count(const struct kv_page_pool *pool)
{
    return pool->page_count;
}

uint32_t kv_page_pool_free_count(const struct kv_page_pool *pool)
{
    return pool->free_count;
}

uint32_t kv_page_pool_leased_count(const struct kv_page_pool *pool)
{
    return pool->leased_count;
}

uint32_t kv_page_pool_refs(const struct kv_page_pool *pool, kv_page_id page)
{
    return at(pool, page)->refs;
}

uint32_t kv_page_pool_leases(const struct kv_page_pool *pool, kv_page_id page)
{
    return at(pool, page)->leases;
}

bool kv_page_pool_is_valid(const struct kv_page_pool *pool)
{
    uint32_t idle = 0;
    uint32_t leased = 0;
    for (uint32_t i = 0; i < pool->page_count; i++) {
        const struct page *page = &pool->pages[i];
        idle += page->refs == 0 && page->leases == 0;
        leased += page->leases > 0;
    }
    for (uint32_t i = 0; i < pool->free_count; i++) {
        const struct page *page = at(pool, pool->free_pages[i]);
        if (page->refs > 0 || page->leases > 0) {
            return false;
        }
    }
    return idle == pool->free_count && leased == pool->leased_count;
}
