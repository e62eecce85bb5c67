#include "unit/kv/tree_world.h"

#include "kv/tree_state.h"

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
/* The six look-ups of the case on the tree of the case before; the tree's own
 * tail page still covers two tokens afterwards. [engine T15] */
static void test_match_reuses_what_the_case_says(void **state)
{
    (void)state;
    static const struct {
        uint32_t reuse, count;
        int32_t prompt[12];
    } CASES[] = {
        {8, 10, {1, 2, 3, 4, 5, 6, 7, 8, 20, 21}},
        {9, 11, {1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 31}},
        {10, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
        {3, 5, {1, 2, 3, 99, 5}},
        {0, 1, {1}},
    };
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[10];
    world_fill(tokens, 1, 10);
    kv_node leaf = world_commit(&world, tokens, 10);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        assert_int_equal(world_reuse(&world, CASES[i].prompt, CASES[i].count),
                         CASES[i].reuse);
    }
    struct prefix_scope salted = world_scope(5);
    assert_int_equal(world_match_as(&world, &salted, tokens, 9, NULL).raw, 0);
    kv_ref page = kv_tree_page(world.tree, leaf, 0);
    assert_int_equal(kv_store_page(world.store, page)->tokens, 2);
    world_finish(&world);
}

/* The chain that a match hands out leads from the first block to the one that
 * is used in part. */
static void test_match_names_the_nodes_of_what_is_usable(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &PLAIN);
    int32_t tokens[10];
    world_fill(tokens, 1, 10);
    kv_node leaf = world_commit(&world, tokens, 10);
    kv_node nodes[3];
    struct kv_match match =
        world_match_as(&world, &world.scope, tokens, 9, nodes);
    assert_int_equal(match.usable, 9);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(nodes[i], world_chain_node(&world, leaf, i));
    }
    world_finish(&world);
}

/* Each set of lost windowed pages of the case gives the reuse of the case.
 * [engine T18] */
static void test_windowed_holes_cut_the_match(void **state)
{
    (void)state;
    static const struct {
        uint32_t reuse, holes;
    } CASES[] = {
        {24, 0},
        {24, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3},
        {16, 1 << 0 | 1 << 1 | 1 << 4},
        {16, 1 << 4},
        {20, 1 << 5},
        {12, 1 << 3 | 1 << 4},
        {8, 1 << 2 | 1 << 3 | 1 << 4},
        {0, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4},
    };
    int32_t tokens[25];
    world_fill(tokens, 100, 25);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct world world;
        world_init(&world, &MIXED);
        kv_node deepest = world_commit(&world, tokens, 24);
        for (uint32_t block = 0; block < 6; block++) {
            if ((CASES[i].holes >> block & 1) != 0) {
                world_lose(&world, world_chain_node(&world, deepest, block), 1);
            }
        }
        assert_int_equal(world_reuse(&world, tokens, 25), CASES[i].reuse);
        world_prove(&world);
        world_finish(&world);
    }
}

/* Of children that share the same run the match goes into one whose windowed
 * page is there. */
static void test_of_equal_children_the_usable_one_is_taken(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &MIXED);
    int32_t tokens[8] = {1, 2, 3, 4, 5, 6};
    kv_node nodes[3];
    for (int32_t i = 0; i < 3; i++) {
        tokens[6] = 10 + i;
        nodes[i] = world_commit(&world, tokens, 8);
    }
    for (uint32_t keep = 0; keep < 3; keep++) {
        for (uint32_t i = 0; i < 3; i++) {
            bool has = kv_tree_page(world.tree, nodes[i], 1) != KV_REF_NONE;
            if (i == keep && !has) {
                world_give_page(&world, nodes[i], 1);
            } else if (i != keep && has) {
                world_lose(&world, nodes[i], 1);
            }
        }
        tokens[6] = 99;
        assert_int_equal(
            world_match_as(&world, &world.scope, tokens, 8, NULL).usable, 6);
    }
    world_finish(&world);
}

/* A hole that comes after a match was found usable is seen by the next match,
 * and a page that comes back heals it. */
static void test_what_was_found_usable_is_not_believed_after_a_loss(
    void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &MIXED);
    int32_t tokens[26];
    world_fill(tokens, 1, 26);
    kv_node deepest = world_commit(&world, tokens, 25);
    for (uint32_t count = 24; count <= 26; count++) {
        assert_int_equal(world_reuse(&world, tokens, count), count - 1);
        assert_int_equal(world_reuse(&world, tokens, count), count - 1);
    }
    kv_node fifth = world_chain_node(&world, deepest, 4);
    world_lose(&world, fifth, 1);
    for (uint32_t count = 24; count <= 26; count++) {
        assert_int_equal(world_reuse(&world, tokens, count), 16);
    }
    world_give_page(&world, fifth, 1);
    for (uint32_t count = 24; count <= 26; count++) {
        assert_int_equal(world_reuse(&world, tokens, count), count - 1);
    }
    world_finish(&world);
}

/* The count of losses comes round to where a match was once found usable: that
 * proof is not believed any more. */
static void test_proofs_do_not_outlive_the_count_of_losses(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, &MIXED);
    int32_t tokens[25];
    world_fill(tokens, 1, 25);
    kv_node deepest = world_commit(&world, tokens, 24);
    assert_int_equal(world.tree->losses, 1);
    assert_int_equal(world_reuse(&world, tokens, 25), 24);
    world.tree->losses = UINT32_MAX;
    world_lose(&world, world_chain_node(&world, deepest, 5), 1);
    assert_int_equal(world.tree->losses, 1);
    assert_int_equal(world_reuse(&world, tokens, 25), 20);
    world_finish(&world);
}

/* A last block that is all sink is looked at too, and W = 1 at a block's end
 * needs no block at all. */
static void test_edges_of_windows(void **state)
{
    (void)state;
    struct world_options options = MIXED;
    options.life_count = 1;
    options.lives[0] = (struct kv_life){.window = 1};
    struct world world;
    world_init(&world, &options);
    int32_t tokens[8];
    world_fill(tokens, 1, 8);
    world_commit_as(&world, &world.scope, tokens, 8, 0);
    assert_int_equal(
        world_match_as(&world, &world.scope, tokens, 8, NULL).usable, 8);
    assert_int_equal(
        world_match_as(&world, &world.scope, tokens, 7, NULL).usable, 4);
    world_finish(&world);
    options.lives[0] = (struct kv_life){.window = 1, .sink_tokens = 8};
    world_init(&world, &options);
    world_commit_as(&world, &world.scope, tokens, 8, 0);
    assert_int_equal(
        world_match_as(&world, &world.scope, tokens, 8, NULL).usable, 0);
    world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match_reuses_what_the_case_says),
        cmocka_unit_test(test_match_names_the_nodes_of_what_is_usable),
        cmocka_unit_test(test_windowed_holes_cut_the_match),
        cmocka_unit_test(test_of_equal_children_the_usable_one_is_taken),
        cmocka_unit_test(
            test_what_was_found_usable_is_not_believed_after_a_loss),
        cmocka_unit_test(test_proofs_do_not_outlive_the_count_of_losses),
        cmocka_unit_test(test_edges_of_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
