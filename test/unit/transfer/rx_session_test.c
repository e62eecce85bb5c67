/* transfer/rx_session: the receiver's decisions, event by event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agree/word.h"
#include "base/buf.h"
#include "transfer/rx_session.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET
};

static struct rx_session session;
static struct rx_actions actions;
static struct rx_block seen[2][4];
static const kv_page_id pages[4] = {10, -1, 12, 13};
/* A life cycle with a window: ordinals 0 (a sink) and 3 are needed. */
static const kv_page_id windowed[4] = {5, 6, -1, 7};
static struct buf digests;

static void step(enum rx_event_kind kind, uint64_t now)
{
    struct rx_event event = {.kind = kind,
                             .now = now,
                             .is_right = true,
                             .reason = AGREE_REASON_TRANSPORT};
    rx_session_step(&session, &event, &actions);
}

static void open_session(void)
{
    memset(seen, 0, sizeof(seen));
    session = (struct rx_session){
        .request = 1,
        .rid = 9,
        .deadline_ns = 1000,
        .grace_ns = 500,
        .group_count = 1,
        .groups = {{.blocks = {pages, 0, 4}, .seen = seen[0]}}};
    rx_session_init(&session);
    step(RX_START, 100);
}

static void publish(void)
{
    open_session();
    step(RX_CONNECTED, 110);
    step(RX_SENT, 110);
}

static struct wire_result result_of(const uint32_t *ordinals, uint32_t count,
                                    uint32_t index, uint32_t total)
{
    buf_reset(&digests);
    for (uint32_t i = 0; i < count; i++) {
        wire_result_digest_encode((struct wire_digest){ordinals[i], 7},
                                  &digests);
    }
    return (struct wire_result){
        .prefix = {.rid = 9, .is_last = total > 0, .bytes = 10},
        .slice_index = index,
        .slices_total = total,
        .flags = total > 0 ? WIRE_RESULT_DRAINED : 0,
        .group_count = 1,
        .bytes_so_far = session.moved_bytes + 10,
        .groups = {{.blocks_so_far = session.groups[0].seen_count + count,
                    .digest_count = count,
                    .digests = buf_span(&digests)}}};
}

static void deliver(const struct wire_result *result)
{
    struct rx_event event = {.kind = RX_RESULT, .now = 200, .result = result};
    rx_session_step(&session, &event, &actions);
}

static void deliver_failed(uint16_t flags)
{
    struct wire_result result =
        wire_result_abort(0, 9, 0, AGREE_REASON_DEADLINE, flags);
    deliver(&result);
}

static void expect(uint32_t count, const enum rx_action_kind *kinds)
{
    assert_int_equal(actions.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(actions.items[i], kinds[i]);
    }
}
#define EXPECT(...)                                       \
    expect(sizeof((enum rx_action_kind[]){__VA_ARGS__}) / \
               sizeof(enum rx_action_kind),               \
           (enum rx_action_kind[]){__VA_ARGS__})

static const uint32_t all[3] = {0, 2, 3};

/* Connect, advertise, the result, the check, T|Q. */
static void receive_goes_its_way(void **state)
{
    (void)state;
    open_session();
    EXPECT(RX_CONNECT);
    step(RX_CONNECTED, 110);
    EXPECT(RX_ADVERTISE);
    step(RX_SENT, 110);
    assert_int_equal(rx_session_status(&session), RECEIVE_TRANSFERRING);
    struct wire_result result = result_of(all, 3, 0, 1);
    deliver(&result);
    EXPECT(RX_VERIFY);
    assert_int_equal(session.word, 0);
    step(RX_VERIFIED, 210);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | Q);
    assert_int_equal(rx_session_status(&session), RECEIVE_KV_TRANSFERRED);
}

/* Two slices, the last one first: not complete until the counts agree, which
 * they cannot; failed, not garbage. [transfer T101] */
static void last_slice_alone_does_not_complete(void **state)
{
    (void)state;
    publish();
    struct wire_result result = result_of(all + 1, 2, 1, 2);
    deliver(&result);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | F | Q);
    assert_int_equal(session.reason, AGREE_REASON_INTEGRITY);
}

static void expect_integrity(const uint32_t *ordinals, uint32_t count)
{
    publish();
    struct wire_result result = result_of(ordinals, count, 0, 1);
    deliver(&result);
    assert_int_equal(session.word, T | F | Q);
    assert_int_equal(session.reason, AGREE_REASON_INTEGRITY);
}

/* One block dropped, one twice, one not wanted, one that does not exist.
 * [transfer T106] */
static void every_miscount_fails_the_request(void **state)
{
    (void)state;
    expect_integrity(all, 2);
    expect_integrity((const uint32_t[]){0, 2, 2}, 3);
    expect_integrity((const uint32_t[]){0, 1, 2}, 3);
    expect_integrity((const uint32_t[]){0, 2, 99}, 3);
}

/* Slices out of turn, one twice, one left out, a sum that is not ours: refused
 * as soon as it is seen, the sender is asked to stop. [transfer T101 I6] */
static void results_out_of_turn_are_refused(void **state)
{
    (void)state;
    const uint32_t indices[] = {0, 2, 9};
    for (int i = 0; i < 3; i++) {
        publish();
        struct wire_result first = result_of(all, 1, 0, 0);
        deliver(&first);
        assert_int_equal(actions.count, 0);
        struct wire_result next = result_of(all + 1, 1, indices[i], 0);
        deliver(&next);
        EXPECT(RX_CANCEL_PEER, RX_REPORT);
        assert_int_equal(session.word, T | F);
        assert_int_equal(session.reason, AGREE_REASON_INTEGRITY);
    }
    for (int i = 0; i < 4; i++) {
        publish();
        struct wire_result odd = result_of(all, 1, 0, 0);
        odd.groups[0].blocks_so_far += i == 0;
        odd.bytes_so_far += i == 1;
        odd.group_count = i == 2 ? 2 : i == 3 ? 0 : 1;
        deliver(&odd);
        assert_int_equal(session.reason, AGREE_REASON_INTEGRITY);
    }
}

/* Two thousand slices of one block each: counted, in order, and complete. */
static void many_slices_are_counted(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static kv_page_id many[COUNT];
    static struct rx_block marks[COUNT];
    publish();
    for (int i = 0; i < COUNT; i++) {
        many[i] = i;
    }
    session.groups[0].blocks = (struct transfer_blocks){many, 0, COUNT};
    session.groups[0].seen = marks;
    session.groups[0].part_count = COUNT;
    session.groups[0].need_count = COUNT;
    for (uint32_t i = 0; i < COUNT; i++) {
        bool is_last = i == COUNT - 1;
        struct wire_result one = result_of(&i, 1, i, is_last ? COUNT : 0);
        deliver(&one);
        assert_int_equal(session.word, 0);
        assert_int_equal(actions.count, is_last);
    }
    step(RX_VERIFIED, 210);
    assert_int_equal(session.word, T | Q);
}

static void publish_two(void)
{
    open_session();
    session.group_count = 2;
    session.groups[1] = (struct rx_group){.blocks = {windowed, 0, 4},
                                          .seen = seen[1],
                                          .sink_end = 1,
                                          .stale_end = 2};
    rx_session_init(&session);
    step(RX_CONNECTED, 110);
    step(RX_SENT, 110);
}

static void deliver_two(const uint32_t *ordinals, uint32_t count)
{
    struct wire_result result = result_of(all, 3, 0, 1);
    uint32_t at = (uint32_t)digests.size;
    for (uint32_t i = 0; i < count; i++) {
        wire_result_digest_encode((struct wire_digest){ordinals[i], 7},
                                  &digests);
    }
    result.group_count = 2;
    result.groups[0].digests = span_of(digests.data, at);
    result.groups[1] = (struct wire_result_group){
        count, count, span_of(digests.data + at, digests.size - at)};
    deliver(&result);
}

/* Of a life cycle with a window the sinks and the window must come; a block
 * before it may, and may stay away; one that was not asked for may not.
 * [transfer T106] */
static void stale_blocks_may_stay_away(void **state)
{
    (void)state;
    publish_two();
    deliver_two((const uint32_t[]){0, 3}, 2);
    EXPECT(RX_VERIFY);
    step(RX_VERIFIED, 210);
    assert_int_equal(session.word, T | Q);
    assert_int_equal(rx_session_seen_count(&session), 5);
    publish_two();
    deliver_two((const uint32_t[]){0, 1, 3}, 3);
    EXPECT(RX_VERIFY);
    publish_two();
    deliver_two((const uint32_t[]){0, 1}, 2);
    assert_int_equal(session.word, T | F | Q);
    publish_two();
    deliver_two((const uint32_t[]){1, 3}, 2);
    assert_int_equal(session.word, T | F | Q);
    publish_two();
    deliver_two((const uint32_t[]){0, 2, 3}, 3);
    assert_int_equal(session.word, T | F | Q);
}

/* Generation-first: pages without first tokens are not complete; with them they
 * are. They are taken once, and only while the sender may speak.
 * [transfer I6 T76] */
static void first_tokens_belong_to_the_whole(void **state)
{
    (void)state;
    publish();
    assert_false(rx_session_awaits_aux(&session));
    session.wants_aux = true;
    struct wire_result result = result_of(all, 3, 0, 1);
    deliver(&result);
    assert_int_equal(session.word, T | F | Q);
    assert_int_equal(session.reason, AGREE_REASON_INTEGRITY);
    publish();
    session.wants_aux = true;
    assert_true(rx_session_awaits_aux(&session));
    step(RX_AUX, 150);
    assert_false(rx_session_awaits_aux(&session));
    result = result_of(all, 3, 0, 1);
    deliver(&result);
    step(RX_VERIFIED, 210);
    assert_int_equal(session.word, T | Q);
    assert_int_equal(rx_session_status(&session), RECEIVE_FULLY_TRANSFERRED);
    publish();
    session.wants_aux = true;
    step(RX_CANCEL, 120);
    assert_false(rx_session_awaits_aux(&session));
}

/* Our engine's reason is the session's. What the sender gave up is a cancel of
 * its, with the sender's reason beside; its deadline is no cancel. */
static void an_end_keeps_its_cause(void **state)
{
    static const struct {
        uint8_t said, reason, peer_reason, word;
    } CASES[] = {
        {AGREE_REASON_CALLER_LEFT, AGREE_REASON_PEER_CANCEL,
         AGREE_REASON_CALLER_LEFT, T | F | C | Q},
        {AGREE_REASON_SHUTDOWN, AGREE_REASON_PEER_CANCEL, AGREE_REASON_SHUTDOWN,
         T | F | C | Q},
        {AGREE_REASON_INTERNAL, AGREE_REASON_PEER_CANCEL, AGREE_REASON_INTERNAL,
         T | F | C | Q},
        {AGREE_REASON_PEER_CANCEL, AGREE_REASON_PEER_CANCEL, AGREE_REASON_NONE,
         T | F | C | Q},
        {AGREE_REASON_DEADLINE, AGREE_REASON_DEADLINE, AGREE_REASON_NONE,
         T | F | Q},
    };
    (void)state;
    publish();
    step(RX_CANCEL, 50);
    assert_int_equal(session.reason, AGREE_REASON_TRANSPORT);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct wire_result result = {
            .prefix = {.code = WIRE_RESULT_FAILED, .is_last = true},
            .flags = WIRE_RESULT_DRAINED,
            .reason = CASES[i].said};
        publish();
        deliver(&result);
        assert_int_equal(session.word, CASES[i].word);
        assert_int_equal(session.reason, CASES[i].reason);
        assert_int_equal(session.peer_reason, CASES[i].peer_reason);
    }
}

/* What came packed cannot be right: the request fails at once and the sender is
 * asked to stop, but only its answer makes the pages quiet. [transfer I9] */
static void what_is_broken_fails_and_waits_for_proof(void **state)
{
    (void)state;
    publish();
    step(RX_BROKEN, 50);
    const enum rx_action_kind kinds[] = {RX_CANCEL_PEER, RX_REPORT};
    expect(2, kinds);
    assert_int_equal(session.word, AGREE_TERMINAL | AGREE_FAILED);
    assert_int_equal(session.reason, AGREE_REASON_INTEGRITY);
    deliver_failed(WIRE_RESULT_DRAINED);
    assert_true(session.word & AGREE_QUIET);
    assert_int_equal(session.reason, AGREE_REASON_INTEGRITY);
}

/* A result with another receiver's slice id, or wrong digests. */
static void wrong_pages_are_not_taken(void **state)
{
    (void)state;
    publish();
    struct wire_result result = result_of(all, 3, 0, 1);
    result.prefix.receiver_slice = 1;
    deliver(&result);
    EXPECT(RX_CANCEL_PEER, RX_REPORT);
    publish();
    result = result_of(all, 3, 0, 1);
    deliver(&result);
    struct rx_event event = {.kind = RX_VERIFIED, .now = 210};
    rx_session_step(&session, &event, &actions);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | F | Q);
}

/* Nothing left yet: quiet at once. Advertised: only after the answer.
 * [transfer T53] */
static void cancel_waits_for_who_may_write(void **state)
{
    (void)state;
    open_session();
    step(RX_CANCEL, 110);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | F | C | Q);
    publish();
    step(RX_CANCEL, 120);
    EXPECT(RX_CANCEL_PEER, RX_REPORT);
    assert_int_equal(session.word, T | F | C);
    deliver_failed(0);
    assert_int_equal(session.word, T | F | C);
    deliver_failed(WIRE_RESULT_DRAINED);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | F | C | Q);
}

/* FAILED without DRAINED ends the request, not the wait. [transfer T107] */
static void failed_without_drained_is_no_proof(void **state)
{
    (void)state;
    publish();
    deliver_failed(0);
    EXPECT(RX_REPORT);
    assert_int_equal(session.word, T | F);
    assert_int_equal(session.reason, AGREE_REASON_DEADLINE);
    deliver_failed(WIRE_RESULT_DRAINED);
    assert_int_equal(session.word, T | F | Q);
}

/* The success that crosses a cancel is proof of quiet, not of success. */
static void crossing_success_drains_a_cancelled_receive(void **state)
{
    (void)state;
    publish();
    step(RX_CANCEL, 120);
    struct wire_result result = result_of(all, 3, 0, 1);
    deliver(&result);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | F | C | Q);
}

/* Connection lost: failed; connected again: asked; process gone: quiet. */
static void lost_sender_needs_proof(void **state)
{
    (void)state;
    publish();
    step(RX_LOST, 120);
    EXPECT(RX_REPORT);
    assert_int_equal(session.word, T | F);
    step(RX_CONNECTED, 130);
    EXPECT(RX_CANCEL_PEER);
    step(RX_GONE, 140);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | F | Q);
}

/* A second connection to the same sender is no reason to stop what goes on. */
static void one_that_goes_on_needs_no_second_link(void **state)
{
    (void)state;
    publish();
    step(RX_CONNECTED, 120);
    assert_int_equal(actions.count, 0);
    struct wire_result result = result_of(all, 3, 0, 1);
    deliver(&result);
    step(RX_VERIFIED, 210);
    assert_int_equal(session.word, T | Q);
}

/* Doubt is sticky; only the writer's proven end drains it. */
static void doubt_ends_with_its_writer_only(void **state)
{
    (void)state;
    publish();
    struct wire_result result =
        wire_result_abort(0, 9, 0, AGREE_REASON_TRANSPORT, 0);
    result.prefix.code = WIRE_RESULT_IN_DOUBT;
    deliver(&result);
    assert_int_equal(session.word, T | F);
    deliver_failed(WIRE_RESULT_DRAINED);
    assert_int_equal(session.word, T | F);
    step(RX_TIME, 699);
    assert_int_equal(session.word, T | F);
    step(RX_TIME, 700);
    assert_int_equal(session.word, T | F | AGREE_UNSAFE);
    step(RX_GONE, 800);
    assert_int_equal(session.word, T | F | AGREE_UNSAFE | Q);
}

/* Digests are looked at: time is over, but all is here; a cancel still wins. */
static void checking_digests_is_not_waiting(void **state)
{
    (void)state;
    publish();
    struct wire_result result = result_of(all, 3, 0, 1);
    deliver(&result);
    step(RX_TIME, 5000);
    step(RX_GONE, 5000);
    step(RX_LOST, 5000);
    assert_int_equal(session.word, 0);
    step(RX_CANCEL, 5000);
    EXPECT(RX_REPORT, RX_END);
    assert_int_equal(session.word, T | F | C | Q);
}

int main(void)
{
    buf_init(&digests, 4096);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive_goes_its_way),
        cmocka_unit_test(last_slice_alone_does_not_complete),
        cmocka_unit_test(every_miscount_fails_the_request),
        cmocka_unit_test(results_out_of_turn_are_refused),
        cmocka_unit_test(many_slices_are_counted),
        cmocka_unit_test(stale_blocks_may_stay_away),
        cmocka_unit_test(first_tokens_belong_to_the_whole),
        cmocka_unit_test(an_end_keeps_its_cause),
        cmocka_unit_test(what_is_broken_fails_and_waits_for_proof),
        cmocka_unit_test(wrong_pages_are_not_taken),
        cmocka_unit_test(cancel_waits_for_who_may_write),
        cmocka_unit_test(failed_without_drained_is_no_proof),
        cmocka_unit_test(crossing_success_drains_a_cancelled_receive),
        cmocka_unit_test(lost_sender_needs_proof),
        cmocka_unit_test(one_that_goes_on_needs_no_second_link),
        cmocka_unit_test(doubt_ends_with_its_writer_only),
        cmocka_unit_test(checking_digests_is_not_waiting),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_finish(&digests);
    return failed;
}
