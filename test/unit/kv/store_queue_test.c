#include "unit/kv/store_world.h"

#include "base/rng.h"
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

/* Sixty pages of seven priorities, let go of in any order, on two levels: numbered
 * anew each queue is what it was, and numbers begin at 1. */
static void numbering_anew_keeps_every_queue(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct world *world = WORLD_CREATE(COUNT, COUNT);
    struct rng rng = rng_from_seed(9);
    kv_ref refs[COUNT], before[2][COUNT], after[COUNT];
    uint32_t counts[2];
    assert_int_equal(world_ask(world, COUNT, refs), OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        kv_store_commit(world->store, refs[i], i, 1);
        kv_store_retain(world->store, refs[i],
                        (uint8_t)(30 + rng_below(&rng, 7)), UINT64_MAX);
    }
    for (uint32_t left = COUNT; left > 0; left--) {
        uint32_t at = (uint32_t)rng_below(&rng, left);
        kv_store_unlock(world->store, refs[at]);
        refs[at] = refs[left - 1];
    }
    kv_ref more[COUNT / 4];
    assert_int_equal(world_ask(world, COUNT / 4, more), OK);
    for (uint8_t level = 0; level < 2; level++) {
        counts[level] =
            kv_store_queue(world->store, level, 0, COUNT, before[level]);
    }
    assert_int_equal(counts[0], COUNT - COUNT / 4);
    assert_int_equal(counts[1], COUNT / 4);
    kv_store_renumber(world->store);
    assert_true(kv_store_is_valid(world->store));
    assert_int_equal(world->store->next_stamp, COUNT + COUNT / 4 + 1);
    for (uint8_t level = 0; level < 2; level++) {
        assert_int_equal(kv_store_queue(world->store, level, 0, COUNT, after),
                         counts[level]);
        assert_memory_equal(after, before[level],
                            counts[level] * sizeof(kv_ref));
    }
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
        cmocka_unit_test(numbering_anew_keeps_every_queue),
        cmocka_unit_test(unlinks_are_undone_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
