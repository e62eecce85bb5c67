/* wire/recv_request: the receiver's advertisement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/bytes.h"
#include "wire/pack.h"
#include "wire/recv_request.h"

static struct buf list_of(const int64_t *pages, size_t count)
{
    struct buf list;
    buf_init(&list, 4096);
    for (size_t i = 0; i < count; i++) {
        wire_write_u64(&list, (uint64_t)pages[i]);
    }
    return list;
}

static struct wire_recv_request example(struct span pages)
{
    return (struct wire_recv_request){.rid = 42,
                                      .slice_id = 3,
                                      .prompt_tokens = 90,
                                      .block_count = 3,
                                      .capabilities = WIRE_ACCEPTS_SLICES,
                                      .reply_endpoint = "tcp://h:1",
                                      .group_count = 2,
                                      .groups = {pages, span_of(NULL, 0)}};
}

/* All members, a list with holes and an empty group. [transfer T18] */
static void advertisement_comes_back_with_its_empty_group(void **state)
{
    (void)state;
    const int64_t pages[3] = {7, -1, 9};
    struct buf list = list_of(pages, 3), out;
    struct wire_recv_request request = example(buf_span(&list)), got;
    struct why why = {0};
    buf_init(&out, 4096);
    assert_int_equal(wire_recv_request_encode(&request, &why, &out), OK);
    assert_int_equal(wire_recv_request_decode(buf_span(&out), &why, &got), OK);
    assert_int_equal(got.rid, 42);
    assert_int_equal(got.slice_id, 3);
    assert_int_equal(got.prompt_tokens, 90);
    assert_int_equal(got.group_count, 2);
    assert_string_equal(got.reply_endpoint, "tcp://h:1");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(wire_recv_request_page(&got, 0, i), pages[i]);
        assert_int_equal(wire_recv_request_page(&got, 1, i), -1);
    }
    buf_finish(&list);
    buf_finish(&out);
}

/* No prompt, no blocks, a list that is not one entry an ordinal, a negative
 * id: nothing reaches the wire. [transfer T18] */
static void missing_anchor_never_reaches_the_wire(void **state)
{
    (void)state;
    const int64_t pages[3] = {7, -1, 9};
    struct buf list = list_of(pages, 3), out;
    buf_init(&out, 4096);
    struct why why;
    for (int kind = 0; kind < 5; kind++) {
        struct wire_recv_request request = example(buf_span(&list));
        request.prompt_tokens = kind == 0 ? 0 : 90;
        request.block_count = kind == 1 ? 0 : kind == 2 ? 4 : 3;
        request.rid = kind == 3 ? -1 : 1;
        request.slice_id = kind == 4 ? -1 : 0;
        assert_int_equal(wire_recv_request_encode(&request, &why, &out),
                         ERR_INVALID);
        assert_int_equal(out.size, 0);
    }
    buf_finish(&list);
    buf_finish(&out);
}

static void expect_refused(const char *key, enum err expected)
{
    struct buf out;
    buf_init(&out, 4096);
    wire_pack_map(&out, 2);
    wire_pack_text(&out, "unique_rid");
    wire_pack_uint(&out, 1);
    wire_pack_text(&out, key);
    wire_pack_uint(&out, 0);
    struct wire_recv_request got;
    struct why why;
    assert_int_equal(wire_recv_request_decode(buf_span(&out), &why, &got),
                     expected);
    buf_finish(&out);
}

/* Suffix lists and first ordinals are told apart by their keys, and a map
 * without a layout is not guessed at. [transfer T18] */
static void older_layouts_are_refused(void **state)
{
    (void)state;
    expect_refused("dst_start_token", ERR_UNSUPPORTED);
    expect_refused("first_ordinals", ERR_UNSUPPORTED);
    expect_refused("slice_id", ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advertisement_comes_back_with_its_empty_group),
        cmocka_unit_test(missing_anchor_never_reaches_the_wire),
        cmocka_unit_test(older_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
