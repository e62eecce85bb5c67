/* Choices against what the settings mean; distributions against counts over
 * many seeds; all without a model. */
#include "unit/base/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "model/sampler.h"

enum { VOCAB = 8, DRAWS = 20000 };

static const float LOGITS[VOCAB] = {1.0f,  3.0f, 2.0f, 3.0f,
                                    -1.0f, 0.0f, 2.5f, -5.0f};

static struct sampler_result run(const struct sampler_options *options,
                                 const float *logits,
                                 struct sampler_input input)
{
    float copy[VOCAB];
    memcpy(copy, logits, sizeof(copy));
    input.logits = copy;
    input.vocab_size = VOCAB;
    struct sampler *sampler = sampler_create(VOCAB);
    struct sampler_result result;
    sampler_run(sampler, options, &input, &result);
    sampler_destroy(sampler);
    return result;
}

static struct sampler_options greedy(void)
{
    struct sampler_options options = sampler_defaults();
    options.temperature = 0.0f;
    return options;
}

static const struct sampler_input PLAIN = {.logprob_count = -1};

/* How often each token came up over DRAWS seeds. */
static void count_draws(struct sampler_options options, const float *logits,
                        uint32_t counts[VOCAB])
{
    struct sampler *sampler = sampler_create(VOCAB);
    memset(counts, 0, VOCAB * sizeof(counts[0]));
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        float copy[VOCAB];
        memcpy(copy, logits, sizeof(copy));
        struct sampler_input input = PLAIN;
        input.logits = copy;
        input.vocab_size = VOCAB;
        options.seed = seed;
        struct sampler_result result;
        sampler_run(sampler, &options, &input, &result);
        counts[result.token]++;
    }
    sampler_destroy(sampler);
}

/* Each share lies within four deviations of what `kept` tokens give. */
static void expect_shares(const uint32_t counts[VOCAB], float temperature,
                          const bool kept[VOCAB])
{
    double weights[VOCAB];
    double total = 0.0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        weights[i] = kept[i] ? exp((double)LOGITS[i] / (double)temperature) : 0;
        total += weights[i];
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        double share = weights[i] / total;
        double slack = 4.0 * sqrt(DRAWS * share * (1.0 - share));
        assert_true(fabs(counts[i] - DRAWS * share) <= slack + 1e-9);
    }
}

/* Two best logits are equal: the smaller id. */
static void greedy_takes_the_smallest_of_the_best(void **state)
{
    (void)state;
    struct sampler_options options = greedy();
    assert_int_equal(run(&options, LOGITS, PLAIN).token, 1);
}

/* Nothing set: every token by its share, also at another temperature. */
static void plain_draws_follow_the_distribution(void **state)
{
    (void)state;
    const bool ALL[VOCAB] = {true, true, true, true, true, true, true, true};
    uint32_t counts[VOCAB];
    struct sampler_options options = sampler_defaults();
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, ALL);
    options.temperature = 2.5f;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 2.5f, ALL);
}

/* The three best: 1, 3 and 6. A tie at the border goes to the smaller id. */
static void top_k_keeps_the_best(void **state)
{
    (void)state;
    const bool THREE[VOCAB] = {[1] = true, [3] = true, [6] = true};
    const bool ONE[VOCAB] = {[1] = true};
    uint32_t counts[VOCAB];
    struct sampler_options options = sampler_defaults();
    options.top_k = 3;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, THREE);
    options.top_k = 1;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, ONE);
}

/* Shares 0.318 0.318 0.193 0.117 0.043 ...: 0.7 needs three, 0.6 two. After
 * top_k 2 shares are halves, and 0.4 needs one. */
static void top_p_keeps_the_smallest_set_that_suffices(void **state)
{
    (void)state;
    const bool THREE[VOCAB] = {[1] = true, [3] = true, [6] = true};
    const bool TWO[VOCAB] = {[1] = true, [3] = true};
    const bool ONE[VOCAB] = {[1] = true};
    uint32_t counts[VOCAB];
    struct sampler_options options = sampler_defaults();
    options.top_p = 0.7f;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, THREE);
    options.top_p = 0.6f;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, TWO);
    options.top_p = 0.4f;
    options.top_k = 2;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, ONE);
    options.top_p = 0.0f;
    options.top_k = 0;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, ONE);
}

/* e^-1 = 0.37 of the best's share: 2 (and all above) stay at 0.36, leave at
 * 0.38; with top_p on as well. */
static void min_p_keeps_what_is_near_the_best(void **state)
{
    (void)state;
    const bool FOUR[VOCAB] = {[1] = true, [2] = true, [3] = true, [6] = true};
    const bool THREE[VOCAB] = {[1] = true, [3] = true, [6] = true};
    uint32_t counts[VOCAB];
    struct sampler_options options = sampler_defaults();
    options.min_p = 0.36f;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, FOUR);
    options.min_p = 0.38f;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, THREE);
    options.top_p = 0.999f;
    count_draws(options, LOGITS, counts);
    expect_shares(counts, 1.0f, THREE);
}

/* Repetition weighs prompt and output, the others the output only; logits of
 * each kind of sign. */
static void penalties_look_at_the_right_part_of_the_history(void **state)
{
    (void)state;
    const int32_t HISTORY[] = {1, 3, 1, 6, 6};
    struct sampler_input input = {.history = HISTORY,
                                  .prompt_count = 3,
                                  .history_count = 5,
                                  .logprob_count = -1};
    struct sampler_options options = greedy();
    options.repetition_penalty = 2.0f; /* 1 and 3: 1.5, 6: 1.25, best is 2 */
    assert_int_equal(run(&options, LOGITS, input).token, 2);
    const float NEGATIVE[VOCAB] = {-9, -1, -9, -9, -1.5f, -9, -9, -9};
    assert_int_equal(run(&options, NEGATIVE, input).token, 4);
    options = greedy();
    options.presence_penalty = 1.0f; /* 1 is in the prompt only */
    assert_int_equal(run(&options, LOGITS, input).token, 1);
    const float CLOSE[VOCAB] = {0, 2, 0, 0, 0, 0, 4, 0};
    options.presence_penalty = 1.9f;
    assert_int_equal(run(&options, CLOSE, input).token, 6);
    options.frequency_penalty = 0.1f; /* 4 - 1.9 - 0.2 < 2 */
    assert_int_equal(run(&options, CLOSE, input).token, 1);
}

/* A bias lifts a token over the best, or buries the best. */
static void biases_are_added(void **state)
{
    (void)state;
    const struct sampler_bias BIASES[] = {{7, 100.0f}, {1, -100.0f}};
    struct sampler_options options = greedy();
    options.biases = BIASES;
    options.bias_count = 1;
    assert_int_equal(run(&options, LOGITS, PLAIN).token, 7);
    options.biases = BIASES + 1;
    assert_int_equal(run(&options, LOGITS, PLAIN).token, 3);
}

/* Forbidden end tokens are never drawn, even when nothing else is possible. */
static void end_tokens_can_be_forbidden(void **state)
{
    (void)state;
    const int32_t ENDS[] = {1, 3};
    struct sampler_input input = {.forbid_end = true,
                                  .end_tokens = ENDS,
                                  .end_count = 2,
                                  .logprob_count = -1};
    struct sampler_options options = greedy();
    assert_int_equal(run(&options, LOGITS, input).token, 6);
    const float ONLY_END[VOCAB] = {-INFINITY, 1,         -INFINITY, 2,
                                   -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    options.temperature = 1.0f;
    assert_int_equal(run(&options, ONLY_END, input).token, 0);
    input.forbid_end = false;
    assert_int_equal(run(&options, ONLY_END, input).token % 2, 1);
}

/* NaN and both infinities, alone and all over: some token, no crash; the
 * finite or +inf one where there is one. */
static void broken_logits_still_give_a_token(void **state)
{
    (void)state;
    const float SOME[VOCAB] = {NAN,       -INFINITY, 0.5f, NAN,
                               -INFINITY, NAN,       0,    NAN};
    const float HIGH[VOCAB] = {0, NAN, INFINITY, 0, FLT_MAX, 0, -INFINITY, 0};
    const float *const ROWS[] = {SOME, HIGH};
    for (uint32_t mode = 0; mode < 4; mode++) {
        struct sampler_options options =
            mode == 0 ? greedy() : sampler_defaults();
        options.top_k = mode == 2 ? 1 : 0;
        options.top_p = mode == 3 ? 0.1f : 1.0f;
        struct sampler_input input = {.logprob_count = 5};
        for (uint32_t i = 0; i < 2; i++) {
            struct sampler_result result = run(&options, ROWS[i], input);
            assert_true(result.token == 2 ||
                        result.token == 6 - 2 * (int32_t)i);
            assert_true(isfinite(result.logprob));
        }
        float all[VOCAB];
        for (uint32_t i = 0; i < VOCAB; i++) {
            all[i] = NAN;
        }
        assert_int_equal(run(&options, all, input).token, 0);
    }
}

/* Reported logarithms are those of the plain softmax, whatever is set. */
static void logprobs_are_of_the_unmodified_distribution(void **state)
{
    (void)state;
    const struct sampler_bias BIAS = {4, 50.0f};
    struct sampler_options options = greedy();
    options.biases = &BIAS;
    options.bias_count = 1;
    struct sampler_input input = {.logprob_count = 3};
    struct sampler_result result = run(&options, LOGITS, input);
    double total = 0.0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        total += exp((double)LOGITS[i]);
    }
    const int32_t BEST[] = {1, 3, 6};
    assert_int_equal(result.token, 4);
    assert_true(fabs((double)result.logprob - (-1.0 - log(total))) < 1e-5);
    assert_int_equal(result.top_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(result.top[i].token, BEST[i]);
        double expected = (double)LOGITS[BEST[i]] - log(total);
        assert_true(fabs((double)result.top[i].logprob - expected) < 1e-5);
    }
    struct sampler *sampler = sampler_create(VOCAB);
    struct sampler_result score;
    sampler_score(sampler, LOGITS, 4, 20, &score);
    assert_true(score.logprob == result.logprob);
    assert_int_equal(score.top_count, VOCAB);
    sampler_destroy(sampler);
}

/* A draw depends on seed, choice and position alone: two samplers with other
 * pasts agree; another choice or position draws anew. */
static void draws_do_not_depend_on_the_past(void **state)
{
    (void)state;
    const int32_t HISTORY[64] = {0};
    struct sampler_options options = sampler_defaults();
    options.temperature = 3.0f;
    options.seed = 12;
    uint32_t changes = 0;
    int32_t first = -1;
    for (uint32_t i = 0; i < 64; i++) {
        struct sampler_input input = {.history = HISTORY,
                                      .history_count = i / 2,
                                      .choice = i % 2,
                                      .logprob_count = -1};
        int32_t token = run(&options, LOGITS, input).token;
        assert_int_equal(run(&options, LOGITS, input).token, token);
        changes += first >= 0 && token != first;
        first = token;
    }
    assert_true(changes > 30);
}

/* Against a full sort on a large vocabulary: the kept set of top_p. */
static void large_vocabularies_agree_with_a_full_sort(void **state)
{
    (void)state;
    enum { LARGE = 50000 };
    float *logits = malloc(LARGE * sizeof(float));
    float *copy = malloc(LARGE * sizeof(float));
    struct sampler *sampler = sampler_create(LARGE);
    struct rng rng = rng_from_seed(8);
    for (uint32_t i = 0; i < LARGE; i++) {
        logits[i] = (float)rng_below(&rng, 100000) * 1e-4f;
    }
    double total = 0.0;
    for (uint32_t i = 0; i < LARGE; i++) {
        total += exp((double)logits[i]);
    }
    for (uint32_t n = 0; n < 50; n++) {
        memcpy(copy, logits, LARGE * sizeof(float));
        struct sampler_options options = sampler_defaults();
        options.top_p = 0.3f;
        options.seed = n;
        struct sampler_input input = PLAIN;
        input.logits = copy;
        input.vocab_size = LARGE;
        struct sampler_result result;
        sampler_run(sampler, &options, &input, &result);
        double above = 0.0; /* mass ahead of the drawn one: below top_p */
        for (int32_t i = 0; i < LARGE; i++) {
            float mine = logits[result.token];
            bool is_ahead =
                logits[i] > mine || (logits[i] == mine && i < result.token);
            above += is_ahead ? exp((double)logits[i]) : 0.0;
        }
        assert_true(above / total < 0.3 + 1e-9);
    }
    sampler_destroy(sampler);
    free(logits);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_smallest_of_the_best),
        cmocka_unit_test(plain_draws_follow_the_distribution),
        cmocka_unit_test(top_k_keeps_the_best),
        cmocka_unit_test(top_p_keeps_the_smallest_set_that_suffices),
        cmocka_unit_test(min_p_keeps_what_is_near_the_best),
        cmocka_unit_test(penalties_look_at_the_right_part_of_the_history),
        cmocka_unit_test(biases_are_added),
        cmocka_unit_test(end_tokens_can_be_forbidden),
        cmocka_unit_test(broken_logits_still_give_a_token),
        cmocka_unit_test(logprobs_are_of_the_unmodified_distribution),
        cmocka_unit_test(draws_do_not_depend_on_the_past),
        cmocka_unit_test(large_vocabularies_agree_with_a_full_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
