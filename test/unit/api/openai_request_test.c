#include "openai.h"

/* Proof: a body with nothing but what is required; every field then holds the
 * default of serve.md 2.4. */
static void what_is_not_given_has_its_default(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\"}",
                 &request);
    assert_int_equal(request.n, 1);
    assert_int_equal(request.max_tokens, -1);
    assert_true(request.temperature == 1);
    assert_true(request.top_p == 1);
    assert_int_equal(request.logprob_count, -1);
    assert_true(request.add_special_tokens);
    assert_true(request.skip_special_tokens);
    assert_true(request.detokenize);
    assert_false(request.stream);
    assert_int_equal(request.handoff.type, API_REQUEST_WHOLE);
    openai_request_finish(&request);
    openai_takes(OPENAI_CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}]}",
                 &request);
    assert_false(request.add_special_tokens);
    openai_request_finish(&request);
}

/* [serve T14] Proof: one body a rule; the answer names the field. */
static void rules_between_fields_are_kept(void **state)
{
    (void)state;
#define M "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
#define P "\"model\":\"m\",\"prompt\":\"a\""
    openai_refuses(OPENAI_COMPLETIONS, "{" P ",\"stream_options\":{}}",
                   "stream_options", "needs stream");
    openai_refuses(OPENAI_CHAT, "{" M ",\"top_logprobs\":2}", "top_logprobs",
                   "needs logprobs");
    openai_refuses(OPENAI_CHAT, "{" M ",\"tool_choice\":\"required\"}",
                   "tool_choice", "needs tools");
    openai_refuses(OPENAI_CHAT, "{" M ",\"cache_salt\":\"  \"}", "cache_salt",
                   "not blank");
    openai_refuses(OPENAI_COMPLETIONS, "{" P ",\"suffix\":\"x\"}", "suffix",
                   "not supported");
    openai_refuses(OPENAI_COMPLETIONS, "{" P ",\"colour\":1}", "colour",
                   "not a known field");
    openai_refuses(OPENAI_CHAT, "{" M ",\"suffix\":\"\"}", "suffix",
                   "not a known field");
    openai_refuses(OPENAI_COMPLETIONS, "{\"prompt\":\"a\"}", "model",
                   "required");
    openai_refuses(OPENAI_COMPLETIONS, "{\"model\":\"m\"}", "prompt",
                   "required");
    openai_refuses(OPENAI_COMPLETIONS, "{" P ",\"n\":2,\"best_of\":3}",
                   "best_of", "not supported");
    openai_refuses(OPENAI_COMPLETIONS, "{" P ",\"max_tokens\":0}", "max_tokens",
                   "at least 1");
    openai_refuses(OPENAI_COMPLETIONS,
                   "{" P ",\"max_tokens\":2,\"min_tokens\":3}", "min_tokens",
                   "max_tokens");
    openai_refuses(OPENAI_COMPLETIONS,
                   "{" P ",\"detokenize\":false,\"stop\":\"x\"}", "stop",
                   "detokenize");
    openai_refuses(OPENAI_CHAT,
                   "{" M ",\"max_tokens\":2,\"max_completion_tokens\":3}",
                   "max_completion_tokens", "differs");
}

/* Proof: max_completion_tokens and max_tokens are one thing for chat. */
static void chat_takes_either_name_of_max_tokens(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_CHAT, "{" M ",\"max_completion_tokens\":7}", &request);
    assert_int_equal(request.max_tokens, 7);
    openai_request_finish(&request);
    openai_refuses(OPENAI_COMPLETIONS, "{" P ",\"max_completion_tokens\":7}",
                   "max_completion_tokens", "not a known field");
}

/* Proof: bodies that are no JSON object are refused without a field. */
static void what_is_no_object_is_refused(void **state)
{
    (void)state;
    openai_refuses(OPENAI_CHAT, "", "", "body");
    openai_refuses(OPENAI_CHAT, "[]", "", "body");
    openai_refuses(OPENAI_CHAT, "{\"model\":", "", "body");
    openai_refuses(OPENAI_CHAT, "{\"model\":\"\xff\"}", "", "body");
}

/* [serve T104] Proof: a key that stands twice is refused under its name, also
 * inside an object that we read, and for two spellings of one token. */
static void equal_keys_are_refused_by_name(void **state)
{
    (void)state;
    openai_refuses(OPENAI_COMPLETIONS,
                   "{\"prompt\":\"a\",\"model\":\"m\",\"prompt\":\"b\"}",
                   "prompt", "prompt: is given twice");
    openai_refuses(OPENAI_COMPLETIONS, "{" P ",\"n\":1,\"\\u006e\":2}", "n",
                   "n: is given twice");
    openai_refuses(OPENAI_COMPLETIONS,
                   "{" P ",\"stream\":true,\"stream_options\":{"
                   "\"include_usage\":true,\"include_usage\":false}}",
                   "stream_options",
                   "stream_options: include_usage: is given twice");
    openai_refuses(OPENAI_COMPLETIONS,
                   "{" P ",\"disaggregated_params\":{\"ctx_request_id\":1,"
                   "\"ctx_request_id\":2}}",
                   "disaggregated_params", "ctx_request_id: is given twice");
    openai_refuses(OPENAI_CHAT,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\","
                   "\"content\":\"a\",\"role\":\"system\"}]}",
                   "messages", "messages[0].role: is given twice");
    openai_refuses(OPENAI_COMPLETIONS,
                   "{" P ",\"logit_bias\":{\"7\":1,\"07\":2}}", "logit_bias",
                   "[7]: is given twice");
}

/* [serve T19] Proof: an id that no double holds comes through exactly. */
static void wide_ids_survive(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS,
                 "{" P ",\"disaggregated_params\":{\"request_type\":"
                 "\"context_only\",\"disagg_request_id\":4611686018427387905}}",
                 &request);
    assert_true(request.handoff.disagg_id == 4611686018427387905);
    assert_int_equal(request.handoff.type, API_REQUEST_CONTEXT);
    openai_request_finish(&request);
    openai_refuses(OPENAI_COMPLETIONS,
                   "{" P ",\"stream\":true,\"disaggregated_params\":"
                   "{\"request_type\":\"context_only\"}}",
                   "stream", "context_only");
    openai_refuses(OPENAI_COMPLETIONS,
                   "{" P ",\"disaggregated_params\":"
                   "{\"request_type\":\"generation_only\"}}",
                   "prompt_token_ids", "generation_only");
}

/* Proof: tokenize takes one of two forms, detokenize needs its list. */
static void the_small_routes_have_their_own_fields(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_TOKENIZE, "{\"prompt\":\"hi\"}", &request);
    assert_true(request.has_prompt_text);
    openai_request_finish(&request);
    openai_takes(OPENAI_DETOKENIZE, "{\"tokens\":[1,2]}", &request);
    assert_int_equal(request.id_count, 2);
    openai_request_finish(&request);
    openai_refuses(OPENAI_TOKENIZE, "{}", "prompt", "either");
    openai_refuses(OPENAI_DETOKENIZE, "{}", "tokens", "required");
    openai_refuses(OPENAI_DETOKENIZE, "{\"tokens\":[-1]}", "tokens", "tokens");
    openai_refuses(OPENAI_TOKENIZE, "{\"prompt\":\"a\",\"n\":1}", "n",
                   "not a known field");
}

/* Proof: an escaped key is read as the field it spells, at the top and inside;
 * an unknown one is named as it reads; twice is twice. */
static void escaped_keys_are_the_fields_they_spell(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(OPENAI_COMPLETIONS,
                 "{\"mod\\u0065l\":\"m\",\"prompt\":\"a\","
                 "\"max\\u005ftokens\":7,\"stream\":true,"
                 "\"stream_options\":{\"include\\u005fusage\":false}}",
                 &request);
    openai_text_is(&request, request.model, "m");
    assert_int_equal(request.max_tokens, 7);
    assert_false(request.include_usage);
    openai_request_finish(&request);
    openai_refuses(OPENAI_COMPLETIONS,
                   "{\"model\":\"m\",\"prompt\":\"a\",\"m\\u0061x\":1}", "max",
                   "max: is not a known field");
    openai_refuses(OPENAI_COMPLETIONS,
                   "{\"model\":\"m\",\"prompt\":\"a\",\"t\\u006fp_p\":2}",
                   "top_p", "top_p: must be");
}

/* Proof: the printout names the bound of each list. */
static void the_limits_can_be_printed(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 4096);
    openai_request_describe_limits(&out);
    assert_non_null(strstr(buf_string(&out), "logit_bias          1024 "));
    assert_non_null(strstr(buf_string(&out), "choices (n)         16 "));
    assert_int_equal(buf_error(&out), OK);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_has_its_default),
        cmocka_unit_test(rules_between_fields_are_kept),
        cmocka_unit_test(chat_takes_either_name_of_max_tokens),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(equal_keys_are_refused_by_name),
        cmocka_unit_test(wide_ids_survive),
        cmocka_unit_test(the_small_routes_have_their_own_fields),
        cmocka_unit_test(escaped_keys_are_the_fields_they_spell),
        cmocka_unit_test(the_limits_can_be_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
