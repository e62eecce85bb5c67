#include "unit/kv/store_world.h"

/* Uncommitted pages are freed by their last user, committed ones queue. */
static void last_user_frees_or_queues(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3);
    world_take(world, "ab");
    world_commit(world, "b");
    assert_int_equal(kv_store_counts(world->store, 0, 0).locked, 2);
    world_unlock(world, "ab");
    struct kv_store_counts counts = kv_store_counts(world->store, 0, 0);
    assert_int_equal(counts.free, 2);
    assert_int_equal(counts.queued, 1);
    assert_int_equal(counts.droppable, 1);
    assert_int_equal(counts.free_min, 1);
    kv_store_reset_peaks(world->store);
    assert_int_equal(kv_store_counts(world->store, 0, 0).free_min, 2);
    world_destroy(world);
}

/* A second lock keeps the page locked; locks may outlast holds and the other way
 * round. */
static void page_stays_until_all_users_let_go(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(1, 1);
    world_take(world, "a");
    kv_ref a = world->refs['a'];
    kv_store_relock(world->store, a);
    kv_store_unlock(world->store, a);
    assert_int_equal(world_page(world, 'a')->locks, 1);
    kv_store_hold(world->store, a);
    kv_store_unlock_to_hold(world->store, a);
    assert_int_equal(world_page(world, 'a')->holds, 2);
    assert_queue(world, 0, "a");
    assert_int_equal(world_lock(world, "a"), OK);
    assert_queue(world, 0, "");
    kv_store_unhold(world->store, a);
    assert_int_equal(kv_store_counts(world->store, 0, 0).locked, 1);
    kv_store_unlock(world->store, a);
    assert_int_equal(kv_store_counts(world->store, 0, 0).free, 1);
    world_destroy(world);
}

/* Locked where it lies, whoever used it: dropped at will, held, locked; it counts
 * once, and its last user puts it back in the queue. */
static void page_is_locked_where_it_lies(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2, 2);
    world_cache(world, "ab");
    kv_store_hold(world->store, world->refs['b']);
    kv_store_lock_here(world->store, world->refs['a']);
    kv_store_lock_here(world->store, world->refs['b']);
    kv_store_lock_here(world->store, world->refs['b']);
    assert_queue(world, 0, "");
    assert_int_equal(kv_store_counts(world->store, 0, 0).locked, 2);
    assert_int_equal(kv_store_counts(world->store, 0, 0).held, 0);
    assert_int_equal(kv_store_counts(world->store, 0, 0).droppable, 0);
    world_unlock(world, "bba");
    kv_store_unhold(world->store, world->refs['b']);
    assert_queue(world, 0, "ab");
    assert_int_equal(kv_store_counts(world->store, 0, 0).droppable, 2);
    world_destroy(world);
}

/* Held where nothing is below: in no queue; let go of: at the tail. */
static void held_page_on_the_last_level_is_not_queued(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3);
    world_cache(world, "abc");
    kv_store_hold(world->store, world->refs['a']);
    assert_queue(world, 0, "bc");
    assert_int_equal(kv_store_counts(world->store, 0, 0).held, 1);
    kv_store_unhold(world->store, world->refs['a']);
    assert_queue(world, 0, "bca");
    world_destroy(world);
}

/* Above the last level a hold leaves the page in its place. */
static void hold_leaves_the_page_in_its_queue(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3, 1);
    world_cache(world, "abc");
    kv_store_hold(world->store, world->refs['a']);
    assert_queue(world, 0, "abc");
    assert_int_equal(kv_store_counts(world->store, 0, 0).droppable, 2);
    assert_int_equal(kv_store_available(world->store, 0), 3);
    kv_store_unhold(world->store, world->refs['a']);
    assert_queue(world, 0, "bca");
    world_destroy(world);
}

/* A page that the tree forgot while it was in use is freed, not queued. */
static void orphan_is_freed_by_its_last_user(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2);
    world_take(world, "a");
    world_commit(world, "a");
    kv_store_discard(world->store, world->refs['a']);
    assert_int_equal(world_page(world, 'a')->node, KV_NODE_NONE);
    assert_int_equal(world_page(world, 'a')->locks, 1);
    world_unlock(world, "a");
    assert_int_equal(kv_store_counts(world->store, 0, 0).free, 2);
    assert_log(world, "");
    world_destroy(world);
}

/* What nobody uses is freed at once. */
static void discard_frees_what_is_queued(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2);
    world_cache(world, "ab");
    kv_store_discard(world->store, world->refs['a']);
    assert_queue(world, 0, "b");
    assert_int_equal(kv_store_counts(world->store, 0, 0).free, 1);
    world_destroy(world);
}

/* Coverage and node may change while the page stays where it is. */
static void commit_may_be_repeated(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(1);
    world_cache(world, "a");
    kv_store_commit(world->store, world->refs['a'], 9, 3);
    assert_int_equal(world_page(world, 'a')->node, 9);
    assert_int_equal(world_page(world, 'a')->tokens, 3);
    assert_queue(world, 0, "a");
    world_destroy(world);
}

/* Nothing is allocated after creation, whatever is asked for. */
static void work_allocates_nothing(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(4, 4);
    uint64_t before = mem_allocation_count();
    for (int i = 0; i < 100; i++) {
        world_cache(world, "abcd");
        kv_store_retain(world->store, world->refs['a'], 90, 1000);
        kv_store_tick(world->store, (uint64_t)i);
        world_copy(world);
    }
    assert_int_equal(mem_allocation_count(), before);
    assert_true(kv_store_bytes(world->store) > 8 * sizeof(struct kv_page));
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_user_frees_or_queues),
        cmocka_unit_test(page_stays_until_all_users_let_go),
        cmocka_unit_test(page_is_locked_where_it_lies),
        cmocka_unit_test(held_page_on_the_last_level_is_not_queued),
        cmocka_unit_test(hold_leaves_the_page_in_its_queue),
        cmocka_unit_test(orphan_is_freed_by_its_last_user),
        cmocka_unit_test(discard_frees_what_is_queued),
        cmocka_unit_test(commit_may_be_repeated),
        cmocka_unit_test(work_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
