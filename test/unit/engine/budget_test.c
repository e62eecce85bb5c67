#include "unit/base/test.h"

#include "engine/budget.h"

static struct engine_budget budget_of(uint32_t tokens, bool is_chunked)
{
    return (struct engine_budget){
        .tokens_left = tokens, .unit = 32, .is_chunked = is_chunked};
}

/* Five decodes, three tokens: three run. [engine T53] */
static void decodes_run_while_tokens_last(void **state)
{
    (void)state;
    struct engine_budget budget = budget_of(3, true);
    int count = 0;
    for (int i = 0; i < 5; i++) {
        count += engine_budget_take_decode(&budget, 0);
    }
    assert_int_equal(count, 3);
}

/* Three draft tokens each: a budget of five holds one. [engine T54] */
static void draft_tokens_are_charged(void **state)
{
    (void)state;
    struct engine_budget budget = budget_of(5, true);
    assert_true(engine_budget_take_decode(&budget, 3));
    assert_false(engine_budget_take_decode(&budget, 3));
    assert_int_equal(budget.tokens_left, 1);
}

/* A prompt of 80 with 30 drafts does not fit 100 in one piece, with 20 it
 * does. [engine T55] */
static void an_unchunked_prompt_goes_whole_or_not_at_all(void **state)
{
    (void)state;
    struct engine_budget budget = budget_of(100, false);
    assert_int_equal(engine_budget_take_chunk(&budget, 80, 30, UINT32_MAX), 0);
    assert_int_equal(budget.tokens_left, 100);
    assert_int_equal(engine_budget_take_chunk(&budget, 80, 20, UINT32_MAX), 80);
    assert_int_equal(budget.tokens_left, 0);
}

/* A decode and a prompt of 100: 110 tokens hold both; of 100 the decode takes
 * one and the chunk becomes 96, a multiple of 32. [engine T56] */
static void a_chunk_is_a_multiple_of_the_unit_or_the_last(void **state)
{
    (void)state;
    struct engine_budget budget = budget_of(110, true);
    assert_true(engine_budget_take_decode(&budget, 0));
    assert_int_equal(engine_budget_take_chunk(&budget, 100, 0, UINT32_MAX),
                     100);
    budget = budget_of(100, true);
    assert_true(engine_budget_take_decode(&budget, 0));
    assert_int_equal(engine_budget_take_chunk(&budget, 100, 0, UINT32_MAX), 96);
    assert_int_equal(budget.tokens_left, 3);
    assert_int_equal(engine_budget_take_chunk(&budget, 100, 0, UINT32_MAX), 0);
}

/* The caller's own limit cuts like the budget does; the drafts of a last chunk
 * that do not fit keep it from being the last. */
static void limits_and_drafts_cut_chunks(void **state)
{
    (void)state;
    struct engine_budget budget = budget_of(1000, true);
    assert_int_equal(engine_budget_take_chunk(&budget, 100, 0, 70), 64);
    budget = budget_of(100, true);
    assert_int_equal(engine_budget_take_chunk(&budget, 96, 8, UINT32_MAX), 64);
}

/* A machine of 2 ms a row and a limit of 100 ms: the budget grows by doubling,
 * settles where three quarters of the limit are, and falls at once when a row
 * gets ten times slower. */
static void pace_follows_the_measured_speed(void **state)
{
    (void)state;
    struct engine_pace pace;
    engine_pace_init(&pace, 0, 512, 100000000);
    uint32_t before = pace.tokens;
    engine_pace_learn(&pace, pace.tokens, pace.tokens, pace.tokens * 100000ull);
    assert_int_equal(pace.tokens, 2 * before);
    for (int i = 0; i < 20; i++) {
        engine_pace_learn(&pace, pace.tokens, pace.tokens,
                          pace.tokens * 2000000ull);
    }
    assert_in_range(pace.tokens, 36, 38);
    engine_pace_learn(&pace, pace.tokens, pace.tokens,
                      pace.tokens * 20000000ull);
    assert_int_equal(pace.tokens, 16);
}

/* A pure decode, however slow, says nothing about chunks; a fixed budget learns
 * nothing at all, but never passes what a batch can hold. */
static void pace_learns_from_prompts_only(void **state)
{
    (void)state;
    struct engine_pace pace;
    engine_pace_init(&pace, 0, 512, 100000000);
    uint32_t before = pace.tokens;
    engine_pace_learn(&pace, 0, 1, 99000000);
    engine_pace_learn(&pace, 1, 8, 99000000);
    assert_int_equal(pace.tokens, before);
    engine_pace_init(&pace, 1000, 512, 100000000);
    assert_int_equal(pace.tokens, 512);
    engine_pace_learn(&pace, 512, 512, 900000000);
    assert_int_equal(pace.tokens, 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_run_while_tokens_last),
        cmocka_unit_test(draft_tokens_are_charged),
        cmocka_unit_test(an_unchunked_prompt_goes_whole_or_not_at_all),
        cmocka_unit_test(a_chunk_is_a_multiple_of_the_unit_or_the_last),
        cmocka_unit_test(limits_and_drafts_cut_chunks),
        cmocka_unit_test(pace_follows_the_measured_speed),
        cmocka_unit_test(pace_learns_from_prompts_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
