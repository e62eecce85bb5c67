#include "unit/base/test.h"

#include "agree/word.h"
#include "base/rng.h"

enum {
    R = AGREE_READY,
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    X = AGREE_DEADLINE,
    Q = AGREE_QUIET,
    U = AGREE_UNSAFE
};

struct row {
    const char *name;
    uint8_t words[2];
    enum agree_outcome outcome;
    bool is_doomed, is_reclaimable, needs_quarantine, is_ready;
};

/* The table of consensus.md 2.4, line by line. [consensus R1 R2 R3 R4 R5 R6 R7
 * R8 R9 R10 R11 R12 R13 R14 R18 R19 R20 R21] */
static void two_ranks_reduce_as_the_table_says(void **state)
{
    (void)state;
    static const struct row ROWS[] = {
        {"R1", {0, 0}, AGREE_PENDING, 0, 0, 0, 0},
        {"R2", {T | Q, T | Q}, AGREE_COMPLETED, 0, 1, 0, 0},
        {"R3", {T | Q, 0}, AGREE_PENDING, 0, 0, 0, 0},
        {"R4", {T | F | Q, 0}, AGREE_PENDING, 1, 0, 0, 0},
        {"R5", {T | F | Q, T | Q}, AGREE_FAILED_OUTCOME, 1, 1, 0, 0},
        {"R6", {T | F, T | Q}, AGREE_FAILED_OUTCOME, 1, 0, 0, 0},
        {"R7", {T | F | U, T | Q}, AGREE_FAILED_OUTCOME, 1, 0, 1, 0},
        {"R8", {T | F | U | Q, T | Q}, AGREE_FAILED_OUTCOME, 1, 1, 0, 0},
        {"R9", {C, T | Q}, AGREE_PENDING, 1, 0, 0, 0},
        {"R10", {T | Q | C, T | Q}, AGREE_CANCELLED, 1, 1, 0, 0},
        {"R11", {T | F | Q, T | Q | C}, AGREE_CANCELLED, 1, 1, 0, 0},
        {"R12", {T | F | C, T | F | U}, AGREE_CANCELLED, 1, 0, 0, 0},
        {"R13", {T | Q | X, T | Q}, AGREE_FAILED_OUTCOME, 1, 1, 0, 0},
        {"R14", {T | Q | X, T | Q | C}, AGREE_CANCELLED, 1, 1, 0, 0},
        {"R18", {R, R}, AGREE_PENDING, 0, 0, 0, 1},
        {"R19", {R, 0}, AGREE_PENDING, 0, 0, 0, 0},
        {"R20", {R, R | C}, AGREE_PENDING, 1, 0, 0, 1},
        {"R20 after the abort",
         {R | T | F | Q, R | C | T | F | Q},
         AGREE_CANCELLED,
         1,
         1,
         0,
         1},
        {"R21", {T | F | U, T | F | U}, AGREE_FAILED_OUTCOME, 1, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        const struct row *row = &ROWS[i];
        /* Both orders: the reduction must not care. */
        for (int turn = 0; turn < 2; turn++) {
            uint8_t words[2] = {row->words[turn], row->words[1 - turn]};
            uint8_t reasons[2] = {0, 0};
            struct agree_verdict verdict;
            print_message("%s\n", row->name);
            assert_int_equal(agree_reduce(words, reasons, 2, &verdict), OK);
            assert_int_equal(verdict.outcome, row->outcome);
            assert_int_equal(verdict.is_doomed, row->is_doomed);
            assert_int_equal(verdict.is_reclaimable, row->is_reclaimable);
            assert_int_equal(verdict.needs_quarantine, row->needs_quarantine);
            assert_int_equal(verdict.is_ready, row->is_ready);
            assert_int_equal(verdict.is_decided, row->outcome != AGREE_PENDING);
        }
    }
}

/* F without T, T alone, and a bit only aggregates may have. [consensus R15 R16
 * R17] */
static void illegal_words_are_protocol_errors(void **state)
{
    (void)state;
    static const uint8_t WORDS[] = {F, T, 0x80, T | Q | 0x80, Q, U, F | C};
    for (size_t i = 0; i < sizeof(WORDS); i++) {
        uint8_t words[2] = {T | Q, WORDS[i]};
        uint8_t reasons[2] = {0, 0};
        struct agree_verdict verdict = {.reason = 99};
        assert_int_equal(agree_reduce(words, reasons, 2, &verdict),
                         ERR_INTERNAL);
        assert_int_equal(verdict.reason, 99);
    }
    uint8_t word = T | Q;
    uint8_t reason = AGREE_REASON_COUNT;
    struct agree_verdict verdict;
    assert_int_equal(agree_reduce(&word, &reason, 1, &verdict), ERR_INTERNAL);
}

/* [consensus R22] */
static void one_rank_decides_alone(void **state)
{
    (void)state;
    uint8_t word = T | Q;
    uint8_t reason = 0;
    struct agree_verdict verdict;
    assert_int_equal(agree_reduce(&word, &reason, 1, &verdict), OK);
    assert_int_equal(verdict.outcome, AGREE_COMPLETED);
    assert_true(verdict.is_reclaimable);
    assert_false(verdict.is_doomed);
}

/* Every pair of bytes: growth only, F frozen after T, and legal at the end. */
static void words_only_grow(void **state)
{
    (void)state;
    for (int before = 0; before < 256; before++) {
        for (int after = 0; after < 256; after++) {
            bool grows = (before & after) == before;
            bool turned = (before & T) && (before & F) != (after & F);
            bool legal = agree_word_is_legal((uint8_t)after);
            assert_int_equal(
                agree_word_may_become((uint8_t)before, (uint8_t)after),
                grows && !turned && legal);
        }
    }
    assert_true(agree_word_may_become(T | F | U, T | F | U | Q));
    assert_false(agree_word_may_become(T | Q, T | F | Q));
    assert_false(agree_word_may_become(T | F, T | Q));
}

/* The smallest reason that is one, whoever said it. */
static void the_reason_is_the_same_in_any_order(void **state)
{
    (void)state;
    uint8_t words[3] = {T | F | Q, T | F | Q, T | F | Q};
    uint8_t a[3] = {AGREE_REASON_INTEGRITY, 0, AGREE_REASON_TRANSPORT};
    uint8_t b[3] = {AGREE_REASON_TRANSPORT, AGREE_REASON_INTEGRITY, 0};
    struct agree_verdict verdict;
    assert_int_equal(agree_reduce(words, a, 3, &verdict), OK);
    assert_int_equal(verdict.reason, AGREE_REASON_TRANSPORT);
    assert_int_equal(agree_reduce(words, b, 3, &verdict), OK);
    assert_int_equal(verdict.reason, AGREE_REASON_TRANSPORT);
    assert_string_equal(agree_reason_name(verdict.reason), "transport");
    assert_string_equal(agree_reason_name(200), "unknown");
}

/* Each has a name of its own; five of them are somebody's giving up. */
static void reasons_have_names(void **state)
{
    uint32_t cancel_count = 0;
    (void)state;
    for (uint8_t i = 0; i < AGREE_REASON_COUNT; i++) {
        cancel_count += agree_reason_is_cancel(i);
        for (uint8_t j = 0; j < i; j++) {
            assert_string_not_equal(agree_reason_name(i), agree_reason_name(j));
        }
    }
    assert_int_equal(cancel_count, 5);
    assert_false(agree_reason_is_cancel(AGREE_REASON_DEADLINE));
    assert_false(agree_reason_is_cancel(AGREE_REASON_NONE));
}

static uint8_t draw_word(struct rng *rng)
{
    uint8_t word = 0;
    do {
        word = (uint8_t)rng_below(rng, 128);
    } while (!agree_word_is_legal(word));
    return word;
}

static void expect_same(const struct agree_verdict *a,
                        const struct agree_verdict *b)
{
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(a->is_ready, b->is_ready);
    assert_int_equal(a->is_doomed, b->is_doomed);
    assert_int_equal(a->is_decided, b->is_decided);
    assert_int_equal(a->is_reclaimable, b->is_reclaimable);
    assert_int_equal(a->needs_quarantine, b->needs_quarantine);
    assert_int_equal(a->reason, b->reason);
}

/* What any rank says is a union, what all must say an intersection: the order
 * of the ranks is nothing, one that says the same as another changes nothing, and
 * a domain is as good as its parts are together. [transfer T38] */
static void reduction_is_union_and_intersection(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(38);
    for (int round = 0; round < 20000; round++) {
        uint8_t words[9], reasons[9];
        uint32_t count = 2 + (uint32_t)rng_below(&rng, 7);
        uint32_t cut = 1 + (uint32_t)rng_below(&rng, count - 1);
        for (uint32_t i = 0; i < count; i++) {
            words[i] = draw_word(&rng);
            reasons[i] = (uint8_t)rng_below(&rng, AGREE_REASON_COUNT);
        }
        struct agree_verdict whole, left, right, again;
        assert_int_equal(agree_reduce(words, reasons, count, &whole), OK);
        assert_int_equal(agree_reduce(words, reasons, cut, &left), OK);
        assert_int_equal(
            agree_reduce(words + cut, reasons + cut, count - cut, &right), OK);
        assert_int_equal(whole.is_ready, left.is_ready && right.is_ready);
        assert_int_equal(whole.is_doomed, left.is_doomed || right.is_doomed);
        assert_int_equal(whole.is_decided, left.is_decided && right.is_decided);
        assert_int_equal(whole.is_reclaimable,
                         left.is_reclaimable && right.is_reclaimable);
        if (whole.is_decided) {
            bool is_good = left.outcome == AGREE_COMPLETED &&
                           right.outcome == AGREE_COMPLETED;
            assert_int_equal(whole.outcome == AGREE_COMPLETED, is_good);
        }
        uint32_t twice = (uint32_t)rng_below(&rng, count);
        words[count] = words[twice];
        reasons[count] = reasons[twice];
        assert_int_equal(agree_reduce(words, reasons, count + 1, &again), OK);
        expect_same(&again, &whole);
        for (uint32_t i = count; i > 1; i--) {
            uint32_t other = (uint32_t)rng_below(&rng, i);
            uint8_t word = words[i - 1], reason = reasons[i - 1];
            words[i - 1] = words[other], reasons[i - 1] = reasons[other];
            words[other] = word, reasons[other] = reason;
        }
        assert_int_equal(agree_reduce(words, reasons, count, &again), OK);
        expect_same(&again, &whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_reduce_as_the_table_says),
        cmocka_unit_test(illegal_words_are_protocol_errors),
        cmocka_unit_test(one_rank_decides_alone),
        cmocka_unit_test(words_only_grow),
        cmocka_unit_test(the_reason_is_the_same_in_any_order),
        cmocka_unit_test(reasons_have_names),
        cmocka_unit_test(reduction_is_union_and_intersection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
