#include "unit/kv/tree_world.h"

enum { B = 4 };
static const struct world_options PLAIN = {
    .tokens_per_block = B,
    .life_count = 1,
    .node_max = 64,
    .page_count = 64,
};
/* A prompt of ten tokens becomes two full blocks and a leaf of two, each linked
 * to the one before, the full ones found by their tags. [engine T14] */
static void test_commit_makes_a_chain_with_a_partial_leaf(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[10];
    const int32_t *tail;
    world_fill(tokens, 1, 10);
    kv_node leaf = world_commit(&world, tokens, 10);
    assert_int_equal(world.last, KV_INSERT_NEW);
    assert_int_equal(kv_tree_count(world.tree), 3);
    assert_int_equal(kv_tree_tokens(world.tree, leaf, &tail), 2);
    assert_int_equal(tail[0], 9);
    assert_int_equal(tail[1], 10);
    assert_false(kv_tree_is_full(world.tree, leaf));
    assert_int_equal(kv_tree_ordinal(world.tree, leaf), 2);
    kv_ref page = kv_tree_page(world.tree, leaf, 0);
    assert_int_equal(kv_store_page(world.store, page)->tokens, 2);
    kv_node middle = kv_tree_parent(world.tree, leaf);
    assert_true(kv_tree_is_full(world.tree, middle));
    assert_int_equal(kv_tree_find(world.tree, kv_tree_key(world.tree, middle)),
                     middle);
    assert_int_equal(kv_tree_find(world.tree, kv_tree_key(world.tree, leaf)),
                     KV_NODE_NONE);
    kv_node first = kv_tree_parent(world.tree, middle);
    assert_int_equal(kv_tree_parent(world.tree, first), KV_NODE_NONE);
    world_prove(&world);
    world_finish(&world);
}

/* Accessors tell what was put in; the epoch moves with every change and with no
 * question. */
static void test_epoch_moves_with_content_only(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[8];
    world_fill(tokens, 1, 8);
    uint64_t epoch = kv_tree_epoch(world.tree);
    kv_node node = world_commit(&world, tokens, 8);
    assert_true(kv_tree_epoch(world.tree) > epoch);
    epoch = kv_tree_epoch(world.tree);
    assert_int_equal(world_reuse(&world, tokens, 8), 7);
    assert_int_equal(kv_tree_leaf_below(world.tree, node, 0), node);
    kv_node parent = kv_tree_parent(world.tree, node);
    assert_true(prefix_key_equals(kv_tree_key_above(world.tree, node),
                                  kv_tree_key(world.tree, parent)));
    assert_true(prefix_key_equals(kv_tree_key_above(world.tree, parent),
                                  &world.scope.root));
    assert_int_equal(kv_tree_epoch(world.tree), epoch);
    world_lose(&world, node, 0);
    assert_true(kv_tree_epoch(world.tree) > epoch);
    assert_true(kv_tree_bytes(world.tree) > kv_tree_token_bytes(world.tree));
    world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit_makes_a_chain_with_a_partial_leaf),
        cmocka_unit_test(test_epoch_moves_with_content_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
