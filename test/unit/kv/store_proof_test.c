/* The proof notices what is wrong: one thing is broken at a time, and mended. */
#include "unit/kv/store_world.h"

#include "kv/store_state.h"

/* a is locked, h held, c and d queued, x's slot free again, and the copy of e,
 * which fell, under way. */
static int create(void **state)
{
    struct world *world = WORLD_CREATE(5, 3);
    world_cache(world, "e");
    world_take(world, "ahcdx");
    world_commit(world, "cd");
    world_suspend(world, "h");
    world_unlock(world, "cdx");
    assert_true(kv_store_is_valid(world->store));
    *state = world;
    return 0;
}

static int destroy(void **state)
{
    world_destroy(*state);
    return 0;
}

static struct kv_page *page_named(const struct world *world, char name)
{
    return &world->store->pages[world->refs[(int)name]];
}

#define BREAKS(world, what, value)                       \
    do {                                                 \
        __typeof__(what) good_ = (what);                 \
        (what) = (__typeof__(what))(value);              \
        assert_false(kv_store_is_valid((world)->store)); \
        (what) = good_;                                  \
        assert_true(kv_store_is_valid((world)->store));  \
    } while (0)

static void broken_pages_are_seen(void **state)
{
    struct world *world = *state;
    BREAKS(world, page_named(world, 'a')->locks, 0);
    BREAKS(world, page_named(world, 'h')->holds, 0);
    BREAKS(world, page_named(world, 'c')->flags,
           page_named(world, 'c')->flags & ~KV_PAGE_COMMITTED);
    BREAKS(world, page_named(world, 'c')->flags,
           page_named(world, 'c')->flags | KV_PAGE_LOST);
    BREAKS(world, page_named(world, 'a')->flags,
           page_named(world, 'a')->flags | KV_PAGE_CHOSEN);
    BREAKS(world, page_named(world, 'c')->slot, page_named(world, 'a')->slot);
    BREAKS(world, page_named(world, 'c')->released, UINT32_MAX);
    BREAKS(world, page_named(world, 'c')->priority, 36);
    BREAKS(world, page_named(world, 'a')->orders, 1);
    BREAKS(world, page_named(world, 'a')->timer, 1);
}

static void broken_numbers_are_seen(void **state)
{
    struct world *world = *state;
    struct kv_shelf *shelf = &world->store->shelves[0][0];
    BREAKS(world, shelf->locked, 2);
    BREAKS(world, shelf->held, 0);
    BREAKS(world, shelf->droppable, 3);
    BREAKS(world, shelf->queue.count, 2);
    BREAKS(world, shelf->queue.classes[1], 1);
    BREAKS(world, shelf->slots.free_count, 4);
    BREAKS(world, shelf->slots.bits[0], 0);
    BREAKS(world, shelf->slots.high_water, 0);
    BREAKS(world, world->store->orders.outstanding, 0);
    BREAKS(world, world->store->item_count, 1);
    BREAKS(world, shelf->slots.cells[page_named(world, 'a')->slot], 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(broken_pages_are_seen, create, destroy),
        cmocka_unit_test_setup_teardown(broken_numbers_are_seen, create,
                                        destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
