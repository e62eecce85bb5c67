/* transfer/tx_session: the sender's decisions, event by event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agree/word.h"
#include "base/rng.h"
#include "transfer/tx_session.h"
#include "wire/result.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET
};

static struct tx_session session;
static struct tx_actions actions;

static void open_session(void)
{
    session = (struct tx_session){.request = 1,
                                  .rid = 9,
                                  .started_ns = 100,
                                  .deadline_ns = 1000,
                                  .grace_ns = 500,
                                  .prompt_tokens = 64,
                                  .block_count = 8,
                                  .is_streaming = true};
}

static void step(enum tx_event_kind kind, uint64_t now)
{
    struct tx_event event = {
        .kind = kind, .now = now, .reason = AGREE_REASON_ABORTED};
    tx_session_step(&session, &event, &actions);
}

static void give(uint32_t index, uint32_t first, uint32_t end, bool is_last)
{
    struct tx_event event = {.kind = TX_SLICE,
                             .now = 101,
                             .slice = {.index = index,
                                       .first_block = first,
                                       .end_block = end,
                                       .is_last = is_last}};
    tx_session_step(&session, &event, &actions);
}

/* The one that comes next: a block, or all the rest. */
static void slice(bool is_last)
{
    uint32_t next = session.cursor < 8 ? session.cursor + 1 : 8;
    give(session.slice_count, session.cursor, is_last ? 8 : next, is_last);
}

static void advertise(bool wants_aux)
{
    struct tx_event event = {
        .kind = TX_ADVERTISED, .now = 110, .wants_aux = wants_aux};
    tx_session_step(&session, &event, &actions);
}

static void written(enum transfer_outcome outcome)
{
    struct tx_event event = {.kind = TX_WRITTEN,
                             .now = 150,
                             .outcome = outcome,
                             .blocks = 2,
                             .bytes = 20};
    tx_session_step(&session, &event, &actions);
}

static void expect(uint32_t count, const enum tx_action_kind *kinds)
{
    assert_int_equal(actions.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(actions.items[i].kind, kinds[i]);
    }
}
#define EXPECT(...)                                       \
    expect(sizeof((enum tx_action_kind[]){__VA_ARGS__}) / \
               sizeof(enum tx_action_kind),               \
           (enum tx_action_kind[]){__VA_ARGS__})

/* One slice, pulled: write, result last and drained, T|Q, end. */
static void one_slice_goes_its_way(void **state)
{
    (void)state;
    open_session();
    assert_int_equal(tx_session_status(&session), SEND_INIT);
    slice(true);
    assert_int_equal(actions.count, 0);
    step(TX_ADVERTISED, 110);
    EXPECT(TX_REPORT, TX_WRITE);
    step(TX_SUBMITTED, 110);
    assert_int_equal(tx_session_status(&session), SEND_TRANSFERRING);
    written(TRANSFER_DONE);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(actions.items[0].code, WIRE_RESULT_SUCCESS);
    assert_true(actions.items[0].is_last && actions.items[0].is_drained);
    assert_int_equal(session.word, T | Q);
    assert_int_equal(tx_session_status(&session), SEND_KV_TRANSFERRED);
}

/* Between slices all tasks are done, yet the session is READY, not complete:
 * no T, no end. [transfer T20] */
static void session_is_not_complete_between_chunks(void **state)
{
    (void)state;
    open_session();
    step(TX_ADVERTISED, 110);
    assert_int_equal(tx_session_status(&session), SEND_READY);
    slice(false);
    EXPECT(TX_WRITE);
    step(TX_SUBMITTED, 110);
    written(TRANSFER_DONE);
    EXPECT(TX_RESULT, TX_REPORT);
    assert_false(actions.items[0].is_last || actions.items[0].is_drained);
    assert_int_equal(session.word, 0);
    assert_int_equal(tx_session_status(&session), SEND_READY);
    slice(true);
    step(TX_SUBMITTED, 120);
    written(TRANSFER_DONE);
    assert_int_equal(session.word, T | Q);
}

/* Slices that were there before the receiver go to it in order and as one; what
 * is posted during that write waits for it, and the last one comes last.
 * [transfer T101 I10] */
static void replay_keeps_the_order(void **state)
{
    (void)state;
    open_session();
    slice(false);
    slice(false);
    step(TX_ADVERTISED, 110);
    EXPECT(TX_REPORT, TX_WRITE);
    assert_int_equal(session.run.first_block, 0);
    assert_int_equal(session.run.end_block, 2);
    step(TX_SUBMITTED, 110);
    slice(false);
    slice(true);
    assert_int_equal(actions.count, 0);
    written(TRANSFER_DONE);
    EXPECT(TX_RESULT, TX_REPORT, TX_WRITE);
    assert_false(actions.items[0].is_last);
    assert_int_equal(session.drained_count, 2);
    assert_int_equal(session.run.first_block, 2);
    assert_int_equal(session.run.end_block, 8);
    step(TX_SUBMITTED, 110);
    written(TRANSFER_DONE);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(actions.items[0].write, 1);
    assert_true(actions.items[0].is_last);
    assert_int_equal(session.drained_count, 4);
    assert_int_equal(session.word, T | Q);
}

/* Two thousand slices before anybody asks, and as many after: the session is as
 * large as for one. */
static void many_slices_take_no_room(void **state)
{
    (void)state;
    open_session();
    session.block_count = 4001;
    for (uint32_t i = 0; i < 2000; i++) {
        give(i, i, i + 1, false);
        assert_int_equal(actions.count, 0);
    }
    step(TX_ADVERTISED, 110);
    step(TX_SUBMITTED, 110);
    for (uint32_t i = 2000; i < 4000; i++) {
        give(i, i, i + 1, false);
        written(TRANSFER_DONE);
        assert_int_equal(session.drained_count, i);
        assert_int_equal(actions.items[2].kind, TX_WRITE);
        step(TX_SUBMITTED, 110);
    }
    give(4000, 4000, 4001, true);
    written(TRANSFER_DONE);
    step(TX_SUBMITTED, 110);
    written(TRANSFER_DONE);
    assert_int_equal(session.word, T | Q);
    assert_int_equal(session.drained_count, 4001);
    assert_int_equal(session.write_count, 2002);
}

static void expect_rewound(uint32_t index, uint32_t first, uint32_t end,
                           bool is_last)
{
    open_session();
    slice(false);
    slice(false);
    give(index, first, end, is_last);
    assert_int_equal(session.word, T | F | Q);
    assert_int_equal(session.reason, AGREE_REASON_INTERNAL);
}

/* A slice that does not begin where the last one ended, of another number, past
 * the prompt, or a last one short of it: the request was rewound, the session
 * fails and nothing is sent twice. After the last one nothing follows.
 * [transfer I4 I5] */
static void slices_tile_or_fail(void **state)
{
    (void)state;
    expect_rewound(2, 1, 3, false);
    expect_rewound(2, 3, 4, false);
    expect_rewound(1, 2, 3, false);
    expect_rewound(3, 2, 3, false);
    expect_rewound(2, 2, 1, false);
    expect_rewound(2, 2, 9, false);
    expect_rewound(2, 2, 7, true);
    open_session();
    slice(true);
    give(1, 8, 8, false);
    assert_int_equal(session.word, T | F | Q);
    open_session();
    session.is_streaming = false;
    give(0, 0, 0, true); /* all wait for the last one: it may name none */
    assert_int_equal(session.word, 0);
}

/* Where every life cycle has a window there is one write, with the last slice,
 * whatever was posted before. [transfer T9] */
static void windowed_model_is_written_once(void **state)
{
    (void)state;
    open_session();
    session.is_streaming = false;
    step(TX_ADVERTISED, 110);
    slice(false);
    slice(false);
    assert_int_equal(actions.count, 0);
    slice(true);
    EXPECT(TX_WRITE);
    assert_int_equal(session.run.first_block, 0);
    assert_int_equal(session.run.end_slice, 3);
    step(TX_SUBMITTED, 110);
    written(TRANSFER_DONE);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(session.write_count, 1);
}

/* Offered, then asked for: the engine hears of it before there is a slice; the
 * first tokens leave with the last slice, before its result, once.
 * [transfer I7 T105] */
static void first_tokens_leave_before_the_last_result(void **state)
{
    (void)state;
    open_session();
    advertise(true);
    EXPECT(TX_REPORT);
    assert_true(session.is_advertised);
    assert_int_equal(session.word, 0);
    slice(false);
    step(TX_SUBMITTED, 110);
    written(TRANSFER_DONE);
    EXPECT(TX_RESULT, TX_REPORT);
    struct tx_event last = {
        .kind = TX_SLICE, .now = 120, .slice = {1, 1, 8, true, true}};
    tx_session_step(&session, &last, &actions);
    EXPECT(TX_WRITE);
    step(TX_SUBMITTED, 120);
    written(TRANSFER_DONE);
    EXPECT(TX_AUX, TX_RESULT, TX_REPORT, TX_END);
    assert_true(actions.items[1].is_last);
    assert_int_equal(tx_session_status(&session), SEND_FULLY_TRANSFERRED);
}

/* The last slice has no first tokens for a receiver that needs them: it fails
 * instead of waiting for ever, whichever of the two came first. */
static void missing_first_tokens_fail_the_session(void **state)
{
    (void)state;
    open_session();
    advertise(true);
    slice(true);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(session.word, T | F | Q);
    open_session();
    slice(true);
    advertise(true);
    EXPECT(TX_REPORT, TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(session.word, T | F | Q);
}

/* Cancelled while the write is alive: T now, the receiver is told and Q said
 * when it has come back; a second reason changes nothing. [transfer T53] */
static void cancel_waits_for_the_write(void **state)
{
    (void)state;
    open_session();
    slice(true);
    step(TX_ADVERTISED, 110);
    step(TX_SUBMITTED, 110);
    step(TX_CANCEL, 120);
    EXPECT(TX_REPORT);
    assert_int_equal(session.word, T | F | C);
    step(TX_TIME, 5000);
    assert_int_equal(session.reason, AGREE_REASON_ABORTED);
    step(TX_PEER_CANCEL, 5001);
    assert_int_equal(session.peer_reason, AGREE_REASON_NONE);
    written(TRANSFER_DONE);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(actions.items[0].code, WIRE_RESULT_FAILED);
    assert_true(actions.items[0].is_last && actions.items[0].is_drained);
    assert_int_equal(tx_session_status(&session), SEND_CANCELLED);
}

/* Between chunks with a receiver: told explicitly at once. [transfer T105] */
static void cancel_between_chunks_tells_the_receiver(void **state)
{
    (void)state;
    open_session();
    step(TX_ADVERTISED, 110);
    step(TX_CANCEL, 120);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(session.word, T | F | C | Q);
}

/* A receiver that gives up says why. */
static void a_peers_cancel_keeps_its_reason(void **state)
{
    (void)state;
    open_session();
    step(TX_ADVERTISED, 110);
    step(TX_PEER_CANCEL, 120);
    assert_int_equal(session.reason, AGREE_REASON_PEER_CANCEL);
    assert_int_equal(session.peer_reason, AGREE_REASON_ABORTED);
}

/* Nobody came: at the deadline, not before it. [transfer T77] */
static void deadline_ends_an_unpulled_session(void **state)
{
    (void)state;
    open_session();
    slice(true);
    step(TX_TIME, 999);
    assert_int_equal(actions.count, 0);
    step(TX_TIME, 1000);
    EXPECT(TX_REPORT, TX_END);
    assert_int_equal(session.word, T | F | Q);
    assert_int_equal(session.reason, AGREE_REASON_DEADLINE);
}

/* A failed chunk before the last one makes the session ERROR; the backend has
 * let go, so it is quiet. [transfer T22] */
static void stopped_chunk_fails_the_session(void **state)
{
    (void)state;
    open_session();
    slice(false);
    step(TX_ADVERTISED, 110);
    step(TX_SUBMITTED, 110);
    written(TRANSFER_STOPPED);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
    assert_int_equal(tx_session_status(&session), SEND_ERROR);
    assert_int_equal(session.word, T | F | Q);
}

/* Doubt: told as such, never drained, U after the grace time. [transfer T56] */
static void doubt_stays(void **state)
{
    (void)state;
    open_session();
    slice(true);
    step(TX_ADVERTISED, 110);
    step(TX_SUBMITTED, 110);
    written(TRANSFER_IN_DOUBT);
    EXPECT(TX_RESULT, TX_REPORT);
    assert_int_equal(actions.items[0].code, WIRE_RESULT_IN_DOUBT);
    assert_false(actions.items[0].is_drained);
    step(TX_TIME, 150 + 499);
    assert_int_equal(actions.count, 0);
    step(TX_TIME, 150 + 500);
    EXPECT(TX_REPORT);
    assert_int_equal(session.word, T | F | AGREE_UNSAFE);
    step(TX_CANCEL, 2000);
    assert_false(session.word & Q);
}

/* A lost receiver is not told, one that is back is, once the write is over. */
static void receiver_that_is_back_gets_its_answer(void **state)
{
    (void)state;
    open_session();
    slice(true);
    step(TX_ADVERTISED, 110);
    step(TX_SUBMITTED, 110);
    step(TX_PEER_LOST, 120);
    EXPECT(TX_REPORT);
    step(TX_PEER_BACK, 130);
    assert_int_equal(actions.count, 0);
    written(TRANSFER_STOPPED);
    EXPECT(TX_RESULT, TX_REPORT, TX_END);
}

static bool step_randomly(struct rng *rng)
{
    switch (rng_below(rng, 7)) {
    case 0:
        slice(rng_below(rng, 3) == 0);
        return true;
    case 1:
        if (!session.is_advertised) {
            step(TX_ADVERTISED, 110);
        }
        return true;
    case 2:
    case 3:
        if (session.is_writing && !session.is_in_doubt) {
            written(rng_below(rng, 8) ? TRANSFER_DONE : TRANSFER_STOPPED);
        }
        return true;
    case 4:
        if (rng_below(rng, 4) == 0) {
            step(rng_below(rng, 2) ? TX_CANCEL : TX_PEER_CANCEL, 120);
        }
        return true;
    case 5:
        if (rng_below(rng, 4) == 0) {
            step(TX_PEER_LOST, 120);
        }
        return true;
    default:
        step(TX_TIME, 100 + rng_below(rng, 950));
        return true;
    }
}

/* Random orders of all events: words only grow, Q comes with the end and never
 * while a write is alive, results are given at most once as last.
 * [transfer T34] */
static void random_orders_keep_the_promises(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(11);
    for (int round = 0; round < 20000; round++) {
        open_session();
        actions.count = 0;
        uint32_t last_results = 0;
        bool has_ended = false;
        for (int i = 0; i < 30 && !has_ended; i++) {
            uint8_t before = session.word;
            bool was_writing = session.is_writing;
            actions.count = 0;
            step_randomly(&rng);
            for (uint32_t k = 0; k < actions.count; k++) {
                struct tx_action *action = &actions.items[k];
                last_results += action->kind == TX_RESULT && action->is_last;
                has_ended |= action->kind == TX_END;
            }
            if (actions.count > 0 &&
                actions.items[actions.count - 1].kind == TX_WRITE) {
                assert_false(was_writing && session.write_count == 1);
                step(TX_SUBMITTED, 110);
            }
            assert_true(before == session.word || session.word == 0 ||
                        agree_word_may_become(before, session.word));
            assert_int_equal(has_ended, (session.word & Q) != 0);
            assert_false(has_ended && session.is_writing);
        }
        assert_true(last_results <= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slice_goes_its_way),
        cmocka_unit_test(session_is_not_complete_between_chunks),
        cmocka_unit_test(replay_keeps_the_order),
        cmocka_unit_test(many_slices_take_no_room),
        cmocka_unit_test(slices_tile_or_fail),
        cmocka_unit_test(windowed_model_is_written_once),
        cmocka_unit_test(first_tokens_leave_before_the_last_result),
        cmocka_unit_test(missing_first_tokens_fail_the_session),
        cmocka_unit_test(cancel_waits_for_the_write),
        cmocka_unit_test(cancel_between_chunks_tells_the_receiver),
        cmocka_unit_test(a_peers_cancel_keeps_its_reason),
        cmocka_unit_test(deadline_ends_an_unpulled_session),
        cmocka_unit_test(stopped_chunk_fails_the_session),
        cmocka_unit_test(doubt_stays),
        cmocka_unit_test(receiver_that_is_back_gets_its_answer),
        cmocka_unit_test(random_orders_keep_the_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
