#include "unit/base/test.h"

#include "engine/budget.h"

/* A machine of 2 ms a row and a limit of 100 ms: the budget grows by doubling,
 * settles where three quarters of the limit are, and falls at once when a row
 * gets ten times slower. */
static void pace_follows_the_measured_speed(void **state)
{
    (void)state;
    struct engine_pace pace;
    engine_pace_init(&pace, 0, 512, 100000000);
    uint32_t before = pace.tokens;
    engine_pace_learn(&pace, pace.tokens, pace.tokens, pace.tokens * 100000ull);
    assert_int_equal(pace.tokens, 2 * before);
    for (int i = 0; i < 20; i++) {
        engine_pace_learn(&pace, pace.tokens, pace.tokens,
                          pace.tokens * 2000000ull);
    }
    assert_in_range(pace.tokens, 36, 38);
    engine_pace_learn(&pace, pace.tokens, pace.tokens,
                      pace.tokens * 20000000ull);
    assert_int_equal(pace.tokens, 16);
}

/* A pure decode, however slow, says nothing about chunks; a fixed budget learns
 * nothing at all, but never passes what a batch can hold. */
static void pace_learns_from_prompts_only(void **state)
{
    (void)state;
    struct engine_pace pace;
    engine_pace_init(&pace, 0, 512, 100000000);
    uint32_t before = pace.tokens;
    engine_pace_learn(&pace, 0, 1, 99000000);
    engine_pace_learn(&pace, 1, 8, 99000000);
    assert_int_equal(pace.tokens, before);
    engine_pace_init(&pace, 1000, 512, 100000000);
    assert_int_equal(pace.tokens, 512);
    engine_pace_learn(&pace, 512, 512, 900000000);
    assert_int_equal(pace.tokens, 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pace_follows_the_measured_speed),
        cmocka_unit_test(pace_learns_from_prompts_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
