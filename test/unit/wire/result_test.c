/* wire/result: the published prefix, our fields, and odd ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "wire/result.h"

static void expect_vector(const struct wire_result_prefix *prefix,
                          const char *hex)
{
    struct buf out, expected;
    buf_init(&out, 256);
    buf_init(&expected, 256);
    wire_result_prefix_encode(prefix, &out);
    assert_int_equal(digest_decode_hex(span_of_string(hex), &expected), OK);
    assert_int_equal(out.size, WIRE_RESULT_PREFIX_SIZE);
    assert_true(span_equals(buf_span(&out), buf_span(&expected)));
    struct wire_result_prefix got;
    bool is_odd;
    assert_int_equal(
        wire_result_prefix_decode(buf_span(&out), NULL, &got, &is_odd), OK);
    assert_false(is_odd);
    assert_int_equal(got.sender_rank, prefix->sender_rank);
    assert_int_equal(got.rid, prefix->rid);
    assert_int_equal(got.bytes, prefix->bytes);
    assert_int_equal(got.code, prefix->code);
    assert_int_equal(got.is_last, prefix->is_last);
    buf_finish(&out);
    buf_finish(&expected);
}

/* The two published vectors, byte for byte. [transfer T16] */
static void published_vectors_match(void **state)
{
    (void)state;
    expect_vector(&(struct wire_result_prefix){3, 42, 0, true,
                                               WIRE_RESULT_SUCCESS, 1048576},
                  "03000000000000002a0000000000000000000000000000000100"
                  "0000100000000000");
    expect_vector(
        &(struct wire_result_prefix){0, 42, 0, true, WIRE_RESULT_FAILED, 0},
        "00000000000000002a0000000000000000000000000000000101"
        "0000000000000000");
}

static struct wire_result example(void)
{
    return (struct wire_result){
        .prefix = {1, 2, 0, true, WIRE_RESULT_SUCCESS, 99},
        .slice_index = 4,
        .slices_total = 5,
        .flags = WIRE_RESULT_DRAINED,
        .reason = 6,
        .group_count = 3,
        .bytes_so_far = 8,
        .groups = {{.blocks_so_far = 7, .digest_count = 1},
                   {.blocks_so_far = 9, .digest_count = 0},
                   {.blocks_so_far = 11, .digest_count = 1}}};
}

static void encode(struct buf *out)
{
    struct wire_result result = example();
    buf_init(out, 4096);
    wire_result_encode(&result, out);
    wire_result_digest_encode((struct wire_digest){10, 0xaabbccdd}, out);
    wire_result_digest_encode((struct wire_digest){11, 1}, out);
}

/* All fields of our revision and the digests. */
static void our_revision_comes_back(void **state)
{
    (void)state;
    struct buf out;
    encode(&out);
    struct wire_result got;
    bool is_odd;
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     OK);
    assert_int_equal(got.slice_index, 4);
    assert_int_equal(got.slices_total, 5);
    assert_int_equal(got.flags, WIRE_RESULT_DRAINED);
    assert_int_equal(got.reason, 6);
    assert_int_equal(got.group_count, 3);
    assert_int_equal(got.groups[0].blocks_so_far, 7);
    assert_int_equal(got.groups[1].blocks_so_far, 9);
    assert_int_equal(got.groups[1].digest_count, 0);
    assert_int_equal(got.groups[2].blocks_so_far, 11);
    assert_int_equal(got.bytes_so_far, 8);
    assert_int_equal(wire_result_digest(&got, 0, 0).crc32c, 0xaabbccdd);
    assert_int_equal(wire_result_digest(&got, 2, 0).ordinal, 11);
    buf_finish(&out);
}

/* Every shorter frame and one byte more are refused. [transfer T16] */
static void short_and_long_frames_are_refused(void **state)
{
    (void)state;
    struct buf out;
    encode(&out);
    struct wire_result got;
    struct wire_result_prefix prefix;
    bool is_odd;
    for (size_t size = 0; size < out.size; size++) {
        assert_int_equal(
            wire_result_decode(span_of(out.data, size), NULL, &got, &is_odd),
            ERR_CORRUPT);
    }
    assert_int_equal(
        wire_result_prefix_decode(buf_span(&out), NULL, &prefix, &is_odd),
        ERR_CORRUPT);
    buf_add_byte(&out, 0);
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     ERR_CORRUPT);
    buf_finish(&out);
}

/* An unknown code reads as FAILED and says so; a negative slice id, rid or
 * byte count and a last flag of 2 are refused. [transfer T16] */
static void bad_codes_and_ids_are_caught(void **state)
{
    (void)state;
    struct buf out;
    encode(&out);
    struct wire_result got;
    bool is_odd = false;
    out.data[25] = 77;
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     OK);
    assert_true(is_odd);
    assert_int_equal(got.prefix.code, WIRE_RESULT_FAILED);
    const size_t signs[] = {15, 23, 33};
    for (int i = 0; i < 3; i++) {
        out.data[signs[i]] ^= 0x80;
        assert_int_equal(
            wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
            ERR_CORRUPT);
        out.data[signs[i]] ^= 0x80;
    }
    out.data[24] = 2;
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     ERR_CORRUPT);
    buf_finish(&out);
}

/* Five groups, and counts of digests that overflow a sum or the limit. */
static void group_counts_are_bounded(void **state)
{
    (void)state;
    struct buf out;
    encode(&out);
    struct wire_result got;
    bool is_odd = false;
    out.data[45] = 5;
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     ERR_CORRUPT);
    out.data[45] = 3;
    memset(out.data + 58, 255, 4);
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     ERR_CORRUPT);
    memset(out.data + 74, 255, 4);
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     ERR_CORRUPT);
    buf_finish(&out);
}

/* An abort is last, FAILED and names the receiver's slice. [transfer T17] */
static void abort_uses_the_receivers_slice_and_is_last(void **state)
{
    (void)state;
    struct wire_result result =
        wire_result_abort(0, 42, 6, 3, WIRE_RESULT_DRAINED);
    struct buf out;
    buf_init(&out, 256);
    wire_result_encode(&result, &out);
    struct wire_result got;
    bool is_odd;
    assert_int_equal(wire_result_decode(buf_span(&out), NULL, &got, &is_odd),
                     OK);
    assert_true(got.prefix.is_last);
    assert_int_equal(got.prefix.receiver_slice, 6);
    assert_int_equal(got.prefix.code, WIRE_RESULT_FAILED);
    assert_int_equal(got.prefix.bytes, 0);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_match),
        cmocka_unit_test(our_revision_comes_back),
        cmocka_unit_test(short_and_long_frames_are_refused),
        cmocka_unit_test(bad_codes_and_ids_are_caught),
        cmocka_unit_test(group_counts_are_bounded),
        cmocka_unit_test(abort_uses_the_receivers_slice_and_is_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
