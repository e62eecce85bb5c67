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
/* Twelve tokens after ten: two blocks exist, the leaf grows and keeps its page;
 * nine tokens after that are useless and change nothing. [engine T16] */
static void test_extension_takes_the_place_of_a_partial_leaf(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[12];
    world_fill(tokens, 1, 12);
    world_commit(&world, tokens, 10);
    kv_node full = world_commit(&world, tokens, 12);
    assert_int_equal(world.last, KV_INSERT_EXTENDS);
    assert_true(kv_tree_is_full(world.tree, full));
    assert_int_equal(kv_tree_count(world.tree), 3);
    kv_ref page = kv_tree_page(world.tree, full, 0);
    assert_int_equal(kv_store_page(world.store, page)->tokens, 4);
    assert_int_equal(world_free(&world, 0), 64 - 3);
    uint64_t epoch = kv_tree_epoch(world.tree);
    assert_int_equal(world_commit(&world, tokens, 9), KV_NODE_NONE);
    assert_int_equal(world.last, KV_INSERT_USELESS);
    assert_int_equal(kv_tree_epoch(world.tree), epoch);
    world_commit(&world, tokens, 12);
    assert_int_equal(world.last, KV_INSERT_EXISTS);
    assert_int_equal(kv_tree_epoch(world.tree), epoch);
    world_prove(&world);
    world_finish(&world);
}

/* The extender lacks the windowed page: the old one stays, covering two tokens,
 * and limits the reuse of twelve to ten. [engine T17] */
static void test_extension_keeps_the_pages_it_has_no_better_for(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &MIXED);
    int32_t tokens[13];
    world_fill(tokens, 1, 13);
    kv_node leaf = world_commit(&world, tokens, 10);
    kv_ref old = kv_tree_page(world.tree, leaf, 1);
    kv_node full = world_commit_as(&world, &world.scope, tokens, 12, 1u << 0);
    assert_int_equal(world.last, KV_INSERT_EXTENDS);
    assert_int_equal(kv_tree_page(world.tree, full, 1), old);
    assert_int_equal(kv_store_page(world.store, old)->node, full);
    assert_int_equal(kv_store_page(world.store, old)->tokens, 2);
    assert_int_equal(world_reuse(&world, tokens, 13), 10);
    assert_int_equal(world_reuse(&world, tokens, 11), 10);
    assert_int_equal(world_match_as(&world, &world.scope, tokens, 12, NULL).raw,
                     12);
    world_prove(&world);
    world_finish(&world);
}

/* A full tree says so, changes nothing, and takes blocks again once one went;
 * an extension needs no new node. */
static void test_a_full_tree_is_an_answer(void **state)
{
    (void)state;
    struct world_options options = PLAIN;
    options.node_max = 3;
    struct world world;
    world_init(&world, &options);
    int32_t tokens[12];
    world_fill(tokens, 1, 12);
    kv_node leaf = world_commit(&world, tokens, 10);
    int32_t other[4] = {50, 51, 52, 53};
    uint64_t epoch = kv_tree_epoch(world.tree);
    assert_int_equal(world_commit(&world, other, 4), KV_NODE_NONE);
    assert_int_equal(world.last, KV_INSERT_FULL);
    assert_int_equal(kv_tree_epoch(world.tree), epoch);
    world_prove(&world);
    leaf = world_commit(&world, tokens, 12);
    assert_int_equal(world.last, KV_INSERT_EXTENDS);
    world_lose(&world, leaf, 0);
    world_commit(&world, other, 4);
    assert_int_equal(world.last, KV_INSERT_NEW);
    world_prove(&world);
    world_finish(&world);
}

/* Many scopes of one block: none is seen from another, each goes with its last
 * block, and the nodes serve again. */
static void test_scopes_share_nothing_and_end_with_their_blocks(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[5];
    world_fill(tokens, 1, 5);
    for (uint64_t round = 0; round < 20; round++) {
        kv_node nodes[10];
        for (uint64_t salt = 0; salt < 10; salt++) {
            struct prefix_scope scope = world_scope(round * 10 + salt);
            assert_int_equal(
                world_match_as(&world, &scope, tokens, 4, NULL).raw, 0);
            nodes[salt] =
                world_commit_as(&world, &scope, tokens, 4, UINT32_MAX);
            assert_int_equal(
                world_match_as(&world, &scope, tokens, 4, NULL).usable, 4);
        }
        assert_int_equal(kv_tree_count(world.tree), 10);
        world_prove(&world);
        for (uint64_t salt = 0; salt < 10; salt++) {
            world_lose(&world, nodes[(salt * 7 + round) % 10], 0);
        }
        assert_int_equal(kv_tree_count(world.tree), 0);
    }
    world_prove(&world);
    world_finish(&world);
}

/* Blocks of the same tokens under two tags, as items that are no text would make
 * them if their places held the same ids: the second is not kept. */
static void test_equal_tokens_under_another_tag_are_not_kept(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[4] = {1, 2, 3, 4};
    world_commit(&world, tokens, 4);
    struct prefix_key other = {{9}};
    kv_node node;
    assert_int_equal(kv_tree_insert(world.tree, &world.scope.root, KV_NODE_NONE,
                                    &other, tokens, 4, world.store, &node),
                     KV_INSERT_USELESS);
    assert_int_equal(node, KV_NODE_NONE);
    world_prove(&world);
    world_finish(&world);
}

/* Without partial reuse no partial leaf is kept and none is matched. */
static void test_whole_blocks_only_when_told_so(void **state)
{
    (void)state;
    struct world_options options = PLAIN;
    options.is_whole_only = true;
    struct world world;
    world_init(&world, &options);
    int32_t tokens[10];
    world_fill(tokens, 1, 10);
    assert_int_equal(world_commit(&world, tokens, 10), KV_NODE_NONE);
    assert_int_equal(world.last, KV_INSERT_USELESS);
    assert_int_equal(kv_tree_count(world.tree), 2);
    assert_int_equal(world_reuse(&world, tokens, 8), 4);
    world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extension_takes_the_place_of_a_partial_leaf),
        cmocka_unit_test(test_extension_keeps_the_pages_it_has_no_better_for),
        cmocka_unit_test(test_a_full_tree_is_an_answer),
        cmocka_unit_test(test_scopes_share_nothing_and_end_with_their_blocks),
        cmocka_unit_test(test_equal_tokens_under_another_tag_are_not_kept),
        cmocka_unit_test(test_whole_blocks_only_when_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
