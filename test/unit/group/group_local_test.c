#include "unit/base/test.h"

#include "group/group.h"

/* A domain of one: everybody is here, and everything gathered is one's own. */
static void one_rank_meets_itself(void **state)
{
    (void)state;
    struct group *group = group_local_create();
    uint32_t own = 0x01020304;
    uint32_t all = 0;
    assert_int_equal(group->rank, 0);
    assert_int_equal(group->rank_count, 1);
    assert_int_equal(group->ops->barrier(group), OK);
    assert_int_equal(group->ops->allgather(group, &own, sizeof(own), &all), OK);
    assert_int_equal(all, own);
    assert_int_equal(group->ops->broadcast(group, 0, &own, sizeof(own)), OK);
    assert_int_equal(own, 0x01020304);
    group_destroy(group);
}

/* A root that does not exist is named as an error, as a larger body must. */
static void broadcast_from_nobody_is_refused(void **state)
{
    (void)state;
    struct group *group = group_local_create();
    uint8_t byte = 7;
    assert_int_equal(group->ops->broadcast(group, 1, &byte, 1), ERR_INVALID);
    assert_int_equal(byte, 7);
    assert_int_equal(group->ops->allgather(group, NULL, 0, NULL), OK);
    group_destroy(group);
    group_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_meets_itself),
        cmocka_unit_test(broadcast_from_nobody_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
