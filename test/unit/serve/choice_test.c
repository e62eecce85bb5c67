#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "model.h"
#include "serve/choice.h"

static struct gguf *gguf;
static struct text_tokenizer *tokenizer;
static const int32_t ends[] = {MODEL_EOS};

/* A choice of a request with these members; `request` owns its text. */
static void begin(const char *members, struct openai_request *request,
                  struct serve_choice *choice)
{
    char body[512];
    const struct openai_limits limits = {.id_count_max = 10};
    struct openai_fault fault;
    struct why why;
    snprintf(body, sizeof(body), "{\"model\":\"m\",\"prompt\":[5]%s}", members);
    if (openai_request_parse(OPENAI_COMPLETIONS, span_of_string(body), &limits,
                             &fault, request) != OK) {
        fail_msg("%s", fault.why.text);
    }
    const struct serve_choice_options options = {
        .tokenizer = tokenizer,
        .body = request,
        .end_tokens = ends,
        .end_token_count = 1,
        .prompt = request->ids,
        .prompt_count = 1,
    };
    assert_int_equal(serve_choice_init(choice, &options, &why), OK);
}

static void end(struct openai_request *request, struct serve_choice *choice)
{
    assert_int_equal(serve_choice_error(choice), OK);
    serve_choice_finish(choice);
    openai_request_finish(request);
}

static bool add(struct serve_choice *choice, const char *bytes)
{
    bool matched = false;
    for (; *bytes != 0; bytes++) {
        const struct serve_token token = {.id = TOKEN_OF(*bytes)};
        matched |= serve_choice_add(choice, &token);
    }
    return matched;
}

static void shows(struct serve_choice *choice, const char *text)
{
    assert_string_equal(buf_string(&choice->shown), text);
}

/* Proof: the two bytes of a character come out together; the half that is
 * left at the end as U+FFFD. */
static void half_a_character_waits(void **state)
{
    (void)state;
    struct openai_request request;
    struct serve_choice choice;
    begin("", &request, &choice);
    add(&choice, "a\xc3");
    shows(&choice, "a");
    add(&choice, "\xa9");
    shows(&choice, "a\xc3\xa9");
    add(&choice, "\xc3");
    serve_choice_end(&choice, ENGINE_FINISH_LENGTH, 0);
    shows(&choice, "a\xc3\xa9\xef\xbf\xbd");
    assert_string_equal(serve_choice_finish_reason(&choice), "length");
    assert_int_equal(choice.token_count, 4);
    end(&request, &choice);
}

/* Proof: text held for a stop string that does not come is shown at the end;
 * one that comes is told once and shows only when asked for. */
static void what_may_stop_is_held_back(void **state)
{
    (void)state;
    struct openai_request request;
    struct serve_choice choice;
    begin(",\"stop\":\"xyz\"", &request, &choice);
    assert_false(add(&choice, "axy"));
    shows(&choice, "a");
    serve_choice_end(&choice, ENGINE_FINISH_LENGTH, 0);
    shows(&choice, "axy");
    end(&request, &choice);
    begin(",\"stop\":[\"q\",\"xyz\"],\"include_stop_str_in_output\":true",
          &request, &choice);
    assert_true(add(&choice, "axyz"));
    assert_false(add(&choice, "xyz"));
    serve_choice_end(&choice, ENGINE_FINISH_CANCELLED, 0);
    shows(&choice, "axyz");
    assert_int_equal(choice.stop_kind, OPENAI_STOP_STRING);
    assert_int_equal(choice.stop_index, 1);
    assert_string_equal(serve_choice_finish_reason(&choice), "stop");
    end(&request, &choice);
}

/* Proof: a stop string within the first min_tokens is not one. */
static void stop_strings_wait_for_min_tokens(void **state)
{
    (void)state;
    struct openai_request request;
    struct serve_choice choice;
    begin(",\"stop\":\"x\",\"min_tokens\":3", &request, &choice);
    assert_false(add(&choice, "axb"));
    assert_true(add(&choice, "x"));
    shows(&choice, "axb");
    end(&request, &choice);
}

/* Proof: an end token counts once whether it is reported as a token or only
 * as the finish, and shows in neither case. */
static void an_end_token_counts_once(void **state)
{
    (void)state;
    for (int reported = 0; reported < 2; reported++) {
        struct openai_request request;
        struct serve_choice choice;
        const struct serve_token last = {.id = MODEL_EOS};
        begin(",\"skip_special_tokens\":false", &request, &choice);
        add(&choice, "a");
        if (reported) {
            serve_choice_add(&choice, &last);
        }
        serve_choice_end(&choice, ENGINE_FINISH_STOP, MODEL_EOS);
        shows(&choice, "a");
        assert_int_equal(choice.token_count, 2);
        assert_int_equal(choice.stop_kind, OPENAI_STOP_NONE);
        assert_string_equal(serve_choice_finish_reason(&choice), "stop");
        end(&request, &choice);
    }
}

/* Proof: with ignore_eos the end token is a token as others are, visible when
 * special ones are. */
static void an_ignored_end_token_is_text(void **state)
{
    (void)state;
    struct openai_request request;
    struct serve_choice choice;
    const struct serve_token token = {.id = MODEL_EOS};
    begin(",\"skip_special_tokens\":false,\"ignore_eos\":true", &request,
          &choice);
    serve_choice_add(&choice, &token);
    add(&choice, "b");
    shows(&choice, "</s>b");
    end(&request, &choice);
}

static int open_model(void **state)
{
    (void)state;
    char path[64];
    struct why why;
    model_write(path);
    enum err err = gguf_open(path, &why, &gguf);
    if (err == OK) {
        err = text_tokenizer_create(gguf, &why, &tokenizer);
    }
    unlink(path);
    return err == OK ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    text_tokenizer_destroy(tokenizer);
    gguf_close(gguf);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_character_waits),
        cmocka_unit_test(what_may_stop_is_held_back),
        cmocka_unit_test(stop_strings_wait_for_min_tokens),
        cmocka_unit_test(an_end_token_counts_once),
        cmocka_unit_test(an_ignored_end_token_is_text),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
