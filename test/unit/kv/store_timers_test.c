#include "unit/kv/store_world.h"

#include "base/rng.h"
#include "kv/store_state.h"

static void retain(struct world *world, char name, uint8_t priority,
                   uint64_t expiry_ms)
{
    kv_store_retain(world->store, world->refs[(int)name], priority, expiry_ms);
}

/* [engine T29] p has 10, q and the older r the default, s 90 until 1000 ms. s is
 * the oldest: when its time is over it goes first of the default class. */
static void expired_page_ranks_by_its_own_release(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(4);
    world_take(world, "pqrs");
    world_commit(world, "pqrs");
    retain(world, 'p', 10, UINT64_MAX);
    retain(world, 's', 90, 1000);
    world_unlock(world, "srqp");
    assert_queue(world, 0, "prqs");
    kv_store_tick(world->store, 999);
    assert_queue(world, 0, "prqs");
    kv_store_tick(world->store, 1000);
    assert_queue(world, 0, "psrq");
    assert_int_equal(world_page(world, 's')->priority, KV_PRIORITY_DEFAULT);
    world_take(world, "1234");
    assert_log(world, "-p -s -r -q");
    world_destroy(world);
}

/* A low priority ends upwards; one whose time is over already is no priority; a
 * page in use changes without a queue. */
static void priority_ends_upwards_and_in_use(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3);
    world_take(world, "abc");
    world_commit(world, "abc");
    kv_store_tick(world->store, 50);
    retain(world, 'a', 0, 60);
    retain(world, 'b', 90, 60);
    retain(world, 'c', 90, 50);
    assert_int_equal(world_page(world, 'c')->priority, KV_PRIORITY_DEFAULT);
    world_unlock(world, "ca");
    assert_queue(world, 0, "ac");
    kv_store_tick(world->store, 60);
    assert_queue(world, 0, "ca");
    assert_int_equal(world_page(world, 'b')->priority, KV_PRIORITY_DEFAULT);
    world_destroy(world);
}

/* A new rule replaces the old one with its end, a freed page takes its timer
 * along: a later page in the same record keeps its priority. */
static void timer_ends_with_rule_and_page(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(2);
    world_take(world, "ab");
    world_commit(world, "a");
    retain(world, 'a', 90, 10);
    retain(world, 'a', 80, UINT64_MAX);
    retain(world, 'b', 90, 10);
    world_unlock(world, "b");
    world_take(world, "c");
    retain(world, 'c', 70, UINT64_MAX);
    kv_store_tick(world->store, 10);
    assert_int_equal(world_page(world, 'a')->priority, 80);
    assert_int_equal(world_page(world, 'c')->priority, 70);
    assert_int_equal(world->store->timers.count, 0);
    world_destroy(world);
}

/* Many ends in random order, some cancelled: at each millisecond just those are
 * over whose time has come. */
static void each_ends_at_its_time(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct world *world = WORLD_CREATE(COUNT);
    struct rng rng = rng_from_seed(5);
    kv_ref refs[COUNT];
    uint64_t ends[COUNT];
    assert_int_equal(world_ask(world, COUNT, refs), OK);
    for (int i = 0; i < COUNT; i++) {
        kv_store_retain(world->store, refs[i], 90, 1 + rng_below(&rng, 40));
    }
    for (int i = 0; i < COUNT; i++) {
        ends[i] =
            rng_below(&rng, 4) == 0 ? UINT64_MAX : 1 + rng_below(&rng, 40);
        kv_store_retain(world->store, refs[i], 90, ends[i]);
    }
    for (uint64_t now = 1; now <= 41; now++) {
        kv_store_tick(world->store, now);
        assert_true(kv_store_is_valid(world->store));
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(kv_store_page(world->store, refs[i])->priority,
                             ends[i] <= now ? KV_PRIORITY_DEFAULT : 90);
        }
    }
    world_destroy(world);
}

/* How many pages rank otherwise than by default, and until when one does, through
 * all that can happen to a rank. */
static void ranks_are_counted(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(3);
    world_take(world, "abc");
    world_commit(world, "ab");
    retain(world, 'a', 90, 10);
    retain(world, 'b', 20, UINT64_MAX);
    retain(world, 'c', 20, 10);
    assert_int_equal(kv_store_ranked(world->store), 3);
    assert_int_equal(kv_store_expiry(world->store, world->refs['a']), 10);
    retain(world, 'b', 30, UINT64_MAX);
    assert_int_equal(kv_store_expiry(world->store, world->refs['b']),
                     UINT64_MAX);
    world_unlock(world, "c");
    assert_int_equal(kv_store_ranked(world->store), 2);
    kv_store_tick(world->store, 10);
    assert_int_equal(kv_store_ranked(world->store), 1);
    retain(world, 'b', KV_PRIORITY_DEFAULT, UINT64_MAX);
    assert_int_equal(kv_store_ranked(world->store), 0);
    world_unlock(world, "ab");
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expired_page_ranks_by_its_own_release),
        cmocka_unit_test(priority_ends_upwards_and_in_use),
        cmocka_unit_test(timer_ends_with_rule_and_page),
        cmocka_unit_test(each_ends_at_its_time),
        cmocka_unit_test(ranks_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
