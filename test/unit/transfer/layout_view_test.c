/* transfer/layout_view: what lies where, and lies about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/layout_view.h"

enum { KEY = TRANSFER_ROLE_KEY, VALUE = TRANSFER_ROLE_VALUE };
static const struct transfer_share alone = {1, 0, 1, 0};

/* Two layers of K and V, 4 heads of 8 F16, 16 tokens: entries of 1024 bytes. */
static struct transfer_entry entries[4];
static struct transfer_view good_view(void)
{
    static const struct transfer_entry told[4] = {
        {3, KEY, 0}, {3, VALUE, 1024}, {7, KEY, 2048}, {7, VALUE, 3072}};
    memcpy(entries, told, sizeof(told));
    return (struct transfer_view){
        .kind = TRANSFER_VIEW_HEADS_FIRST,
        .element = TRANSFER_ELEMENT_F16,
        .roles = KEY | VALUE,
        .tokens_per_block = 16,
        .head_count = 4,
        .head_dim = 8,
        .share = alone,
        .slot_bytes = 4096,
        .entry_count = 4,
        .entries = entries,
    };
}

static void expect_invalid(const struct transfer_view *view, const char *said)
{
    struct why why = {{0}};
    assert_int_equal(transfer_view_validate(view, &why), ERR_INVALID);
    assert_string_equal(why.text, said);
}

/* Sizes by their definition, whole bytes or not. */
static void sizes_are_told_in_bytes(void **state)
{
    (void)state;
    struct transfer_view view = good_view();
    assert_int_equal(transfer_view_validate(&view, NULL), OK);
    assert_int_equal(transfer_view_unit_bytes(&view), 16);
    assert_int_equal(transfer_view_entry_bytes(&view), 1024);
    view.element = TRANSFER_ELEMENT_F4;
    view.head_dim = 5;
    assert_int_equal(transfer_view_unit_bytes(&view), 0);
    assert_int_equal(transfer_view_entry_bytes(&view), 160);
    assert_int_equal(transfer_view_validate(&view, NULL), OK);
    char text[TRANSFER_ROLES_TEXT_SIZE];
    transfer_roles_text(TRANSFER_ROLE_ALL, text);
    assert_string_equal(text, "key+value+latent+index_key+state+conv");
}

/* An entry a layer too many here and one too few there add up to a count that
 * divides; each layer is looked at. */
static void each_layer_must_have_each_role(void **state)
{
    (void)state;
    struct transfer_view view = good_view();
    entries[1] = (struct transfer_entry){7, KEY, 1024};
    entries[2] = (struct transfer_entry){7, VALUE, 2048};
    entries[3] = (struct transfer_entry){9, KEY, 3072};
    expect_invalid(&view, "entries[1]: layer: 3 lacks a role of the view's");
    view = good_view();
    view.entry_count = 3;
    expect_invalid(&view, "entries: layer 7 lacks a role of the view's");
    view = good_view();
    entries[1].role = KEY;
    expect_invalid(&view, "entries[1]: layer: 3 is out of order");
    view = good_view();
    entries[0].role = TRANSFER_ROLE_LATENT;
    expect_invalid(&view, "entries[0]: role: 4 is none of the view's");
}

/* Every number that a peer could make up. */
static void each_wrong_field_is_named(void **state)
{
    (void)state;
    struct transfer_view view = good_view();
    entries[3].offset = 3073;
    expect_invalid(&view, "entries[3]: offset: 3073 and 1024 bytes are not "
                          "inside a slot of 4096");
    entries[3].offset = UINT64_MAX - 5;
    assert_int_equal(transfer_view_validate(&view, NULL), ERR_INVALID);
    view = good_view(), view.head_dim = 0;
    expect_invalid(&view, "head_dim: 0 is not in 1 to 16777216");
    view = good_view(), view.head_count = 70000;
    expect_invalid(&view, "head_count: 70000 is not in 1 to 65536");
    view = good_view(), view.tokens_per_block = 0;
    expect_invalid(&view, "tokens_per_block: 0 is not in 1 to 65536");
    view = good_view(), view.entry_count = 0;
    expect_invalid(&view, "entry_count: 0 is not in 1 to 8192");
    view = good_view(), view.share.shard_index = 1;
    expect_invalid(&view, "shard_index: 1 is not in 0 to 0");
    view = good_view(), view.share.replica_index = 1;
    expect_invalid(&view, "replica_index: 1 is not in 0 to 0");
    view = good_view(), view.kind = TRANSFER_VIEW_WHOLE;
    expect_invalid(&view, "head_count: 4 is not in 1 to 1");
    view.head_count = 1, view.share.shard_count = 2;
    expect_invalid(&view, "shard_count: 2 is not in 1 to 1");
    view = good_view(), view.element = TRANSFER_ELEMENT_COUNT;
    expect_invalid(&view, "element: 7 is not in 0 to 6");
    view = good_view(), view.roles = 64;
    expect_invalid(&view, "roles: 64 is not in 1 to 63");
    view = good_view(), view.element = TRANSFER_ELEMENT_F4;
    view.head_dim = 1, view.head_count = 1, view.tokens_per_block = 1;
    expect_invalid(&view, "head_dim: 1 f4 fill no whole bytes");
}

/* A state: sections of whole pieces, no tokens and no heads. */
static void sections_are_whole_pieces(void **state)
{
    (void)state;
    struct transfer_section sections[2] = {{64, false}, {32, true}};
    struct transfer_view view = good_view();
    view.kind = TRANSFER_VIEW_SECTIONED;
    view.tokens_per_block = view.head_count = 0;
    view.section_count = 2;
    view.sections = sections;
    view.share = (struct transfer_share){2, 1, 3, 2};
    assert_int_equal(transfer_view_validate(&view, NULL), OK);
    assert_int_equal(transfer_view_entry_bytes(&view), 96);
    assert_int_equal(transfer_view_section_share(&view, 0).shard_count, 2);
    struct transfer_share whole = transfer_view_section_share(&view, 1);
    assert_int_equal(whole.replica_count, 6);
    assert_int_equal(whole.replica_index, 5);
    sections[1].size = 40;
    expect_invalid(&view, "sections[1]: 40 bytes are no multiple of 16 below "
                          "4 GiB");
    view.section_count = 0;
    expect_invalid(&view, "section_count: 0 is not in 1 to 256");
}

/* By layer and role; two views pair by equal roles and a common layer. */
static void entries_are_found_by_layer_and_role(void **state)
{
    (void)state;
    struct transfer_view view = good_view();
    assert_ptr_equal(transfer_view_find(&view, 7, VALUE), &entries[3]);
    assert_ptr_equal(transfer_view_find(&view, 3, KEY), &entries[0]);
    assert_null(transfer_view_find(&view, 8, KEY));
    assert_null(transfer_view_find(&view, 2, VALUE));
    assert_null(transfer_view_find(&view, 7, TRANSFER_ROLE_LATENT));
    const struct transfer_entry others[] = {
        {7, KEY, 0}, {7, VALUE, 9}, {8, KEY, 0}, {8, VALUE, 9}};
    struct transfer_view other = view;
    other.entries = others;
    assert_true(transfer_views_pair(&view, &other));
    assert_int_equal(transfer_view_common_bytes(&view, &other), 2048);
    other.entries = others + 2, other.entry_count = 2;
    assert_false(transfer_views_pair(&view, &other));
    other = view, other.roles = KEY;
    assert_false(transfer_views_pair(&view, &other));
}

/* Against kv/view's own arithmetic, head by head. */
static void our_pages_are_described_as_they_are(void **state)
{
    (void)state;
    const struct kv_layout layout = {3, 4, 8, 16, 2};
    const uint16_t layers[3] = {2, 5, 6};
    struct transfer_entry told[6];
    struct transfer_view view;
    transfer_view_of_pages(&layout, layers, &alone, told, &view);
    assert_int_equal(transfer_view_validate(&view, NULL), OK);
    assert_int_equal(view.slot_bytes, kv_layout_page_bytes(&layout));
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t head = 0; head < 4; head++) {
            size_t key = kv_layout_key_offset(&layout, i, head);
            uint64_t at = head * 16 * transfer_view_unit_bytes(&view);
            assert_int_equal(
                transfer_view_find(&view, layers[i], KEY)->offset + at, key);
            assert_int_equal(
                transfer_view_find(&view, layers[i], VALUE)->offset + at,
                key + kv_layout_layer_bytes(&layout) / 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_told_in_bytes),
        cmocka_unit_test(each_layer_must_have_each_role),
        cmocka_unit_test(each_wrong_field_is_named),
        cmocka_unit_test(sections_are_whole_pieces),
        cmocka_unit_test(entries_are_found_by_layer_and_role),
        cmocka_unit_test(our_pages_are_described_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
