/* transfer/fault_plan: the lists of pieces that carry a write out wrongly,
 * played into a buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "transfer/fault_plan.h"

enum { SIZE = 256 };
static uint8_t source[SIZE], target[SIZE];
static struct transfer_piece pieces[2] = {{0, 100, 50, 0}, {60, 0, 30, 0}};
static const struct transfer_write write = {.pieces = pieces, .piece_count = 2};

static void play(const struct fault_plan *plan)
{
    memset(target, 0, SIZE);
    for (size_t i = 0; i < plan->count; i++) {
        const struct transfer_piece *piece = &plan->pieces[i];
        memcpy(target + piece->target_offset, source + piece->source_offset,
               piece->size);
    }
}

static int differences(void)
{
    uint8_t expected[SIZE] = {0};
    memcpy(expected + 100, source, 50);
    memcpy(expected, source + 60, 30);
    int count = 0;
    for (int i = 0; i < SIZE; i++) {
        count += expected[i] != target[i];
    }
    return count;
}

/* Whatever is drawn: one byte is wrong and no other is touched. */
static void corrupt_changes_one_byte_of_the_target(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(1);
    for (int i = 0; i < SIZE; i++) {
        source[i] = (uint8_t)(1 + i % 200);
    }
    for (int round = 0; round < 500; round++) {
        struct fault_plan plan = {0};
        fault_plan_copy(&plan, &write);
        assert_true(fault_plan_corrupt(&plan, &rng, source, SIZE));
        play(&plan);
        assert_int_equal(differences(), 1);
        mem_free(plan.pieces);
    }
}

/* Where all bytes are alike no other one is to be had, and nothing is. */
static void alike_bytes_cannot_be_corrupted(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(2);
    memset(source, 5, SIZE);
    struct fault_plan plan = {0};
    fault_plan_copy(&plan, &write);
    assert_false(fault_plan_corrupt(&plan, &rng, source, SIZE));
    play(&plan);
    assert_int_equal(differences(), 0);
    fault_plan_reverse(&plan);
    assert_int_equal(plan.pieces[0].source_offset, 60);
    assert_int_equal(plan.pieces[1].source_offset, 0);
    assert_true(fault_plan_drop(&plan, &rng));
    assert_true(fault_plan_drop(&plan, &rng));
    assert_false(fault_plan_drop(&plan, &rng));
    mem_free(plan.pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corrupt_changes_one_byte_of_the_target),
        cmocka_unit_test(alike_bytes_cannot_be_corrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
