/* transfer/layout_helix: blocks dealt out, and what that forbids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/layout_helix.h"

/* 32 blocks over 4 ranks are 8 each, rank 1 has 1, 5, ..., 29; of 33 rank 0 has
 * nine. [transfer T47] */
static void blocks_are_dealt_out_in_turn(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(transfer_helix_count(4, rank, 32), 8);
        assert_int_equal(transfer_helix_count(4, rank, 33), rank == 0 ? 9 : 8);
        assert_int_equal(transfer_helix_count(4, rank, 2), rank < 2);
    }
    assert_int_equal(transfer_helix_ordinal(4, 1, 0), 1);
    assert_int_equal(transfer_helix_ordinal(4, 1, 1), 5);
    assert_int_equal(transfer_helix_ordinal(4, 1, 7), 29);
}

/* Counts that do not divide: the lists of all ranks cover each ordinal once,
 * each with the page of the right index. [transfer T47] */
static void lists_of_all_ranks_cover_the_prompt(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 5; size++) {
        for (uint32_t count = 0; count <= 17; count++) {
            kv_page_id seen[17] = {0};
            for (uint32_t rank = 0; rank < size; rank++) {
                kv_page_id pages[17], blocks[17];
                uint32_t own = transfer_helix_count(size, rank, count);
                for (uint32_t i = 0; i < own; i++) {
                    pages[i] = (kv_page_id)(100 + transfer_helix_ordinal(
                                                      size, rank, i));
                }
                assert_int_equal(transfer_helix_spread(size, rank, pages, own,
                                                       count, NULL, blocks),
                                 OK);
                for (uint32_t i = 0; i < count; i++) {
                    bool is_own = blocks[i] != KV_PAGE_NONE;
                    assert_int_equal(is_own,
                                     transfer_helix_keeps(size, rank, i));
                    assert_true(!is_own || blocks[i] == (kv_page_id)(100 + i));
                    seen[i] += is_own;
                }
            }
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(seen[i], 1);
            }
        }
    }
}

/* One page too few is not taken for a shorter prompt. */
static void a_wrong_number_of_pages_is_refused(void **state)
{
    (void)state;
    kv_page_id pages[9] = {0}, blocks[33];
    struct why why;
    assert_int_equal(transfer_helix_spread(4, 0, pages, 8, 33, &why, blocks),
                     ERR_INVALID);
    assert_string_equal(why.text,
                        "pages: 8, but rank 0 of 4 keeps 9 of 33 blocks");
}

/* All that helix excludes at once is said at once; without CP nothing is.
 * [transfer T47] */
static void each_restriction_has_its_name(void **state)
{
    (void)state;
    struct transfer_helix_use use = {.sender_cp_size = 2,
                                     .receiver_cp_size = 4,
                                     .target_first = 3,
                                     .is_pipelined = true,
                                     .has_bounce = true};
    struct blockers blockers = {0};
    struct why why = {{0}};
    transfer_helix_check(&use, &blockers);
    assert_int_equal(blockers.count, 4);
    assert_int_equal(blockers_say(&blockers, ERR_UNSUPPORTED, &why),
                     ERR_UNSUPPORTED);
    assert_string_equal(
        why.text,
        "cp_size: 2 at the sender, 4 at the receiver, one must be 1; "
        "first block: 0 at the sender, 3 at the receiver, cp_size over 1 "
        "reuses no prefix; "
        "pipelining: cp_size is 2 at the sender, 4 at the receiver; "
        "bounce: cp_size is 2 at the sender, 4 at the receiver");
    use.sender_cp_size = use.receiver_cp_size = 1;
    blockers = (struct blockers){0};
    transfer_helix_check(&use, &blockers);
    assert_int_equal(blockers.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_dealt_out_in_turn),
        cmocka_unit_test(lists_of_all_ranks_cover_the_prompt),
        cmocka_unit_test(a_wrong_number_of_pages_is_refused),
        cmocka_unit_test(each_restriction_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
