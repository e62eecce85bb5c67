/* Context answers judged, answers cleaned, streams told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "route/answer.h"

static enum err read_text(const char *text, struct why *why,
                          struct route_answer *answer)
{
    return route_answer_read(span_of_string(text), 5, why, answer);
}

/* [serve T29] the id the context worker used is the id from here on. */
static void the_answers_id_is_adopted(void **state)
{
    struct route_answer answer;
    (void)state;
    assert_int_equal(read_text("{\"choices\":[{\"finish_reason\":\"length\","
                               "\"disaggregated_params\":{\"ctx_request_id\":1,"
                               "\"disagg_request_id\":42}}]}",
                               NULL, &answer),
                     OK);
    assert_int_equal(answer.id, 42);
    assert_false(answer.is_final);
    assert_null(answer.usage.data);
}

/* [serve T28] null ids are fine when the request is over. */
static void a_finished_choice_needs_no_ids(void **state)
{
    struct route_answer answer;
    (void)state;
    assert_int_equal(read_text("{\"choices\":[{\"finish_reason\":\"stop\","
                               "\"disaggregated_params\":{}}]}",
                               NULL, &answer),
                     OK);
    assert_true(answer.is_final);
    assert_int_equal(answer.id, 5);
}

/* With several choices all must be over. */
static void one_open_choice_keeps_all_open(void **state)
{
    struct route_answer answer;
    (void)state;
    assert_int_equal(
        read_text("{\"choices\":[{\"finish_reason\":\"stop\","
                  "\"disaggregated_params\":{}},{\"finish_reason\":null,"
                  "\"disaggregated_params\":{\"ctx_request_id\":1,"
                  "\"disagg_request_id\":42}}]}",
                  NULL, &answer),
        OK);
    assert_false(answer.is_final);
}

static void odd_answers_are_corrupt(void **state)
{
    static const char *const BAD[] = {
        "",
        "[]",
        "{}",
        "{\"choices\":{}}",
        "{\"choices\":[]}",
        "{\"choices\":[1]}",
        "{\"choices\":[{\"finish_reason\":\"stop\"}]}",
        "{\"choices\":[{\"disaggregated_params\":{\"ctx_request_id\":1}}]}",
        "{\"choices\":[{\"disaggregated_params\":{\"ctx_request_id\":1.5}}]}",
    };
    struct route_answer answer;
    (void)state;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        assert_int_equal(read_text(BAD[i], NULL, &answer), ERR_CORRUPT);
    }
}

/* [serve T36] 32 prompt, 1 cached of the context; 4 made: 32 / 1 / 4 / 36. */
static void usage_shows_the_contexts_prompt(void **state)
{
    struct api_usage context = {32, 1, 33, 1};
    struct buf out;
    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(
        route_answer_clean(
            span_of_string("{\"choices\":[],\"usage\":{\"prompt_tokens\":32,"
                           "\"completion_tokens\":4,\"total_tokens\":36,"
                           "\"prompt_tokens_details\":{\"cached_tokens\":32,"
                           "\"x\":1}}}"),
            &context, NULL, &out),
        OK);
    assert_string_equal(
        buf_string(&out),
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":32,"
        "\"completion_tokens\":4,\"total_tokens\":36,"
        "\"prompt_tokens_details\":{\"cached_tokens\":1,\"x\":1}}}");
    buf_finish(&out);
}

/* A token may be the character NUL: what a worker says of it goes on as it is,
 * in a body, in its choices and as a stream. */
static void an_answer_may_hold_nul(void **state)
{
    static const char ANSWER[] =
        "{\"choices\":[{\"index\":0,\"text\":\"a\\u0000b\","
        "\"finish_reason\":\"stop\"}]}";
    struct buf out;
    (void)state;
    buf_init(&out, 65536);
    assert_int_equal(
        route_answer_clean(span_of_string(ANSWER), NULL, NULL, &out), OK);
    assert_string_equal(buf_string(&out), ANSWER);
    buf_reset(&out);
    assert_int_equal(
        route_answer_stream(span_of_string(ANSWER), false, false, NULL, &out),
        OK);
    assert_non_null(strstr(buf_string(&out), "\"a\\u0000b\""));
    buf_finish(&out);
}

/* [serve T27] text, and tool calls with their places. */
static void an_answer_is_told_as_a_stream(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 65536);
    assert_int_equal(
        route_answer_stream(
            span_of_string("{\"id\":\"i\",\"created\":1,\"choices\":[{\"index\""
                           ":0,\"text\":\"x\",\"finish_reason\":\"stop\","
                           "\"disaggregated_params\":{}}]}"),
            false, false, NULL, &out),
        OK);
    assert_string_equal(
        buf_string(&out),
        "data: {\"id\":\"i\",\"object\":\"text_completion\",\"created\":1,"
        "\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":\"stop\"}]}"
        "\n\ndata: [DONE]\n\n");
    buf_reset(&out);
    assert_int_equal(
        route_answer_stream(
            span_of_string("{\"choices\":[{\"index\":0,\"message\":{\"role\":"
                           "\"assistant\",\"content\":null,\"tool_calls\":"
                           "[{\"id\":\"a\"},{\"id\":\"b\"}]},"
                           "\"finish_reason\":\"tool_calls\"}]}"),
            true, false, NULL, &out),
        OK);
    assert_non_null(strstr(buf_string(&out),
                           "\"delta\":{\"content\":null,\"tool_calls\":"
                           "[{\"id\":\"a\",\"index\":0},{\"id\":\"b\","
                           "\"index\":1}]},\"finish_reason\":null"));
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answers_id_is_adopted),
        cmocka_unit_test(a_finished_choice_needs_no_ids),
        cmocka_unit_test(one_open_choice_keeps_all_open),
        cmocka_unit_test(odd_answers_are_corrupt),
        cmocka_unit_test(usage_shows_the_contexts_prompt),
        cmocka_unit_test(an_answer_may_hold_nul),
        cmocka_unit_test(an_answer_is_told_as_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
