#include "sim/draw.h"

bool sim_chance(struct rng *rng, uint32_t per_1024)
{
    return rng_below(rng, 1024) < per_1024;
}

uint32_t sim_range(struct rng *rng, uint32_t low, uint32_t high)
{
    return low + (uint32_t)rng_below(rng, high - low + 1);
}

/* A window in tokens, with or without sinks. Two draws never stand in one
 * expression or initialiser: C leaves their order open. */
static struct kv_life draw_window(struct rng *rng, uint32_t block)
{
    struct kv_life life = {.window = sim_range(rng, 2, 6 * block)};
    if (sim_chance(rng, 384)) {
        life.sink_tokens = sim_range(rng, 1, 2 * block);
    }
    return life;
}

static bool has_life(const struct engine_core_options *core,
                     const struct kv_life *life)
{
    for (uint32_t i = 0; i < core->life_count; i++) {
        if (core->lives[i].window == life->window &&
            core->lives[i].sink_tokens == life->sink_tokens) {
            return true;
        }
    }
    return false;
}

void sim_draw_lives(struct engine_core_options *core, struct rng *rng,
                    uint32_t windows_only)
{
    uint32_t count = sim_chance(rng, 512) ? 1 : sim_range(rng, 2, 3);
    bool is_full = !sim_chance(rng, windows_only);
    while (core->life_count < count) {
        struct kv_life life = {0};
        if (core->life_count > 0 || !is_full) {
            life = draw_window(rng, core->tokens_per_block);
        }
        if (!has_life(core, &life)) {
            core->lives[core->life_count++] = life;
        }
    }
    bool is_shared = sim_chance(rng, 256);
    core->group_count = is_shared ? 1 : count;
    for (uint32_t i = 0; i < count; i++) {
        core->group_of[i] = is_shared ? 0 : (uint8_t)i;
    }
}
