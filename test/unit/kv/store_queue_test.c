#include "unit/kv/store_world.h"

#include "kv/store_state.h"

static void retain(struct world *world, char name, uint8_t priority)
{
    kv_store_retain(world->store, world->refs[(int)name], priority, UINT64_MAX);
}

/* A whole class goes before the next, whatever the age. */
static void lower_priority_goes_first(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(6);
    world_take(world, "abcdef");
    world_commit(world, "abcdef");
    retain(world, 'a', 100);
    retain(world, 'b', 64);
    retain(world, 'c', 63);
    retain(world, 'd', 0);
    world_unlock(world, "abcdef");
    assert_queue(world, 0, "defcba");
    world_destroy(world);
}

/* Pages that change their class come to stand by when they were let go of,
 * whether one is put before all, between two, or in a run beside the last one
 * put: all orders in which six of them change are tried. */
static void changed_pages_stand_by_their_release(void **state)
{
    (void)state;
    static const char *const ORDERS[] = {"abcdef", "fedcba", "cdbeaf",
                                         "afbecd", "dacebf", "bdface"};
    for (size_t i = 0; i < sizeof(ORDERS) / sizeof(ORDERS[0]); i++) {
        struct world *world = WORLD_CREATE(12);
        world_take(world, "aAbBcCdDeEfF");
        world_commit(world, "aAbBcCdDeEfF");
        for (const char *name = "abcdef"; *name != 0; name++) {
            retain(world, *name, 90);
        }
        world_unlock(world, "aAbBcCdDeEfF");
        assert_queue(world, 0, "ABCDEFabcdef");
        for (const char *name = ORDERS[i]; *name != 0; name++) {
            retain(world, *name, KV_PRIORITY_DEFAULT);
            assert_true(kv_store_is_valid(world->store));
        }
        assert_queue(world, 0, "aAbBcCdDeEfF");
        world_destroy(world);
    }
}

/* The stamps run out: they begin anew, and every page, queued or held, keeps its
 * place. The held one shows it by joining the others' class later. */
static void order_outlives_the_stamps(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(6, 2);
    world_take(world, "abcdef");
    world_commit(world, "abcdef");
    retain(world, 'b', 90);
    world->store->next_stamp = UINT32_MAX - 4;
    world_unlock(world, "ab");
    world_suspend(world, "c");
    world_unlock(world, "def");
    assert_true(world->store->next_stamp < 10);
    assert_queue(world, 0, "acdefb");
    retain(world, 'b', KV_PRIORITY_DEFAULT);
    assert_queue(world, 0, "abcdef");
    world_destroy(world);
}

/* Unlinked in any order and relinked backwards, a queue is what it was. */
static void unlinks_are_undone_backwards(void **state)
{
    (void)state;
    struct world *world = WORLD_CREATE(5);
    world_cache(world, "abcde");
    retain(world, 'e', 10);
    const char *names = "ceadb";
    for (size_t i = 0; i < 5; i++) {
        kv_queue_unlink(world->store, world->refs[(int)names[i]]);
    }
    assert_queue(world, 0, "");
    for (size_t i = 5; i > 0; i--) {
        kv_queue_relink(world->store, world->refs[(int)names[i - 1]]);
    }
    assert_queue(world, 0, "eabcd");
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lower_priority_goes_first),
        cmocka_unit_test(changed_pages_stand_by_their_release),
        cmocka_unit_test(order_outlives_the_stamps),
        cmocka_unit_test(unlinks_are_undone_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
