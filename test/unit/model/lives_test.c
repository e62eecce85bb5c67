/* For every window pattern and depth: places are a bijection onto the layouts of
 * the shape, in order, and only windowed layers lie in a windowed life cycle. */
#include "unit/base/test.h"

#include "model/lives.h"

static void check(const struct model_hparams *h)
{
    struct kv_shape shape = model_lives_shape(h, 16);
    uint32_t next[KV_LIFE_COUNT_MAX] = {0};
    assert_in_range(shape.life_count, 1, 2);
    for (uint32_t layer = 0; layer < h->layer_count; layer++) {
        struct model_lives_place place = model_lives_place(h, layer);
        assert_true(place.life < shape.life_count);
        assert_int_equal(place.layer, next[place.life]++);
        bool is_windowed = shape.lives[place.life].window > 0;
        assert_int_equal(is_windowed, model_lives_is_windowed(h, layer));
    }
    for (uint32_t life = 0; life < shape.life_count; life++) {
        assert_int_equal(next[life], shape.layouts[life].layer_count);
        assert_int_equal(shape.layouts[life].tokens_per_block, 16);
        assert_int_equal(shape.layouts[life].kv_head_count, 2);
        assert_int_equal(shape.layouts[life].head_dim, 64);
        assert_int_equal(shape.layouts[life].element_bytes, 2);
    }
}

static void each_layer_has_one_place(void **state)
{
    (void)state;
    struct model_hparams h = {.kv_head_count = 2, .head_dim = 64};
    for (h.layer_count = 1; h.layer_count < 20; h.layer_count++) {
        h.window = 0;
        h.window_pattern = 0;
        check(&h);
        h.window = 100;
        for (h.window_pattern = 0; h.window_pattern < 9; h.window_pattern++) {
            if (h.window_pattern != 1) { /* the keys' reader has no such */
                check(&h);
            }
        }
    }
}

/* Gemma 3's own: layers 5, 11, ... see all and are life cycle 0. */
static void the_last_of_each_six_sees_all(void **state)
{
    (void)state;
    struct model_hparams h = {.layer_count = 13,
                              .kv_head_count = 1,
                              .head_dim = 8,
                              .window = 512,
                              .window_pattern = 6};
    struct kv_shape shape = model_lives_shape(&h, 32);
    assert_int_equal(shape.lives[0].window, 0);
    assert_int_equal(shape.layouts[0].layer_count, 2);
    assert_int_equal(shape.lives[1].window, 512);
    for (uint32_t layer = 0; layer < 13; layer++) {
        bool is_full = layer == 5 || layer == 11;
        assert_int_equal(model_lives_is_windowed(&h, layer), !is_full);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_has_one_place),
        cmocka_unit_test(the_last_of_each_six_sees_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
