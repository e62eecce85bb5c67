/* transfer/reporter: a report that finds no place waits and is not lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transfer/reporter.h"

/* A mailbox with one place: the second report stays due until it is taken,
 * and what arrives is the latest word. */
static void report_waits_for_its_place(void **state)
{
    (void)state;
    struct io_waker *waker;
    struct io_mailbox *mailbox;
    assert_int_equal(io_waker_create(&waker), OK);
    struct io_mailbox_options options = {sizeof(struct transfer_report), 1,
                                         waker};
    assert_int_equal(io_mailbox_create(&options, &mailbox), OK);
    struct reporter a = {.report = {.request = 1}, .is_due = true};
    struct reporter b = {.report = {.request = 2, .word = 2}, .is_due = true};
    assert_true(reporter_flush(&a, mailbox));
    assert_false(reporter_flush(&b, mailbox));
    b.report.word = 34;
    assert_false(reporter_flush(&b, mailbox));
    struct transfer_report got;
    assert_true(io_mailbox_take(mailbox, &got));
    assert_int_equal(got.request, 1);
    assert_true(reporter_flush(&b, mailbox));
    assert_true(reporter_flush(&b, mailbox));
    assert_true(io_mailbox_take(mailbox, &got));
    assert_int_equal(got.word, 34);
    assert_false(io_mailbox_take(mailbox, &got));
    io_mailbox_destroy(mailbox);
    io_waker_destroy(waker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_waits_for_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
