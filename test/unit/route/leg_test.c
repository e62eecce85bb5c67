/* The retry tables of serve.md 4.1 and 4.2, outcome by outcome. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "route/leg.h"

/* How often a leg may be posted when it always ends the same way. */
static int posts(enum route_leg_kind kind, int32_t max_retries,
                 struct route_outcome outcome)
{
    struct route_leg leg = route_leg_of(kind, max_retries, false);
    int count = 1;
    while (route_leg_judge(&leg, &outcome) == ROUTE_VERDICT_RETRY) {
        count++;
        assert_true(count < 50);
    }
    return count;
}

static struct route_outcome status(int status)
{
    return (struct route_outcome){HTTP_CALL_COMPLETE, status, false, false};
}

/* [serve T78 T79] */
static void context_legs_follow_their_table(void **state)
{
    const enum route_leg_kind k = ROUTE_LEG_CONTEXT;
    (void)state;
    assert_int_equal(posts(k, 1, (struct route_outcome){HTTP_CALL_REFUSED}), 2);
    assert_int_equal(posts(k, 0, (struct route_outcome){HTTP_CALL_REFUSED}), 1);
    assert_int_equal(posts(k, 1, (struct route_outcome){HTTP_CALL_LOST}), 6);
    assert_int_equal(posts(k, 0, (struct route_outcome){HTTP_CALL_LOST}), 6);
    assert_int_equal(posts(k, 9, (struct route_outcome){HTTP_CALL_UNDELIVERED}),
                     10);
    assert_int_equal(posts(k, 1, (struct route_outcome){HTTP_CALL_TIMEOUT}), 1);
    static const int ONCE[] = {400, 404, 413, 422};
    static const int TWICE[] = {408, 429, 500, 502, 503};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(posts(k, 1, status(ONCE[i])), 1);
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(posts(k, 1, status(TWICE[i])), 2);
    }
}

/* A worker that was started anew costs no retry: the next may be busy. */
static void another_process_costs_no_retry(void **state)
{
    (void)state;
    for (int kind = ROUTE_LEG_CONTEXT; kind <= ROUTE_LEG_WHOLE; kind++) {
        struct route_leg leg =
            route_leg_of((enum route_leg_kind)kind, 1, false);
        struct route_outcome busy = {HTTP_CALL_COMPLETE, 503, true, false};
        struct route_outcome other = busy;
        other.is_restarted = true;
        assert_int_equal(route_leg_judge(&leg, &other), ROUTE_VERDICT_RETRY);
        assert_int_equal(route_leg_judge(&leg, &busy), ROUTE_VERDICT_RETRY);
        assert_int_equal(route_leg_judge(&leg, &busy), ROUTE_VERDICT_FAIL);
        assert_int_equal(posts((enum route_leg_kind)kind, 1, other),
                         6); /* bounded */
    }
}

/* [serve T81 T83] only what provably did not arrive is posted again. */
static void generation_legs_are_posted_again_only_undelivered(void **state)
{
    const enum route_leg_kind k = ROUTE_LEG_GENERATION;
    struct route_leg leg = route_leg_of(k, 1, false);
    struct route_outcome lost = {HTTP_CALL_LOST};
    struct route_outcome busy = {HTTP_CALL_COMPLETE, 503, true, false};
    struct route_outcome kv = {HTTP_CALL_COMPLETE, 502, false, true};
    (void)state;
    assert_int_equal(posts(k, 1, (struct route_outcome){HTTP_CALL_REFUSED}), 2);
    assert_int_equal(posts(k, 1, (struct route_outcome){HTTP_CALL_UNDELIVERED}),
                     6);
    assert_int_equal(posts(k, 1, busy), 2);
    static const int ONCE[] = {400, 409, 429, 500, 503};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(posts(k, 1, status(ONCE[i])), 1);
    }
    assert_int_equal(posts(k, 1, (struct route_outcome){HTTP_CALL_TIMEOUT}), 1);
    assert_int_equal(route_leg_judge(&leg, &lost), ROUTE_VERDICT_PROBE);
    assert_int_equal(route_leg_judge(&leg, &kv), ROUTE_VERDICT_RESTART);
}

/* [serve T80 T82] and I5. */
static void nothing_is_retried_when_off_or_begun(void **state)
{
    static const enum http_call_end ENDS[] = {
        HTTP_CALL_REFUSED, HTTP_CALL_UNDELIVERED, HTTP_CALL_LOST,
        HTTP_CALL_TIMEOUT, HTTP_CALL_PROTOCOL};
    (void)state;
    for (int kind = 0; kind <= ROUTE_LEG_WHOLE; kind++) {
        for (int i = 0; i < 5; i++) {
            struct route_outcome outcome = {ENDS[i]};
            struct route_leg off =
                route_leg_of((enum route_leg_kind)kind, 5, true);
            struct route_leg begun =
                route_leg_of((enum route_leg_kind)kind, 5, false);
            begun.has_passed_on = true;
            assert_int_equal(route_leg_judge(&off, &outcome),
                             ROUTE_VERDICT_FAIL);
            assert_int_equal(route_leg_judge(&begun, &outcome),
                             ROUTE_VERDICT_FAIL);
        }
    }
}

/* An id that is taken is no reason to abort anything, nor the client's fault. */
static void a_taken_id_asks_for_a_new_one(void **state)
{
    (void)state;
    const struct route_outcome taken = status(409);
    for (int kind = ROUTE_LEG_CONTEXT; kind <= ROUTE_LEG_WHOLE; kind++) {
        struct route_leg leg =
            route_leg_of((enum route_leg_kind)kind, 1, false);
        assert_int_equal(route_leg_judge(&leg, &taken),
                         kind == ROUTE_LEG_WHOLE ? ROUTE_VERDICT_FAIL
                                                 : ROUTE_VERDICT_RENEW);
        leg.is_retry_off = true;
        assert_int_equal(route_leg_judge(&leg, &taken), ROUTE_VERDICT_FAIL);
    }
    assert_false(route_outcome_is_possibly_delivered(&taken));
    assert_int_equal(route_outcome_status(&taken), 502);
}

/* A hand-off refused between our processes keeps its status for the verdict, so
 * that it is not tried again, and is a 502 to the client. */
static void a_refused_hand_off_is_not_tried_again(void **state)
{
    (void)state;
    const struct route_outcome outcome = {
        .end = HTTP_CALL_COMPLETE, .status = 403, .is_handoff_refused = true};
    assert_int_equal(route_outcome_status(&outcome), 502);
    for (int kind = ROUTE_LEG_CONTEXT; kind <= ROUTE_LEG_WHOLE; kind++) {
        struct route_leg leg = {.kind = (enum route_leg_kind)kind,
                                .max_retries = 3};
        assert_int_equal(route_leg_judge(&leg, &outcome), ROUTE_VERDICT_FAIL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_hand_off_is_not_tried_again),
        cmocka_unit_test(a_taken_id_asks_for_a_new_one),
        cmocka_unit_test(context_legs_follow_their_table),
        cmocka_unit_test(another_process_costs_no_retry),
        cmocka_unit_test(generation_legs_are_posted_again_only_undelivered),
        cmocka_unit_test(nothing_is_retried_when_off_or_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
