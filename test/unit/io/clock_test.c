#include "unit/io/test.h"

/* Never back; and the wall clock is past 2020, in milliseconds. */
static void clock_goes_forward(void **state)
{
    (void)state;
    uint64_t last = io_clock_now_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = io_clock_now_ns();
        assert_true(now >= last);
        last = now;
    }
    assert_true(io_clock_wall_ms() > 1577836800000u);
    assert_true(io_clock_wall_ms() < 10000000000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clock_goes_forward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
