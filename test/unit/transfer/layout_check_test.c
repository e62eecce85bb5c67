/* transfer/layout_check: every reason by its name, all of them at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/layout_check.h"

enum { KEY = TRANSFER_ROLE_KEY, VALUE = TRANSFER_ROLE_VALUE, ENTRIES = 16 };
static const uint16_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* One rank: K and V of layers 0 to 3, 8 heads over its ranks. Open, so that a
 * test can spoil one field. */
struct rig {
    struct transfer_layers stages[2];
    struct transfer_layout layout;
    struct kv_life lives[2];
    struct transfer_entry entries[2][ENTRIES];
    struct transfer_section sections[2];
    struct transfer_view views[2];
    struct transfer_party party;
};

static void rig_fill(struct rig *rig, int view, uint32_t layers)
{
    uint64_t size = transfer_view_entry_bytes(&rig->views[view]);
    uint32_t roles = rig->views[view].roles;
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < layers; layer++) {
        for (uint32_t role = 1; role <= roles; role *= 2) {
            if ((roles & role) != 0) {
                rig->entries[view][count] = (struct transfer_entry){
                    (uint16_t)layer, (uint16_t)role, count * size};
                count++;
            }
        }
    }
    rig->views[view].entries = rig->entries[view];
    rig->views[view].entry_count = count;
    rig->views[view].slot_bytes = count * size;
}

static void rig_init(struct rig *rig, uint32_t tp_size)
{
    *rig = (struct rig){
        .stages = {{ids, 4}},
        .layout = {tp_size, 1, 1, 1, rig->stages},
        .views = {{.kind = TRANSFER_VIEW_HEADS_FIRST,
                   .element = TRANSFER_ELEMENT_F16,
                   .roles = KEY | VALUE,
                   .tokens_per_block = 16,
                   .head_count = 8 / tp_size,
                   .head_dim = 64,
                   .share = {tp_size, 0, 1, 0}}},
        .party = {.layout = &rig->layout,
                  .life_count = 2,
                  .lives = rig->lives,
                  .view_count = 1,
                  .views = rig->views,
                  .beam_width = 1},
    };
    rig_fill(rig, 0, 4);
    assert_int_equal(transfer_party_validate(&rig->party, NULL), OK);
}

/* A state of two sections beside it, in layers 0 and 1. */
static void rig_add_state(struct rig *rig)
{
    rig->sections[0] =
        (struct transfer_section){4096 / rig->layout.tp_size, false};
    rig->sections[1] = (struct transfer_section){256, true};
    rig->views[1] = (struct transfer_view){
        .kind = TRANSFER_VIEW_SECTIONED,
        .element = TRANSFER_ELEMENT_F32,
        .roles = TRANSFER_ROLE_STATE,
        .life = 1,
        .head_dim = 1,
        .section_count = 2,
        .sections = rig->sections,
        .share = rig->views[0].share,
    };
    rig_fill(rig, 1, 2);
    rig->party.view_count = 2;
    rig->party.is_recurrent = true;
    assert_int_equal(transfer_party_validate(&rig->party, NULL), OK);
}

static struct transfer_check expect_fine(const struct rig *sender,
                                         const struct rig *receiver)
{
    struct transfer_check result;
    struct why why = {{0}};
    enum err err = transfer_parties_check(&sender->party, &receiver->party,
                                          false, &why, &result);
    assert_string_equal(why.text, "");
    assert_int_equal(err, OK);
    return result;
}

static void expect_blocked(const struct rig *sender, const struct rig *receiver,
                           const char *said)
{
    struct transfer_check result;
    struct why why = {{0}};
    assert_int_equal(transfer_parties_check(&sender->party, &receiver->party,
                                            false, &why, &result),
                     ERR_UNSUPPORTED);
    assert_string_equal(why.text, said);
}

/* Same, wider, narrower; heads cut with tokens first are worth a warning. */
static void layouts_that_divide_are_fine(void **state)
{
    (void)state;
    static struct rig a, b;
    for (uint32_t from = 1; from <= 8; from *= 2) {
        for (uint32_t to = 1; to <= 8; to *= 2) {
            rig_init(&a, from);
            rig_init(&b, to);
            assert_false(expect_fine(&a, &b).cuts_tokens);
            a.views[0].kind = b.views[0].kind = TRANSFER_VIEW_TOKENS_FIRST;
            assert_int_equal(expect_fine(&a, &b).cuts_tokens, from != to);
        }
    }
}

/* One field after the other is made to differ. */
static void each_field_is_named_with_both_values(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 2);
#define SPOIL(change, said)           \
    do {                              \
        rig_init(&b, 4);              \
        change;                       \
        expect_blocked(&a, &b, said); \
    } while (0)
    SPOIL(b.party.is_mla = true, "is_mla: 0 at the sender, 1 at the receiver");
    SPOIL(b.party.is_recurrent = true,
          "is_recurrent: 0 at the sender, 1 at the receiver");
    SPOIL(b.party.beam_width = 4,
          "beam_width: 1 at the sender, 4 at the receiver");
    SPOIL(b.party.draft_length_max = 5,
          "draft_length_max: 0 at the sender, 5 at the receiver");
    SPOIL(b.views[0].head_dim = 128, "key+value of layer 0, head_dim: 64 at "
                                     "the sender, 128 at the receiver");
    SPOIL(b.views[0].element = TRANSFER_ELEMENT_F8_E4M3,
          "key+value of layer 0, element: f16 at the sender, f8_e4m3 at the "
          "receiver");
    SPOIL(b.views[0].kind = TRANSFER_VIEW_TOKENS_FIRST,
          "key+value of layer 0, kind: heads first at the sender, tokens first "
          "at the receiver");
    SPOIL(b.views[0].tokens_per_block = 32,
          "key+value of layer 0, tokens_per_block: 16 at the sender, 32 at the "
          "receiver");
    SPOIL(b.views[0].head_count = 3,
          "key+value of layer 0, heads of all shards: 8 at the sender, 12 at "
          "the receiver");
    SPOIL(b.lives[0].window = 100, "key+value of layer 0, window: 0 at the "
                                   "sender, 100 at the receiver");
    SPOIL(b.lives[0].sink_tokens = 4,
          "key+value of layer 0, sink_tokens: 0 at the sender, 4 at the "
          "receiver");
    SPOIL(b.entries[0][0].role = TRANSFER_ROLE_LATENT;
          b.views[0].roles = 6, "roles of layer 0: key+value at the sender, "
                                "no such set at the receiver; roles of layer "
                                "0: value+latent at the receiver, no such set "
                                "at the sender");
#undef SPOIL
}

/* Half a dozen at once stand in one line; what has no room is counted. */
static void all_blockers_are_said_at_once(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 2);
    rig_init(&b, 2);
    b.party.beam_width = 2;
    b.views[0].head_dim = 32;
    b.views[0].tokens_per_block = 8;
    expect_blocked(&a, &b,
                   "beam_width: 1 at the sender, 2 at the receiver; "
                   "key+value of layer 0, head_dim: 64 at the sender, 32 at "
                   "the receiver; "
                   "key+value of layer 0, tokens_per_block: 16 at the sender, "
                   "8 at the receiver");
    b.views[0].element = TRANSFER_ELEMENT_BF16;
    b.views[0].head_count = 1;
    b.lives[0].window = 7;
    b.party.is_mla = true;
    struct why why;
    struct transfer_check result;
    assert_int_equal(
        transfer_parties_check(&a.party, &b.party, false, &why, &result),
        ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "; and 2 more"));
}

/* TP 4 against TP 6: neither divides the other, whatever is cut. */
static void axes_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 4);
    rig_init(&b, 2);
    b.layout.tp_size = 6;
    b.layout.dp_size = 2;
    b.views[0].share = (struct transfer_share){1, 0, 3, 0};
    b.views[0].head_count = 8;
    assert_int_equal(transfer_party_validate(&b.party, NULL), ERR_INVALID);
    rig_fill(&b, 0, 4);
    assert_int_equal(transfer_party_validate(&b.party, NULL), OK);
    a.views[0].share = (struct transfer_share){1, 0, 4, 0};
    a.views[0].head_count = 8;
    rig_fill(&a, 0, 4);
    expect_blocked(&a, &b,
                   "tp_size / dp_size: 4 / 1 at the sender, 6 / 2 at the "
                   "receiver, neither divides the other; key+value of layer 0, "
                   "replica_count: 4 at the sender, 3 at the receiver, neither "
                   "divides the other");
}

/* Blocks of unequal size pass where somebody cuts them, if they divide. */
static void block_sizes_are_left_to_who_can_cut_them(void **state)
{
    (void)state;
    static struct rig a, b;
    struct transfer_check result;
    struct why why;
    rig_init(&a, 2);
    rig_init(&b, 2);
    b.views[0].tokens_per_block = 64;
    assert_int_equal(
        transfer_parties_check(&a.party, &b.party, true, &why, &result), OK);
    assert_int_equal(
        transfer_parties_check(&b.party, &a.party, true, &why, &result), OK);
    b.views[0].tokens_per_block = 40;
    assert_int_equal(
        transfer_parties_check(&a.party, &b.party, true, &why, &result),
        ERR_UNSUPPORTED);
    b.views[0].tokens_per_block = 64;
    b.layout.cp_size = 2;
    assert_int_equal(
        transfer_parties_check(&a.party, &b.party, true, &why, &result),
        ERR_UNSUPPORTED);
    assert_string_equal(why.text, "key+value of layer 0, tokens_per_block: 16 "
                                  "at the sender, 64 at the receiver");
}

/* Helix: each of its restrictions. [transfer T47] */
static void helix_is_refused_where_it_does_not_go(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 2);
    rig_init(&b, 2);
    b.layout.cp_size = 2;
    expect_fine(&a, &b);
    a.party.is_pipelined = true;
    b.party.has_bounce = true;
    expect_blocked(&a, &b,
                   "pipelining: cp_size is 1 at the sender, 2 at the receiver; "
                   "bounce: cp_size is 1 at the sender, 2 at the receiver");
    a.party.is_pipelined = b.party.has_bounce = false;
    a.layout.cp_size = 4;
    expect_blocked(&a, &b,
                   "cp_size: 4 at the sender, 2 at the receiver, one "
                   "must be 1");
    a.layout.cp_size = 1;
    rig_add_state(&a);
    rig_add_state(&b);
    expect_blocked(&a, &b,
                   "state of layer 0, cp_size: 1 at the sender, 2 at the "
                   "receiver, a state has no blocks to deal out");
}

/* Draft layers of one side are left out and counted; a stage with nothing in
 * common would wait for ever. */
static void layers_of_one_side_are_counted(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 2);
    rig_init(&b, 2);
    a.stages[0].count = 6;
    rig_fill(&a, 0, 6);
    assert_int_equal(transfer_party_validate(&a.party, NULL), OK);
    struct transfer_check result = expect_fine(&a, &b);
    assert_int_equal(result.sender_only_layers, 2);
    assert_int_equal(result.receiver_only_layers, 0);
    a.stages[0].count = 4;
    a.stages[1] = (struct transfer_layers){ids + 4, 2};
    a.layout.pp_size = 2;
    rig_fill(&a, 0, 4);
    expect_blocked(&a, &b,
                   "stages[1] of the sender: layers 4 to 5, none on "
                   "the other side");
    expect_blocked(&b, &a,
                   "stages[1] of the receiver: layers 4 to 5, none on "
                   "the other side");
}

/* What one side lacks of a layer would be read as zeros: named. */
static void a_role_that_is_missing_is_named(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 2);
    rig_init(&b, 2);
    rig_add_state(&a);
    b.party.is_recurrent = true;
    expect_blocked(&a, &b,
                   "roles of layer 0: state at the sender, no such set "
                   "at the receiver");
    expect_blocked(&b, &a,
                   "roles of layer 0: state at the receiver, no such "
                   "set at the sender");
}

/* Count and full width of each section. */
static void sections_must_be_as_wide(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 2);
    rig_init(&b, 4);
    rig_add_state(&a);
    rig_add_state(&b);
    expect_fine(&a, &b);
    b.sections[1].size = 128;
    expect_blocked(&a, &b,
                   "state of layer 0, sections[1] of all shards: 256 "
                   "at the sender, 128 at the receiver");
    b.sections[1] = (struct transfer_section){64, false};
    expect_fine(&a, &b);
    b.views[1].section_count = 1;
    expect_blocked(&a, &b,
                   "state of layer 0, section_count: 2 at the sender, "
                   "1 at the receiver");
    rig_init(&b, 2);
    rig_add_state(&b);
    b.sections[0] = (struct transfer_section){4096, true};
    expect_blocked(&a, &b,
                   "state of layer 0, sections[0] replica_count: 2 at the "
                   "receiver, of 1 shards, but 2 shards at the sender: no "
                   "receiver meets all it needs");
}

/* One and a half bytes a head: goes whole, is never cut, by heads or tokens. */
static void heads_without_whole_bytes_are_not_cut(void **state)
{
    (void)state;
    static struct rig a, b;
    rig_init(&a, 2);
    rig_init(&b, 2);
    a.views[0].element = b.views[0].element = TRANSFER_ELEMENT_F4;
    a.views[0].head_dim = b.views[0].head_dim = 3;
    expect_fine(&a, &b);
    rig_init(&b, 4);
    b.views[0].element = TRANSFER_ELEMENT_F4;
    b.views[0].head_dim = 3;
    expect_blocked(&a, &b,
                   "key+value of layer 0, head_dim: 3 f4 at the sender, 3 f4 "
                   "at the receiver, no whole bytes and so never cut");
    rig_init(&b, 2);
    b.views[0].element = TRANSFER_ELEMENT_F4;
    b.views[0].head_dim = 3;
    b.views[0].tokens_per_block = 32;
    struct why why;
    struct transfer_check result;
    assert_int_equal(
        transfer_parties_check(&a.party, &b.party, true, &why, &result),
        ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "no whole bytes and so never cut"));
}

static void expect_invalid(const struct rig *rig, const char *said)
{
    struct why why = {{0}};
    assert_int_equal(transfer_party_validate(&rig->party, &why), ERR_INVALID);
    assert_string_equal(why.text, said);
}

/* What a peer says of itself must fit together. */
static void a_party_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    static struct rig a;
    rig_init(&a, 4);
    a.party.rank = 4;
    expect_invalid(&a, "rank: 4 of 4");
    a.party.rank = 1;
    expect_invalid(&a, "views[0]: share: shard 0, replica 0 of 1, but rank 1 "
                       "has shard 1, replica 0 of 1");
    rig_init(&a, 4);
    a.views[0].share = (struct transfer_share){3, 0, 1, 0};
    expect_invalid(&a, "views[0]: shard_count: 3 does not divide 4 ranks");
    rig_init(&a, 4);
    a.stages[0].count = 3;
    expect_invalid(&a, "views[0]: entries[6]: layer 3 is not in stage 0");
    rig_init(&a, 4);
    a.views[0].life = 2;
    expect_invalid(&a, "views[0]: life: 2 of 2");
    rig_init(&a, 4);
    a.views[1] = a.views[0];
    a.party.view_count = 2;
    expect_invalid(&a, "views[1]: entries[0]: layer 0 has role 1 twice");
    a.views[1].tokens_per_block = 8;
    expect_invalid(&a, "views[1]: tokens_per_block: 16 and 8 in life cycle 0");
    rig_init(&a, 4);
    rig_add_state(&a);
    a.party.is_recurrent = false;
    expect_invalid(&a, "views[1]: kind: sectioned, but is_recurrent is not "
                       "set");
    a.party.view_count = 17;
    expect_invalid(&a, "view_count: 17 is over 16");
    a.layout.dp_size = 3;
    expect_invalid(&a, "dp_size: 3 does not divide tp_size 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_that_divide_are_fine),
        cmocka_unit_test(each_field_is_named_with_both_values),
        cmocka_unit_test(all_blockers_are_said_at_once),
        cmocka_unit_test(axes_that_do_not_divide_are_refused),
        cmocka_unit_test(block_sizes_are_left_to_who_can_cut_them),
        cmocka_unit_test(helix_is_refused_where_it_does_not_go),
        cmocka_unit_test(layers_of_one_side_are_counted),
        cmocka_unit_test(a_role_that_is_missing_is_named),
        cmocka_unit_test(sections_must_be_as_wide),
        cmocka_unit_test(heads_without_whole_bytes_are_not_cut),
        cmocka_unit_test(a_party_that_contradicts_itself_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
