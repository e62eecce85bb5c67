#include "base/check.h"
#include "base/mem.h"
#include "kv/life.h"
#include "sim/cluster_world.h"
#include "sim/page.h"

void cluster_pages_create(struct cluster *world)
{
    uint32_t size = world->core_options.tokens_per_block;
    uint32_t blocks = kv_blocks_of(world->core_options.max_seq, size);
    world->reference = model_hash_create(&world->hash);
    struct kv_pool_view *pool = &world->reference_pool;
    pool->layout = world->reference->info.shape.layouts[0];
    pool->page_bytes = kv_layout_page_bytes(&pool->layout);
    pool->page_count = blocks;
    pool->base = mem_try_aligned(64, pool->page_bytes * blocks);
    CHECK(pool->base != NULL);
    world->reference_table = mem_new_array(blocks, sizeof(kv_page_id));
    for (uint32_t i = 0; i < blocks; i++) {
        world->reference_table[i] = (kv_page_id)i;
    }
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX] = {*pool};
    world->reference->ops->set_pool(world->reference, pools);
    world->reference_logits = mem_new_array(CLUSTER_VOCABULARY, sizeof(float));
}

void cluster_pages_destroy(struct cluster *world)
{
    world->reference->ops->destroy(world->reference);
    mem_free(world->reference_pool.base);
    mem_free(world->reference_table);
    mem_free(world->reference_logits);
}

static uint8_t *page_at(const struct kv_pool_view *pool, kv_page_id page)
{
    CHECK(page >= 0);
    CHECK((uint32_t)page < pool->page_count);
    return pool->base + pool->page_bytes * (size_t)page;
}

void cluster_page_poison(const struct kv_pool_view *pool, kv_page_id page,
                         uint32_t first, uint32_t end)
{
    sim_page_spoil(&pool->layout, page_at(pool, page), first, end);
}

int32_t cluster_pages_compare(struct cluster *world,
                              const struct kv_pool_view *pool,
                              const struct cluster_request *request,
                              const kv_page_id *pages, uint32_t block_count)
{
    struct model_run run = {.tokens = request->tokens,
                            .token_count = request->prompt_count,
                            .pages = {world->reference_table}};
    struct model_batch batch = {.runs = &run, .run_count = 1};
    CHECK(world->reference->ops->forward(world->reference, &batch,
                                         world->reference_logits) == OK);
    uint32_t size = pool->layout.tokens_per_block;
    for (uint32_t i = 0; i < block_count; i++) {
        uint32_t rest = request->prompt_count - i * size;
        if (pages[i] != KV_PAGE_NONE &&
            !sim_page_is_same(&pool->layout, page_at(pool, pages[i]),
                              page_at(&world->reference_pool, (kv_page_id)i),
                              rest < size ? rest : size)) {
            return (int32_t)i;
        }
    }
    return -1;
}

/* ---- pools ---- */

struct cluster_memory *cluster_memory_find(const struct cluster *world,
                                           uint64_t incarnation)
{
    struct cluster_memory *at = world->memories;
    while (at != NULL && at->incarnation != incarnation) {
        at = at->next;
    }
    return at;
}

void cluster_memory_unmap(struct cluster *world, struct cluster_memory *memory)
{
    CHECK(memory->maps > 0);
    if (--memory->maps > 0) {
        return;
    }
    struct cluster_memory **at = &world->memories;
    while (*at != memory) {
        at = &(*at)->next;
    }
    *at = memory->next;
    mem_free(memory->bytes);
    mem_free(memory);
}
