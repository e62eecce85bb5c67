/* Turns by hand: round-robin, who is passed over, and the drain flow. */
#include "unit/base/test.h"

#include "transfer/bounce_turns.h"

/* All fit: each is served once before anybody is twice. [transfer T36] */
static void turns_go_round(void **state)
{
    (void)state;
    struct bounce_turns turns;
    bounce_turns_init(&turns, 3);
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t flow = bounce_turns_at(&turns, 0);
        assert_int_equal(flow, i % 3);
        bounce_turns_serve(&turns, flow, 3);
    }
    assert_int_equal(bounce_turns_at(&turns, 3), BOUNCE_NOBODY);
    bounce_turns_finish(&turns);
}

/* A head that does not fit is passed over max(8, 2 * flows) times, then nobody
 * else is looked at until it is served. [transfer T36] */
static void who_was_passed_over_too_often_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t flows = 2; flows <= 8; flows++) {
        uint32_t limit = 2 * flows > 8 ? 2 * flows : 8;
        struct bounce_turns turns;
        bounce_turns_init(&turns, flows);
        bounce_turns_pass(&turns, 0);
        assert_true(bounce_turns_has_waiting(&turns));
        for (uint32_t i = 0; i < limit; i++) {
            assert_int_not_equal(bounce_turns_at(&turns, 1), BOUNCE_NOBODY);
            bounce_turns_serve(&turns, 1, flows);
        }
        assert_int_equal(bounce_turns_at(&turns, 0), 0);
        assert_int_equal(bounce_turns_at(&turns, 1), BOUNCE_NOBODY);
        bounce_turns_serve(&turns, 0, flows);
        assert_int_equal(bounce_turns_at(&turns, 0), 1);
        assert_false(bounce_turns_has_waiting(&turns));
        bounce_turns_finish(&turns);
    }
}

/* The drain flow goes away: the others go on. */
static void nobody_waits_for_one_that_is_gone(void **state)
{
    (void)state;
    struct bounce_turns turns;
    bounce_turns_init(&turns, 2);
    bounce_turns_pass(&turns, 1);
    for (uint32_t i = 0; i < 8; i++) {
        bounce_turns_serve(&turns, 0, 2);
    }
    assert_int_equal(bounce_turns_at(&turns, 0), 1);
    bounce_turns_forget(&turns, 1);
    assert_int_not_equal(bounce_turns_at(&turns, 1), BOUNCE_NOBODY);
    bounce_turns_finish(&turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_go_round),
        cmocka_unit_test(who_was_passed_over_too_often_is_waited_for),
        cmocka_unit_test(nobody_waits_for_one_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
