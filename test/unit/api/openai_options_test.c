#include "openai.h"

#include <stdio.h>

#define P "{\"model\":\"m\",\"prompt\":\"a\""
#define M "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}]"

/* Proof: a string and a list are both taken; empty, long and many are not. */
static void stop_strings_are_bounded(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS, P ",\"stop\":\"x\"}", &request);
    assert_int_equal(request.stop_count, 1);
    openai_request_finish(&request);
    openai_takes(OPENAI_COMPLETIONS, P ",\"stop\":[\"x\",\"yz\"]}", &request);
    assert_int_equal(request.stop_count, 2);
    openai_text_is(&request, request.stops[1], "yz");
    openai_request_finish(&request);
    openai_refuses(OPENAI_COMPLETIONS, P ",\"stop\":\"\"}", "stop", "1 to");
    openai_refuses(OPENAI_COMPLETIONS, P ",\"stop\":[1]}", "stop", "string");
    openai_refuses(OPENAI_COMPLETIONS,
                   P ",\"stop\":[\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
                     "\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
                     "\"a\"]}",
                   "stop", "16");
}

/* Proof: biases come out as numbers by id; limits and keys are checked. */
static void biases_are_finite_and_keyed_by_id(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS, P ",\"logit_bias\":{\"7\":-1.5}}",
                 &request);
    assert_int_equal(request.bias_count, 1);
    assert_int_equal(request.biases[0].token, 7);
    assert_true(request.biases[0].bias == -1.5f);
    openai_request_finish(&request);
    openai_refuses(OPENAI_COMPLETIONS, P ",\"logit_bias\":{\"7\":101}}",
                   "logit_bias", "100");
    openai_refuses(OPENAI_COMPLETIONS, P ",\"logit_bias\":{\"x\":1}}",
                   "logit_bias", "token id");
    openai_refuses(OPENAI_COMPLETIONS, P ",\"logit_bias\":{\"4294967296\":1}}",
                   "logit_bias", "token id");
    openai_refuses(OPENAI_COMPLETIONS, P ",\"logit_bias\":[]}", "logit_bias",
                   "object");
}

/* Proof: usage is on unless switched off; unknown members are refused. */
static void stream_options_default_to_usage(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS,
                 P ",\"stream\":true,\"stream_options\":{}}", &request);
    assert_true(request.include_usage);
    assert_false(request.continuous_usage_stats);
    openai_request_finish(&request);
    openai_takes(OPENAI_COMPLETIONS,
                 P ",\"stream\":true,\"stream_options\":{\"include_usage\":"
                   "false,\"continuous_usage_stats\":true}}",
                 &request);
    assert_false(request.include_usage);
    assert_true(request.continuous_usage_stats);
    openai_request_finish(&request);
    openai_takes(OPENAI_COMPLETIONS, P ",\"stream_options\":null}", &request);
    openai_request_finish(&request);
    openai_refuses(OPENAI_COMPLETIONS,
                   P ",\"stream\":true,\"stream_options\":{\"x\":1}}",
                   "stream_options", "x: is not a known");
}

/* Proof: a number for completions, a flag and a number for chat. */
static void logprobs_have_two_spellings(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS, P ",\"logprobs\":3}", &request);
    assert_int_equal(request.logprob_count, 3);
    openai_request_finish(&request);
    openai_takes(OPENAI_CHAT, M ",\"logprobs\":true,\"top_logprobs\":2}",
                 &request);
    assert_int_equal(request.logprob_count, 2);
    openai_request_finish(&request);
    openai_takes(OPENAI_CHAT, M ",\"logprobs\":true}", &request);
    assert_int_equal(request.logprob_count, 0);
    openai_request_finish(&request);
    openai_refuses(OPENAI_CHAT, M ",\"logprobs\":3}", "logprobs", "true");
}

/* [serve T17] Proof: null is refused, numbers and strings pass. */
static void a_conversation_id_is_not_null(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_CHAT,
                 M ",\"conversation_params\":{\"conversation_id\":\"c\"}}",
                 &request);
    openai_request_finish(&request);
    openai_refuses(OPENAI_CHAT,
                   M ",\"conversation_params\":{\"conversation_id\":null}}",
                   "conversation_params", "conversation_id");
}

/* Proof: both ways to switch thinking off do, and nothing else passes. */
static void thinking_is_switched_off_in_two_ways(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_CHAT, M ",\"thinking\":{\"type\":\"disabled\"}}",
                 &request);
    assert_true(request.disable_thinking);
    openai_request_finish(&request);
    openai_takes(OPENAI_CHAT,
                 M ",\"chat_template_kwargs\":{\"enable_thinking\":false}}",
                 &request);
    assert_true(request.disable_thinking);
    openai_request_finish(&request);
    openai_refuses(OPENAI_CHAT, M ",\"chat_template_kwargs\":{\"x\":1}}",
                   "chat_template_kwargs", "x: is not a known");
    openai_refuses(OPENAI_CHAT, M ",\"thinking\":{\"type\":\"maybe\"}}",
                   "thinking", "enabled or disabled");
}

static void write_biases(char *out, int count)
{
    out += sprintf(out, P ",\"logit_bias\":{");
    for (int i = 0; i < count; i++) {
        out += sprintf(out, "%s\"%d\":1", i == 0 ? "" : ",", i);
    }
    sprintf(out, "}}");
}

/* Proof: 1,024 members pass, one more does not; two about one token are a
 * doubt, spelt as they may be. */
static void biases_are_many_and_bounded(void **state)
{
    (void)state;
    static char body[32768];
    struct openai_request request;
    write_biases(body, OPENAI_BIAS_COUNT_MAX);
    openai_takes(OPENAI_COMPLETIONS, body, &request);
    assert_int_equal(request.bias_count, 1024);
    assert_int_equal(request.biases[1023].token, 1023);
    openai_request_finish(&request);
    write_biases(body, OPENAI_BIAS_COUNT_MAX + 1);
    openai_refuses(OPENAI_COMPLETIONS, body, "logit_bias", "1024");
    openai_refuses(OPENAI_COMPLETIONS,
                   P ",\"logit_bias\":{\"7\":1,\"\\u0037\":2}}", "logit_bias",
                   "[7]: is given twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_strings_are_bounded),
        cmocka_unit_test(biases_are_finite_and_keyed_by_id),
        cmocka_unit_test(stream_options_default_to_usage),
        cmocka_unit_test(logprobs_have_two_spellings),
        cmocka_unit_test(a_conversation_id_is_not_null),
        cmocka_unit_test(thinking_is_switched_off_in_two_ways),
        cmocka_unit_test(biases_are_many_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
