/* http/newcomers: who has to go. */
#include "unit/base/test.h"

#include "http/connection.h"

/* Room for two: the oldest of those that are left goes for a third, whoever left
 * before, at either end or in the middle. */
static void the_oldest_goes(void **state)
{
    (void)state;
    struct http_newcomers all = {.count_max = 2};
    struct http_exchange e[5] = {{0}};
    assert_null(http_newcomers_add(&all, &e[0]));
    assert_null(http_newcomers_add(&all, &e[1]));
    assert_ptr_equal(http_newcomers_add(&all, &e[2]), &e[0]);
    http_newcomers_remove(&all, &e[1]);
    assert_ptr_equal(http_newcomers_add(&all, &e[3]), &e[0]);
    http_newcomers_remove(&all, &e[0]);
    http_newcomers_remove(&all, &e[0]);
    assert_int_equal(all.count, 2);
    http_newcomers_remove(&all, &e[3]);
    assert_null(http_newcomers_add(&all, &e[4]));
    assert_ptr_equal(all.oldest, &e[2]);
    assert_ptr_equal(all.newest, &e[4]);
    http_newcomers_remove(&all, &e[2]);
    http_newcomers_remove(&all, &e[4]);
    assert_int_equal(all.count, 0);
    assert_null(all.oldest);
    assert_null(all.newest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_oldest_goes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
