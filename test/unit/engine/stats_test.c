#include "unit/base/test.h"

#include "engine/port.h"

/* What was published last is what is read, whole. */
static void last_published_is_read(void **state)
{
    (void)state;
    struct engine_stats_cell *cell = engine_stats_cell_create();
    struct engine_stats stats = {.turns = 99};
    engine_stats_read(cell, &stats);
    assert_int_equal(stats.turns, 0);
    for (uint64_t i = 1; i <= 3; i++) {
        engine_stats_publish(
            cell, i,
            &(struct engine_stats){.turns = i, .copied_kv_bytes = 10 * i});
    }
    engine_stats_read(cell, &stats);
    assert_int_equal(stats.turns, 3);
    assert_int_equal(stats.copied_kv_bytes, 30);
    engine_stats_cell_destroy(cell);
    engine_stats_cell_destroy(NULL);
}

/* Pages count for as long as they were in use, also in pieces of a second and
 * for longer than nanoseconds times pages can be told in 64 bits. */
static void pages_count_by_time(void **state)
{
    (void)state;
    const uint64_t second = 1000000000;
    struct engine_stats_cell *cell = engine_stats_cell_create();
    struct engine_stats stats = {.pages_used = 10};
    uint64_t now = 7 * second;
    engine_stats_publish(cell, now, &stats);
    for (int i = 0; i < 12; i++) {
        now += second / 40; /* a quarter of a page second */
        engine_stats_publish(cell, now, &stats);
    }
    engine_stats_read(cell, &stats);
    assert_int_equal(stats.page_seconds, 3);
    stats.pages_used = 4000000;
    engine_stats_publish(cell, now, &stats);
    stats.pages_used = 0;
    now += 86400 * second;
    engine_stats_publish(cell, now, &stats);
    engine_stats_publish(cell, now + 100 * second, &stats);
    engine_stats_read(cell, &stats);
    assert_int_equal(stats.page_seconds, 3 + UINT64_C(4000000) * 86400);
    engine_stats_cell_destroy(cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_published_is_read),
        cmocka_unit_test(pages_count_by_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
