/* transfer/pairing: pages meet on equal ordinals only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "transfer/pairing.h"

/* A thousand random pairs of lists with holes, against the definition read off
 * ordinal by ordinal; a scratch block behind the prompt changes nothing.
 * [transfer T13] */
static void pairs_are_the_intersection_by_ordinal(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(5);
    for (int round = 0; round < 1000; round++) {
        kv_page_id a[40], b[40];
        struct transfer_blocks source = {a, (uint32_t)rng_below(&rng, 20),
                                         (uint32_t)rng_below(&rng, 40)};
        struct transfer_blocks target = {b, (uint32_t)rng_below(&rng, 20),
                                         (uint32_t)rng_below(&rng, 40)};
        for (int i = 0; i < 40; i++) {
            a[i] = rng_below(&rng, 3) ? (kv_page_id)rng_below(&rng, 99) : -1;
            b[i] = rng_below(&rng, 3) ? (kv_page_id)rng_below(&rng, 99) : -1;
        }
        struct transfer_pair pairs[40];
        uint32_t count = transfer_pair_blocks(&source, &target, pairs);
        uint32_t expected = 0;
        for (uint32_t ordinal = 0; ordinal < 80; ordinal++) {
            kv_page_id from = transfer_blocks_page(&source, ordinal);
            kv_page_id to = transfer_blocks_page(&target, ordinal);
            if (from >= 0 && to >= 0) {
                assert_true(expected < count);
                assert_int_equal(pairs[expected].ordinal, ordinal);
                assert_int_equal(pairs[expected].source, from);
                assert_int_equal(pairs[expected].target, to);
                expected++;
            }
        }
        assert_int_equal(count, expected);
    }
}

/* Slices that tile the prompt give together what one slice gives. */
static void slices_add_up_to_the_whole(void **state)
{
    (void)state;
    kv_page_id a[30], b[30];
    for (int i = 0; i < 30; i++) {
        a[i] = i % 7 ? i : -1;
        b[i] = i % 5 ? 100 + i : -1;
    }
    struct transfer_blocks all = {a, 0, 30}, target = {b, 0, 30};
    struct transfer_pair whole[30], part[30];
    uint32_t count = transfer_pair_blocks(&all, &target, whole), at = 0;
    for (uint32_t first = 0; first < 30; first += 4) {
        uint32_t size = first + 4 < 30 ? 4 : 30 - first;
        struct transfer_blocks slice = {a + first, first, size};
        uint32_t got = transfer_pair_blocks(&slice, &target, part);
        for (uint32_t i = 0; i < got; i++) {
            assert_memory_equal(&part[i], &whole[at++], sizeof(part[0]));
        }
    }
    assert_int_equal(at, count);
}

/* -1 is fine, anything else outside the pool is not. */
static void pages_outside_the_pool_are_seen(void **state)
{
    (void)state;
    kv_page_id pages[3] = {0, -1, 9};
    struct transfer_blocks blocks = {pages, 0, 3};
    assert_true(transfer_blocks_are_valid(&blocks, 10));
    assert_int_equal(transfer_blocks_count(&blocks), 2);
    assert_false(transfer_blocks_are_valid(&blocks, 9));
    pages[1] = -2;
    assert_false(transfer_blocks_are_valid(&blocks, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_the_intersection_by_ordinal),
        cmocka_unit_test(slices_add_up_to_the_whole),
        cmocka_unit_test(pages_outside_the_pool_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
