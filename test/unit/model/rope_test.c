/* Rotation against its meaning: lengths stay, and only differences of
 * positions show in a product of two heads. */
#include "unit/base/test.h"

#include <math.h>

#include "model/rope.h"

enum { DIMS = 8, HEAD = 12 };

static const struct model_architecture ADJACENT = {.name = "a"};
static const struct model_architecture SPLIT = {.name = "s",
                                                .is_split_rope = true};

static struct model_rope make(const struct model_architecture *architecture,
                              float scale, const float *factors)
{
    struct model_weights weights = {.hparams = {.architecture = architecture,
                                                .rope_dims = DIMS,
                                                .rope_base = 100.0f,
                                                .rope_scale = scale},
                                    .rope_factors = factors};
    struct model_rope rope;
    assert_int_equal(model_rope_init(&rope, &weights), OK);
    return rope;
}

static void turn(const struct model_rope *rope, uint32_t position, float *head)
{
    float angles[DIMS];
    model_rope_angles(rope, position, angles);
    model_rope_turn(rope, angles, head);
}

static void fill(float *head, float seed)
{
    for (uint32_t i = 0; i < HEAD; i++) {
        head[i] = sinf(seed + (float)(i * i));
    }
}

static double product(const struct model_rope *rope, uint32_t p, uint32_t q)
{
    float a[HEAD];
    float b[HEAD];
    fill(a, 1.0f);
    fill(b, 2.0f);
    turn(rope, p, a);
    turn(rope, q, b);
    double sum = 0.0;
    for (uint32_t i = 0; i < HEAD; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

/* q and k moved by the same distance give the same product. */
static void only_the_distance_shows(void **state)
{
    (void)state;
    const struct model_architecture *const KINDS[] = {&ADJACENT, &SPLIT};
    for (size_t i = 0; i < 2; i++) {
        struct model_rope rope = make(KINDS[i], 1.0f, NULL);
        double near = product(&rope, 9, 4);
        assert_true(fabs(near - product(&rope, 1005, 1000)) < 1e-5);
        assert_true(fabs(near - product(&rope, 9, 5)) > 1e-3);
        model_rope_finish(&rope);
    }
}

/* One pair at a time: position 1 turns pair i by 100^(-i / 4); what lies past
 * rope_dims stays. */
static void pairs_stand_where_the_architecture_says(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < DIMS / 2; i++) {
        float adjacent[HEAD] = {[DIMS] = 7.0f};
        float split[HEAD] = {[DIMS] = 7.0f};
        adjacent[2 * i] = 1.0f;
        split[i] = 1.0f;
        struct model_rope a = make(&ADJACENT, 1.0f, NULL);
        struct model_rope s = make(&SPLIT, 1.0f, NULL);
        turn(&a, 1, adjacent);
        turn(&s, 1, split);
        float expected = (float)sin(pow(100.0, -(double)i / 4));
        assert_true(fabsf(adjacent[2 * i + 1] - expected) < 1e-6f);
        assert_true(fabsf(split[i + DIMS / 2] - expected) < 1e-6f);
        assert_true(adjacent[DIMS] == 7.0f);
        assert_true(split[DIMS] == 7.0f);
        model_rope_finish(&a);
        model_rope_finish(&s);
    }
}

/* Scale 1/4 at position 8 is position 2; a factor of 4 slows its pair alike. */
static void scale_and_factors_slow_the_turn(void **state)
{
    (void)state;
    const float FOUR[DIMS / 2] = {4.0f, 4.0f, 4.0f, 4.0f};
    struct model_rope plain = make(&SPLIT, 1.0f, NULL);
    struct model_rope scaled = make(&SPLIT, 0.25f, NULL);
    struct model_rope slowed = make(&SPLIT, 1.0f, FOUR);
    float a[HEAD];
    float b[HEAD];
    float c[HEAD];
    fill(a, 3.0f);
    fill(b, 3.0f);
    fill(c, 3.0f);
    turn(&plain, 2, a);
    turn(&scaled, 8, b);
    turn(&slowed, 8, c);
    assert_memory_equal(a, b, sizeof(a));
    assert_memory_equal(a, c, sizeof(a));
    model_rope_finish(&plain);
    model_rope_finish(&scaled);
    model_rope_finish(&slowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_distance_shows),
        cmocka_unit_test(pairs_stand_where_the_architecture_says),
        cmocka_unit_test(scale_and_factors_slow_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
