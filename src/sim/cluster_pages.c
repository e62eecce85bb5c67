#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "kv/life.h"
#include "sim/cluster_world.h"
#include "sim/page.h"

/* One sequence, in pages 0, 1, ... of each life cycle. */
static void create_pool(struct cluster *world, uint32_t life, uint32_t blocks)
{
    struct kv_pool_view *pool = &world->reference_pools[life];
    pool->layout = world->reference->info.shape.layouts[life];
    pool->page_bytes = kv_layout_page_bytes(&pool->layout);
    pool->page_count = blocks;
    pool->base = mem_try_aligned(64, pool->page_bytes * blocks);
    CHECK(pool->base != NULL);
}

void cluster_pages_create(struct cluster *world)
{
    uint32_t size = world->core_options.tokens_per_block;
    uint32_t blocks = kv_blocks_of(world->core_options.max_seq, size);
    CHECK(blocks <= CLUSTER_BLOCK_MAX);
    world->reference = model_hash_create(&world->hash);
    world->reference_table = mem_new_array(blocks, sizeof(kv_page_id));
    for (uint32_t i = 0; i < blocks; i++) {
        world->reference_table[i] = (kv_page_id)i;
    }
    for (uint32_t i = 0; i < world->core_options.life_count; i++) {
        create_pool(world, i, blocks);
    }
    world->reference->ops->set_pool(world->reference, world->reference_pools);
    world->reference_logits = mem_new_array(CLUSTER_VOCABULARY, sizeof(float));
}

void cluster_pages_destroy(struct cluster *world)
{
    world->reference->ops->destroy(world->reference);
    for (uint32_t i = 0; i < world->core_options.life_count; i++) {
        mem_free(world->reference_pools[i].base);
    }
    mem_free(world->reference_table);
    mem_free(world->reference_logits);
}

const struct kv_pool_view *cluster_pool(const struct cluster_worker *worker,
                                        uint32_t life)
{
    return &worker->pools[worker->world->core_options.group_of[life]];
}

uint64_t cluster_page_at(const struct cluster_worker *worker, uint32_t group,
                         kv_page_id page)
{
    const struct kv_pool_view *pool = &worker->pools[group];
    CHECK(page >= 0);
    CHECK((uint32_t)page < pool->page_count);
    return (uint64_t)(pool->base - worker->memory) +
           pool->page_bytes * (uint64_t)page;
}

void cluster_page_poison(const struct cluster_worker *worker, uint32_t life,
                         kv_page_id page, uint32_t first, uint32_t end)
{
    sim_page_spoil(&cluster_pool(worker, life)->layout,
                   worker->memory + cluster_page_of(worker, life, page), first,
                   end);
}

bool cluster_is_needed(const struct cluster *world, uint32_t life,
                       uint32_t block, uint32_t prompt_count)
{
    const struct engine_core_options *core = &world->core_options;
    struct kv_range stale =
        kv_life_stale(&core->lives[life], core->tokens_per_block, prompt_count);
    return !kv_range_has(stale, block);
}

uint32_t cluster_streaming(const struct cluster *world, uint32_t prompt_count)
{
    const struct engine_core_options *core = &world->core_options;
    uint32_t streaming = 0;
    for (uint32_t life = 0; life < core->life_count; life++) {
        struct kv_range stale = kv_life_stale(
            &core->lives[life], core->tokens_per_block, prompt_count);
        streaming |= kv_range_count(stale) == 0 ? 1u << life : 0;
    }
    return streaming;
}

/* The KV of the prompt, computed anew and away from any cache. */
static void compute(struct cluster *world,
                    const struct cluster_request *request)
{
    struct model_run run = {.tokens = request->tokens,
                            .token_count = request->prompt_count};
    for (uint32_t i = 0; i < world->core_options.life_count; i++) {
        run.pages[i] = world->reference_table;
    }
    struct model_batch batch = {.runs = &run, .run_count = 1};
    CHECK(world->reference->ops->forward(world->reference, &batch,
                                         world->reference_logits) == OK);
    world->referenced = request;
}

int32_t cluster_pages_compare(struct cluster_worker *worker,
                              const struct cluster_request *request,
                              uint32_t life, const kv_page_id *pages,
                              uint32_t first, uint32_t end)
{
    struct cluster *world = worker->world;
    if (world->referenced != request) {
        compute(world, request);
    }
    const struct kv_pool_view *reference = &world->reference_pools[life];
    uint32_t size = reference->layout.tokens_per_block;
    for (uint32_t i = first; i < end; i++) {
        uint32_t rest = request->prompt_count - i * size;
        if (pages[i] != KV_PAGE_NONE &&
            !sim_page_is_same(&reference->layout,
                              worker->memory +
                                  cluster_page_of(worker, life, pages[i]),
                              reference->base + reference->page_bytes * i,
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
