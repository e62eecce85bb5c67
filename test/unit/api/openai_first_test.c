#include "openai.h"

#define HEAD                                                        \
    "{\"model\":\"m\",\"prompt\":[1],\"disaggregated_params\":{"    \
    "\"request_type\":\"generation_only\",\"disagg_request_id\":5," \
    "\"first_gen_log_probs\":"

/* Proof: what a context server wrote is read back, choice by choice. */
static void first_logprobs_are_read_by_choice(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS,
                 HEAD "[{\"logprob\":-0.5,\"top\":[[7,-0.5],[9,-1.25]]},null]}"
                      "}",
                 &request);
    assert_non_null(request.first_logprobs);
    assert_true(request.first_logprobs[0].is_known);
    assert_true(request.first_logprobs[0].logprob == -0.5);
    assert_int_equal(request.first_logprobs[0].top_count, 2);
    assert_int_equal(request.first_logprobs[0].top_tokens[1], 9);
    assert_true(request.first_logprobs[0].top_logprobs[1] == -1.25);
    assert_false(request.first_logprobs[1].is_known);
    openai_request_finish(&request);
}

/* Proof: other shapes are refused by name, memory and all. */
static void other_shapes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"[1]", "[{}]", "[{\"logprob\":\"x\"}]",
                                      "[{\"logprob\":-1,\"top\":[[1]]}]",
                                      "[{\"logprob\":-1,\"top\":[1]}]"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char body[512] = HEAD;
        strcat(body, bad[i]);
        strcat(body, "}}");
        openai_refuses(OPENAI_COMPLETIONS, body, "disaggregated_params",
                       "first_gen_log_probs");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_logprobs_are_read_by_choice),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
