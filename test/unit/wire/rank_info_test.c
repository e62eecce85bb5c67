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

static struct wire_rank_info example(void)
{
    return (struct wire_rank_info){.incarnation = 5,
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
                                   .layer_count = 2,
                                   .kv_head_count = 3,
                                   .head_dim = 4,
                                   .tokens_per_block = 32,
                                   .element_bytes = 2,
                                   .page_count = 9,
                                   .page_bytes = 4096,
                                   .lane = "sysv"};
}

/* Every member is compared after a round trip. */
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
    got.backend_blob = info.backend_blob;
    assert_memory_equal(&got, &info, sizeof(info));
    buf_finish(&out);
}

/* Each field that must agree is changed alone: refused, named, both values. */
static void each_difference_is_named_with_both_values(void **state)
{
    (void)state;
    struct wire_rank_info a = example(), b = example();
    struct why why;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), OK);
    b.tokens_per_block = 64;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_string_equal(
        why.text, "tokens_per_block: 32 at the sender, 64 at the receiver");
    b = example();
    b.page_bytes++;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    b = example();
    b.tp_size++;
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    b = example();
    strcpy(b.backend_config, "d");
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "backend_config: 'c' at the sender"));
}

/* Who one is may differ: pid, incarnation, endpoint, pages. */
static void what_may_differ_is_not_compared(void **state)
{
    (void)state;
    struct wire_rank_info a = example(), b = example();
    struct why why;
    b.incarnation = b.pid = b.started = 1;
    b.page_count = 1;
    strcpy(b.endpoint, "tcp://other:1");
    assert_int_equal(wire_rank_info_compare(&a, &b, &why), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_info_comes_back),
        cmocka_unit_test(each_difference_is_named_with_both_values),
        cmocka_unit_test(what_may_differ_is_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
