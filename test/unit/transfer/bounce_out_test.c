/* transfer/bounce_out: the sender's shell. The test plays the receiver: it
 * grants places in the peer's memory, looks at what was written there, and
 * acknowledges. */
#include "bounce_rig.h"

enum { PIECES = 3 };

static struct rig rig;
static struct link *link_now;
static struct transfer_piece pieces[PIECES];

static int set_up(void **state)
{
    (void)state;
    rig_open(&rig);
    struct why why = {{0}};
    assert_int_equal(transfer_backend_peer_open(rig.around.backend,
                                                buf_span(&rig.around.peer_blob),
                                                rig.around.options.memory_size,
                                                &why, &rig.link.backend_peer),
                     OK);
    link_now = &rig.link;
    for (uint32_t i = 0; i < PIECES; i++) {
        pieces[i] =
            (struct transfer_piece){100 * i, 1000 + 100 * (PIECES - i), 60, 0};
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    transfer_backend_peer_close(rig.link.backend_peer);
    rig_close(&rig);
    return 0;
}

static bool begin(void)
{
    const struct bounce_job job = {.link = &link_now,
                                   .token = {RIG_RID, RIG_ATTEMPT},
                                   .pieces = pieces,
                                   .piece_count = PIECES,
                                   .owner = &rig};
    return bounce_begin(rig.bounce, &job, 1);
}

static void pump(void)
{
    while (bounce_pump(rig.bounce, 1)) {
    }
}

static void hear(uint16_t type, const struct buf *body)
{
    struct wire_header header = rig_header(type);
    bounce_hear_receiver(rig.bounce, &rig.link, &header, buf_span(body), 2);
}

static void grant(uint32_t chunk, uint64_t offset, uint32_t size)
{
    struct wire_bounce_grant grant = {.count = 1};
    grant.credits[0] = (struct wire_bounce_credit){chunk, offset, size, 77};
    struct buf body;
    buf_init(&body, 4096);
    wire_bounce_grant_encode(&grant, &body);
    hear(WIRE_BOUNCE_GRANT, &body);
    buf_finish(&body);
}

static void ack(void)
{
    struct wire_bounce_ack ack = {.count = 1, .chunks = {{0, 77}}};
    struct buf body;
    buf_init(&body, 4096);
    wire_bounce_ack_encode(&ack, &body);
    hear(WIRE_BOUNCE_ACK, &body);
    buf_finish(&body);
}

static void finish_write(void)
{
    bool is_busy;
    struct transfer_write *write = NULL;
    for (int i = 0; i < 100 && write == NULL; i++) {
        write = transfer_backend_poll(rig.around.backend, &is_busy);
    }
    assert_non_null(write);
    assert_true(bounce_written(rig.bounce, write, 3));
}

/* What lies in the peer's arena is the pieces, then where each of them goes;
 * their digests are set, and the owner hears of the end with the last ACK. */
static void a_write_goes_packed(void **state)
{
    (void)state;
    assert_true(begin());
    pump();
    struct wire_bounce_want want;
    assert_int_equal(
        wire_bounce_want_decode(rig_said(WIRE_BOUNCE_WANT), NULL, &want), OK);
    uint32_t size = PIECES * (60 + WIRE_BOUNCE_RUN_SIZE);
    assert_int_equal(want.chunk_count, 1);
    assert_int_equal(want.sizes[0], size);
    grant(0, RIG_ARENA + 512, size);
    finish_write();
    struct wire_bounce_data data;
    assert_int_equal(
        wire_bounce_data_decode(rig_said(WIRE_BOUNCE_DATA), NULL, &data), OK);
    const uint8_t *there = rig.around.peer_pool + RIG_ARENA + 512;
    const uint8_t *runs = there + 60 * PIECES;
    for (uint32_t i = 0; i < PIECES; i++) {
        const uint8_t *page = rig.around.pool.base + pieces[i].source_offset;
        assert_memory_equal(there + 60 * i, page, 60);
        assert_int_equal(pieces[i].crc32c, digest_crc32c(0, span_of(page, 60)));
        struct wire_bounce_run run =
            wire_bounce_run_get(runs + WIRE_BOUNCE_RUN_SIZE * i);
        assert_int_equal(run.offset, pieces[i].target_offset);
        assert_int_equal(run.size, 60);
    }
    assert_int_equal(data.handle, 77);
    assert_int_equal(data.payload_size, 60 * PIECES);
    assert_int_equal(
        data.run_crc32c,
        digest_crc32c(0, span_of(runs, PIECES * WIRE_BOUNCE_RUN_SIZE)));
    assert_int_equal(rig.sent_count, 0);
    ack();
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.outcome, BOUNCE_DONE);
    assert_int_equal(rig.around.stats.sent_bounced_bytes, 60 * PIECES);
}

/* Pieces are not cut: as many chunks as their sizes make, none over the peer's
 * limit; one that fits in none goes the plain way. */
static void chunks_are_whole_pieces(void **state)
{
    (void)state;
    rig.link.bounce.chunk_bytes = 2 * (60 + WIRE_BOUNCE_RUN_SIZE) + 59;
    assert_true(begin());
    pump();
    struct wire_bounce_want want;
    assert_int_equal(
        wire_bounce_want_decode(rig_said(WIRE_BOUNCE_WANT), NULL, &want), OK);
    assert_int_equal(want.chunk_count, 2);
    assert_int_equal(want.first, 1);
    assert_int_equal(want.sizes[0], 60 + WIRE_BOUNCE_RUN_SIZE);
    bounce_stop(rig.bounce, &rig, 2);
    assert_int_equal(rig.outcome, BOUNCE_STOPPED);
    assert_int_equal(
        wire_bounce_want_decode(rig_said(WIRE_BOUNCE_WANT), NULL, &want), OK);
    assert_int_equal(want.chunk_count, 0);
    rig.link.bounce.chunk_bytes = 60;
    assert_false(begin());
}

/* On a lane whose sender copies by itself it never pays, whatever the pieces;
 * nor to a peer without an arena. [transfer T97] */
static void it_is_not_for_every_lane(void **state)
{
    (void)state;
    static struct transfer_piece many[2 * BOUNCE_PIECES_MIN];
    const struct bounce_job job = {.link = &link_now,
                                   .token = {RIG_RID, RIG_ATTEMPT},
                                   .pieces = many,
                                   .piece_count = 2 * BOUNCE_PIECES_MIN,
                                   .owner = &rig};
    for (uint32_t i = 0; i < job.piece_count; i++) {
        many[i].size = 1;
    }
    rig.around.options.bounce.is_forced = false;
    assert_false(bounce_begin(rig.bounce, &job, 1));
    rig.around.options.bounce.is_forced = true;
    rig.link.bounce.bytes = 0;
    assert_false(bounce_begin(rig.bounce, &job, 1));
}

/* A place outside the peer's arena, by sums that would overflow too, and bytes
 * that are no message end the connection; nothing is written. [transfer I20] */
static void a_grant_outside_its_arena_is_refused(void **state)
{
    (void)state;
    assert_true(begin());
    pump();
    uint32_t size = PIECES * (60 + WIRE_BOUNCE_RUN_SIZE);
    grant(0, RIG_ARENA - 1, size);
    grant(0, UINT64_MAX - 10, size);
    grant(0, 2 * RIG_ARENA - size + 1, size);
    assert_int_equal(fake_control.drop_count, 3);
    struct buf body;
    buf_init(&body, 16);
    buf_add_byte(&body, 1);
    hear(WIRE_BOUNCE_GRANT, &body);
    hear(WIRE_BOUNCE_ACK, &body);
    assert_int_equal(fake_control.drop_count, 5);
    buf_finish(&body);
    bool is_busy;
    assert_null(transfer_backend_poll(rig.around.backend, &is_busy));
    bounce_stop(rig.bounce, &rig, 2);
    assert_int_equal(rig.sent_count, 1);
}

/* The link is lost with a write under way: nothing is told, and the owner hears
 * of the end when the backend has given the write back. [transfer I1] */
static void a_lost_link_ends_it_when_it_is_quiet(void **state)
{
    (void)state;
    assert_true(begin());
    pump();
    grant(0, RIG_ARENA, PIECES * (60 + WIRE_BOUNCE_RUN_SIZE));
    uint32_t said = fake_control.said_count;
    link_now = NULL;
    bounce_stop(rig.bounce, &rig, 2);
    assert_int_equal(rig.sent_count, 0);
    finish_write();
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.outcome, BOUNCE_STOPPED);
    assert_int_equal(fake_control.said_count, said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_write_goes_packed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(chunks_are_whole_pieces, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_is_not_for_every_lane, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_grant_outside_its_arena_is_refused,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_link_ends_it_when_it_is_quiet,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
