/* The arena by hand: sizes, halves, quarantine; beside a slow reference in
 * test/prop/transfer/arena_test.c. */
#include "unit/base/test.h"

#include "transfer/arena.h"

enum { KIB = 1024 };

/* The largest granule * 2^k that fits, and nothing that has no two halves.
 * [transfer I30] */
static void usable_is_a_power_of_two_of_granules(void **state)
{
    (void)state;
    assert_int_equal(transfer_arena_usable(0, KIB), 0);
    assert_int_equal(transfer_arena_usable(2 * KIB - 1, KIB), 0);
    assert_int_equal(transfer_arena_usable(2 * KIB, KIB), 2 * KIB);
    assert_int_equal(transfer_arena_usable(63 * KIB, KIB), 32 * KIB);
    assert_int_equal(transfer_arena_usable(64 * KIB, KIB), 64 * KIB);
    assert_int_equal(transfer_arena_usable(UINT64_C(3) << 30, KIB * KIB),
                     UINT64_C(2) << 30);
}

/* Sizes are rounded up to the next power of two; a half is the most there is,
 * and each half serves its own. */
static void a_block_comes_from_its_half(void **state)
{
    (void)state;
    struct transfer_arena *arena = transfer_arena_create(16 * KIB, KIB);
    uint64_t offset = 1;
    assert_int_equal(transfer_arena_capacity(arena), 16 * KIB);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_LOWER, 0, &offset),
        ERR_INVALID);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_LOWER, 8 * KIB + 1, &offset),
        ERR_INVALID);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_LOWER, 5 * KIB, &offset), OK);
    assert_int_equal(offset, 0);
    assert_int_equal(transfer_arena_counts(arena).live, 8 * KIB);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_LOWER, 1, &offset), ERR_FULL);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_UPPER, 1, &offset), OK);
    assert_int_equal(offset, 8 * KIB);
    assert_true(transfer_arena_is_valid(arena));
    transfer_arena_give(arena, 0);
    transfer_arena_give(arena, 8 * KIB);
    assert_int_equal(transfer_arena_counts(arena).free, 16 * KIB);
    transfer_arena_destroy(arena);
}

/* The smallest block that will do is cut: after four small ones, two of which
 * are given back, the next small one fills a gap and leaves the large ones. */
static void large_blocks_stay_whole(void **state)
{
    (void)state;
    struct transfer_arena *arena = transfer_arena_create(32 * KIB, KIB);
    uint64_t at[4], offset;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            transfer_arena_take(arena, TRANSFER_ARENA_UPPER, KIB, &at[i]), OK);
    }
    transfer_arena_give(arena, at[1]);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_UPPER, KIB, &offset), OK);
    assert_int_equal(offset, at[1]);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_UPPER, 8 * KIB, &offset), OK);
    assert_int_equal(offset, 24 * KIB);
    transfer_arena_destroy(arena);
}

/* What is quarantined is lent to nobody, counts as such, and comes back by
 * release only. [transfer I30] */
static void quarantine_keeps_a_block_away(void **state)
{
    (void)state;
    struct transfer_arena *arena = transfer_arena_create(4 * KIB, KIB);
    uint64_t offset, other;
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_UPPER, 2 * KIB, &offset), OK);
    transfer_arena_quarantine(arena, offset);
    struct transfer_arena_counts counts = transfer_arena_counts(arena);
    assert_int_equal(counts.live, 0);
    assert_int_equal(counts.quarantined, 2 * KIB);
    assert_int_equal(counts.quarantined_count, 1);
    assert_int_equal(counts.free, 2 * KIB);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_UPPER, 1, &other), ERR_FULL);
    transfer_arena_release(arena, offset);
    assert_int_equal(
        transfer_arena_take(arena, TRANSFER_ARENA_UPPER, 2 * KIB, &other), OK);
    assert_int_equal(other, offset);
    transfer_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usable_is_a_power_of_two_of_granules),
        cmocka_unit_test(a_block_comes_from_its_half),
        cmocka_unit_test(large_blocks_stay_whole),
        cmocka_unit_test(quarantine_keeps_a_block_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
