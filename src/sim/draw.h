#pragma once
/* sim/draw: what both worlds draw from a seed in the same way. Pure; a change of
 * what is drawn, or in which order, makes every seed another world. */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "engine/core.h"

bool sim_chance(struct rng *rng, uint32_t per_1024);
/* low and high are among what may come. */
uint32_t sim_range(struct rng *rng, uint32_t low, uint32_t high);
/* One to three life cycles, no two equal (engine.md 1.2), each with a pool group
 * of its own or all with one. Full attention is there but for `windows_only` of
 * 1024 seeds. Sets lives, life_count (0 before), group_of and group_count;
 * tokens_per_block is drawn before. */
void sim_draw_lives(struct engine_core_options *core, struct rng *rng,
                    uint32_t windows_only);
