/* transfer/tombstone: what is remembered of ended rids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/tombstone.h"

/* Found until its time is over; ENDED wins over CANCELLED, not vice versa. */
static void stone_stands_for_its_time(void **state)
{
    (void)state;
    struct transfer_tombstones *stones = transfer_tombstones_create(8, 100);
    transfer_tombstones_add(stones, 5, TRANSFER_TOMBSTONE_CANCELLED, 10);
    assert_int_equal(transfer_tombstones_find(stones, 5, 109),
                     TRANSFER_TOMBSTONE_CANCELLED);
    transfer_tombstones_add(stones, 5, TRANSFER_TOMBSTONE_ENDED, 20);
    transfer_tombstones_add(stones, 5, TRANSFER_TOMBSTONE_CANCELLED, 30);
    assert_int_equal(transfer_tombstones_find(stones, 5, 109),
                     TRANSFER_TOMBSTONE_ENDED);
    assert_int_equal(transfer_tombstones_find(stones, 5, 110),
                     TRANSFER_TOMBSTONE_NONE);
    transfer_tombstones_destroy(stones);
}

/* Ten thousand rids through a ring of 64: the last 64 are there, no other. */
static void oldest_makes_room(void **state)
{
    (void)state;
    struct transfer_tombstones *stones = transfer_tombstones_create(64, 1000);
    for (int64_t rid = 0; rid < 10000; rid++) {
        transfer_tombstones_add(stones, rid, TRANSFER_TOMBSTONE_ENDED, 1);
    }
    for (int64_t rid = 0; rid < 10000; rid++) {
        assert_int_equal(transfer_tombstones_find(stones, rid, 2) ==
                             TRANSFER_TOMBSTONE_ENDED,
                         rid >= 10000 - 64);
    }
    transfer_tombstones_destroy(stones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stone_stands_for_its_time),
        cmocka_unit_test(oldest_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
