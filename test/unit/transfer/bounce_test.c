/* transfer/bounce: what options make of an arena, and time: a flow that nobody
 * serves is given back for the plain way, a lease that ran out comes back. */
#include "bounce_rig.h"

/* The largest chunk is 32 MiB, what was asked for, or half of what is usable.
 */
static void options_make_an_arena(void **state)
{
    (void)state;
    struct transfer_bounce_options options = {.size = UINT64_C(3) << 30};
    assert_int_equal(bounce_usable(&options), UINT64_C(2) << 30);
    assert_int_equal(bounce_chunk_max(&options), 32 << 20);
    options.size = 9 << 20;
    assert_int_equal(bounce_usable(&options), 8 << 20);
    assert_int_equal(bounce_chunk_max(&options), 4 << 20);
    options.chunk_max = 12345;
    assert_int_equal(bounce_chunk_max(&options), 12345);
    options.size = (2 << 20) - 1;
    assert_int_equal(bounce_usable(&options), 0);
}

/* No grant within 0.2 s: UNSERVED, and the receiver hears a cancel. */
static void who_is_not_served_goes_the_plain_way(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    struct link *link = &rig.link;
    struct transfer_piece piece = {0, 0, 100, 0};
    const struct bounce_job job = {.link = &link,
                                   .token = {RIG_RID, RIG_ATTEMPT},
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .owner = &rig};
    assert_true(bounce_begin(rig.bounce, &job, 0));
    while (bounce_pump(rig.bounce, 0)) {
    }
    bounce_tick(rig.bounce, 199999999);
    assert_int_equal(rig.sent_count, 0);
    assert_true(rig.around.stats.bounce_live_bytes > 0);
    bounce_tick(rig.bounce, 200000000);
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(rig.outcome, BOUNCE_UNSERVED);
    struct wire_bounce_want want;
    assert_int_equal(
        wire_bounce_want_decode(rig_said(WIRE_BOUNCE_WANT), NULL, &want), OK);
    assert_int_equal(want.chunk_count, 0);
    assert_int_equal(rig.around.stats.bounce_live_bytes, 0);
    assert_false(bounce_pump(rig.bounce, 1));
    rig_close(&rig);
}

/* 60 s after a grant that nobody used, on a lane where the sender writes by
 * itself: kept apart, an hour later too, until its session is quiet.
 * [transfer T68] */
static void time_alone_gives_nothing_back(void **state)
{
    (void)state;
    static const uint64_t SECOND = 1000000000;
    struct rig rig;
    rig_open(&rig);
    const struct bounce_key key = {RIG_PEER, RIG_RID, RIG_ATTEMPT};
    struct wire_bounce_want want = {0, 2, 0, 1, {300}};
    struct wire_header header = rig_header(WIRE_BOUNCE_WANT);
    struct buf body;
    buf_init(&body, 4096);
    wire_bounce_want_encode(&want, &body);
    bounce_hear_sender(rig.bounce, &rig.link, &header, buf_span(&body), &key,
                       false, span_of(NULL, 0), 0);
    bounce_tick(rig.bounce, 60 * SECOND - 1);
    assert_int_equal(rig.around.stats.bounce_live_bytes, 512);
    bounce_tick(rig.bounce, 60 * SECOND);
    assert_int_equal(rig.around.stats.bounce_quarantined_bytes, 512);
    bounce_tick(rig.bounce, 3600 * SECOND);
    assert_int_equal(rig.around.stats.bounce_quarantined_bytes, 512);
    bounce_quiet(rig.bounce, &key, 3600 * SECOND);
    bounce_tick(rig.bounce, 3600 * SECOND);
    assert_int_equal(rig.around.stats.bounce_quarantined_bytes, 0);
    buf_finish(&body);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_make_an_arena),
        cmocka_unit_test(who_is_not_served_goes_the_plain_way),
        cmocka_unit_test(time_alone_gives_nothing_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
