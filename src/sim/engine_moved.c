/* What a simulated transfer carries: pages, compared with KV that was computed
 * once more, away from the cache, and first tokens. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "kv/life.h"
#include "sim/engine_world.h"
#include "sim/page.h"

/* transfer.md 3.4, said once more: nothing of it is stale when the prompt ends. */
bool sim_life_streams(const struct sim_world *world, uint32_t life,
                      uint32_t prompt_count)
{
    struct kv_range stale =
        kv_life_stale(&world->core_options.lives[life],
                      world->core_options.tokens_per_block, prompt_count);
    return kv_range_count(stale) == 0;
}

/* The KV of the prompt, into the pages of the reference. */
void sim_moved_prepare(struct sim_world *world,
                       const struct sim_request *request)
{
    struct model_run run = {.tokens = request->tokens,
                            .token_count = request->prompt_count};
    for (uint32_t i = 0; i < world->core_options.life_count; i++) {
        run.pages[i] = world->reference_table;
    }
    struct model_batch batch = {.runs = &run, .run_count = 1};
    CHECK(world->reference->ops->forward(world->reference, &batch,
                                         world->logits) == OK);
}

static uint8_t *page_at(const struct kv_pool_view *pool, kv_page_id page)
{
    CHECK(page >= 0);
    CHECK((uint32_t)page < pool->page_count);
    return pool->base + pool->page_bytes * (size_t)page;
}

static uint8_t *own_page(struct sim_world *world, uint32_t life,
                         kv_page_id page)
{
    return page_at(&world->pools[0][world->core_options.group_of[life]], page);
}

/* The block is one that the receiver will read. */
static bool is_needed(const struct sim_world *world, uint32_t life,
                      uint32_t block, uint32_t prompt_count)
{
    struct kv_range stale =
        kv_life_stale(&world->core_options.lives[life],
                      world->core_options.tokens_per_block, prompt_count);
    return !kv_range_has(stale, block);
}

static void check_block(struct sim_world *world,
                        const struct sim_transfer *transfer, uint32_t life,
                        uint32_t block)
{
    const struct sim_request *request = transfer->request;
    const struct kv_pool_view *reference = &world->reference_pools[life];
    kv_page_id page = transfer->command.pages[life][block];
    uint32_t size = reference->layout.tokens_per_block;
    uint32_t rest = request->prompt_count - block * size;
    if (page != transfer->posted[life][block]) {
        sim_fail(world, "life %u block %u of request %llu has moved", life,
                 block, (unsigned long long)request->id);
    } else if (page == KV_PAGE_NONE) {
        if (is_needed(world, life, block, request->prompt_count)) {
            sim_fail(world, "life %u block %u of request %llu is not sent",
                     life, block, (unsigned long long)request->id);
        }
    } else if (!sim_page_is_same(&reference->layout,
                                 own_page(world, life, page),
                                 page_at(reference, (kv_page_id)block),
                                 rest < size ? rest : size)) {
        sim_fail(world, "life %u block %u of request %llu was sent wrong", life,
                 block, (unsigned long long)request->id);
    }
}

void sim_moved_check(struct sim_world *world,
                     const struct sim_transfer *transfer, uint32_t life,
                     uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        check_block(world, transfer, life, i);
    }
}

void sim_moved_write(struct sim_world *world,
                     const struct sim_transfer *transfer)
{
    const struct transfer_command *command = &transfer->command;
    sim_moved_prepare(world, transfer->request);
    for (uint32_t life = 0; life < command->group_count; life++) {
        for (uint32_t i = 0; i < command->block_count; i++) {
            if (command->pages[life][i] != KV_PAGE_NONE) {
                memcpy(own_page(world, life, command->pages[life][i]),
                       page_at(&world->reference_pools[life], (kv_page_id)i),
                       world->reference_pools[life].page_bytes);
            }
        }
    }
}

/* A peer may write whatever it likes until it is quiet. */
void sim_moved_scribble(struct sim_world *world,
                        const struct sim_transfer *transfer)
{
    const struct transfer_command *command = &transfer->command;
    for (uint32_t life = 0; !transfer->is_send && life < command->group_count;
         life++) {
        for (uint32_t i = 0; i < command->block_count; i++) {
            if (command->pages[life][i] != KV_PAGE_NONE) {
                sim_page_poison(world, life, command->pages[life][i], 0,
                                world->core_options.tokens_per_block);
            }
        }
    }
}

/* ---- first tokens ---- */

static void spoil(struct rng *rng, struct transfer_aux *aux)
{
    switch (rng_below(rng, 5)) {
    case 0:
        aux->choice_count++;
        break;
    case 1:
        aux->firsts[0].token = SIM_VOCABULARY;
        break;
    case 2:
        aux->prompt_tokens++;
        break;
    case 3:
        aux->prompt_digest[0] ^= 1;
        break;
    default:
        aux->firsts[aux->choice_count - 1].top_count = 1;
        aux->firsts[aux->choice_count - 1].tops[0].token = -1;
        break;
    }
}

struct transfer_aux *sim_aux_draw(struct sim_world *world,
                                  struct sim_request *request)
{
    struct rng *rng = &world->transfer_rng;
    bool is_bad =
        !world->is_quiet && sim_chance(rng, world->hostility.aux_fail);
    if (is_bad) {
        request->may_fail = true;
        request->has_bad_aux = true;
        world->summary.faults++;
        if (sim_chance(rng, 200)) {
            return NULL;
        }
    }
    struct transfer_aux *aux = mem_new(sizeof(*aux));
    aux->prompt_tokens = request->prompt_count;
    aux->choice_count = request->choice_count;
    prefix_prompt_digest(&request->scope, request->tokens,
                         request->prompt_count, aux->prompt_digest);
    for (uint32_t i = 0; i < request->choice_count; i++) {
        aux->firsts[i].token = request->tokens[request->prompt_count];
    }
    if (is_bad) {
        spoil(rng, aux);
    }
    return aux;
}

void sim_aux_check(struct sim_world *world, const struct sim_request *request,
                   const struct transfer_aux *aux)
{
    if (aux == NULL || aux->choice_count != request->choice_count ||
        aux->prompt_tokens != request->prompt_count) {
        sim_fail(world, "request %llu is sent without its first tokens",
                 (unsigned long long)request->id);
        return;
    }
    for (uint32_t i = 0; i < aux->choice_count; i++) {
        if (aux->firsts[i].token != request->tokens[request->prompt_count]) {
            sim_fail(world, "request %llu sends first token %d",
                     (unsigned long long)request->id, aux->firsts[i].token);
        }
    }
}
