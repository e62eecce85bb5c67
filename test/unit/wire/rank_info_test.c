/* wire/rank_info: round trip and the comparison of two ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/rank_info.h"

static const uint8_t MARK[] =
    "what a digest of a model might be like, or another";

static struct wire_rank_info example(void)
{
    return (struct wire_rank_info){
        .incarnation = 5,
        .instance_size = 1,
        .tp_size = 1,
        .pp_size = 1,
        .dp_size = 1,
        .cp_size = 1,
        .endpoint = "tcp://127.0.0.1:9",
        .host = "h",
        .pid = 77,
        .started = 88,
        .backend = "ucx",
        .backend_config = "c",
        .backend_blob = span_of_string("blob"),
        .lane = "sysv",
        .model_mark = span_of(MARK, WIRE_MARK_SIZE),
        .tokenizer_mark = span_of(MARK + 8, WIRE_MARK_SIZE),
        .memory_bytes = 9 * 4096 + 7 * 512 + 8192,
        .bounce_offset = 9 * 4096 + 7 * 512,
        .bounce_bytes = 8192,
        .bounce_chunk_bytes = 4096,
        .group_count = 2,
        .groups = {{.layer_count = 2,
                    .layers = span_of("\5\0\13\0", 4),
                    .kv_head_count = 3,
                    .head_dim = 4,
                    .tokens_per_block = 32,
                    .element_bytes = 2,
                    .page_count = 9,
                    .page_bytes = 4096},
                   {.window = 64,
                    .sink_tokens = 4,
                    .layer_count = 1,
                    .kv_head_count = 3,
                    .head_dim = 4,
                    .tokens_per_block = 32,
                    .element_bytes = 2,
                    .page_count = 7,
                    .page_bytes = 512,
                    .base_offset = 9 * 4096}}};
}

/* A few members, and all of them by what they encode to again. */
static void rank_info_comes_back(void **state)
{
    (void)state;
    struct wire_rank_info info = example(), got;
    struct buf out;
    struct why why = {0};
    buf_init(&out, 8192);
    wire_rank_info_encode(&info, &out);
    assert_int_equal(wire_rank_info_decode(buf_span(&out), &why, &got), OK);
    assert_true(span_equals_string(got.backend_blob, "blob"));
    assert_string_equal(got.lane, info.lane);
    assert_int_equal(got.memory_bytes, info.memory_bytes);
    assert_int_equal(got.group_count, 2);
    assert_true(span_equals(got.groups[0].layers, info.groups[0].layers));
    assert_int_equal(got.groups[1].sink_tokens, 4);
    assert_int_equal(got.groups[1].base_offset, 9 * 4096);
    struct buf again;
    buf_init(&again, 8192);
    wire_rank_info_encode(&got, &again);
    assert_true(span_equals(buf_span(&again), buf_span(&out)));
    buf_finish(&again);
    buf_finish(&out);
}

/* Each field that must agree is changed alone: refused, named, both values. */
static void each_difference_is_named_with_both_values(void **state)
{
    (void)state;
    struct wire_rank_info a = example(), b = example();
    struct why why;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), OK);
    b.groups[0].tokens_per_block = 24;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_string_equal(why.text,
                        "groups[0].tokens_per_block: 32 at the sender, 24 at "
                        "the receiver, neither a multiple of the other");
    b = example();
    b.groups[1].page_bytes++;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_non_null(
        strstr(why.text, "groups[1].page_bytes: 512 at the sender"));
    b = example();
    b.groups[1].window = 0;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "groups[1].window: 64 at the sender"));
    b = example();
    b.groups[0].layers = span_of("\5\0\14\0", 4);
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_string_equal(
        why.text, "groups[0].layers[1]: 11 at the sender, 12 at the receiver");
    b = example();
    b.group_count = 1;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_string_equal(why.text,
                        "group_count: 2 at the sender, 1 at the receiver");
    b = example();
    b = example();
    b.tp_size++;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    b = example();
    strcpy(b.backend_config, "d");
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "backend_config: 'c' at the sender"));
}

static void set_blocks(struct wire_rank_info *info, uint32_t tokens)
{
    for (uint32_t i = 0; i < info->group_count; i++) {
        struct wire_group *group = &info->groups[i];
        group->tokens_per_block = tokens;
        group->page_bytes = (uint64_t)2 * group->layer_count *
                            group->kv_head_count * group->head_dim * tokens *
                            group->element_bytes;
    }
}

/* Blocks of 16 and 64 go with those of 32, both ways; 48 do not; a page that is
 * smaller than its layout, or whose layout overflows, is found out. */
static void blocks_may_be_a_multiple(void **state)
{
    (void)state;
    struct wire_rank_info a = example(), b = example();
    struct why why;
    set_blocks(&a, 32);
    for (uint32_t tokens = 16; tokens <= 64; tokens += 16) {
        enum err right = tokens == 48 ? ERR_UNSUPPORTED : OK;
        set_blocks(&b, tokens);
        assert_int_equal(wire_rank_info_compare(&a, &b, &why), right);
        assert_int_equal(wire_rank_info_compare(&b, &a, &why), right);
    }
    b.groups[1].page_bytes--;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "groups[1].page_bytes"));
    assert_non_null(strstr(why.text, "less than the layout needs"));
    set_blocks(&b, 64);
    a.groups[0].head_dim = b.groups[0].head_dim = UINT32_MAX;
    a.groups[0].layer_count = b.groups[0].layer_count = UINT32_MAX;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "groups[0].page_bytes"));
}

/* The same life cycles in another order are paired by what they are; of two that
 * are alike each goes with that of its index. */
static void groups_pair_by_what_they_are(void **state)
{
    (void)state;
    struct wire_rank_info a = example(), b = example();
    struct why why;
    uint8_t of_a[WIRE_GROUP_COUNT_MAX];
    b.groups[0] = a.groups[1];
    b.groups[1] = a.groups[0];
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), OK);
    assert_true(wire_rank_info_pair_groups(&a, &b, of_a));
    assert_int_equal(of_a[0], 1);
    assert_int_equal(of_a[1], 0);
    a.groups[1] = a.groups[0];
    assert_false(wire_rank_info_pair_groups(&a, &b, of_a));
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "groups[0].window: 0 at the sender, 64"));
    b.groups[0] = b.groups[1];
    assert_true(wire_rank_info_pair_groups(&a, &b, of_a));
    assert_int_equal(of_a[0], 0);
    assert_int_equal(of_a[1], 1);
}

/* Who one is may differ: pid, incarnation, endpoint, pages. */
static void what_may_differ_is_not_compared(void **state)
{
    (void)state;
    struct wire_rank_info a = example(), b = example();
    struct why why;
    b.incarnation = b.pid = b.started = 1;
    b.groups[0].page_count = 1;
    b.groups[1].base_offset = 4096;
    b.groups[1].layers = span_of("\1\0", 2); /* a does not tell */
    strcpy(b.endpoint, "tcp://other:1");
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), OK);
}

static void expect_bad(const struct wire_rank_info *info, const char *words)
{
    struct wire_rank_info got;
    struct buf out;
    struct why why = {0};
    buf_init(&out, 8192);
    wire_rank_info_encode(info, &out);
    assert_int_not_equal(wire_rank_info_decode(buf_span(&out), &why, &got), OK);
    assert_non_null(strstr(why.text, words));
    buf_finish(&out);
}

/* Groups that do not lie in the memory, by one byte or by a sum that overflows,
 * that have no pages or tokens, a list of another length, or a mark: named. */
static void groups_outside_the_memory_are_refused(void **state)
{
    (void)state;
    struct wire_rank_info bad = example();
    bad.memory_bytes = bad.bounce_offset - 1;
    expect_bad(&bad, "groups[1]: page_count");
    bad = example();
    bad.groups[1].base_offset = UINT64_MAX - 100;
    expect_bad(&bad, "groups[1]: page_count");
    bad = example();
    bad.groups[0].page_bytes = UINT64_MAX / 2;
    expect_bad(&bad, "groups[0]: page_count");
    bad = example();
    bad.groups[0].page_count = 0;
    expect_bad(&bad, "no pages");
    bad = example();
    bad.groups[0].tokens_per_block = 0;
    expect_bad(&bad, "tokens_per_block");
    bad = example();
    bad.groups[1].tokens_per_block = 16;
    expect_bad(&bad, "groups[1]: tokens_per_block: not that of groups[0]");
    bad = example();
    bad.groups[0].layers.size = 3;
    expect_bad(&bad, "layers");
    bad = example();
    bad.bounce_bytes++;
    expect_bad(&bad, "bounce_bytes");
    bad.bounce_offset = UINT64_MAX;
    expect_bad(&bad, "bounce_bytes");
    bad = example();
    bad.bounce_chunk_bytes = 8193;
    expect_bad(&bad, "bounce_bytes");
    bad.bounce_chunk_bytes = 0;
    expect_bad(&bad, "bounce_bytes");
    bad = example();
    bad.model_mark.size--;
    expect_bad(&bad, "model_mark: not 32 bytes");
    bad = example();
    bad.tokenizer_mark = span_of(NULL, 0);
    expect_bad(&bad, "tokenizer_mark: not 32 bytes");
    bad = example();
    bad.group_count = 0;
    expect_bad(&bad, "groups: not a short array");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_info_comes_back),
        cmocka_unit_test(each_difference_is_named_with_both_values),
        cmocka_unit_test(blocks_may_be_a_multiple),
        cmocka_unit_test(groups_pair_by_what_they_are),
        cmocka_unit_test(groups_outside_the_memory_are_refused),
        cmocka_unit_test(what_may_differ_is_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
