/* sim/page: what is spoilt is seen, in every layer, key and value, and only
 * within the tokens named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/page.h"

static void what_is_spoilt_is_seen_and_nothing_else(void **state)
{
    (void)state;
    const struct kv_layout layout = {.layer_count = 3,
                                     .kv_head_count = 1,
                                     .head_dim = 4,
                                     .tokens_per_block = 8,
                                     .element_bytes = 2};
    uint8_t good[3 * 2 * 8 * 4 * 2], page[sizeof(good)];
    assert_int_equal(sizeof(good), kv_layout_page_bytes(&layout));
    memset(good, 1, sizeof(good));
    memcpy(page, good, sizeof(page));
    sim_page_spoil(&layout, page, 5, 7);
    assert_true(sim_page_is_same(&layout, good, page, 5));
    assert_false(sim_page_is_same(&layout, good, page, 6));
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof(page); i++) {
        wrong += page[i] != good[i];
    }
    assert_int_equal(wrong, 3 * 2 * 2 * 4 * 2);
    memcpy(page, good, sizeof(page));
    page[sizeof(page) - 1] ^= 1; /* the last value of the last layer */
    assert_true(sim_page_is_same(&layout, good, page, 7));
    assert_false(sim_page_is_same(&layout, good, page, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_spoilt_is_seen_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
