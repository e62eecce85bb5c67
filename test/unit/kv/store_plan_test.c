#include "unit/kv/store_world.h"

#include "kv/store_state.h"

/* All hops of a flow, "01 10 ..." until nothing more can move. */
static void run(struct kv_flow flow, char *text_out)
{
    struct kv_hop hop;
    *text_out = 0;
    while (kv_flow_next(&flow, &hop)) {
        kv_flow_step(&flow, hop);
        text_out += snprintf(text_out, 8, "%u%u ", hop.from, hop.to);
    }
}

/* One free slot below lets two pages go down and two come up in turn. */
static void one_slot_is_enough_to_swap(void **state)
{
    (void)state;
    char text[64];
    struct kv_flow flow = {.last = 1, .free = {0, 1}, .rise = {0, 2}};
    flow.fall[0][1] = 2;
    run(flow, text);
    assert_string_equal(text, "01 10 01 10 ");
    flow.free[1] = 0;
    run(flow, text);
    assert_string_equal(text, "");
}

/* The lowest levels make room first. */
static void lower_falls_come_first(void **state)
{
    (void)state;
    char text[64];
    struct kv_flow flow = {.last = 2, .free = {0, 0, 3}};
    flow.fall[0][1] = 1;
    flow.fall[0][2] = 1;
    flow.fall[1][2] = 2;
    run(flow, text);
    assert_string_equal(text, "12 12 02 01 ");
}

/* The one free slot wanders over both lower levels and misses nothing. */
static void one_slot_serves_three_levels(void **state)
{
    (void)state;
    char text[64];
    struct kv_flow flow = {.last = 2, .free = {0, 1, 0}, .rise = {0, 1, 1}};
    flow.fall[0][1] = 1;
    flow.fall[0][2] = 1;
    run(flow, text);
    assert_string_equal(text, "01 20 02 10 ");
}

/* A plan that is undone leaves the queues of all levels and no mark. */
static void undone_plan_leaves_no_trace(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(4, 2);
    world_cache(world, "xy");
    world_take(world, "abcd");
    world_commit(world, "abcd");
    world_unlock(world, "abcd");
    struct kv_room room = {.goal = {3}};
    assert_true(kv_room_plan(world->store, &room));
    assert_queue(world, 0, "d");
    assert_queue(world, 1, "");
    assert_int_equal(kv_item_target(world->store->items[0]), 0);
    assert_int_equal(kv_item_target(world->store->items[1]), 1);
    assert_int_equal(kv_item_target(world->store->items[2]), 1);
    kv_room_undo(world->store, 0);
    assert_queue(world, 0, "abcd");
    assert_queue(world, 1, "xy");
    assert_true(kv_store_is_valid(world->store));
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slot_is_enough_to_swap),
        cmocka_unit_test(lower_falls_come_first),
        cmocka_unit_test(one_slot_serves_three_levels),
        cmocka_unit_test(undone_plan_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
