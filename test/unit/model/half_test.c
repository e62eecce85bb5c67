/* 16-bit floats against their definition: every value, and every rounding. */
#include "unit/base/test.h"

#include <math.h>

#include "model/half.h"

/* sign * 2^(exponent - 15) * 1.fraction, subnormals 2^-14 * 0.fraction. */
static double meaning(uint16_t half)
{
    int exponent = half >> 10 & 31;
    double fraction = (half & 1023) / 1024.0;
    double size = exponent == 0 ? ldexp(fraction, -14)
                                : ldexp(1.0 + fraction, exponent - 15);
    return half & 0x8000 ? -size : size;
}

/* All finite values mean what the format says and come back unchanged. */
static void every_value_reads_and_comes_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = half_to_f32((uint16_t)half);
        if ((half & 0x7c00) == 0x7c00) {
            assert_int_equal(isnan(value) != 0, (half & 0x3ff) != 0);
            continue;
        }
        assert_true((double)value == meaning((uint16_t)half));
        assert_int_equal(half_from_f32(value), half);
    }
}

/* The middle between neighbours goes to the even one, a hair off it to the
 * nearer one. */
static void rounding_goes_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7bff; half++) {
        double low = meaning((uint16_t)half);
        double high = meaning((uint16_t)(half + 1));
        float middle = (float)((low + high) / 2);
        uint32_t even = half % 2 == 0 ? half : half + 1;
        assert_int_equal(half_from_f32(middle), even);
        assert_int_equal(half_from_f32(nextafterf(middle, 0.0f)), half);
        assert_int_equal(half_from_f32(nextafterf(middle, 1e9f)), half + 1);
        assert_int_equal(half_from_f32(-middle), even | 0x8000);
    }
}

/* Past the largest: infinity; NaN stays NaN. */
static void extremes_are_kept(void **state)
{
    (void)state;
    assert_int_equal(half_from_f32(65519.0f), 0x7bff);
    assert_int_equal(half_from_f32(65520.0f), 0x7c00);
    assert_int_equal(half_from_f32(-1e30f), 0xfc00);
    assert_int_equal(half_from_f32(INFINITY), 0x7c00);
    assert_true((half_from_f32(NAN) & 0x7fff) > 0x7c00);
    assert_true(half_bf16_to_f32(0x3f80) == 1.0f);
    assert_true(half_bf16_to_f32(0xc040) == -3.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_reads_and_comes_back),
        cmocka_unit_test(rounding_goes_to_nearest_even),
        cmocka_unit_test(extremes_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
