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
        engine_stats_publish(cell, &(struct engine_stats){
                                       .turns = i, .copied_kv_bytes = 10 * i});
    }
    engine_stats_read(cell, &stats);
    assert_int_equal(stats.turns, 3);
    assert_int_equal(stats.copied_kv_bytes, 30);
    engine_stats_cell_destroy(cell);
    engine_stats_cell_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_published_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
