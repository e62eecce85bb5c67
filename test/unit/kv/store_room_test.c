/* Making room over levels, by the cases of engine.md 1.10 and more. */
#include "unit/kv/store_world.h"

/* [engine T4] Six slots on level 0, two of them locked; the host's two pages
 * were pushed down by asking before. Two more are asked for: the queues and the
 * watch show who went where. */
static void victims_fall_and_the_oldest_below_is_dropped(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(6, 3);
    world_cache(world, "gh");
    world_take(world, "XY1234");
    assert_log(world, "g01 h01");
    world_unlock(world, "1234");
    world_cache(world, "abcd");
    assert_queue(world, 1, "gh");
    assert_queue(world, 0, "abcd");
    world_take(world, "pq");
    assert_log(world, "-g a01 b01");
    assert_queue(world, 0, "cd");
    assert_queue(world, 1, "hab");
    world_destroy(world);
}

/* Level 0 full of X, Y locked, a held and older than b, which is cached; one
 * page z on the host. */
static struct world *create_t5(void)
{
    struct world *world = WORLD_CREATE(4, 1);
    world_cache(world, "z");
    world_take(world, "XYa");
    world_take(world, "b");
    assert_log(world, "z01");
    world_commit(world, "ab");
    world_suspend(world, "a");
    world_unlock(world, "b");
    world_copy(world);
    return world;
}

/* [engine T5] The held page gets the one place below; what was there and what
 * does not fit are dropped, and the held page waits in no queue. */
static void held_page_falls_before_droppable_ones(void **state)
{
    (void)state;
    struct world *world = create_t5();
    kv_ref refs[2];
    assert_int_equal(world_ask(world, 2, refs), OK);
    assert_log(world, "-z -b a01");
    assert_int_equal(world_page(world, 'a')->level, 1);
    assert_queue(world, 0, "");
    assert_queue(world, 1, "");
    assert_int_equal(kv_store_counts(world->store, 1, 0).held, 1);
    world_destroy(world);
}

/* [engine T6] As before, but the place below is held too: nothing changes. What
 * is left may still be asked for. */
static void held_page_that_cannot_fall_fails_the_call(void **state)
{
    (void)state;
    struct world *world = create_t5();
    kv_store_hold(world->store, world->refs['z']);
    kv_ref refs[2];
    assert_int_equal(kv_store_available(world->store, 0), 1);
    assert_int_equal(world_ask(world, 2, refs), ERR_FULL);
    assert_log(world, "");
    assert_queue(world, 0, "ab");
    assert_int_equal(world_ask(world, 1, refs), OK);
    assert_log(world, "-b");
    assert_queue(world, 0, "a");
    world_destroy(world);
}

/* [engine T7] Without a host the oldest is dropped. */
static void without_lower_level_the_oldest_is_dropped(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(4);
    world_take(world, "XY");
    world_cache(world, "ab");
    world_take(world, "c");
    assert_log(world, "-a");
    assert_queue(world, 0, "b");
    world_destroy(world);
}

/* [engine T28] A holds 0 to 3, B shared 0 and 1 and cached 3' and 2' (here d and
 * c). Three are asked for, two are queued: nothing is dropped. */
static void asking_more_than_is_queued_drops_nothing(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(6);
    world_take(world, "0123");
    world_commit(world, "0123");
    kv_store_relock(world->store, world->refs['0']);
    kv_store_relock(world->store, world->refs['1']);
    world_take(world, "cd");
    world_commit(world, "cd");
    world_unlock(world, "dc10");
    kv_ref refs[3];
    assert_int_equal(world_ask(world, 3, refs), ERR_FULL);
    assert_log(world, "");
    assert_queue(world, 0, "dc");
    assert_int_equal(kv_store_available(world->store, 0), 2);
    world_destroy(world);
}

/* The head of the queue has a leaf below it: the leaf goes, and is counted, then
 * the head when no leaf is left. */
static void leaf_goes_before_the_head(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3);
    world->leaves = "ac";
    world_cache(world, "abc");
    world_take(world, "1");
    assert_log(world, "-c");
    world->leaves = NULL;
    assert_int_equal(kv_store_totals(world->store).leaf_swaps, 1);
    world_take(world, "2");
    assert_log(world, "-a");
    world_destroy(world);
}

/* A failed call that had asked for a leaf leaves queue and numbers alone. */
static void failed_call_counts_no_leaf(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3);
    world->leaves = "ac";
    world_cache(world, "abc");
    kv_ref refs[4];
    assert_int_equal(world_ask(world, 4, refs), ERR_FULL);
    assert_queue(world, 0, "abc");
    assert_int_equal(kv_store_totals(world->store).leaf_swaps, 0);
    world_destroy(world);
}

/* Told that a goes, the owner discards b, which was to fall: b frees its slot
 * instead, and is not reported. */
static void discarded_victim_does_not_fall(void **state)
{
    (void)state;
    struct kv_store_options options = WORLD_OPTIONS(2, 2);
    options.offload_priority_min = 20;
    struct world *world = world_create_with(options);
    world_cache(world, "ab");
    kv_store_retain(world->store, world->refs['a'], 10, UINT64_MAX);
    world->also_lost = "ab";
    world_take(world, "12");
    assert_log(world, "-a");
    assert_int_equal(kv_store_counts(world->store, 1, 0).free, 2);
    assert_int_equal(kv_store_totals(world->store).dropped, 1);
    world_destroy(world);
}

/* Low priorities are not worth a copy: dropped, though there is room below. */
static void low_priority_is_dropped_not_moved(void **state)
{
    (void)state;
    struct kv_store_options options = WORLD_OPTIONS(2, 2);
    options.offload_priority_min = 36;
    struct world *world = world_create_with(options);
    world_cache(world, "ab");
    kv_store_retain(world->store, world->refs['b'], 36, UINT64_MAX);
    world_take(world, "12");
    assert_log(world, "-a b01");
    world_destroy(world);
}

/* Three levels of two: a cache of six lies in the order of its use. */
static void pages_fall_level_by_level(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2, 2, 2);
    world_cache(world, "ab");
    world_cache(world, "cd");
    assert_log(world, "a01 b01");
    world_cache(world, "ef");
    assert_log(world, "a12 b12 c01 d01");
    assert_queue(world, 0, "ef");
    assert_queue(world, 1, "cd");
    assert_queue(world, 2, "ab");
    world_take(world, "g");
    assert_log(world, "-a c12 e01");
    assert_queue(world, 2, "bc");
    world_destroy(world);
}

/* More fall than the middle level has: the newest stay there, the oldest go past
 * it, and the last level keeps the newest of what reaches it. */
static void what_does_not_fit_in_the_middle_falls_past_it(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(4, 1, 2);
    world_cache(world, "x");
    world_take(world, "abcd");
    world_commit(world, "abcd");
    world_unlock(world, "abcd");
    assert_log(world, "x01");
    world_take(world, "1234");
    assert_log(world, "-x -a b02 c02 d01");
    assert_queue(world, 1, "d");
    assert_queue(world, 2, "bc");
    world_destroy(world);
}

/* h is held and oldest on level 1, below which all is held: the younger d goes
 * in its place. */
static void held_page_without_room_below_is_passed_over(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2, 2, 1);
    world_cache(world, "h");
    world_cache(world, "s");
    world_take(world, "12");
    kv_store_hold(world->store, world->refs['h']);
    kv_store_hold(world->store, world->refs['s']);
    world_commit(world, "12");
    world_suspend(world, "12");
    world_take(world, "3");
    assert_log(world, "h01 s01 h12 101");
    kv_store_unhold(world->store, world->refs['s']);
    assert_queue(world, 1, "1s");
    world_take(world, "4");
    assert_log(world, "-s 201");
    assert_queue(world, 1, "12");
    assert_int_equal(world_page(world, '1')->level, 1);
    world_destroy(world);
}

/* [engine T31] Two sequences fill level 0; the second is suspended, deepest block
 * first, and gives way to the first; then the first closes and the second comes
 * back. Order tells which pages went, and orders where their bytes are. */
static void suspended_pages_give_way_and_come_back(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(8, 8);
    world_take(world, "ABCDabcd");
    world_suspend(world, "dcba");
    world_take(world, "EF");
    assert_int_equal(world_page(world, 'd')->level, 1);
    assert_int_equal(world_page(world, 'c')->level, 1);
    assert_queue(world, 0, "ba");
    world_copy(world);
    world_unlock(world, "FEDCBA");
    assert_int_equal(world_lock(world, "abcd"), OK);
    uint32_t count;
    const struct kv_order *orders = kv_store_orders(world->store, &count);
    assert_int_equal(count, 2);
    assert_int_equal(orders[0].from_level, 1);
    assert_int_equal(orders[0].to_level, 0);
    assert_int_equal(orders[0].to_slot, world_page(world, 'c')->slot);
    assert_int_equal(kv_store_totals(world->store).onboarded, 2);
    assert_int_equal(kv_store_counts(world->store, 0, 0).locked, 4);
    assert_int_equal(kv_store_counts(world->store, 1, 0).free, 8);
    world_destroy(world);
}

/* [engine T32] Without a host held pages stay and growth fails. */
static void held_pages_stay_without_lower_level(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(4);
    world_take(world, "ABab");
    world_suspend(world, "ba");
    assert_queue(world, 0, "");
    kv_ref refs[1];
    assert_int_equal(world_ask(world, 1, refs), ERR_FULL);
    assert_int_equal(kv_store_available(world->store, 0), 0);
    assert_int_equal(world_lock(world, "ab"), OK);
    world_destroy(world);
}

/* Level 0 is full of one suspended sequence, level 1 of another and one free
 * slot: all change places through it, each copy after the one whose slot it
 * takes. */
static void two_suspended_sequences_change_places(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2, 3);
    world_take(world, "pq");
    world_suspend(world, "qp");
    world_take(world, "vw");
    world_suspend(world, "wv");
    world_copy(world);
    assert_int_equal(world_lock(world, "pq"), OK);
    assert_int_equal(world_page(world, 'p')->level, 0);
    assert_int_equal(world_page(world, 'q')->level, 0);
    assert_int_equal(world_page(world, 'v')->level, 1);
    assert_int_equal(world_page(world, 'w')->level, 1);
    uint32_t count;
    const struct kv_order *orders = kv_store_orders(world->store, &count);
    assert_int_equal(count, 4);
    for (uint32_t i = 1; i < count; i++) {
        /* Each fills the slot that the one before has left. */
        assert_int_equal(orders[i].to_level, orders[i - 1].from_level);
        assert_int_equal(orders[i].to_slot, orders[i - 1].from_slot);
        assert_int_equal(orders[i].after[1], orders[i - 1].ticket);
    }
    world_destroy(world);
}

/* Without a slot to begin with two held pages cannot change places; nothing
 * changes. With one that may be dropped they can. */
static void swap_needs_one_slot_to_begin_with(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(1, 1);
    world_take(world, "p");
    world_suspend(world, "p");
    world_take(world, "v");
    world_commit(world, "v");
    world_suspend(world, "v");
    assert_int_equal(world_lock(world, "p"), ERR_FULL);
    assert_queue(world, 0, "v");
    assert_int_equal(world_page(world, 'p')->level, 1);
    kv_store_unhold(world->store, world->refs['v']);
    assert_int_equal(world_lock(world, "p"), OK);
    assert_log(world, "-v");
    world_destroy(world);
}

/* Both levels full and level 1 has a cached page too: it makes way for what falls
 * from level 0, so that only one page is dropped. */
static void rising_page_pushes_through_a_full_level(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(1, 2);
    world_cache(world, "z");
    world_take(world, "p");
    world_suspend(world, "p");
    world_cache(world, "v");
    assert_log(world, "z01");
    assert_int_equal(world_lock(world, "p"), OK);
    assert_log(world, "-z v01");
    world_destroy(world);
}

/* Prefetch takes free and droppable slots, and passes over held pages. */
static void raise_moves_no_held_page_down(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2, 3);
    world_take(world, "pq");
    world_suspend(world, "qp");
    world_cache(world, "v");
    world_take(world, "w");
    world_suspend(world, "w");
    assert_queue(world, 0, "vw");
    kv_ref refs[2] = {world->refs['p'], world->refs['q']};
    assert_int_equal(kv_store_raise(world->store, refs, 2, 0), 1);
    assert_log(world, "v01");
    assert_int_equal(world_page(world, 'p')->level, 0);
    assert_int_equal(world_page(world, 'q')->level, 1);
    assert_queue(world, 0, "pw");
    assert_int_equal(kv_store_raise(world->store, refs, 2, 1), 2);
    world_destroy(world);
}

/* Too many orders are outstanding: nothing changes, and room comes with the first
 * that is done. */
static void full_orders_change_nothing(void **state)
{
    (void)state;
    struct kv_store_options options = WORLD_OPTIONS(2, 4);
    options.order_max = 1;
    struct world *world = world_create_with(options);
    world_cache(world, "ab");
    kv_ref refs[2];
    assert_int_equal(world_ask(world, 2, refs), ERR_FULL);
    assert_queue(world, 0, "ab");
    world_take(world, "1");
    assert_log(world, "a01");
    assert_int_equal(world_ask(world, 1, refs), ERR_FULL);
    world_copy(world);
    world_take(world, "2");
    assert_log(world, "b01");
    world_destroy(world);
}

/* One group has room, the other not: none of them changes. */
static void groups_are_asked_together(void **state)
{
    (void)state;
    struct kv_store_options options = WORLD_OPTIONS(2, 2);
    options.life_count = options.group_count = 2;
    options.group_of[1] = 1;
    options.slot_counts[0][1] = 1;
    options.slot_counts[1][1] = 1;
    struct world *world = world_create_with(options);
    world_cache(world, "ab");
    kv_ref refs[4];
    uint32_t want[KV_LIFE_COUNT_MAX] = {2, 2};
    assert_int_equal(kv_store_take(world->store, want, refs), ERR_FULL);
    assert_queue(world, 0, "ab");
    want[1] = 1;
    assert_int_equal(kv_store_take(world->store, want, refs), OK);
    assert_log(world, "a01 b01");
    assert_int_equal(kv_store_page(world->store, refs[1])->life, 0);
    assert_int_equal(kv_store_page(world->store, refs[2])->life, 1);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(victims_fall_and_the_oldest_below_is_dropped),
        cmocka_unit_test(held_page_falls_before_droppable_ones),
        cmocka_unit_test(held_page_that_cannot_fall_fails_the_call),
        cmocka_unit_test(without_lower_level_the_oldest_is_dropped),
        cmocka_unit_test(asking_more_than_is_queued_drops_nothing),
        cmocka_unit_test(leaf_goes_before_the_head),
        cmocka_unit_test(failed_call_counts_no_leaf),
        cmocka_unit_test(discarded_victim_does_not_fall),
        cmocka_unit_test(low_priority_is_dropped_not_moved),
        cmocka_unit_test(pages_fall_level_by_level),
        cmocka_unit_test(what_does_not_fit_in_the_middle_falls_past_it),
        cmocka_unit_test(held_page_without_room_below_is_passed_over),
        cmocka_unit_test(suspended_pages_give_way_and_come_back),
        cmocka_unit_test(held_pages_stay_without_lower_level),
        cmocka_unit_test(two_suspended_sequences_change_places),
        cmocka_unit_test(swap_needs_one_slot_to_begin_with),
        cmocka_unit_test(rising_page_pushes_through_a_full_level),
        cmocka_unit_test(raise_moves_no_held_page_down),
        cmocka_unit_test(full_orders_change_nothing),
        cmocka_unit_test(groups_are_asked_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
