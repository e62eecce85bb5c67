#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "api/openai_answer.h"
#include "api/scan.h"
#include "golden.h"

static struct openai_head head(enum openai_route route)
{
    return (struct openai_head){
        .route = route,
        .id = route == OPENAI_CHAT ? "chatcmpl-00" : "cmpl-00",
        .created = 1700000000,
        .model = span_of_string("a \"model\""),
    };
}

static const struct api_usage usage = {3, 2, 5, 1};

/* Proof: the bytes of a whole completion with two choices. */
static void a_completion_is_as_in_the_file(void **state)
{
    (void)state;
    struct buf out;
    struct openai_logprobs logprobs;
    struct openai_head top = head(OPENAI_COMPLETIONS);
    openai_logprobs_init(&logprobs, false, 4096);
    openai_logprobs_add(&logprobs, true,
                        (struct openai_logprob){span_of_string("x"), -0.5},
                        NULL, 0);
    struct openai_choice choices[] = {
        {.text = span_of_string("one\n"),
         .logprobs = &logprobs,
         .finish_reason = "stop",
         .stop_kind = OPENAI_STOP_STRING,
         .stop_string = span_of_string("\"end\"")},
        {.index = 1,
         .has_token_ids = true,
         .token_ids = (const int32_t[]){4, 5},
         .token_id_count = 2,
         .finish_reason = "stop",
         .stop_kind = OPENAI_STOP_TOKEN,
         .stop_token = 5},
    };
    buf_init(&out, 1 << 16);
    openai_answer_body(&top,
                       &(struct openai_body){.choices = choices,
                                             .choice_count = 2,
                                             .usage = usage},
                       &out);
    golden_is("test/golden/openai/completion.json", buf_span(&out));
    openai_logprobs_finish(&logprobs);
    buf_finish(&out);
}

static void add_handoff(struct buf *out)
{
    openai_answer_handoff(
        &(struct openai_handoff){
            .rid = INT64_C(1116289174535),
            .first_tokens = (const int32_t[]){310},
            .first_token_count = 1,
            .opaque = span_of_string("b3BhcXVl"),
            .endpoint = "tcp://10.0.0.1:5000",
        },
        out);
}

/* Proof: the answer of a context leg, as in the specification's example. */
static void a_context_answer_is_as_in_the_file(void **state)
{
    (void)state;
    struct buf out, handoff;
    struct openai_head top = head(OPENAI_CHAT);
    buf_init(&out, 1 << 16);
    buf_init(&handoff, 1 << 16);
    add_handoff(&handoff);
    struct openai_choice choice = {.text = span_of_string("He"),
                                   .finish_reason = "length",
                                   .handoff = buf_span(&handoff)};
    openai_answer_body(
        &top,
        &(struct openai_body){.choices = &choice,
                              .choice_count = 1,
                              .usage = usage,
                              .has_prompt_ids = true,
                              .as_base64 = true,
                              .prompt_ids = (const int32_t[]){1, 9038, 2501},
                              .prompt_id_count = 3},
        &out);
    golden_is("test/golden/openai/context_answer.json", buf_span(&out));
    buf_finish(&out);
    buf_finish(&handoff);
}

/* Proof: what a context answer says is what a generation leg reads. [serve
 * T19] with an id that no double holds. */
static void the_handoff_is_read_back(void **state)
{
    (void)state;
    struct buf out;
    struct why why;
    struct api_json value;
    struct api_handoff handoff;
    buf_init(&out, 4096);
    openai_answer_handoff(
        &(struct openai_handoff){
            .rid = INT64_C(4611686018427387905),
            .first_tokens = (const int32_t[]){1, 2},
            .first_token_count = 2,
            .opaque = span_of_string("AAAA"),
            .endpoint = "tcp://h:1",
            .first_logprobs = span_of_string("[{\"logprob\":-1},null]"),
        },
        &out);
    assert_int_equal(api_scan_value(buf_span(&out), &why, &value), OK);
    assert_int_equal(api_handoff_read(value, &why, &handoff), OK);
    assert_int_equal(handoff.type, API_REQUEST_CONTEXT);
    assert_true(handoff.ctx_id == INT64_C(4611686018427387905));
    assert_int_equal(handoff.first_token_count, 2);
    assert_true(span_equals_string(handoff.endpoint, "tcp://h:1"));
    buf_finish(&out);
}

/* Proof: the events of a chat stream, role first, [DONE] last. */
static void a_chat_stream_is_as_in_the_file(void **state)
{
    (void)state;
    struct buf out;
    struct openai_head top = head(OPENAI_CHAT);
    struct openai_choice choice = {.text = span_of_string("Hé")};
    buf_init(&out, 1 << 16);
    openai_answer_chunk(&top, OPENAI_CHUNK_ROLE, &choice, true, NULL, &out);
    openai_answer_chunk(&top, OPENAI_CHUNK_TEXT, &choice, true, &usage, &out);
    choice = (struct openai_choice){.finish_reason = "length"};
    openai_answer_chunk(&top, OPENAI_CHUNK_FINISH, &choice, true, NULL, &out);
    openai_answer_usage_chunk(&top, &usage, &out);
    openai_answer_done(&out);
    golden_is("test/golden/openai/chat_stream.txt", buf_span(&out));
    buf_finish(&out);
}

/* Proof: text chunks of a completion, and an error in the middle. */
static void a_broken_stream_is_as_in_the_file(void **state)
{
    (void)state;
    struct buf out;
    struct openai_head top = head(OPENAI_COMPLETIONS);
    struct openai_choice choice = {.index = 1, .text = span_of_string("a")};
    buf_init(&out, 1 << 16);
    openai_answer_chunk(&top, OPENAI_CHUNK_TEXT, &choice, false, NULL, &out);
    openai_answer_error_event(502, "upstream_error", "the sender is gone",
                              &out);
    golden_is("test/golden/openai/broken_stream.txt", buf_span(&out));
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_completion_is_as_in_the_file),
        cmocka_unit_test(a_context_answer_is_as_in_the_file),
        cmocka_unit_test(the_handoff_is_read_back),
        cmocka_unit_test(a_chat_stream_is_as_in_the_file),
        cmocka_unit_test(a_broken_stream_is_as_in_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
