#include "unit/kv/tree_world.h"

enum { B = 4 };
static const struct world_options PLAIN = {
    .tokens_per_block = B,
    .life_count = 1,
    .node_max = 64,
    .page_count = 64,
};
/* Full attention and a window of 8. */
static const struct world_options MIXED = {
    .tokens_per_block = B,
    .life_count = 2,
    .lives = {{0}, {.window = 8}},
    .node_max = 64,
    .page_count = 64,
};
/* A window of 8 only, the first block a sink. */
static const struct world_options WINDOWED = {
    .tokens_per_block = B,
    .life_count = 1,
    .lives = {{.window = 8, .sink_tokens = 3}},
    .node_max = 64,
    .page_count = 64,
};

/* The root of five nodes loses its page of full attention: all five cease, each
 * after its children, and every page is free. [engine T34] */
static void test_losing_a_base_page_removes_children_first(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[12];
    world_fill(tokens, 1, 12);
    kv_node deepest = world_commit(&world, tokens, 12);
    tokens[4] = 77;
    world_commit(&world, tokens, 12);
    assert_int_equal(kv_tree_count(world.tree), 5);
    world_lose(&world, world_chain_node(&world, deepest, 0), 0);
    assert_int_equal(world.removed_count, 5);
    assert_int_equal(world.removed[0].ordinal, 2);
    assert_int_equal(world.removed[1].ordinal, 1);
    assert_int_equal(world.removed[2].ordinal, 2);
    assert_int_equal(world.removed[3].ordinal, 1);
    assert_int_equal(world.removed[4].ordinal, 0);
    assert_int_equal(kv_tree_count(world.tree), 0);
    assert_int_equal(kv_tree_first(world.tree), KV_NODE_NONE);
    assert_int_equal(world_free(&world, 0), 64);
    world_prove(&world);
    world_finish(&world);
}

/* A stale windowed page goes: told for that life cycle only, the node stays, and
 * matches beyond the window go through it. [engine T35] */
static void test_losing_a_windowed_page_keeps_the_node(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &MIXED);
    int32_t tokens[25];
    world_fill(tokens, 1, 25);
    kv_node deepest = world_commit(&world, tokens, 24);
    kv_node node = world_chain_node(&world, deepest, 1);
    world_lose(&world, node, 1);
    assert_int_equal(world.removed_count, 1);
    assert_int_equal(world.removed[0].node, node);
    assert_int_equal(world.removed[0].life, 1);
    assert_int_equal(kv_tree_page(world.tree, node, 1), KV_REF_NONE);
    assert_int_not_equal(kv_tree_page(world.tree, node, 0), KV_REF_NONE);
    assert_int_equal(kv_tree_count(world.tree), 6);
    assert_int_equal(world_reuse(&world, tokens, 25), 24);
    world_prove(&world);
    world_finish(&world);
}

/* Without full attention nodes lose their last page and stay for their
 * descendants; with the last of these the whole chain up to the sink goes. */
static void test_pageless_nodes_stay_while_they_have_descendants(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &WINDOWED);
    int32_t tokens[21];
    world_fill(tokens, 1, 21);
    kv_node deepest = world_commit(&world, tokens, 20);
    for (uint32_t block = 1; block < 4; block++) {
        world_lose(&world, world_chain_node(&world, deepest, block), 0);
    }
    assert_int_equal(kv_tree_count(world.tree), 5);
    assert_int_equal(world_reuse(&world, tokens, 21), 4);
    world_prove(&world);
    world_lose(&world, deepest, 0);
    assert_int_equal(kv_tree_count(world.tree), 1);
    world_prove(&world);
    world_finish(&world);
}

/* A sink page is what a node stands on even where the life has a window. */
static void test_losing_a_sink_page_removes_the_subtree(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &WINDOWED);
    int32_t tokens[20];
    world_fill(tokens, 1, 20);
    kv_node deepest = world_commit(&world, tokens, 20);
    world_lose(&world, world_chain_node(&world, deepest, 0), 0);
    assert_int_equal(kv_tree_count(world.tree), 0);
    assert_int_equal(world.removed_count, 5);
    assert_int_equal(world_free(&world, 0), 64);
    world_prove(&world);
    world_finish(&world);
}

/* An insertion that gets no page is taken back with the ancestors that only it
 * kept, and no further than to one that has a page. */
static void test_trim_takes_back_what_got_no_page(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &WINDOWED);
    int32_t tokens[16];
    world_fill(tokens, 1, 16);
    world_commit(&world, tokens, 4);
    kv_node deepest = world_commit_as(&world, &world.scope, tokens, 16, 0);
    assert_int_equal(kv_tree_count(world.tree), 4);
    kv_tree_trim(world.tree, kv_tree_parent(world.tree, deepest));
    assert_int_equal(kv_tree_count(world.tree), 4);
    kv_tree_trim(world.tree, deepest);
    assert_int_equal(kv_tree_count(world.tree), 1);
    world_prove(&world);
    world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losing_a_base_page_removes_children_first),
        cmocka_unit_test(test_losing_a_windowed_page_keeps_the_node),
        cmocka_unit_test(test_pageless_nodes_stay_while_they_have_descendants),
        cmocka_unit_test(test_losing_a_sink_page_removes_the_subtree),
        cmocka_unit_test(test_trim_takes_back_what_got_no_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
