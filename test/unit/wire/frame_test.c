/* wire/frame: the envelope, its cuts and its damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/frame.h"

static void encode(struct buf *out, const char *body)
{
    struct wire_header header = {.type = WIRE_REQUEST_DATA,
                                 .source_incarnation = 11,
                                 .target_incarnation = 22,
                                 .rid = 33,
                                 .attempt = 44};
    buf_init(out, WIRE_BODY_SIZE_MAX + 2 * WIRE_HEADER_SIZE);
    assert_int_equal(wire_frame_encode(&header, span_of_string(body), out), OK);
}

/* Each field of the header and the body come back; two frames in a row are
 * taken one by one. */
static void frames_come_back_one_by_one(void **state)
{
    (void)state;
    struct buf out;
    encode(&out, "hello");
    struct wire_header again = {.type = WIRE_HEARTBEAT};
    assert_int_equal(wire_frame_encode(&again, span_of(NULL, 0), &out), OK);
    struct wire_header header;
    struct span body;
    size_t used;
    assert_int_equal(
        wire_frame_decode(buf_span(&out), NULL, &header, &body, &used), OK);
    assert_int_equal(used, WIRE_HEADER_SIZE + 5);
    assert_int_equal(header.type, WIRE_REQUEST_DATA);
    assert_int_equal(header.source_incarnation, 11);
    assert_int_equal(header.target_incarnation, 22);
    assert_int_equal(header.rid, 33);
    assert_int_equal(header.attempt, 44);
    assert_true(span_equals_string(body, "hello"));
    buf_drop_front(&out, used);
    assert_int_equal(
        wire_frame_decode(buf_span(&out), NULL, &header, &body, &used), OK);
    assert_int_equal(header.type, WIRE_HEARTBEAT);
    assert_int_equal(body.size, 0);
    buf_finish(&out);
}

/* Each cut of a frame asks for more and is no error, and its size is known once
 * the header is there. */
static void every_cut_asks_for_more(void **state)
{
    (void)state;
    struct buf out;
    encode(&out, "hello");
    struct wire_header header;
    struct span body;
    size_t used;
    for (size_t size = 0; size < out.size; size++) {
        assert_int_equal(wire_frame_decode(span_of(out.data, size), NULL,
                                           &header, &body, &used),
                         ERR_BUSY);
        assert_int_equal(wire_frame_size(span_of(out.data, size)),
                         size < WIRE_HEADER_SIZE ? WIRE_HEADER_SIZE : out.size);
    }
    buf_finish(&out);
}

/* Each single flipped bit of a frame is found: an error, or a length that asks
 * for more bytes than there are. */
static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    struct buf out;
    encode(&out, "hello");
    for (size_t bit = 0; bit < 8 * out.size; bit++) {
        out.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct wire_header header;
        struct span body;
        size_t used;
        struct why why;
        assert_int_not_equal(
            wire_frame_decode(buf_span(&out), &why, &header, &body, &used), OK);
        out.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    buf_finish(&out);
}

/* A version before or after ours is named; a body over the limit is neither sent nor waited
 * for. */
static void limits_hold_on_both_sides(void **state)
{
    (void)state;
    struct buf out;
    encode(&out, "");
    struct wire_header header;
    struct span body;
    size_t used;
    struct why why;
    for (uint8_t version = WIRE_VERSION - 1; version <= WIRE_VERSION + 1;
         version += 2) {
        char words[16];
        snprintf(words, sizeof(words), "version %u", version);
        out.data[4] = version;
        assert_int_equal(
            wire_frame_decode(buf_span(&out), &why, &header, &body, &used),
            ERR_UNSUPPORTED);
        assert_non_null(strstr(why.text, words));
    }
    out.data[4] = WIRE_VERSION;
    out.data[39] = 0xff;
    assert_int_equal(
        wire_frame_decode(buf_span(&out), &why, &header, &body, &used),
        ERR_CORRUPT);
    size_t before = out.size;
    uint8_t *large = calloc(1, WIRE_BODY_SIZE_MAX + 1);
    assert_int_equal(wire_frame_encode(
                         &header, span_of(large, WIRE_BODY_SIZE_MAX + 1), &out),
                     ERR_FULL);
    assert_int_equal(out.size, before);
    free(large);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back_one_by_one),
        cmocka_unit_test(every_cut_asks_for_more),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(limits_hold_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
