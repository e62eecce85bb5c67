#include "unit/base/test.h"

#include "kv/store_state.h"

static void expect_take(struct kv_slots *slots, uint32_t slot)
{
    assert_int_equal(kv_slots_take(slots), slot);
    assert_true(kv_slots_is_out(slots, slot));
}

/* Of four slots two came back, one of them under an order: the ready one goes
 * first, then those never used, and the other last. */
static void ready_slots_go_before_new_ones_and_waiting_ones_last(void **state)
{
    (void)state;
    struct kv_slots slots;
    kv_slots_init(&slots, 4);
    expect_take(&slots, 0);
    expect_take(&slots, 1);
    slots.cells[0].order = 7;
    kv_slots_give(&slots, 0);
    kv_slots_give(&slots, 1);
    assert_int_equal(slots.free_count, 4);
    expect_take(&slots, 1);
    expect_take(&slots, 2);
    expect_take(&slots, 3);
    expect_take(&slots, 0);
    assert_int_equal(slots.free_count, 0);
    assert_int_equal(slots.free_min, 0);
    kv_slots_finish(&slots);
}

/* The order is done while the slot waits: now it goes before new ones. */
static void waiting_slot_becomes_ready(void **state)
{
    (void)state;
    struct kv_slots slots;
    kv_slots_init(&slots, 3);
    expect_take(&slots, 0);
    slots.cells[0].order = 7;
    kv_slots_give(&slots, 0);
    slots.cells[0].order = 0;
    expect_take(&slots, 0);
    expect_take(&slots, 1);
    kv_slots_finish(&slots);
}

/* First back, first out. */
static void slots_come_back_in_turn(void **state)
{
    (void)state;
    struct kv_slots slots;
    kv_slots_init(&slots, 3);
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
        cmocka_unit_test(waiting_slot_becomes_ready),
        cmocka_unit_test(slots_come_back_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
