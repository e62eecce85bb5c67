/* transfer/pace: steps that last about as long on any link. */
#include "unit/base/test.h"

#include "transfer/pace.h"

enum { MS = 1000000 };

/* Full steps over a link of so many bytes a second: how long the last one took. */
static uint64_t settle(struct pace *pace, uint64_t bytes_per_second)
{
    uint64_t took_ns = 0;
    for (int i = 0; i < 20; i++) {
        took_ns = pace->step_bytes * 1000 / (bytes_per_second / 1000000);
        pace_note(pace, pace->step_bytes, took_ns);
    }
    return took_ns;
}

/* From 4 MB/s to 1.5 GB/s a step lasts 32 ms after a few; a slower link has the
 * least, a faster one the most. */
static void a_step_lasts_as_long_on_any_link(void **state)
{
    (void)state;
    static const uint64_t SPEEDS[] = {4000000, 100000000, 1000000000,
                                      1500000000};
    for (size_t i = 0; i < sizeof(SPEEDS) / sizeof(SPEEDS[0]); i++) {
        struct pace pace = pace_begin();
        uint64_t took_ns = settle(&pace, SPEEDS[i]);
        assert_in_range(took_ns, 31 * MS, 33 * MS);
    }
    struct pace pace = pace_begin();
    settle(&pace, 1000000);
    assert_int_equal(pace.step_bytes, PACE_LEAST);
    settle(&pace, 100000000000u);
    assert_int_equal(pace.step_bytes, PACE_MOST);
}

/* One slow step is enough to be careful; growth doubles at most. */
static void it_slows_at_once_and_grows_by_doubling(void **state)
{
    (void)state;
    struct pace pace = pace_begin();
    pace_note(&pace, PACE_FIRST, 320 * MS);
    assert_int_equal(pace.step_bytes, PACE_FIRST / 10);
    pace_note(&pace, PACE_FIRST / 10, 1);
    assert_int_equal(pace.step_bytes, 2 * (PACE_FIRST / 10));
    pace_note(&pace, 2 * (PACE_FIRST / 10), 0);
    assert_int_equal(pace.step_bytes, 4 * (PACE_FIRST / 10));
}

/* The end of a prompt is small and quick: no reason to send more at a time. One
 * that is small and slow is a reason to send less. */
static void small_steps_only_slow_it(void **state)
{
    (void)state;
    struct pace pace = pace_begin();
    pace_note(&pace, 1000, 1);
    pace_note(&pace, 0, 0);
    assert_int_equal(pace.step_bytes, PACE_FIRST);
    pace_note(&pace, 100000, 160 * MS);
    assert_int_equal(pace.step_bytes, PACE_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_lasts_as_long_on_any_link),
        cmocka_unit_test(it_slows_at_once_and_grows_by_doubling),
        cmocka_unit_test(small_steps_only_slow_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
