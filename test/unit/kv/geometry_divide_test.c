#include "unit/base/test.h"

#include "kv/geometry.h"

/* A full and a windowed life cycle, 100 and 50 bytes a slot. */
static const struct kv_life LIVES[] = {{0, 0}, {8, 0}};
static const struct kv_geometry GEOMETRY = {
    .group_count = 2,
    .group_of = {0, 1},
    .pool_counts = {2, 1},
    .slot_bytes = {{60, 40}, {50}},
};

static struct kv_division_options options_of(size_t budget_bytes)
{
    return (struct kv_division_options){
        .lives = LIVES,
        .life_count = 2,
        .tokens_per_block = 4,
        .budget_bytes = budget_bytes,
        .max_batch = 2,
        .step_max = 8,
        .draft = 0,
    };
}

static void expect(const struct kv_division_options *options, uint32_t full,
                   uint32_t windowed)
{
    uint32_t slots[KV_LIFE_COUNT_MAX];
    struct why why = {{0}};
    assert_int_equal(kv_geometry_divide(&GEOMETRY, options, &why, slots), OK);
    assert_int_equal(slots[0], full);
    assert_int_equal(slots[1], windowed);
}

/* capacity 33 and history 32 need 9 blocks in full and 9 - 6 windowed: the
 * budget is divided 900 to 150. */
static void typical_request_sets_the_ratio(void **state)
{
    (void)state;
    struct kv_division_options options = options_of(10500);
    options.typical = (struct kv_constraint){33, 32};
    expect(&options, 90, 30);
    /* Without one, the request of 2049 tokens: 513 blocks, of which 3. */
    options.typical.capacity = 0;
    options.budget_bytes = 51300 * 10 + 150 * 10;
    expect(&options, 5130, 30);
}

/* Two sequences need ceil((8 + 1) / 4) + 1 = 4 windowed blocks each and a step 2
 * more: never fewer, though the ratio says so. */
static void windowed_group_has_a_floor(void **state)
{
    (void)state;
    struct kv_division_options options = options_of(1500);
    options.typical = (struct kv_constraint){4001, 4000};
    expect(&options, 10, 10);
    options.budget_bytes = 599;
    struct why why = {{0}};
    uint32_t slots[KV_LIFE_COUNT_MAX] = {77};
    assert_int_equal(kv_geometry_divide(&GEOMETRY, &options, &why, slots),
                     ERR_FULL);
    assert_non_null(strstr(why.text, "group 1: 10 slots"));
    assert_int_equal(slots[0], 77);
    options.budget_bytes = 600;
    expect(&options, 1, 10);
}

/* Three requests of 40 tokens, 16 of them shared: 10 blocks each less the shared
 * four twice. What the windowed one shares is stale. */
static void constraints_count_shared_blocks_once(void **state)
{
    (void)state;
    const struct kv_constraint requests[] = {{40, 36}, {40, 36}, {40, 36}};
    struct kv_division_options options = options_of(22 * 100 + 10 * 50);
    options.constraints = requests;
    options.constraint_count = 3;
    options.shared_tokens = 16;
    expect(&options, 22, 10);
    options.budget_bytes--;
    uint32_t slots[KV_LIFE_COUNT_MAX];
    struct why why = {{0}};
    assert_int_equal(kv_geometry_divide(&GEOMETRY, &options, &why, slots),
                     ERR_FULL);
    assert_non_null(strstr(why.text, "22 for constraints"));
    options.budget_bytes += 100;
    options.shared_tokens = 12;
    assert_int_equal(kv_geometry_divide(&GEOMETRY, &options, &why, slots),
                     ERR_FULL);
}

/* Never more than the budget, whatever the numbers. */
static void sum_stays_within_the_budget(void **state)
{
    (void)state;
    for (size_t budget = 600; budget < 40000; budget += 37) {
        struct kv_division_options options = options_of(budget);
        uint32_t slots[KV_LIFE_COUNT_MAX];
        assert_int_equal(kv_geometry_divide(&GEOMETRY, &options, NULL, slots),
                         OK);
        size_t used = (size_t)slots[0] * 100 + (size_t)slots[1] * 50;
        assert_true(used <= budget);
        assert_true(used + 150 > budget);
        assert_true(slots[1] >= 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typical_request_sets_the_ratio),
        cmocka_unit_test(windowed_group_has_a_floor),
        cmocka_unit_test(constraints_count_shared_blocks_once),
        cmocka_unit_test(sum_stays_within_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
