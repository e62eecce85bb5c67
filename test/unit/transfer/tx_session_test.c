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
    tx_session_init(&session, 1, 9, 100, 1000, 500, 64);
}

static void step(enum tx_event_kind kind, uint64_t now)
{
    struct tx_event event = {.kind = kind, .now = now};
    tx_session_step(&session, &event, &actions);
}

static void slice(bool is_last)
{
    struct tx_event event = {.kind = TX_SLICE, .now = 101, .is_last = is_last};
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
    EXPECT(TX_WRITE);
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

/* Slices that were there before the receiver are written one after the other,
 * never two at a time. [transfer T101] */
static void replay_keeps_the_order(void **state)
{
    (void)state;
    open_session();
    slice(false);
    slice(false);
    slice(true);
    step(TX_ADVERTISED, 110);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t last = actions.count - 1;
        assert_int_equal(actions.items[last].kind, TX_WRITE);
        assert_int_equal(actions.items[last].slice, i);
        step(TX_SUBMITTED, 110);
        assert_int_equal(actions.count, 0);
        written(TRANSFER_DONE);
    }
    assert_int_equal(session.word, T | Q);
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
    assert_int_equal(session.reason, AGREE_REASON_USER_CANCEL);
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
                assert_false(was_writing && session.next_slice == 1);
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
        cmocka_unit_test(cancel_waits_for_the_write),
        cmocka_unit_test(cancel_between_chunks_tells_the_receiver),
        cmocka_unit_test(deadline_ends_an_unpulled_session),
        cmocka_unit_test(stopped_chunk_fails_the_session),
        cmocka_unit_test(doubt_stays),
        cmocka_unit_test(receiver_that_is_back_gets_its_answer),
        cmocka_unit_test(random_orders_keep_the_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
