/* Client bodies read and rewritten, without a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <cmocka.h>

#include "route/body.h"

static struct config_route config;

static enum err read_text(const char *text, bool is_chat,
                          route_header_get *header, const void *context,
                          struct why *why, struct route_body *body)
{
    struct route_body_options options = {&config, is_chat, header, context};
    return route_body_read(span_of_string(text), &options, why, body);
}

static void check_whole(const char *text, const char *wanted)
{
    static struct route_body body;
    struct buf out;
    assert_int_equal(read_text(text, false, NULL, NULL, NULL, &body), OK);
    buf_init(&out, 65536);
    route_body_whole(&body, &out);
    assert_string_equal(buf_string(&out), wanted);
    buf_finish(&out);
    route_body_finish(&body);
}

/* [serve T15] */
static void prompts_are_unwrapped(void **state)
{
    (void)state;
    check_whole("{\"prompt\":\"a\"}", "{\"prompt\":\"a\"}");
    check_whole("{\"prompt\":[\"a\"]}", "{\"prompt\":\"a\"}");
    check_whole("{\"prompt\":[1,2]}", "{\"prompt\":[1,2]}");
    check_whole("{\"prompt\":[[1, 2]]}", "{\"prompt\":[1, 2]}");
    check_whole("{\"prompt\":[5]}", "{\"prompt\":[5]}");
}

/* [serve T15] */
static void other_prompts_are_refused(void **state)
{
    static const char *const BAD[] = {
        "{\"prompt\":[]}",
        "{\"prompt\":[\"a\",\"b\"]}",
        "{\"prompt\":[[1],[2]]}",
        "{\"prompt\":[[]]}",
        "{\"prompt\":[1,\"a\"]}",
        "{\"prompt\":[-1]}",
        "{\"prompt\":[1.5]}",
        "{\"prompt\":[2147483648]}",
        "{\"prompt\":{}}",
        "{\"prompt\":null}",
        "{}",
        "{\"prompt\":[null]}",
    };
    static struct route_body body;
    (void)state;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct why why = {""};
        assert_int_equal(read_text(BAD[i], false, NULL, NULL, &why, &body),
                         ERR_INVALID);
        assert_int_equal(strncmp(why.text, "prompt", 6), 0);
    }
}

/* [serve T18] a schema's bytes and names reach the worker as they came. */
static void a_schema_passes_untouched(void **state)
{
    static const char TEXT[] =
        "{\"prompt\":\"x\",\"response_format\": {\"type\":\"json_schema\", "
        "\"json_schema\":{\"schema\":{\"a\":1.0}}} }";
    (void)state;
    check_whole(TEXT, TEXT);
}

/* `context` is a list "name: value", lower case. */
static bool get_header(const void *context, const char *name,
                       struct span *value_out)
{
    for (const char *const *at = context; *at != NULL; at++) {
        const char *colon = strchr(*at, ':');
        if (strncasecmp(*at, name, (size_t)(colon - *at)) == 0 &&
            strlen(name) == (size_t)(colon - *at)) {
            *value_out = span_of_string(colon + 1);
            return true;
        }
    }
    return false;
}

static void check_identity(const char *text, const char *const *headers,
                           const char *wanted)
{
    static struct route_body body;
    assert_int_equal(read_text(text, true, get_header, headers, NULL, &body),
                     OK);
    assert_string_equal(buf_string(&body.conversation), wanted);
    route_body_finish(&body);
}

/* [serve T17] */
static void the_first_named_conversation_counts(void **state)
{
    const char *const none[] = {NULL};
    const char *const two[] = {"X-Correlation-Id: b ",
                               "x-claude-session-id: ", NULL};
    (void)state;
    check_identity("{\"conversation_params\":{\"conversation_id\":\" c \","
                   "\"z\":1},\"prompt_cache_key\":\"p\"}",
                   two, "{\"conversation_id\":\"c\",\"z\":1}");
    check_identity("{\"conversation_params\":{\"conversation_id\":7}}", none,
                   "{\"conversation_id\":\"7\"}");
    check_identity("{\"prompt_cache_key\":\"p\"}", two,
                   "{\"conversation_id\":\"b\"}");
    check_identity("{\"prompt_cache_key\":\"p\",\"client_metadata\":"
                   "{\"thread_id\":\"t\"}}",
                   none, "{\"conversation_id\":\"p\"}");
    check_identity("{\"prompt_cache_key\":\"  \",\"client_metadata\":"
                   "{\"thread_id\":\"t\",\"session_id\":\"s\"}}",
                   none, "{\"conversation_id\":\"t\"}");
    check_identity("{\"client_metadata\":{\"thread_id\":5,\"session_id\":"
                   "\"s\"}}",
                   none, "{\"conversation_id\":\"s\"}");
    check_identity("{\"conversation_params\":null}", none, "");
}

/* [serve T17] null and blank ids are errors; a long one becomes its digest. */
static void odd_conversation_ids(void **state)
{
    static const char *const BAD[] = {
        "{\"conversation_params\":{\"conversation_id\":null}}",
        "{\"conversation_params\":{\"conversation_id\":\" \"}}",
        "{\"conversation_params\":{\"conversation_id\":[]}}",
        "{\"conversation_params\":5}"};
    static struct route_body body;
    char text[512];
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct why why = {""};
        assert_int_equal(read_text(BAD[i], true, NULL, NULL, &why, &body),
                         ERR_INVALID);
        assert_int_equal(strncmp(why.text, "conversation_params", 19), 0);
    }
    snprintf(text, sizeof(text), "{\"prompt_cache_key\":\"%0300d\"}", 7);
    assert_int_equal(read_text(text, true, NULL, NULL, NULL, &body), OK);
    assert_int_equal(body.conversation.size,
                     strlen("{\"conversation_id\":\"\"}") + 64);
    route_body_finish(&body);
}

/* The context leg goes without them, so they are read before it is posted. */
static void stream_options_are_read_whole(void **state)
{
    static const struct {
        const char *options, *fault;
    } CASES[] = {
        {"{\"include_usage\":true,\"x\":1}",
         "stream_options: x: is not a known field"},
        {"{\"include_usage\":3}", "stream_options: include_usage: must be"},
        {"5", "stream_options: "},
        {"{\"continuous_usage_stats\":true}", NULL},
        {"null", NULL},
    };
    static struct route_body body;
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        char text[256];
        struct why why = {""};
        snprintf(text, sizeof(text),
                 "{\"prompt\":\"a\",\"stream\":true,\"stream_options\":%s}",
                 CASES[i].options);
        enum err err = read_text(text, false, NULL, NULL, &why, &body);
        assert_int_equal(err, CASES[i].fault == NULL ? OK : ERR_INVALID);
        if (CASES[i].fault != NULL) {
            assert_non_null(strstr(why.text, CASES[i].fault));
        } else {
            route_body_finish(&body);
        }
    }
}

/* Which requests leave nothing for a generation server. */
static void small_requests_are_whole(void **state)
{
    static const struct {
        const char *text;
        bool is_whole;
    } CASES[] = {
        {"{\"prompt\":\"a\",\"max_tokens\":1}", true},
        {"{\"prompt\":\"a\",\"max_tokens\":0,\"echo\":true,\"logprobs\":1}",
         true},
        {"{\"prompt\":\"a\",\"max_tokens\":2}", false},
        {"{\"prompt\":\"a\",\"max_completion_tokens\":1}", true},
        {"{\"prompt\":\"a\",\"echo\":true}", false},
        {"{\"prompt\":\"a\",\"max_tokens\":null}", false},
    };
    static struct route_body body;
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        assert_int_equal(
            read_text(CASES[i].text, false, NULL, NULL, NULL, &body), OK);
        assert_int_equal(body.is_whole, CASES[i].is_whole);
        route_body_finish(&body);
    }
}

/* [serve T19 T30] both bodies of a pair keep the client's bytes, carry one id
 * exactly, and the generation leg's what the context worker says of itself;
 * what a worker may not set stays ours. */
static void a_pair_meets_under_one_id(void **state)
{
    static const char PARAMS[] =
        "{\"ctx_info_endpoint\":\"h:1\",\"request_type\":\"x\"}";
    static struct route_body body;
    struct route_peer peer = {.size = sizeof(PARAMS) - 1};
    struct buf out;
    (void)state;
    memcpy(peer.params, PARAMS, sizeof(PARAMS));
    buf_init(&out, 65536);
    assert_int_equal(
        read_text("{\"prompt\":[[1, 2]],\"stream\":true , \"n\":2}", false,
                  NULL, NULL, NULL, &body),
        OK);
    route_body_pair_context(&body, INT64_MAX, &out);
    assert_string_equal(
        buf_string(&out),
        "{\"prompt\":[1, 2],\"stream\":false , \"n\":2,\"stream_options\":null,"
        "\"disaggregated_params\":{\"request_type\":\"context_only\","
        "\"disagg_request_id\":9223372036854775807,\"schedule_style\":1,"
        "\"return_prompt_token_ids_b64\":false}}");
    buf_reset(&out);
    assert_int_equal(
        route_body_pair_generation(&body, INT64_MAX, &peer, NULL, &out), OK);
    assert_string_equal(
        buf_string(&out),
        "{\"prompt\":[1, 2],\"stream\":true , \"n\":2,\"disaggregated_params\":"
        "{\"ctx_info_endpoint\":\"h:1\",\"request_type\":\"generation_only\","
        "\"ctx_request_id\":9223372036854775807,"
        "\"disagg_request_id\":9223372036854775807,\"schedule_style\":1}}");
    buf_finish(&out);
    route_body_finish(&body);
}

static void unknown_models_are_not_found(void **state)
{
    static struct route_body body;
    (void)state;
    strcpy(config.model_names[0], "m");
    config.model_name_count = 1;
    assert_int_equal(read_text("{\"prompt\":\"a\",\"model\":\"x\"}", false,
                               NULL, NULL, NULL, &body),
                     ERR_NOT_FOUND);
    assert_int_equal(read_text("{\"prompt\":\"a\",\"model\":\"\\u006d\"}",
                               false, NULL, NULL, NULL, &body),
                     OK);
    route_body_finish(&body);
    config.model_name_count = 0;
}

/* [serve T104] Proof: as at the worker, so that the two cannot read two
 * requests out of one body. */
static void equal_keys_are_refused_by_name(void **state)
{
    static struct route_body body;
    struct why why;
    (void)state;
    assert_int_equal(read_text("{\"prompt\":\"a\",\"stream\":false,"
                               "\"str\\u0065am\":true}",
                               false, NULL, NULL, &why, &body),
                     ERR_INVALID);
    assert_string_equal(why.text, "stream: is given twice");
    assert_int_equal(read_text("{\"prompt\":\"a\",\"conversation_params\":{"
                               "\"conversation_id\":\"a\","
                               "\"conversation_id\":\"b\"}}",
                               false, NULL, NULL, &why, &body),
                     ERR_INVALID);
    assert_string_equal(why.text,
                        "conversation_params: conversation_id: is given twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_unwrapped),
        cmocka_unit_test(other_prompts_are_refused),
        cmocka_unit_test(equal_keys_are_refused_by_name),
        cmocka_unit_test(a_schema_passes_untouched),
        cmocka_unit_test(the_first_named_conversation_counts),
        cmocka_unit_test(odd_conversation_ids),
        cmocka_unit_test(stream_options_are_read_whole),
        cmocka_unit_test(small_requests_are_whole),
        cmocka_unit_test(a_pair_meets_under_one_id),
        cmocka_unit_test(unknown_models_are_not_found),
    };
    config_route_init(&config);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
