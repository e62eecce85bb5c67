#include "unit/base/test.h"

#include "base/rng.h"

/* Written down once: another value would change every sampled answer and every
 * old seed of the simulator. */
static void draws_never_change(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(1);
    uint64_t first = rng_next(&rng);
    struct rng again = rng_from_seed(1);
    assert_int_equal(rng_next(&again), first);
    assert_true(rng_at(1, 2, 3) == 0xeef6e0a7c20a45eeu);
    assert_true(first == 0xbf50715c03b4dc86u);
}

/* Neighbours in each of the three numbers give different bits. */
static void every_part_of_the_key_matters(void **state)
{
    (void)state;
    uint64_t base = rng_at(5, 5, 5);
    assert_true(base != rng_at(6, 5, 5));
    assert_true(base != rng_at(5, 6, 5));
    assert_true(base != rng_at(5, 5, 6));
    assert_true(rng_at(0, 0, 1) != rng_at(0, 1, 0));
}

/* Ten thousand draws: inside, and no tenth of the range is starved. */
static void draws_are_in_range_and_spread(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(3);
    int below[10] = {0};
    int unit[10] = {0};
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t at = rng_below(&rng, 10);
        assert_true(at < 10);
        below[at]++;
        float f = rng_unit_at(7, 0, i);
        assert_true(f >= 0.0f && f < 1.0f);
        unit[(int)(f * 10)]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(below[i], 850, 1150);
        assert_in_range(unit[i], 850, 1150);
    }
    assert_int_equal(rng_below(&rng, 1), 0);
}

/* A child does not follow its parent, nor move it. */
static void child_is_independent(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(9);
    struct rng a = rng_child(&rng, 1);
    struct rng b = rng_child(&rng, 2);
    struct rng same = rng_child(&rng, 1);
    uint64_t of_a = rng_next(&a);
    assert_true(of_a == rng_next(&same));
    assert_true(of_a != rng_next(&b));
    assert_true(of_a != rng_next(&rng));
    assert_int_equal(rng.counter, 1);
}

static void system_gives_something(void **state)
{
    (void)state;
    uint64_t a = rng_system();
    assert_true(a != 0 && a != rng_system());
    uint8_t bytes[2][33] = {{0}, {0}};
    rng_system_bytes(bytes[0], 32);
    rng_system_bytes(bytes[1], 32);
    assert_memory_not_equal(bytes[0], bytes[1], 32);
    assert_int_equal(bytes[0][32], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_never_change),
        cmocka_unit_test(every_part_of_the_key_matters),
        cmocka_unit_test(draws_are_in_range_and_spread),
        cmocka_unit_test(child_is_independent),
        cmocka_unit_test(system_gives_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
