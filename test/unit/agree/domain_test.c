#include "unit/base/test.h"

#include "agree/domain.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    U = AGREE_UNSAFE
};

static agree_ticket start(struct agree_domain *domain, uint32_t owner)
{
    agree_ticket ticket = 0;
    assert_int_equal(agree_domain_start(domain, owner, &ticket), OK);
    assert_int_not_equal(ticket, 0);
    return ticket;
}

static void publish(struct agree_domain *domain, agree_ticket ticket,
                    uint32_t rank, uint8_t bits, uint8_t reason)
{
    assert_int_equal(agree_domain_publish(domain, ticket, rank, bits, reason),
                     OK);
}

static void assert_next(struct agree_domain *domain, enum agree_op_kind kind,
                        agree_ticket ticket, enum agree_outcome outcome)
{
    struct agree_op op;
    assert_true(agree_domain_next(domain, &op));
    assert_int_equal(op.kind, kind);
    assert_int_equal(op.ticket, ticket);
    assert_int_equal(op.outcome, outcome);
}

static void assert_nothing_next(struct agree_domain *domain)
{
    struct agree_op op;
    assert_false(agree_domain_next(domain, &op));
}

/* Success: decided and released in one turn, each once. */
static void success_decides_and_releases_together(void **state)
{
    (void)state;
    struct agree_domain *domain = agree_domain_create(2, 1);
    agree_ticket ticket = start(domain, 5);
    assert_nothing_next(domain);
    publish(domain, ticket, 0, T | Q, 0);
    assert_next(domain, AGREE_DECIDE, ticket, AGREE_COMPLETED);
    assert_next(domain, AGREE_RELEASE, ticket, AGREE_COMPLETED);
    assert_nothing_next(domain);
    assert_int_equal(agree_domain_active_count(domain), 0);
    agree_domain_destroy(domain);
}

/* Failure without proof decides at once; the pages wait for Q, quarantined when
 * the grace is over, and the outcome never changes. */
static void release_waits_for_proof(void **state)
{
    (void)state;
    struct agree_domain *domain = agree_domain_create(1, 1);
    agree_ticket ticket = start(domain, 0);
    publish(domain, ticket, 0, T | F, AGREE_REASON_TRANSPORT);
    assert_next(domain, AGREE_DECIDE, ticket, AGREE_FAILED_OUTCOME);
    assert_nothing_next(domain);
    publish(domain, ticket, 0, C, AGREE_REASON_CALLER_LEFT);
    assert_nothing_next(domain);
    publish(domain, ticket, 0, U, 0);
    assert_next(domain, AGREE_QUARANTINE, ticket, AGREE_FAILED_OUTCOME);
    assert_int_equal(agree_domain_quarantined_count(domain), 1);
    assert_nothing_next(domain);
    publish(domain, ticket, 0, Q, 0);
    assert_next(domain, AGREE_RELEASE, ticket, AGREE_FAILED_OUTCOME);
    assert_int_equal(agree_domain_quarantined_count(domain), 0);
    agree_domain_destroy(domain);
}

/* A cancel that comes before the decision wins over bytes that all arrived. */
static void cancel_before_the_decision_wins(void **state)
{
    (void)state;
    struct agree_domain *domain = agree_domain_create(1, 1);
    agree_ticket ticket = start(domain, 0);
    publish(domain, ticket, 0, C, AGREE_REASON_CALLER_LEFT);
    assert_nothing_next(domain);
    publish(domain, ticket, 0, T | Q, 0);
    assert_next(domain, AGREE_DECIDE, ticket, AGREE_CANCELLED);
    assert_next(domain, AGREE_RELEASE, ticket, AGREE_CANCELLED);
    agree_domain_destroy(domain);
}

/* The slot is lent again under a new turn: words of the old one have no effect
 * on it and are counted; a turn that never began is refused. */
static void late_words_of_an_earlier_turn_are_stale(void **state)
{
    (void)state;
    struct agree_domain *domain = agree_domain_create(1, 1);
    agree_ticket old = start(domain, 0);
    publish(domain, old, 0, T | F | Q, AGREE_REASON_TRANSPORT);
    assert_next(domain, AGREE_DECIDE, old, AGREE_FAILED_OUTCOME);
    assert_next(domain, AGREE_RELEASE, old, AGREE_FAILED_OUTCOME);
    publish(domain, old, 0, T | Q, 0);
    agree_ticket now = start(domain, 0);
    assert_int_not_equal(now, old);
    publish(domain, old, 0, T | Q, 0);
    assert_nothing_next(domain);
    assert_int_equal(agree_domain_stale_count(domain), 2);
    assert_int_equal(agree_domain_publish(domain, now + (1 << 16), 0, T | Q, 0),
                     ERR_INVALID);
    assert_int_equal(agree_domain_publish(domain, now | 7, 0, T | Q, 0),
                     ERR_INVALID);
    agree_domain_destroy(domain);
}

/* Success that turns into failure, or T with neither F nor Q: refused, and the
 * word stays as it was. */
static void contradictions_are_refused(void **state)
{
    (void)state;
    struct agree_domain *domain = agree_domain_create(1, 1);
    agree_ticket ticket = start(domain, 0);
    assert_int_equal(agree_domain_publish(domain, ticket, 0, T, 0),
                     ERR_INTERNAL);
    assert_int_equal(
        agree_domain_publish(domain, ticket, 0, T | Q, AGREE_REASON_COUNT),
        ERR_INTERNAL);
    publish(domain, ticket, 0, T | Q, 0);
    assert_int_equal(agree_domain_publish(domain, ticket, 0, F, 0),
                     ERR_INTERNAL);
    assert_next(domain, AGREE_DECIDE, ticket, AGREE_COMPLETED);
    agree_domain_destroy(domain);
}

/* Three transfers end in one turn: all decisions come before all releases, by
 * slot, whatever the order of the reports. */
static void decisions_come_before_releases_by_slot(void **state)
{
    (void)state;
    struct agree_domain *domain = agree_domain_create(3, 1);
    agree_ticket a = start(domain, 0);
    agree_ticket b = start(domain, 1);
    agree_ticket c = start(domain, 2);
    agree_ticket none = 0;
    assert_int_equal(agree_domain_start(domain, 3, &none), ERR_FULL);
    publish(domain, c, 0, T | Q, 0);
    publish(domain, a, 0, T | F, AGREE_REASON_DEADLINE);
    publish(domain, b, 0, T | Q, 0);
    assert_next(domain, AGREE_DECIDE, a, AGREE_FAILED_OUTCOME);
    assert_next(domain, AGREE_DECIDE, b, AGREE_COMPLETED);
    assert_next(domain, AGREE_DECIDE, c, AGREE_COMPLETED);
    assert_next(domain, AGREE_RELEASE, b, AGREE_COMPLETED);
    assert_next(domain, AGREE_RELEASE, c, AGREE_COMPLETED);
    assert_nothing_next(domain);
    agree_domain_destroy(domain);
}

/* Two ranks: nothing is decided until both are terminal, nothing released until
 * both are quiet, and the verdict shows doom before that. */
static void a_larger_domain_waits_for_all_ranks(void **state)
{
    (void)state;
    struct agree_domain *domain = agree_domain_create(1, 2);
    struct agree_verdict verdict;
    agree_ticket ticket = start(domain, 0);
    publish(domain, ticket, 0, T | Q, 0);
    assert_nothing_next(domain);
    publish(domain, ticket, 1, T | F, AGREE_REASON_TRANSPORT);
    assert_int_equal(agree_domain_look(domain, ticket, &verdict), OK);
    assert_true(verdict.is_doomed);
    assert_next(domain, AGREE_DECIDE, ticket, AGREE_FAILED_OUTCOME);
    assert_nothing_next(domain);
    publish(domain, ticket, 1, Q, 0);
    assert_next(domain, AGREE_RELEASE, ticket, AGREE_FAILED_OUTCOME);
    assert_int_equal(agree_domain_look(domain, ticket, &verdict),
                     ERR_NOT_FOUND);
    agree_domain_destroy(domain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(success_decides_and_releases_together),
        cmocka_unit_test(release_waits_for_proof),
        cmocka_unit_test(cancel_before_the_decision_wins),
        cmocka_unit_test(late_words_of_an_earlier_turn_are_stale),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(decisions_come_before_releases_by_slot),
        cmocka_unit_test(a_larger_domain_waits_for_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
