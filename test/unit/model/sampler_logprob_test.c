/* The sampler's own arithmetic against the library's. */
#include "unit/base/test.h"

#include <float.h>
#include <math.h>

#include "model/sampler_logprob.h"

/* Over the whole range: within 1e-12 of the library, and 0 at its end. */
static void exponential_is_close_to_the_library(void **state)
{
    (void)state;
    for (double x = 0.0; x > -699.0; x -= 0.0371) {
        double expected = exp(x);
        assert_true(fabs(sampler_exp(x) - expected) <= 1e-12 * expected);
    }
    assert_true(sampler_exp(0.0) == 1.0);
    assert_true(sampler_exp(-701.0) == 0.0);
    assert_true(sampler_exp(-INFINITY) == 0.0);
    assert_true(sampler_exp(NAN) == 0.0);
}

/* Infinities and NaN become what the rest can work with. */
static void wild_logits_are_tamed(void **state)
{
    (void)state;
    assert_true(sampler_tame(NAN) == -INFINITY);
    assert_true(sampler_tame(INFINITY) == FLT_MAX);
    assert_true(sampler_tame(-INFINITY) == -INFINITY);
    assert_true(sampler_tame(1.5f) == 1.5f);
}

/* Best first, ties by id, no more than wanted; reported values are finite. */
static void the_best_come_in_order(void **state)
{
    (void)state;
    const float LOGITS[6] = {1, 4, -INFINITY, 4, 2, 3};
    const int32_t BEST[6] = {1, 3, 5, 4, 0, 2};
    double total = sampler_log_sum(LOGITS, 6);
    double sum = exp(1) + 2 * exp(4) + exp(2) + exp(3);
    assert_true(fabs(total - log(sum)) < 1e-12);
    for (uint32_t wanted = 0; wanted <= 6; wanted++) {
        struct sampler_result result;
        sampler_find_top(LOGITS, 6, wanted, total, &result);
        assert_int_equal(result.top_count, wanted);
        for (uint32_t i = 0; i < wanted; i++) {
            assert_int_equal(result.top[i].token, BEST[i]);
            assert_true(isfinite(result.top[i].logprob));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_is_close_to_the_library),
        cmocka_unit_test(wild_logits_are_tamed),
        cmocka_unit_test(the_best_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
