#include "node/pools.h"

#include "base/log.h"
#include "io/populate.h"
#include "transfer/backend.h"

enum { PAGE_OF_SYSTEM = 4096 };

static size_t pool_size(const struct node_pool *pool, bool is_host)
{
    size_t pages = is_host ? pool->host_page_count : pool->page_count;
    size_t size = pool->page_bytes * pages;
    return (size + PAGE_OF_SYSTEM - 1) / PAGE_OF_SYSTEM * PAGE_OF_SYSTEM;
}

static size_t level_size(const struct node_limits *limits, bool is_host)
{
    size_t size = 0;
    for (uint32_t i = 0; i < limits->life_count; i++) {
        size += pool_size(&limits->pools[i], is_host);
    }
    return size;
}

/* The pools end at a page of the system, and so does what follows them. */
static size_t bounce_size(const struct node_limits *limits)
{
    return limits->bounce_bytes / PAGE_OF_SYSTEM * PAGE_OF_SYSTEM;
}

void node_pools_bounce(const struct node_limits *limits, uint64_t *offset_out,
                       uint64_t *size_out)
{
    *offset_out = level_size(limits, false);
    *size_out = bounce_size(limits);
}

/* In the background: a pool of gigabytes must not hold up the start. */
static void populate(struct node_pools *pools)
{
    enum err code = io_populate_start(pools->memory.base, pools->memory.size,
                                      &pools->populate);
    if (code != OK) {
        log_warn("worker", "the KV pool is not made resident: %s",
                 err_name(code));
    }
}

enum err node_pools_take(struct node_pools *pools,
                         const struct node_limits *limits,
                         struct transfer_backend *backend, struct why *why)
{
    const struct device_allocator heap = device_allocator_heap();
    const struct device_allocator allocator =
        backend == NULL ? heap : transfer_backend_allocator(backend);
    enum err code = device_memory_take(
        &allocator, level_size(limits, false) + bounce_size(limits), why,
        &pools->memory);
    if (code != OK) {
        return why_prefix(why, code, "KV pool");
    }
    populate(pools);
    size_t host_size = level_size(limits, true);
    if (host_size == 0) {
        return OK;
    }
    code = device_memory_take(&heap, host_size, why, &pools->host_memory);
    return code == OK
               ? OK
               : why_prefix(why, code, "kv_cache_config.host_cache_size");
}

void node_pools_quiet(struct node_pools *pools)
{
    io_populate_finish(pools->populate);
    pools->populate = NULL;
}

void node_pools_give(struct node_pools *pools)
{
    node_pools_quiet(pools);
    device_memory_give(&pools->host_memory);
    device_memory_give(&pools->memory);
}

static void views_of(const struct device_memory *memory, bool is_host,
                     const struct node_limits *limits,
                     const struct kv_shape *shape,
                     struct kv_pool_view views_out[KV_LIFE_COUNT_MAX])
{
    size_t offset = 0;
    for (uint32_t i = 0; i < limits->life_count; i++) {
        const struct node_pool *pool = &limits->pools[i];
        uint32_t count = is_host ? pool->host_page_count : pool->page_count;
        views_out[i] = (struct kv_pool_view){
            .base = count == 0 ? NULL : memory->base + offset,
            .page_bytes = pool->page_bytes,
            .page_count = count,
            .layout = shape->layouts[i],
        };
        offset += pool_size(pool, is_host);
    }
}

void node_pools_views(const struct node_pools *pools,
                      const struct node_limits *limits,
                      const struct kv_shape *shape,
                      struct kv_pool_view views_out[KV_LIFE_COUNT_MAX],
                      struct kv_pool_view host_views_out[KV_LIFE_COUNT_MAX])
{
    views_of(&pools->memory, false, limits, shape, views_out);
    views_of(&pools->host_memory, true, limits, shape, host_views_out);
}
