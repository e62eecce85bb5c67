#include "unit/kv/tree_world.h"

#include "kv/tree_state.h"

enum { B = 4 };

/* A tree of two lives, a fork and a partial leaf, that proves itself; each test
 * then breaks one thing inside, must be told so, and mends it. */
struct proof {
    struct world world;
    kv_node first, full, leaf, other;
};

static void proof_init(struct proof *proof)
{
    static const struct world_options OPTIONS = {
        .tokens_per_block = B,
        .life_count = 2,
        .lives = {{0}, {.window = 8}},
        .node_max = 64,
        .page_count = 64,
    };
    world_init(&proof->world, &OPTIONS);
    int32_t tokens[10];
    world_fill(tokens, 1, 10);
    proof->leaf = world_commit(&proof->world, tokens, 10);
    proof->full = kv_tree_parent(proof->world.tree, proof->leaf);
    proof->first = kv_tree_parent(proof->world.tree, proof->full);
    tokens[5] = 99;
    proof->other = world_commit(&proof->world, tokens, 8);
    assert_true(kv_tree_is_valid(proof->world.tree));
}

static void proof_finish(struct proof *proof)
{
    assert_true(kv_tree_is_valid(proof->world.tree));
    world_finish(&proof->world);
}

static struct node *inside(const struct proof *proof, kv_node node)
{
    return &proof->world.tree->nodes[node];
}

/* `broken` in place of what `field` holds is seen. */
#define ASSERT_SEEN(proof, field, broken)                    \
    do {                                                     \
        __typeof__(field) whole = (field);                   \
        (field) = (broken);                                  \
        assert_false(kv_tree_is_valid((proof)->world.tree)); \
        (field) = whole;                                     \
    } while (0)

/* Partial nodes with children, and counts that lie. [engine I21] */
static void test_a_partial_node_with_children_is_seen(void **state)
{
    (void)state;
    struct proof proof;
    proof_init(&proof);
    ASSERT_SEEN(&proof, inside(&proof, proof.full)->tokens, 3);
    ASSERT_SEEN(&proof, proof.world.tree->blocks, 3);
    ASSERT_SEEN(&proof, proof.world.tree->used, 9);
    proof_finish(&proof);
}

/* Siblings of which one begins the other, or out of order. [engine I22] */
static void test_siblings_that_are_prefixes_are_seen(void **state)
{
    (void)state;
    struct proof proof;
    proof_init(&proof);
    int32_t *row = node_row(proof.world.tree, proof.other);
    ASSERT_SEEN(&proof, row[1], 6);
    ASSERT_SEEN(&proof, row[1], 5);
    proof_finish(&proof);
}

/* Nodes whose place below their parent is not what they say. [engine I23] */
static void test_a_node_without_its_ancestors_is_seen(void **state)
{
    (void)state;
    struct proof proof;
    proof_init(&proof);
    ASSERT_SEEN(&proof, inside(&proof, proof.leaf)->ordinal, 1);
    ASSERT_SEEN(&proof, inside(&proof, proof.leaf)->parent, proof.first);
    ASSERT_SEEN(&proof, inside(&proof, proof.full)->key.bytes[7],
                (uint8_t)(whole ^ 1));
    proof_finish(&proof);
}

/* No base page, somebody else's, or one that covers too little. [engine I24] */
static void test_a_node_without_its_base_page_is_seen(void **state)
{
    (void)state;
    struct proof proof;
    proof_init(&proof);
    kv_ref others = kv_tree_page(proof.world.tree, proof.other, 0);
    kv_ref partial = kv_tree_page(proof.world.tree, proof.leaf, 1);
    ASSERT_SEEN(&proof, inside(&proof, proof.full)->pages[0], KV_REF_NONE);
    ASSERT_SEEN(&proof, inside(&proof, proof.full)->pages[0], others);
    kv_store_commit(proof.world.store, others, proof.other, 2);
    assert_false(kv_tree_is_valid(proof.world.tree));
    kv_store_commit(proof.world.store, others, proof.other, 4);
    ASSERT_SEEN(&proof, inside(&proof, proof.full)->pages[1], partial);
    proof_finish(&proof);
}

/* A page that covers more than its node has, and one that is remembered to cover
 * all. [engine I25] */
static void test_wrong_coverage_is_seen(void **state)
{
    (void)state;
    struct proof proof;
    proof_init(&proof);
    kv_ref partial = kv_tree_page(proof.world.tree, proof.leaf, 1);
    ASSERT_SEEN(&proof, inside(&proof, proof.leaf)->flags, node_whole_bit(1));
    kv_store_commit(proof.world.store, partial, proof.leaf, 3);
    assert_false(kv_tree_is_valid(proof.world.tree));
    world_finish(&proof.world);
}

/* A scope that is not under its root's name. [engine I26] */
static void test_a_scope_of_another_name_is_seen(void **state)
{
    (void)state;
    struct proof proof;
    proof_init(&proof);
    kv_node scope = proof.world.tree->scopes;
    ASSERT_SEEN(&proof, inside(&proof, scope)->key.bytes[3],
                (uint8_t)(whole ^ 1));
    proof_finish(&proof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_partial_node_with_children_is_seen),
        cmocka_unit_test(test_siblings_that_are_prefixes_are_seen),
        cmocka_unit_test(test_a_node_without_its_ancestors_is_seen),
        cmocka_unit_test(test_a_node_without_its_base_page_is_seen),
        cmocka_unit_test(test_wrong_coverage_is_seen),
        cmocka_unit_test(test_a_scope_of_another_name_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
