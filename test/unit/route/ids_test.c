/* The published vectors, and order under a clock that stands or goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "route/ids.h"

/* serve.md 2.13 gives the three values. */
static void ids_match_the_published_vectors(void **state)
{
    (void)state;
    assert_true(route_ids_pack(1000, 0, 0, 0) == 1116288843776);
    assert_true(route_ids_pack(1000, 5, 3, 7) == 1116289174535);
    assert_true(route_ids_pack(0, 0, 0, 0) == 1099511627776);
    assert_true(route_ids_pack((1ull << 39) - 1, 255, 63, 1023) >= 1ll << 40);
}

/* 5,000 ids in one millisecond, then time goes back: still rising. */
static void ids_rise_whatever_the_clock_does(void **state)
{
    struct route_ids ids = {.node = 3};
    int64_t last = 0;
    (void)state;
    for (int i = 0; i < 5000; i++) {
        uint64_t ms = ROUTE_IDS_EPOCH_MS + (i < 2500 ? 5000 : 4000);
        int64_t id = route_ids_next(&ids, ms);
        assert_true(id > last);
        last = id;
    }
    assert_true(route_ids_next(&ids, 0) > last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_match_the_published_vectors),
        cmocka_unit_test(ids_rise_whatever_the_clock_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
