#include "unit/kv/tree_world.h"

enum { B = 4 };
static const struct world_options PLAIN = {
    .tokens_per_block = B,
    .life_count = 1,
    .node_max = 64,
    .page_count = 64,
};
/* From the root of a fork the leaf released first is answered; as leaves are
 * dropped, further ones, until the node itself is all there is. */
static void test_leaf_below_drains_a_subtree_leaf_by_leaf(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[16];
    world_fill(tokens, 1, 16);
    kv_node old_leaf = world_commit(&world, tokens, 16);
    kv_node root = world_chain_node(&world, old_leaf, 0);
    tokens[5] = 99;
    world_commit(&world, tokens, 16);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), old_leaf);
    for (uint32_t left = 6; left > 0; left--) {
        kv_node leaf = kv_tree_leaf_below(world.tree, root, 0);
        assert_int_not_equal(leaf, root);
        world.removed_count = 0;
        world_lose(&world, leaf, 0);
        assert_int_equal(world.removed_count, 1);
    }
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), root);
    world_prove(&world);
    world_finish(&world);
}

/* Rank comes before age: a leaf of lower priority goes first, though released
 * last; and two walks from two nodes do not disturb each other. */
static void test_leaf_below_minds_priorities(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[12];
    world_fill(tokens, 1, 12);
    kv_node old = world_commit(&world, tokens, 12);
    kv_node middle = kv_tree_parent(world.tree, old);
    kv_node root = kv_tree_parent(world.tree, middle);
    tokens[9] = 77;
    kv_node young = world_commit(&world, tokens, 12);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), old);
    kv_store_retain(world.store, kv_tree_page(world.tree, young, 0), 10,
                    UINT64_MAX);
    assert_int_equal(kv_tree_leaf_below(world.tree, middle, 0), young);
    world_lose(&world, young, 0);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), old);
    world_lose(&world, middle, 0);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), root);
    world_finish(&world);
}

static void lock_page(struct world *world, kv_node node)
{
    uint32_t want[KV_LIFE_COUNT_MAX] = {0};
    kv_ref page = kv_tree_page(world->tree, node, 0);
    kv_store_hold(world->store, page);
    assert_int_equal(kv_store_lock(world->store, &page, 1, want, NULL), OK);
}

/* A leaf that is taken out of the queue is not answered any more, whether by the
 * chooser, who asks on before it drops anything, or by a user: then the node
 * above is, and so on up. */
static void test_leaf_below_passes_over_pages_in_use(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[12];
    world_fill(tokens, 1, 12);
    kv_node leaf = world_commit(&world, tokens, 12);
    kv_node middle = kv_tree_parent(world.tree, leaf);
    kv_node root = kv_tree_parent(world.tree, middle);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), leaf);
    lock_page(&world, leaf);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), middle);
    lock_page(&world, middle);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), root);
    kv_store_unlock(world.store, kv_tree_page(world.tree, leaf, 0));
    kv_store_unlock(world.store, kv_tree_page(world.tree, middle, 0));
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), leaf);
    lock_page(&world, leaf);
    lock_page(&world, middle);
    assert_int_equal(kv_tree_leaf_below(world.tree, root, 0), root);
    kv_store_unlock(world.store, kv_tree_page(world.tree, leaf, 0));
    kv_store_unlock(world.store, kv_tree_page(world.tree, middle, 0));
    world_finish(&world);
}

static bool count_to_two(void *context, kv_node node)
{
    (void)node;
    return ++*(int *)context < 2;
}

/* The walk over all names every node once, parents first; the one up stops when
 * told. */
static void test_walks_go_parents_first_and_stop_when_told(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[12];
    for (int32_t i = 0; i < 4; i++) {
        world_fill(tokens, 1, 12);
        tokens[4 * (i % 3)] = 50 + i;
        struct prefix_scope scope = world_scope((uint64_t)i / 2);
        world_commit_as(&world, &scope, tokens, 12, UINT32_MAX);
    }
    bool seen[128] = {false};
    uint32_t count = 0;
    kv_node deepest = KV_NODE_NONE;
    for (kv_node at = kv_tree_first(world.tree); at != KV_NODE_NONE;
         at = kv_tree_next(world.tree, at)) {
        kv_node parent = kv_tree_parent(world.tree, at);
        assert_false(seen[at]);
        assert_true(parent == KV_NODE_NONE || seen[parent]);
        seen[at] = true;
        count++;
        if (kv_tree_ordinal(world.tree, at) == 2) {
            deepest = at;
        }
    }
    assert_int_equal(count, kv_tree_count(world.tree));
    int visits = 0;
    kv_tree_ancestors(world.tree, deepest, count_to_two, &visits);
    assert_int_equal(visits, 2);
    world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaf_below_drains_a_subtree_leaf_by_leaf),
        cmocka_unit_test(test_leaf_below_minds_priorities),
        cmocka_unit_test(test_leaf_below_passes_over_pages_in_use),
        cmocka_unit_test(test_walks_go_parents_first_and_stop_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
