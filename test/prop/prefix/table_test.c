/* Random work on a small table against an array that is searched from end to
 * end. Keys come from few homes and few middles, so that runs, wraps and keys
 * that differ only in what the slot does not hold are the rule. Prompts are
 * chains kept prefix-closed, as an owner of a tree keeps them. */
#include "unit/base/test.h"

#include "base/rng.h"
#include "prefix/table.h"

enum {
    CAPACITY = 50,
    ID_COUNT = 80,
    OP_COUNT = 60000,
    CHAIN_COUNT = 4,
    CHAIN_MAX = 20
};

struct world {
    struct rng rng;
    struct prefix_table *table;
    struct prefix_key keys[ID_COUNT];
    bool is_here[ID_COUNT];
    uint32_t count;
};

static uint32_t slow_find(const struct world *world,
                          const struct prefix_key *key)
{
    for (uint32_t i = 0; i < ID_COUNT; i++) {
        if (world->is_here[i] && prefix_key_equals(&world->keys[i], key)) {
            return i;
        }
    }
    return PREFIX_TABLE_NONE;
}

static struct prefix_key draw_key(struct world *world)
{
    struct prefix_key key = {{0}};
    uint32_t home = (uint32_t)rng_below(&world->rng, 6) * 0x33333333u;
    memcpy(key.bytes + 4, &home, sizeof(home));
    key.bytes[3] = (uint8_t)rng_below(&world->rng, 4);
    key.bytes[14] = (uint8_t)rng_below(&world->rng, 4);
    return key;
}

static void create(struct world *world, uint32_t capacity)
{
    struct prefix_table_options options = {.capacity = capacity,
                                           .id_count = ID_COUNT,
                                           .keys = world->keys,
                                           .key_stride =
                                               sizeof(world->keys[0])};
    world->table = prefix_table_create(&options);
    assert_non_null(world->table);
}

static void try_insert(struct world *world)
{
    uint32_t id = (uint32_t)rng_below(&world->rng, ID_COUNT);
    struct prefix_key key = draw_key(world);
    if (world->is_here[id] || slow_find(world, &key) != PREFIX_TABLE_NONE) {
        return;
    }
    world->keys[id] = key;
    enum err expected = world->count == CAPACITY ? ERR_FULL : OK;
    assert_int_equal(prefix_table_insert(world->table, id), expected);
    world->is_here[id] = expected == OK;
    world->count += expected == OK;
}

static void try_remove(struct world *world)
{
    uint32_t id = (uint32_t)rng_below(&world->rng, ID_COUNT);
    if (world->is_here[id]) {
        prefix_table_remove(world->table, id);
        world->is_here[id] = false;
        world->count--;
    }
}

static void look_up(struct world *world)
{
    struct prefix_key keys[70];
    uint32_t ids[70];
    uint32_t count = (uint32_t)rng_below(&world->rng, 71);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = draw_key(world);
    }
    prefix_table_find_many(world->table, keys, count, ids);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(ids[i], slow_find(world, &keys[i]));
        assert_int_equal(prefix_table_find(world->table, &keys[i]), ids[i]);
    }
}

/* Inserts, removals and look-ups at all loads: the drift changes every thousand
 * operations, so that the table fills and empties many times. */
static void a_table_is_a_map(void **state)
{
    (void)state;
    static struct world world;
    world = (struct world){.rng = rng_from_seed(5)};
    create(&world, CAPACITY);
    uint32_t most = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        bool is_filling = op / 1000 % 2 == 0;
        uint64_t draw = rng_below(&world.rng, 10);
        if (draw == 0) {
            look_up(&world);
        } else if ((draw < 8) == is_filling) {
            try_insert(&world);
        } else {
            try_remove(&world);
        }
        assert_int_equal(prefix_table_count(world.table), world.count);
        assert_true(prefix_table_is_valid(world.table));
        most = world.count > most ? world.count : most;
    }
    assert_int_equal(most, CAPACITY);
    prefix_table_destroy(world.table);
}

/* Chains that grow and shrink at their ends, their keys real ones: the longest
 * prefix, from any guess, is what the chain has now. */
static void the_longest_prefix_is_what_the_chain_has(void **state)
{
    (void)state;
    static struct world world;
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {8};
    world = (struct world){.rng = rng_from_seed(6)};
    struct prefix_scope scope;
    prefix_scope_init(&scope, SECRET, 1);
    uint32_t lengths[CHAIN_COUNT] = {0};
    for (int c = 0; c < CHAIN_COUNT; c++) {
        int32_t tokens[CHAIN_MAX];
        for (int i = 0; i < CHAIN_MAX; i++) {
            tokens[i] = i == 0 ? c : i;
        }
        prefix_keys(&scope, tokens, CHAIN_MAX, 1, CHAIN_MAX,
                    &world.keys[c * CHAIN_MAX]);
    }
    create(&world, CHAIN_COUNT * CHAIN_MAX);
    for (int op = 0; op < OP_COUNT; op++) {
        uint32_t c = (uint32_t)rng_below(&world.rng, CHAIN_COUNT);
        uint32_t first = c * CHAIN_MAX;
        bool is_growing =
            rng_below(&world.rng, 100) < (op % 4000 < 2000 ? 60 : 40);
        if (is_growing && lengths[c] < CHAIN_MAX) {
            assert_int_equal(
                prefix_table_insert(world.table, first + lengths[c]++), OK);
        } else if (!is_growing && lengths[c] > 0) {
            prefix_table_remove(world.table, first + --lengths[c]);
        }
        uint32_t count = (uint32_t)rng_below(&world.rng, CHAIN_MAX + 1);
        uint32_t guess = (uint32_t)rng_below(&world.rng, CHAIN_MAX + 2);
        uint32_t expected = lengths[c] < count ? lengths[c] : count;
        uint32_t id;
        assert_int_equal(prefix_table_find_longest(world.table,
                                                   &world.keys[first], count,
                                                   guess, &id),
                         expected);
        assert_int_equal(id, expected == 0 ? PREFIX_TABLE_NONE
                                           : first + expected - 1);
    }
    assert_true(prefix_table_is_valid(world.table));
    prefix_table_destroy(world.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_a_map),
        cmocka_unit_test(the_longest_prefix_is_what_the_chain_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
