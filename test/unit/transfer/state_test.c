/* transfer/state: every row of the tables, and every move they lack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transfer/state.h"

static const struct transfer_state_table *const tables[] = {
    &transfer_send_task,  &transfer_operation, &transfer_receive_task,
    &transfer_owner,      &transfer_exposure,  &transfer_advert_moves,
    &transfer_peer_moves,
};

/* For each table, each pair that it lacks ends a child with an abort.
 * [transfer T19] */
static void every_illegal_move_is_trapped(void **state)
{
    (void)state;
    int count = 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        const struct transfer_state_table *table = tables[i];
        for (uint8_t from = 0; from < table->state_count; from++) {
            for (uint8_t event = 0; event < table->event_count; event++) {
                if (transfer_state_can(table, from, event)) {
                    assert_true(transfer_state_next(table, from, event) <
                                table->state_count);
                    continue;
                }
                pid_t pid = fork();
                if (pid == 0) {
                    fclose(stderr);
                    signal(SIGABRT, SIG_DFL);
                    transfer_state_next(table, from, event);
                    _exit(0);
                }
                int status;
                waitpid(pid, &status, 0);
                assert_true(WIFSIGNALED(status));
                count++;
            }
        }
    }
    assert_true(count > 50);
}

struct row {
    const struct transfer_state_table *table;
    uint8_t from, event, to;
};

/* The rows of transfer.md 1.6.3 to 1.6.7, written out a second time.
 * [transfer T19] */
static void every_row_of_the_specification_is_there(void **state)
{
    (void)state;
    const struct row rows[] = {
#define S(from, event, to) \
    {&transfer_send_task, SEND_TASK_##from, SEND_TASK_##event, SEND_TASK_##to}
        S(INIT, ADMIT, TRANSFERRING),
        S(INIT, FAIL, ERROR),
        S(TRANSFERRING, ALL_DONE, TRANSFERRED),
        S(TRANSFERRING, FAIL, ERROR),
        S(TRANSFERRED, FAIL, TRANSFERRED),
        S(TRANSFERRED, ADMIT, TRANSFERRED),
        S(ERROR, ALL_DONE, ERROR),
        S(ERROR, ADMIT, ERROR),
#define O(from, event, to) \
    {&transfer_operation, OPERATION_##from, OPERATION_##event, OPERATION_##to}
        O(NONE, DISPATCH, ADMITTED),
        O(ADMITTED, REJECT, NOT_SUBMITTED),
        O(ADMITTED, SUBMIT, SUBMITTING),
        O(SUBMITTING, ACCEPTED, SUBMITTED),
        O(SUBMITTING, RAISED, IN_DOUBT),
        O(SUBMITTED, DONE, BACKEND_DONE),
        O(SUBMITTED, DOUBT, IN_DOUBT),
        O(BACKEND_DONE, DONE, BACKEND_DONE),
        O(NOT_SUBMITTED, REJECT, NOT_SUBMITTED),
        O(IN_DOUBT, DOUBT, IN_DOUBT),
#define R(from, event, to)                                              \
    {&transfer_receive_task, RECEIVE_TASK_##from, RECEIVE_TASK_##event, \
     RECEIVE_TASK_##to}
        R(INIT, PUBLISH, TRANSFERRING),
        R(INIT, FAIL, ERROR),
        R(TRANSFERRING, COMPLETE, TRANSFERRED),
        R(TRANSFERRING, FAIL, ERROR),
        R(ERROR, COMPLETE, ERROR),
        R(TRANSFERRED, FAIL, TRANSFERRED),
#define W(from, event, to) \
    {&transfer_owner, OWNER_##from, OWNER_##event, OWNER_##to}
        W(NEW, BEGIN, PUBLISHING),
        W(PUBLISHING, SEAL, SEALED),
        W(PUBLISHING, CANCEL, CLOSED),
        W(SEALED, QUEUED, OPEN),
        W(OPEN, REPORT, OPEN),
        W(OPEN, REPORT_LAST, DRAINED),
        W(OPEN, REPORT_LOCAL, LOCAL_PENDING),
        W(LOCAL_PENDING, LOCAL_DONE, DRAINED),
        W(NEW, REPORT, IN_DOUBT),
        W(PUBLISHING, REPORT, IN_DOUBT),
        W(OPEN, CONTRADICTION, IN_DOUBT),
        W(IN_DOUBT, REPORT_LAST, IN_DOUBT),
        W(IN_DOUBT, LOCAL_DONE, IN_DOUBT),
        W(IN_DOUBT, WRITER_GONE, DRAINED),
        W(OPEN, WRITER_GONE, DRAINED),
#define X(from, event, to) \
    {&transfer_exposure, EXPOSURE_##from, EXPOSURE_##event, EXPOSURE_##to}
        X(NONE, AUTHORISE, POSSIBLE),
        X(POSSIBLE, SENT, PUBLISHED),
        X(NONE, WITHDRAW, NEVER),
#define A(from, event, to) \
    {&transfer_advert_moves, ADVERT_##from, ADVERT_##event, ADVERT_##to}
        A(ABSENT, ARRIVE, STORED),
        A(STORED, BIND, BOUND),
        A(BOUND, CLOSE, ABSENT),
        A(STORED, EXPIRE, ABSENT),
#define P(from, event, to) \
    {&transfer_peer_moves, PEER_##from, PEER_##event, PEER_##to}
        P(UNKNOWN, START, FETCHING),
        P(FETCHING, REFUSE, INCOMPATIBLE),
        P(FETCHING, VALIDATE, VALIDATED),
        P(VALIDATED, REGISTER, REGISTERED),
        P(REGISTERED, LOSE, GONE),
        P(GONE, FORGET, UNKNOWN),
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(
            transfer_state_can(rows[i].table, rows[i].from, rows[i].event));
        assert_int_equal(
            transfer_state_next(rows[i].table, rows[i].from, rows[i].event),
            rows[i].to);
    }
}

/* An advertisement cannot expire once bound; an authorised address cannot be
 * withdrawn; a doubtful operation has no way out. */
static void what_must_not_happen_has_no_row(void **state)
{
    (void)state;
    assert_false(transfer_state_can(&transfer_advert_moves, ADVERT_BOUND,
                                    ADVERT_EXPIRE));
    assert_false(transfer_state_can(&transfer_exposure, EXPOSURE_POSSIBLE,
                                    EXPOSURE_WITHDRAW));
    assert_false(transfer_state_can(&transfer_operation, OPERATION_IN_DOUBT,
                                    OPERATION_DONE));
    assert_false(
        transfer_state_can(&transfer_owner, OWNER_SEALED, OWNER_CANCEL));
}

/* The seven rows of 1.6.2, the first that matches wins. [transfer T19] */
static void send_status_takes_the_first_matching_row(void **state)
{
    (void)state;
    struct send_facts facts = {0};
    assert_int_equal(transfer_send_status(&facts), SEND_INIT);
    facts.is_advertised = true;
    assert_int_equal(transfer_send_status(&facts), SEND_READY);
    facts.task_count = 2;
    facts.transferred_count = 1;
    facts.transferring_count = 1;
    assert_int_equal(transfer_send_status(&facts), SEND_TRANSFERRING);
    facts.transferred_count = 2;
    facts.transferring_count = 0;
    assert_int_equal(transfer_send_status(&facts), SEND_READY);
    facts.has_last_slice = true;
    assert_int_equal(transfer_send_status(&facts), SEND_KV_TRANSFERRED);
    facts.has_aux = facts.is_aux_done = true;
    assert_int_equal(transfer_send_status(&facts), SEND_FULLY_TRANSFERRED);
    facts.is_aux_failed = true;
    assert_int_equal(transfer_send_status(&facts), SEND_ERROR);
    facts.is_cancelled = true;
    assert_int_equal(transfer_send_status(&facts), SEND_CANCELLED);
}

/* Only these three states let the source go. */
static void only_proof_drains(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < OPERATION_STATE_COUNT; i++) {
        bool is_free = i == OPERATION_NONE || i == OPERATION_NOT_SUBMITTED ||
                       i == OPERATION_BACKEND_DONE;
        assert_int_equal(transfer_operation_is_drained(i), is_free);
    }
    for (uint8_t i = 0; i < OWNER_STATE_COUNT; i++) {
        bool is_free = i == OWNER_DRAINED || i == OWNER_CLOSED;
        assert_int_equal(transfer_owner_is_drained(i), is_free);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_illegal_move_is_trapped),
        cmocka_unit_test(every_row_of_the_specification_is_there),
        cmocka_unit_test(what_must_not_happen_has_no_row),
        cmocka_unit_test(send_status_takes_the_first_matching_row),
        cmocka_unit_test(only_proof_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
