/* Bounce messages: round trips, the bytes of each, and what is refused. */
#include "unit/base/test.h"

#include "wire/bounce.h"

static struct buf out;

static int set_up(void **state)
{
    (void)state;
    buf_init(&out, 4096);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_finish(&out);
    return 0;
}

/* What was encoded comes back, and one byte less or more does not.
 * [transfer T37] */
static void all_four_come_back(void **state)
{
    (void)state;
    struct wire_bounce_want want = {7, 20, 4, 2, {100, 200}}, want2;
    wire_bounce_want_encode(&want, &out);
    assert_int_equal(wire_bounce_want_decode(buf_span(&out), NULL, &want2), OK);
    assert_memory_equal(&want, &want2, sizeof(want));

    buf_reset(&out);
    struct wire_bounce_grant grant, grant2;
    memset(&grant, 0, sizeof(grant));
    memset(&grant2, 0, sizeof(grant2));
    grant.write = 7;
    grant.count = 1;
    grant.credits[0].chunk = 3;
    grant.credits[0].offset = UINT64_C(1) << 40;
    grant.credits[0].size = 4096;
    grant.credits[0].handle = 99;
    wire_bounce_grant_encode(&grant, &out);
    assert_int_equal(out.size, 8 + 24);
    assert_int_equal(wire_bounce_grant_decode(buf_span(&out), NULL, &grant2),
                     OK);
    assert_int_equal(grant2.credits[0].offset, UINT64_C(1) << 40);
    assert_int_equal(grant2.credits[0].handle, 99);
    assert_int_equal(grant2.credits[0].size, 4096);

    buf_reset(&out);
    struct wire_bounce_data data = {1, 2, 3, 4, 5, 6}, data2;
    wire_bounce_data_encode(&data, &out);
    assert_int_equal(wire_bounce_data_decode(buf_span(&out), NULL, &data2), OK);
    assert_int_equal(data2.handle, 3);
    assert_int_equal(data2.run_crc32c, 6);

    buf_reset(&out);
    struct wire_bounce_ack ack = {1, 2, {{8, 80}, {9, 90}}}, ack2;
    wire_bounce_ack_encode(&ack, &out);
    assert_int_equal(out.size, 8 + 2 * 12);
    assert_int_equal(wire_bounce_ack_decode(buf_span(&out), NULL, &ack2), OK);
    assert_int_equal(ack2.chunks[1].chunk, 9);
    assert_int_equal(ack2.chunks[1].handle, 90);
}

static void expect_corrupt(const struct wire_bounce_want *want)
{
    struct why why = {{0}};
    struct wire_bounce_want decoded;
    buf_reset(&out);
    wire_bounce_want_encode(want, &out);
    assert_int_equal(wire_bounce_want_decode(buf_span(&out), &why, &decoded),
                     ERR_CORRUPT);
    assert_string_not_equal(why.text, "");
}

/* Chunks outside the write, sizes of 0, and a want of nothing that is no
 * cancel. */
static void a_want_of_chunks_that_are_not_there_is_refused(void **state)
{
    (void)state;
    expect_corrupt(&(struct wire_bounce_want){0, 2, 1, 2, {1, 1}});
    expect_corrupt(&(struct wire_bounce_want){0, 2, 3, 0, {0}});
    expect_corrupt(&(struct wire_bounce_want){0, 2, 0, 1, {0}});
    expect_corrupt(&(struct wire_bounce_want){0, 2, 0, 0, {0}});
    expect_corrupt(
        &(struct wire_bounce_want){0, WIRE_BOUNCE_CHUNKS_MAX + 1, 0, 1, {1}});
    struct wire_bounce_want cancel = {.write = 3}, decoded;
    buf_reset(&out);
    wire_bounce_want_encode(&cancel, &out);
    assert_int_equal(wire_bounce_want_decode(buf_span(&out), NULL, &decoded),
                     OK);
    assert_int_equal(decoded.chunk_count, 0);
}

/* Every cut of every message, and each with a byte more. */
static void another_length_is_refused(void **state)
{
    (void)state;
    struct wire_bounce_want want = {7, 20, 4, 2, {100, 200}};
    struct wire_bounce_grant grant = {.write = 1, .count = 1};
    struct wire_bounce_data data = {0};
    struct wire_bounce_ack ack = {.write = 1, .count = 1};
    for (int kind = 0; kind < 4; kind++) {
        buf_reset(&out);
        if (kind == 0) {
            wire_bounce_want_encode(&want, &out);
        } else if (kind == 1) {
            wire_bounce_grant_encode(&grant, &out);
        } else if (kind == 2) {
            wire_bounce_data_encode(&data, &out);
        } else {
            wire_bounce_ack_encode(&ack, &out);
        }
        size_t right = out.size;
        buf_add_byte(&out, 0);
        for (size_t size = 0; size <= right + 1; size++) {
            struct span body = span_of(out.data, size);
            enum err err =
                kind == 0   ? wire_bounce_want_decode(body, NULL, &want)
                : kind == 1 ? wire_bounce_grant_decode(body, NULL, &grant)
                : kind == 2 ? wire_bounce_data_decode(body, NULL, &data)
                            : wire_bounce_ack_decode(body, NULL, &ack);
            assert_int_equal(err, size == right ? OK : ERR_CORRUPT);
        }
    }
}

/* A run is twelve little-endian bytes wherever it lies. */
static void a_run_comes_back(void **state)
{
    (void)state;
    uint8_t bytes[WIRE_BOUNCE_RUN_SIZE + 1];
    struct wire_bounce_run run = {UINT64_C(0x0102030405060708), 0x090a0b0c};
    wire_bounce_run_put(&run, bytes + 1);
    assert_int_equal(bytes[1], 8);
    assert_int_equal(bytes[9], 0x0c);
    struct wire_bounce_run again = wire_bounce_run_get(bytes + 1);
    assert_int_equal(again.offset, run.offset);
    assert_int_equal(again.size, run.size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_four_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_want_of_chunks_that_are_not_there_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_length_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test(a_run_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
