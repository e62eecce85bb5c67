#include "openai.h"

/* Parses a completion with this prompt; ids in `ids`, or text. */
static void takes_prompt(const char *prompt, const char *text,
                         const int32_t *ids, uint32_t count)
{
    struct openai_request request;
    char body[256] = "{\"model\":\"m\",\"prompt\":";
    strcat(body, prompt);
    strcat(body, "}");
    openai_takes(OPENAI_COMPLETIONS, body, &request);
    assert_int_equal(request.has_prompt_text, text != NULL);
    assert_int_equal(request.has_ids, ids != NULL);
    if (text != NULL) {
        openai_text_is(&request, request.prompt, text);
    }
    if (ids != NULL) {
        assert_int_equal(request.id_count, count);
        assert_memory_equal(request.ids, ids, count * sizeof(*ids));
    }
    openai_request_finish(&request);
}

/* [serve T15] Proof: the forms of the specification, one by one. */
static void a_prompt_has_four_forms(void **state)
{
    (void)state;
    takes_prompt("\"a\"", "a", NULL, 0);
    takes_prompt("[\"a\"]", "a", NULL, 0);
    takes_prompt("[1,2]", NULL, (const int32_t[]){1, 2}, 2);
    takes_prompt("[[1,2]]", NULL, (const int32_t[]){1, 2}, 2);
    takes_prompt("[5]", NULL, (const int32_t[]){5}, 1);
    takes_prompt("\"\\u00e9\\n\"", "\xc3\xa9\n", NULL, 0);
}

/* [serve T15] Proof: lists of none and of several are refused by name. */
static void lists_of_several_prompts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]",        "[\"a\",\"b\"]", "[[1],[2]]", "1",     "{}",
        "[1,\"a\"]", "[2147483648]",  "[-1]",      "[1.5]",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char body[256] = "{\"model\":\"m\",\"prompt\":";
        strcat(body, bad[i]);
        strcat(body, "}");
        openai_refuses(OPENAI_COMPLETIONS, body, "prompt", "prompt");
    }
}

/* [serve T25] Proof: the specification's base64 gives its three ids; both
 * spellings at once are refused. */
static void ids_come_as_base64_too(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 9038, 2501};
    struct openai_request request;
    openai_takes(OPENAI_CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],"
                 "\"prompt_token_ids_b64\":\"AQAAAE4jAADFCQAA\"}",
                 &request);
    assert_int_equal(request.id_count, 3);
    assert_memory_equal(request.ids, ids, sizeof(ids));
    openai_request_finish(&request);
    openai_refuses(OPENAI_CHAT,
                   "{\"model\":\"m\",\"prompt_token_ids\":[1],"
                   "\"prompt_token_ids_b64\":\"AQAAAA==\"}",
                   "prompt_token_ids_b64", "together");
    openai_refuses(OPENAI_CHAT,
                   "{\"model\":\"m\",\"prompt_token_ids_b64\":\"AQ\"}",
                   "prompt_token_ids_b64", "prompt_token_ids_b64");
}

/* Proof: whose context server has answered has its ids; generation-first there
 * is no answer yet, so the prompt itself is taken. */
static void a_generation_leg_needs_ids_of_an_answer_only(void **state)
{
    (void)state;
    struct openai_request request;
    openai_refuses(OPENAI_CHAT,
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],"
                   "\"disaggregated_params\":{\"request_type\":"
                   "\"generation_only\"}}",
                   "prompt_token_ids", "is required");
    openai_takes(OPENAI_CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],"
                 "\"disaggregated_params\":{\"request_type\":"
                 "\"generation_only\",\"schedule_style\":1}}",
                 &request);
    assert_false(request.has_ids);
    openai_request_finish(&request);
}

/* Proof: more ids than the limit are refused before they are stored. */
static void too_many_ids_are_refused(void **state)
{
    (void)state;
    static char body[8192] = "{\"model\":\"m\",\"prompt\":[1";
    for (int i = 0; i < 1000; i++) {
        strcat(body, ",1");
    }
    strcat(body, "]}");
    openai_refuses(OPENAI_COMPLETIONS, body, "prompt", "1001");
}

/* Proof: content may be text, parts of text, null or absent; extra keys of a
 * message pass. */
static void a_message_has_content_in_several_forms(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(
        OPENAI_CHAT,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":"
        "\"s\",\"name\":\"x\"},{\"role\":\"user\",\"content\":[{\"type\":"
        "\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":null}]}",
        &request);
    assert_int_equal(request.message_count, 3);
    openai_text_is(&request, request.messages[0].role, "system");
    openai_text_is(&request, request.messages[0].content, "s");
    openai_text_is(&request, request.messages[1].content, "ab");
    openai_text_is(&request, request.messages[2].content, "");
    openai_request_finish(&request);
}

/* Proof: what a message may not hold is named with its place. */
static void a_bad_message_is_named_by_its_place(void **state)
{
    (void)state;
#define HEAD "{\"model\":\"m\",\"messages\":"
    openai_refuses(OPENAI_CHAT, HEAD "[]}", "messages", "1 to");
    openai_refuses(OPENAI_CHAT, HEAD "\"hi\"}", "messages", "list");
    openai_refuses(OPENAI_CHAT, HEAD "[{\"content\":\"a\"}]}", "messages",
                   "[0].role");
    openai_refuses(OPENAI_CHAT, HEAD "[{\"role\":\"user\",\"content\":1}]}",
                   "messages", "[0].content");
    openai_refuses(OPENAI_CHAT,
                   HEAD "[{\"role\":\"user\",\"content\":[{\"type\":"
                        "\"image_url\"}]}]}",
                   "messages", "only text");
    openai_refuses(OPENAI_CHAT,
                   HEAD "[{\"role\":\"user\",\"tool_calls\":[{}]}]}",
                   "messages", "tool_calls");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_has_four_forms),
        cmocka_unit_test(lists_of_several_prompts_are_refused),
        cmocka_unit_test(ids_come_as_base64_too),
        cmocka_unit_test(a_generation_leg_needs_ids_of_an_answer_only),
        cmocka_unit_test(too_many_ids_are_refused),
        cmocka_unit_test(a_message_has_content_in_several_forms),
        cmocka_unit_test(a_bad_message_is_named_by_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
