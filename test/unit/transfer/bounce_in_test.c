/* transfer/bounce_in: the receiver's shell. The test plays the sender: it puts
 * chunks into the arena where it was granted and says what it likes of them. */
#include "bounce_rig.h"

static const struct bounce_key KEY = {RIG_PEER, RIG_RID, RIG_ATTEMPT};
static struct rig rig;

static int set_up(void **state)
{
    (void)state;
    rig_open(&rig);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static size_t page_size(void)
{
    return rig.around.pool.page_bytes;
}

/* The receive lets its sender write pages 2 and 3. */
static void hear(uint16_t type, const struct buf *body, bool is_over)
{
    struct transfer_range range = {2 * page_size(), 2 * page_size()};
    struct wire_header header = rig_header(type);
    bounce_hear_sender(rig.bounce, &rig.link, &header, buf_span(body), &KEY,
                       is_over, span_of((void *)&range, sizeof(range)), 1);
}

/* Asks for one chunk and answers with where it may be put. */
static struct wire_bounce_credit want(uint32_t size)
{
    struct wire_bounce_want want = {0, 2, 0, 1, {size}};
    struct wire_bounce_grant grant;
    struct buf body;
    buf_init(&body, 4096);
    wire_bounce_want_encode(&want, &body);
    hear(WIRE_BOUNCE_WANT, &body, false);
    assert_int_equal(
        wire_bounce_grant_decode(rig_said(WIRE_BOUNCE_GRANT), NULL, &grant),
        OK);
    buf_finish(&body);
    assert_int_equal(grant.count, 1);
    assert_true(grant.credits[0].offset >= RIG_ARENA);
    return grant.credits[0];
}

/* Two pages of payload to 3 and 2, then their runs. */
static struct wire_bounce_data put_chunk(struct wire_bounce_credit credit,
                                         uint64_t first_target)
{
    uint8_t *at = rig.around.options.memory + credit.offset;
    uint32_t payload = (uint32_t)(2 * page_size());
    memset(at, 0xaa, page_size());
    memset(at + page_size(), 0xbb, page_size());
    struct wire_bounce_run runs[2] = {{first_target, (uint32_t)page_size()},
                                      {2 * page_size(), (uint32_t)page_size()}};
    for (size_t i = 0; i < 2; i++) {
        wire_bounce_run_put(&runs[i], at + payload + WIRE_BOUNCE_RUN_SIZE * i);
    }
    return (struct wire_bounce_data){
        .handle = credit.handle,
        .payload_size = payload,
        .run_count = 2,
        .run_crc32c =
            digest_crc32c(0, span_of(at + payload, 2 * WIRE_BOUNCE_RUN_SIZE)),
    };
}

static void say_data(const struct wire_bounce_data *data)
{
    struct buf body;
    buf_init(&body, 4096);
    wire_bounce_data_encode(data, &body);
    hear(WIRE_BOUNCE_DATA, &body, false);
    buf_finish(&body);
}

static uint32_t chunk_size(void)
{
    return (uint32_t)(2 * page_size() + 2 * WIRE_BOUNCE_RUN_SIZE);
}

static bool is_filled(uint32_t page, uint8_t value)
{
    bool is = true;
    for (size_t i = 0; i < page_size(); i++) {
        is &= rig.around.pool.base[page * page_size() + i] == value;
    }
    return is;
}

static void end_receive(void)
{
    bounce_quiet(rig.bounce, &KEY, 9);
    while (bounce_pump(rig.bounce, 9)) {
    }
}

/* Pages land where the runs say, and the sender hears of the chunk once. */
static void a_chunk_lands_in_its_pages(void **state)
{
    (void)state;
    struct wire_bounce_credit credit = want(chunk_size());
    assert_int_equal(credit.size, chunk_size());
    struct wire_bounce_data data = put_chunk(credit, 3 * page_size());
    say_data(&data);
    while (bounce_pump(rig.bounce, 2)) {
    }
    assert_true(is_filled(3, 0xaa));
    assert_true(is_filled(2, 0xbb));
    struct wire_bounce_ack ack;
    assert_int_equal(
        wire_bounce_ack_decode(rig_said(WIRE_BOUNCE_ACK), NULL, &ack), OK);
    assert_int_equal(ack.chunks[0].handle, credit.handle);
    assert_int_equal(rig.received, 2 * page_size());
    assert_int_equal(rig.broken_count, 0);
    end_receive();
}

static void expect_broken(const struct wire_bounce_data *data)
{
    uint32_t said = fake_control.said_count;
    say_data(data);
    while (bounce_pump(rig.bounce, 2)) {
    }
    assert_int_equal(rig.broken_count, 1);
    assert_int_equal(fake_control.said_count, said);
    assert_int_equal(rig.received, 0);
    end_receive();
}

/* A run to a page that is not this receive's: not a byte of it, and the receive
 * is told that it is broken. [transfer I20 I2] */
static void a_run_outside_its_pages_breaks_the_receive(void **state)
{
    (void)state;
    uint8_t before[512];
    assert_true(page_size() <= sizeof(before));
    memcpy(before, rig.around.pool.base + 4 * page_size(), page_size());
    struct wire_bounce_data data =
        put_chunk(want(chunk_size()), 3 * page_size() + 1);
    expect_broken(&data);
    assert_memory_equal(before, rig.around.pool.base + 4 * page_size(),
                        page_size());
}

/* A list that was changed on its way, and sums that do not add up. */
static void another_list_breaks_the_receive(void **state)
{
    (void)state;
    struct wire_bounce_data data =
        put_chunk(want(chunk_size()), 3 * page_size());
    data.run_crc32c ^= 1;
    expect_broken(&data);
}

static void other_sums_break_the_receive(void **state)
{
    (void)state;
    struct wire_bounce_data data =
        put_chunk(want(chunk_size()), 3 * page_size());
    data.payload_size = UINT32_MAX;
    data.run_count = UINT32_MAX;
    expect_broken(&data);
}

/* The receive ends with a chunk there that is not scattered yet: its pages are
 * quiet from that moment on. [transfer I1 T68] */
static void nothing_lands_after_a_reclaim(void **state)
{
    (void)state;
    struct wire_bounce_data data =
        put_chunk(want(chunk_size()), 3 * page_size());
    say_data(&data);
    bounce_reclaim(rig.bounce, &KEY, 2);
    uint32_t said = fake_control.said_count;
    end_receive();
    assert_false(is_filled(3, 0xaa));
    assert_int_equal(fake_control.said_count, said);
    assert_int_equal(rig.received, 0);
}

/* A receive that is over is granted nothing; bytes that are no message, and
 * chunks larger than there may be, end the connection. [transfer I20] */
static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct wire_bounce_want want = {0, 2, 0, 1, {64}};
    struct buf body;
    buf_init(&body, 4096);
    wire_bounce_want_encode(&want, &body);
    hear(WIRE_BOUNCE_WANT, &body, true);
    assert_int_equal(fake_control.said_count, 0);
    assert_int_equal(fake_control.drop_count, 0);
    buf_add_byte(&body, 1);
    hear(WIRE_BOUNCE_WANT, &body, false);
    assert_int_equal(fake_control.drop_count, 1);
    hear(WIRE_BOUNCE_DATA, &body, false);
    assert_int_equal(fake_control.drop_count, 2);
    want.sizes[0] = 2049;
    buf_reset(&body);
    wire_bounce_want_encode(&want, &body);
    hear(WIRE_BOUNCE_WANT, &body, false);
    assert_int_equal(fake_control.drop_count, 3);
    assert_int_equal(fake_control.said_count, 0);
    buf_finish(&body);
    end_receive();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_chunk_lands_in_its_pages, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_run_outside_its_pages_breaks_the_receive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_list_breaks_the_receive, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(other_sums_break_the_receive, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_lands_after_a_reclaim, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
