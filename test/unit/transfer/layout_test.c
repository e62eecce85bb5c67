/* transfer/layout: who meets whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/layout.h"

static const uint16_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const struct transfer_layers all_layers[] = {{ids, 10}};
static const struct transfer_layers two_halves[] = {{ids, 5}, {ids + 5, 5}};
static const struct transfer_layers three_parts[] = {
    {ids, 4}, {ids + 4, 3}, {ids + 7, 3}};

static struct transfer_layout layout_of(uint32_t tp, uint32_t cp, uint32_t dp)
{
    return (struct transfer_layout){tp, 1, cp, dp, all_layers};
}

/* Compares the ranks met with those of a text: "0 2". */
static void expect_ranks(const struct transfer_overlap *overlap,
                         const char *expected)
{
    char text[128] = "";
    for (uint32_t i = 0; i < transfer_overlap_count(overlap); i++) {
        uint32_t rank = transfer_overlap_rank(overlap, i);
        assert_true(transfer_overlap_has(overlap, rank));
        char number[16];
        snprintf(number, sizeof(number), "%s%u", i > 0 ? " " : "", rank);
        strncat(text, number, sizeof(text) - strlen(text) - 1);
    }
    assert_string_equal(text, expected);
}

static void expect_met(const struct transfer_layout *self, uint32_t rank,
                       const struct transfer_layout *peer, uint32_t peer_dp,
                       const char *expected)
{
    struct transfer_overlap overlap =
        transfer_layout_overlap(self, rank, peer, peer_dp);
    expect_ranks(&overlap, expected);
    assert_int_equal(transfer_overlap_expected(&overlap),
                     transfer_overlap_count(&overlap));
}

/* CP goes fastest; the formula with TP fastest gives 6 for this rank. */
static void ranks_count_cp_first_then_tp_then_pp(void **state)
{
    (void)state;
    struct transfer_layout layout = {4, 2, 2, 2, two_halves};
    const struct transfer_place place = {.pp = 0, .tp = 2, .cp = 1};
    assert_int_equal(transfer_layout_rank(&layout, &place), 5);
    assert_int_equal(transfer_layout_rank_count(&layout), 16);
    for (uint32_t rank = 0; rank < 16; rank++) {
        struct transfer_place at = transfer_layout_place(&layout, rank);
        assert_int_equal(at.pp * 8 + at.tp * 2 + at.cp, rank);
        assert_int_equal(at.dp * 2 + at.part, at.tp);
        assert_int_equal(transfer_layout_rank(&layout, &at), rank);
    }
}

/* Rows one and two of the table in transfer.md 4.1, both columns. */
static void unequal_tp_fans_in_and_out(void **state)
{
    (void)state;
    struct transfer_layout four = layout_of(4, 1, 1), two = layout_of(2, 1, 1);
    expect_met(&four, 0, &two, 0, "0");
    expect_met(&four, 1, &two, 0, "0");
    expect_met(&four, 2, &two, 0, "1");
    expect_met(&four, 3, &two, 0, "1");
    expect_met(&two, 0, &four, 0, "0 1");
    expect_met(&two, 1, &four, 0, "2 3");
}

/* Row three: stages of 4, 3 and 3 layers against 5 and 5. */
static void stages_meet_that_share_a_layer(void **state)
{
    (void)state;
    struct transfer_layout sender = {1, 3, 1, 1, three_parts};
    struct transfer_layout receiver = {1, 2, 1, 1, two_halves};
    expect_met(&sender, 0, &receiver, 0, "0");
    expect_met(&sender, 1, &receiver, 0, "0 1");
    expect_met(&sender, 2, &receiver, 0, "1");
    expect_met(&receiver, 0, &sender, 0, "0 1");
    expect_met(&receiver, 1, &sender, 0, "1 2");
}

/* Row four: TP 2 and two stages against TP 4. */
static void axes_multiply(void **state)
{
    (void)state;
    struct transfer_layout sender = {2, 2, 1, 1, two_halves};
    struct transfer_layout receiver = layout_of(4, 1, 1);
    for (uint32_t pp = 0; pp < 2; pp++) {
        expect_met(&sender, 2 * pp, &receiver, 0, "0 1");
        expect_met(&sender, 2 * pp + 1, &receiver, 0, "2 3");
    }
    expect_met(&receiver, 0, &sender, 0, "0 2");
    expect_met(&receiver, 1, &sender, 0, "0 2");
    expect_met(&receiver, 2, &sender, 0, "1 3");
    expect_met(&receiver, 3, &sender, 0, "1 3");
}

/* Rows five and six: attention DP on either side. While the group is not known
 * all of them are told, and one group's results are waited for.
 * [transfer T43] */
static void a_group_of_attention_dp_stands_for_its_instance(void **state)
{
    (void)state;
    struct transfer_layout whole = layout_of(4, 1, 1);
    struct transfer_layout groups = layout_of(4, 1, 4);
    char one[2] = "0";
    for (uint32_t dp = 0; dp < 4; dp++) {
        one[0] = (char)('0' + dp);
        for (uint32_t rank = 0; rank < 4; rank++) {
            expect_met(&whole, rank, &groups, dp, one);
        }
        expect_met(&groups, dp, &whole, 0, "0 1 2 3");
    }
    struct transfer_overlap all = transfer_layout_broadcast(&whole, 2, &groups);
    expect_ranks(&all, "0 1 2 3");
    assert_int_equal(transfer_overlap_expected(&all), 1);
    struct transfer_layout pairs = layout_of(4, 1, 2);
    struct transfer_layout one_rank = layout_of(1, 1, 1);
    all = transfer_layout_broadcast(&one_rank, 0, &pairs);
    expect_ranks(&all, "0 1 2 3");
    assert_int_equal(transfer_overlap_expected(&all), 2);
    all = transfer_layout_broadcast(&one_rank, 0, &whole);
    assert_int_equal(transfer_overlap_expected(&all), 4);
}

/* Row seven: helix. With TP fastest sender 0 would meet 0 and 2. */
static void context_parallel_ranks_are_neighbours(void **state)
{
    (void)state;
    struct transfer_layout sender = layout_of(2, 1, 1);
    struct transfer_layout receiver = layout_of(2, 2, 1);
    expect_met(&sender, 0, &receiver, 0, "0 1");
    expect_met(&sender, 1, &receiver, 0, "2 3");
    for (uint32_t rank = 0; rank < 4; rank++) {
        expect_met(&receiver, rank, &sender, 0, rank < 2 ? "0" : "1");
    }
}

/* The sender's first stage has two draft layers more, of ids at the end. By
 * counts its second stage would begin at layer 7 and meet one stage only. */
static void draft_layers_shift_no_stage(void **state)
{
    (void)state;
    static const uint16_t first[] = {0, 1, 2, 3, 4, 90, 91};
    const struct transfer_layers stages[] = {{first, 7}, {ids + 5, 5}};
    struct transfer_layout sender = {1, 2, 1, 1, stages};
    struct transfer_layout receiver = {1, 3, 1, 1, three_parts};
    expect_met(&sender, 0, &receiver, 0, "0 1");
    expect_met(&sender, 1, &receiver, 0, "1 2");
    expect_met(&receiver, 1, &sender, 0, "0 1");
}

/* Of those that a receiver meets exactly one writes the first tokens, and it is
 * the one that transfer.md 4.8 says: first stage, first of the fan-in group. */
static void one_sender_writes_the_first_tokens(void **state)
{
    (void)state;
    struct transfer_layout senders[] = {{4, 3, 1, 1, three_parts},
                                        {4, 3, 1, 2, three_parts},
                                        {2, 3, 2, 1, three_parts},
                                        {1, 1, 1, 1, all_layers}};
    struct transfer_layout receivers[] = {{2, 2, 1, 1, two_halves},
                                          {8, 2, 1, 1, two_halves},
                                          {4, 2, 1, 4, two_halves}};
    for (int c = 0; c < 12; c++) {
        const struct transfer_layout *from = &senders[c / 3];
        const struct transfer_layout *to = &receivers[c % 3];
        for (uint32_t r = 0; r < transfer_layout_rank_count(to); r++) {
            struct transfer_overlap met =
                transfer_layout_overlap(to, r, from, from->dp_size - 1);
            uint32_t writers = 0;
            for (uint32_t s = 0; s < transfer_layout_rank_count(from); s++) {
                struct transfer_place place = transfer_layout_place(from, s);
                if (place.dp != from->dp_size - 1 ||
                    !transfer_layout_writes_aux(from, s, to, r)) {
                    continue;
                }
                writers++;
                assert_int_equal(s, transfer_overlap_rank(&met, 0));
                uint32_t parts = transfer_layout_part_count(from);
                uint32_t others = transfer_layout_part_count(to);
                uint32_t group = parts > others ? parts / others : 1;
                assert_int_equal(place.part % group, 0);
                assert_int_equal(place.cp, 0);
            }
            assert_int_equal(writers, 1);
        }
    }
}

static void expect_invalid(struct transfer_layout layout, const char *said)
{
    struct why why = {{0}};
    assert_int_equal(transfer_layout_validate(&layout, &why), ERR_INVALID);
    assert_string_equal(why.text, said);
}

/* Each field that can be wrong, by its name. */
static void a_wrong_layout_is_refused_by_the_field(void **state)
{
    (void)state;
    struct transfer_layout good = {4, 2, 2, 2, two_halves}, bad = good;
    assert_int_equal(transfer_layout_validate(&good, NULL), OK);
    bad.tp_size = 0;
    expect_invalid(bad, "tp_size: 0 is not in 1 to 65536");
    bad = good, bad.pp_size = 65;
    expect_invalid(bad, "pp_size: 65 is not in 1 to 64");
    bad = good, bad.dp_size = 3;
    expect_invalid(bad, "dp_size: 3 does not divide tp_size 4");
    bad = good, bad.tp_size = 65536;
    expect_invalid(bad, "tp_size: 262144 ranks are over 65536");
    const struct transfer_layers twice[] = {{ids, 5}, {ids + 4, 3}};
    bad = good, bad.stages = twice;
    expect_invalid(bad, "stages[1]: a layer of stage 0 too");
    const struct transfer_layers many[] = {{ids, 5}, {ids + 5, 4092}};
    bad.stages = many;
    expect_invalid(bad, "stages: 4097 layers are over 4096");
    const struct transfer_layers none[] = {{ids, 5}, {ids + 5, 0}};
    bad.stages = none;
    expect_invalid(bad, "stages[1]: no layers");
    static const uint16_t mixed[] = {3, 2};
    const struct transfer_layers unsorted[] = {{mixed, 2}, {ids + 5, 5}};
    bad.stages = unsorted;
    expect_invalid(bad, "stages[0]: layer 2 comes after layer 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_count_cp_first_then_tp_then_pp),
        cmocka_unit_test(unequal_tp_fans_in_and_out),
        cmocka_unit_test(stages_meet_that_share_a_layer),
        cmocka_unit_test(axes_multiply),
        cmocka_unit_test(a_group_of_attention_dp_stands_for_its_instance),
        cmocka_unit_test(context_parallel_ranks_are_neighbours),
        cmocka_unit_test(draft_layers_shift_no_stage),
        cmocka_unit_test(one_sender_writes_the_first_tokens),
        cmocka_unit_test(a_wrong_layout_is_refused_by_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
