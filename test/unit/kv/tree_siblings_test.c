#include "unit/kv/tree_world.h"

enum { B = 4 };
static const struct world_options PLAIN = {
    .tokens_per_block = B,
    .life_count = 1,
    .node_max = 64,
    .page_count = 64,
};
/* Two thousand children that begin alike: the one that shares the most is found,
 * whichever it is, and after half of them went as well. */
static void test_the_nearest_of_many_children_is_found(void **state)
{
    (void)state;
    enum { CHILDREN = 2000 };
    struct world_options options = PLAIN;
    options.node_max = CHILDREN + 1;
    options.page_count = CHILDREN + 2;
    struct world world;
    world_init(&world, &options);
    int32_t tokens[8] = {1, 2, 3, 4, 5};
    static kv_node nodes[CHILDREN];
    for (int32_t i = 0; i < CHILDREN; i++) {
        tokens[5] = i / 100;
        tokens[6] = i / 10 % 10;
        tokens[7] = i % 10;
        nodes[i] = world_commit(&world, tokens, 8);
    }
    world_prove(&world);
    for (int32_t i = 0; i < CHILDREN; i += 2) {
        world_lose(&world, nodes[i], 0);
    }
    world_prove(&world);
    for (int32_t i = 1; i < CHILDREN; i += 7) {
        tokens[5] = i / 100;
        tokens[6] = i / 10 % 10;
        tokens[7] = i % 2 == 0 ? i % 10 : 10; /* neither is there */
        assert_int_equal(
            world_match_as(&world, &world.scope, tokens, 8, NULL).usable, 7);
    }
    world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_nearest_of_many_children_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
