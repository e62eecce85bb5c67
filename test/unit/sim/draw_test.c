#include <string.h>

#include "unit/base/test.h"

#include "sim/draw.h"

/* Over many draws: one to three life cycles, no two equal, sinks only with a
 * window, groups that are there; each kind of them comes, and full attention is
 * missing only where it may. */
static void lives_are_apart_and_of_every_kind(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(1);
    uint32_t counts[4] = {0}, shared = 0, sinks = 0, windows_only = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        struct engine_core_options core = {.tokens_per_block = 4};
        sim_draw_lives(&core, &rng, i % 2 == 0 ? 0 : 512);
        assert_in_range(core.life_count, 1, 3);
        counts[core.life_count]++;
        shared += core.life_count > 1 && core.group_count == 1;
        bool has_full = false;
        for (uint32_t a = 0; a < core.life_count; a++) {
            const struct kv_life *life = &core.lives[a];
            has_full |= life->window == 0;
            assert_true(life->window > 0 || life->sink_tokens == 0);
            assert_true(core.group_of[a] < core.group_count);
            sinks += life->sink_tokens > 0;
            for (uint32_t b = 0; b < a; b++) {
                assert_true(core.lives[b].window != life->window ||
                            core.lives[b].sink_tokens != life->sink_tokens);
            }
        }
        assert_true(has_full || i % 2 == 1);
        windows_only += !has_full;
    }
    assert_true(counts[1] > 0 && counts[2] > 0 && counts[3] > 0);
    assert_true(shared > 0 && sinks > 0 && windows_only > 0);
}

/* Both ends of a range come, and nothing beyond them; no chance never does. */
static void ranges_have_both_their_ends(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(2);
    uint32_t seen[3] = {0};
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t drawn = sim_range(&rng, 5, 7);
        assert_in_range(drawn, 5, 7);
        seen[drawn - 5]++;
        assert_false(sim_chance(&rng, 0));
        assert_true(sim_chance(&rng, 1024));
    }
    assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_are_apart_and_of_every_kind),
        cmocka_unit_test(ranges_have_both_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
