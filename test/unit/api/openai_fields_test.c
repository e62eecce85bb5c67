#include "openai.h"

#include <stdio.h>

#define P "{\"model\":\"m\",\"prompt\":\"a\""

/* Proof: each plain field is read into its member, exactly. */
static void plain_fields_land_in_their_members(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS,
                 P ",\"n\":3,\"max_tokens\":9,\"min_tokens\":2,"
                   "\"ignore_eos\":true,\"echo\":true,\"top_k\":5,"
                   "\"top_p\":0.5,\"min_p\":0.25,\"temperature\":0,"
                   "\"presence_penalty\":-2,\"frequency_penalty\":2,"
                   "\"repetition_penalty\":1.5,\"seed\":-1,"
                   "\"add_special_tokens\":false,"
                   "\"truncate_prompt_tokens\":4,"
                   "\"skip_special_tokens\":false}",
                 &request);
    assert_int_equal(request.n, 3);
    assert_int_equal(request.max_tokens, 9);
    assert_int_equal(request.min_tokens, 2);
    assert_true(request.ignore_eos);
    assert_true(request.echo);
    assert_int_equal(request.top_k, 5);
    assert_true(request.top_p == 0.5);
    assert_true(request.min_p == 0.25);
    assert_true(request.temperature == 0);
    assert_true(request.presence_penalty == -2);
    assert_true(request.frequency_penalty == 2);
    assert_true(request.repetition_penalty == 1.5);
    assert_true(request.has_seed);
    assert_int_equal(request.seed, -1);
    assert_false(request.add_special_tokens);
    assert_int_equal(request.truncate_prompt_tokens, 4);
    assert_false(request.skip_special_tokens);
    openai_request_finish(&request);
}

/* [serve T14] Proof: a value of the wrong type or out of range is refused with
 * the field's name and what it should be. */
static void wrong_types_and_ranges_are_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"n", "\"1\"", "integer"},
        {"n", "0", "from 1 to 16"},
        {"n", "17", "16"},
        {"max_tokens", "1.5", "integer"},
        {"temperature", "-1", "0"},
        {"temperature", "true", "number"},
        {"top_p", "1.1", "1"},
        {"stream", "1", "true or false"},
        {"echo", "\"yes\"", "true"},
        {"seed", "9223372036854775808", "seed"},
        {"top_k", "-2", "-1"},
        {"logprobs", "21", "20"},
        {"truncate_prompt_tokens", "0", "from 1 to"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[256];
        snprintf(body, sizeof(body), P ",\"%s\":%s}", cases[i][0], cases[i][1]);
        openai_refuses(OPENAI_COMPLETIONS, body, cases[i][0], cases[i][2]);
    }
}

/* Proof: a feature we lack passes at its neutral value and as null, and is
 * refused by name at any other. [serve T16] chat_template is one of them. */
static void features_we_lack_pass_only_when_off(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"use_beam_search", "false", "true"},
        {"suffix", "\"\"", "\"x\""},
        {"lora_request", "null", "{\"name\":\"x\"}"},
        {"early_stopping", "false", "\"never\""},
        {"length_penalty", "1.0", "2"},
        {"return_context_logits", "false", "true"},
        {"thinking_token_budget", "null", "10"},
        {"spaces_between_special_tokens", "true", "false"},
        {"priority", "0.5", "1"},
        {"response_format", "{\"type\":\"text\"}",
         "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}}"},
    };
    static const char *const chat_cases[][2] = {
        {"chat_template", "\"{{x}}\""},
        {"tools", "[{\"type\":\"function\"}]"},
        {"documents", "[{}]"},
        {"reasoning_effort", "\"high\""},
        {"echo", "true"},
    };
    struct openai_request request;
    char body[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(body, sizeof(body), P ",\"%s\":%s}", cases[i][0], cases[i][1]);
        openai_takes(OPENAI_COMPLETIONS, body, &request);
        openai_request_finish(&request);
        snprintf(body, sizeof(body), P ",\"%s\":%s}", cases[i][0], cases[i][2]);
        openai_refuses(OPENAI_COMPLETIONS, body, cases[i][0], "support");
    }
    for (size_t i = 0; i < sizeof(chat_cases) / sizeof(chat_cases[0]); i++) {
        snprintf(body, sizeof(body),
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],"
                 "\"%s\":%s}",
                 chat_cases[i][0], chat_cases[i][1]);
        openai_refuses(OPENAI_CHAT, body, chat_cases[i][0], "not supported");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_fields_land_in_their_members),
        cmocka_unit_test(wrong_types_and_ranges_are_named),
        cmocka_unit_test(features_we_lack_pass_only_when_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
