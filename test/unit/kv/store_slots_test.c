#include "unit/base/test.h"

#include "kv/store_state.h"

static void expect_take(struct kv_slots *slots, uint32_t slot)
{
    assert_int_equal(kv_slots_take(slots), slot);
    assert_true(kv_slots_is_out(slots, slot));
}

/* Of four slots two came back, one of them under an order: the ready one goes
 * first, then those never used, and the other last, under that order still. */
static void ready_slots_go_before_new_ones_and_waiting_ones_last(void **state)
{
    (void)state;
    struct kv_wait waits[16];
    struct kv_slots slots;
    kv_slots_init(&slots, 4, waits);
    expect_take(&slots, 0);
    expect_take(&slots, 1);
    kv_slots_touch(&slots, 0, 6);
    kv_slots_give(&slots, 0);
    kv_slots_give(&slots, 1);
    assert_int_equal(slots.free_count, 4);
    expect_take(&slots, 1);
    expect_take(&slots, 2);
    expect_take(&slots, 3);
    expect_take(&slots, 0);
    assert_int_equal(slots.cells[0], 1 + 6);
    assert_int_equal(slots.free_count, 0);
    assert_int_equal(slots.free_min, 0);
    kv_slots_settle(&slots, 0, 6);
    assert_int_equal(slots.cells[0], 0);
    kv_slots_finish(&slots);
}

/* Orders are done while slots wait, the middle one's first: each is ready from
 * then on, before new ones, and one whose order was not the last to touch it is
 * not. */
static void waiting_slots_become_ready_as_their_orders_end(void **state)
{
    (void)state;
    struct kv_wait waits[16];
    struct kv_slots slots;
    kv_slots_init(&slots, 5, waits);
    for (uint32_t i = 0; i < 3; i++) {
        expect_take(&slots, i);
        kv_slots_touch(&slots, i, 2 * i);
    }
    kv_slots_touch(&slots, 0, 9);
    kv_slots_give(&slots, 0);
    kv_slots_give(&slots, 1);
    kv_slots_give(&slots, 2);
    kv_slots_settle(&slots, 1, 2);
    kv_slots_settle(&slots, 0, 0);
    expect_take(&slots, 1);
    expect_take(&slots, 3);
    kv_slots_settle(&slots, 0, 9);
    kv_slots_settle(&slots, 2, 4);
    expect_take(&slots, 0);
    expect_take(&slots, 2);
    expect_take(&slots, 4);
    kv_slots_finish(&slots);
}

/* The next slot of the list is a number, and so is an order's end: the end of an
 * order whose slot came back ready long ago means nothing to it. */
static void a_ready_slot_is_no_orders_any_more(void **state)
{
    (void)state;
    struct kv_wait waits[16];
    struct kv_slots slots;
    kv_slots_init(&slots, 3, waits);
    for (uint32_t i = 0; i < 3; i++) {
        expect_take(&slots, i);
    }
    kv_slots_touch(&slots, 0, 1);
    kv_slots_touch(&slots, 0, 5);
    kv_slots_settle(&slots, 0, 5);
    kv_slots_give(&slots, 0);
    kv_slots_give(&slots, 2);
    assert_int_equal(slots.cells[0], 1 + 1);
    kv_slots_settle(&slots, 0, 1);
    expect_take(&slots, 0);
    expect_take(&slots, 2);
    kv_slots_finish(&slots);
}

/* First back, first out. */
static void slots_come_back_in_turn(void **state)
{
    (void)state;
    struct kv_slots slots;
    kv_slots_init(&slots, 3, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        expect_take(&slots, i);
    }
    kv_slots_give(&slots, 2);
    kv_slots_give(&slots, 0);
    kv_slots_give(&slots, 1);
    expect_take(&slots, 2);
    expect_take(&slots, 0);
    expect_take(&slots, 1);
    kv_slots_finish(&slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_slots_go_before_new_ones_and_waiting_ones_last),
        cmocka_unit_test(waiting_slots_become_ready_as_their_orders_end),
        cmocka_unit_test(a_ready_slot_is_no_orders_any_more),
        cmocka_unit_test(slots_come_back_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
