#include "unit/kv/store_world.h"

#include "kv/store_state.h"

/* All orders not taken yet, taken. */
static uint32_t take_orders(struct world *world, struct kv_order *orders_out)
{
    uint32_t count;
    const struct kv_order *orders = kv_store_orders(world->store, &count);
    for (uint32_t i = 0; i < count; i++) {
        orders_out[i] = orders[i];
    }
    kv_store_orders_taken(world->store, count);
    return count;
}

static kv_ticket ready_of(const struct world *world, char name)
{
    return kv_store_ready(world->store, world->refs[(int)name]);
}

/* a falls. Its new slot waits for the copy, and so does the old one, which the
 * next page gets: who writes there knows what to wait for. */
static void both_slots_carry_the_ticket(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(1, 1);
    world_cache(world, "a");
    assert_int_equal(ready_of(world, 'a'), 0);
    world_take(world, "b");
    struct kv_order orders[4];
    assert_int_equal(take_orders(world, orders), 1);
    assert_int_equal(orders[0].after[0], 0);
    assert_int_equal(orders[0].after[1], 0);
    assert_int_equal(ready_of(world, 'a'), orders[0].ticket);
    assert_int_equal(ready_of(world, 'b'), orders[0].ticket);
    assert_false(kv_store_is_done(world->store, orders[0].ticket));
    kv_store_order_done(world->store, orders[0].ticket, true);
    assert_true(kv_store_is_done(world->store, orders[0].ticket));
    assert_int_equal(ready_of(world, 'a'), 0);
    assert_int_equal(ready_of(world, 'b'), 0);
    world_destroy(world);
}

/* Two copies from one page, then one from a copy: each waits for the last that
 * touched its slots. They are done from the last to the first. */
static void copies_wait_for_those_before(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(4);
    world_take(world, "abcd");
    kv_ref *refs = world->refs;
    assert_int_equal(kv_store_copy(world->store, refs['a'], refs['b']), OK);
    assert_int_equal(kv_store_copy(world->store, refs['a'], refs['c']), OK);
    assert_int_equal(kv_store_copy(world->store, refs['b'], refs['d']), OK);
    struct kv_order orders[4];
    assert_int_equal(take_orders(world, orders), 3);
    assert_int_equal(orders[1].after[0], orders[0].ticket);
    assert_int_equal(orders[2].after[0], orders[0].ticket);
    kv_store_order_done(world->store, orders[2].ticket, true);
    kv_store_order_done(world->store, orders[1].ticket, true);
    assert_int_equal(ready_of(world, 'd'), 0);
    assert_int_equal(ready_of(world, 'b'), 0);
    assert_false(kv_store_is_done(world->store, orders[0].ticket));
    kv_store_order_done(world->store, orders[0].ticket, true);
    assert_int_equal(kv_store_totals(world->store).copied, 3);
    world_destroy(world);
}

/* order_max copies are under way: one more is refused, until one is done. One
 * straggler does not stop many later ones, but for ever. */
static void outstanding_orders_are_bounded(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2);
    world_take(world, "ab");
    kv_ref *refs = world->refs;
    struct kv_order orders[16];
    for (int i = 0; i < 16; i++) {
        assert_int_equal(kv_store_copy(world->store, refs['a'], refs['b']), OK);
    }
    assert_int_equal(kv_store_copy(world->store, refs['a'], refs['b']),
                     ERR_FULL);
    assert_int_equal(take_orders(world, orders), 16);
    kv_ticket straggler = orders[0].ticket;
    for (int i = 1; i < 16; i++) {
        kv_store_order_done(world->store, orders[i].ticket, true);
    }
    int overtaking = 0;
    while (kv_store_copy(world->store, refs['a'], refs['b']) == OK) {
        assert_int_equal(take_orders(world, orders), 1);
        kv_store_order_done(world->store, orders[0].ticket, true);
        overtaking++;
    }
    assert_true(overtaking >= 16);
    assert_false(kv_store_is_done(world->store, straggler));
    kv_store_order_done(world->store, straggler, true);
    assert_int_equal(kv_store_copy(world->store, refs['a'], refs['b']), OK);
    world_copy(world);
    world_destroy(world);
}

/* a, cached, falls and its copy fails: it is lost and its slot free. b, which has
 * a's old slot, is not harmed. */
static void failed_fall_loses_the_page(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(1, 1);
    world_cache(world, "a");
    world_take(world, "b");
    struct kv_order orders[4];
    assert_int_equal(take_orders(world, orders), 1);
    kv_store_order_done(world->store, orders[0].ticket, false);
    assert_log(world, "a01 -a");
    assert_int_equal(kv_store_counts(world->store, 1, 0).free, 1);
    assert_int_equal(world_page(world, 'b')->flags & KV_PAGE_LOST, 0);
    assert_int_equal(kv_store_totals(world->store).lost, 1);
    world_destroy(world);
}

/* p, held and committed, was to come up: the tree hears that it is lost, its
 * user sees the mark, and its slot is free when he lets go. */
static void failed_rise_loses_the_page_when_its_user_lets_go(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(1, 1);
    world_take(world, "p");
    world_commit(world, "p");
    world_suspend(world, "p");
    world_take(world, "b");
    world_unlock(world, "b");
    world_copy(world);
    world->log[0] = 0;
    kv_ref p = world->refs['p'];
    assert_int_equal(world_lock(world, "p"), OK);
    struct kv_order orders[4];
    assert_int_equal(take_orders(world, orders), 1);
    kv_store_order_done(world->store, orders[0].ticket, false);
    assert_log(world, "p10 -p");
    const struct kv_page *page = kv_store_page(world->store, p);
    assert_int_equal(page->flags & KV_PAGE_LOST, KV_PAGE_LOST);
    assert_int_equal(page->flags & KV_PAGE_COMMITTED, 0);
    assert_int_equal(page->locks, 1);
    assert_int_equal(kv_store_counts(world->store, 0, 0).free, 0);
    kv_store_unlock(world->store, p);
    assert_int_equal(kv_store_counts(world->store, 0, 0).free, 1);
    world_destroy(world);
}

/* The page is gone when its copy fails: nobody is told, and nobody who has its
 * record by then is blamed, as nobody can have it. */
static void failed_copy_of_a_freed_page_harms_nobody(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2, 1);
    world_cache(world, "a");
    world_take(world, "bc");
    kv_store_discard(world->store, world->refs['a']);
    struct kv_order orders[4];
    assert_int_equal(take_orders(world, orders), 1);
    world_unlock(world, "b");
    world_take(world, "d");
    assert_int_not_equal(world->refs['d'], world->refs['a']);
    kv_store_order_done(world->store, orders[0].ticket, false);
    assert_log(world, "a01");
    assert_int_equal(kv_store_totals(world->store).lost, 0);
    assert_int_equal(world_page(world, 'd')->flags & KV_PAGE_LOST, 0);
    world_destroy(world);
}

/* b is copied from a, c from b. The first copy fails: b is lost, and c, whose
 * copy was waiting for it, as well; d, copied from a, is not. A copy made from a
 * lost page is lost from the start. */
static void loss_spreads_to_copies_of_the_lost(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(5);
    world_take(world, "abcde");
    kv_ref *refs = world->refs;
    assert_int_equal(kv_store_copy(world->store, refs['a'], refs['b']), OK);
    assert_int_equal(kv_store_copy(world->store, refs['b'], refs['c']), OK);
    assert_int_equal(kv_store_copy(world->store, refs['a'], refs['d']), OK);
    struct kv_order orders[4];
    assert_int_equal(take_orders(world, orders), 3);
    kv_store_order_done(world->store, orders[0].ticket, false);
    assert_true(world_page(world, 'b')->flags & KV_PAGE_LOST);
    assert_true(world_page(world, 'c')->flags & KV_PAGE_LOST);
    assert_false(world_page(world, 'd')->flags & KV_PAGE_LOST);
    assert_int_equal(kv_store_totals(world->store).lost, 2);
    kv_store_order_done(world->store, orders[2].ticket, true);
    kv_store_order_done(world->store, orders[1].ticket, true);
    assert_true(world_page(world, 'c')->flags & KV_PAGE_LOST);
    assert_int_equal(kv_store_copy(world->store, refs['c'], refs['e']), OK);
    assert_true(world_page(world, 'e')->flags & KV_PAGE_LOST);
    world_copy(world);
    world_destroy(world);
}

/* Orders are handed out oldest first, in parts if so wished. */
static void orders_are_taken_in_parts(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3, 3);
    world_cache(world, "abc");
    world_take(world, "123");
    uint32_t count;
    const struct kv_order *orders = kv_store_orders(world->store, &count);
    assert_int_equal(count, 3);
    kv_ticket first = orders[0].ticket;
    kv_store_orders_taken(world->store, 1);
    kv_store_order_done(world->store, first, true);
    orders = kv_store_orders(world->store, &count);
    assert_int_equal(count, 2);
    assert_int_equal(orders[0].ticket, first + 1);
    world_copy(world);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_slots_carry_the_ticket),
        cmocka_unit_test(copies_wait_for_those_before),
        cmocka_unit_test(outstanding_orders_are_bounded),
        cmocka_unit_test(failed_fall_loses_the_page),
        cmocka_unit_test(failed_rise_loses_the_page_when_its_user_lets_go),
        cmocka_unit_test(failed_copy_of_a_freed_page_harms_nobody),
        cmocka_unit_test(loss_spreads_to_copies_of_the_lost),
        cmocka_unit_test(orders_are_taken_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
