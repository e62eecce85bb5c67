#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "api/openai_logprobs.h"
#include "api/scan.h"

static struct openai_logprob entry(const char *text, double logprob)
{
    return (struct openai_logprob){span_of_string(text), logprob};
}

static void prints(struct openai_logprobs *logprobs, const char *wanted)
{
    struct buf out;
    struct api_json value;
    struct why why;
    buf_init(&out, 4096);
    openai_logprobs_print(logprobs, &out);
    assert_string_equal(buf_string(&out), wanted);
    assert_int_equal(api_scan_value(buf_span(&out), &why, &value), OK);
    buf_finish(&out);
}

/* Proof: four lists of equal length; offsets count characters and go on over
 * a print; the chosen token is among the alternatives exactly once. */
static void completions_have_four_lists(void **state)
{
    (void)state;
    struct openai_logprobs logprobs;
    struct openai_logprob top[] = {entry("a", -0.25), entry("b", -2)};
    openai_logprobs_init(&logprobs, false, 4096);
    openai_logprobs_add(&logprobs, false, entry("\xc3\xa9", 0), NULL, 0);
    openai_logprobs_add(&logprobs, true, entry("a", -0.25), top, 2);
    openai_logprobs_add(&logprobs, true, entry("z", -3), top, 2);
    assert_int_equal(openai_logprobs_count(&logprobs), 3);
    prints(&logprobs, "{\"tokens\":[\"\xc3\xa9\",\"a\",\"z\"],"
                      "\"token_logprobs\":[null,-0.25,-3],"
                      "\"top_logprobs\":[null,{\"a\":-0.25,\"b\":-2},"
                      "{\"a\":-0.25,\"b\":-2,\"z\":-3}],"
                      "\"text_offset\":[0,1,2]}");
    openai_logprobs_add(&logprobs, true, entry("q", -1), NULL, 0);
    prints(&logprobs, "{\"tokens\":[\"q\"],\"token_logprobs\":[-1],"
                      "\"top_logprobs\":[{\"q\":-1}],\"text_offset\":[3]}");
    openai_logprobs_finish(&logprobs);
}

/* Proof: chat gives each token its bytes, half characters included. */
static void chat_has_bytes(void **state)
{
    (void)state;
    struct openai_logprobs logprobs;
    struct openai_logprob top[] = {entry("\xc3", -0.5)};
    openai_logprobs_init(&logprobs, true, 4096);
    openai_logprobs_add(&logprobs, true, entry("\xc3", -0.5), top, 1);
    prints(&logprobs,
           "{\"content\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,"
           "\"bytes\":[195],\"top_logprobs\":[{\"token\":\"\xef\xbf\xbd\","
           "\"logprob\":-0.5,\"bytes\":[195]}]}]}");
    openai_logprobs_finish(&logprobs);
}

/* Proof: what JSON cannot say becomes -9999; equal spellings appear once. */
static void infinities_and_equal_spellings_stay_json(void **state)
{
    (void)state;
    struct openai_logprobs logprobs;
    struct openai_logprob top[] = {entry("a", -INFINITY), entry("a", NAN)};
    openai_logprobs_init(&logprobs, false, 4096);
    openai_logprobs_add(&logprobs, true, entry("a", -INFINITY), top, 2);
    prints(&logprobs, "{\"tokens\":[\"a\"],\"token_logprobs\":[-9999],"
                      "\"top_logprobs\":[{\"a\":-9999}],\"text_offset\":[0]}");
    openai_logprobs_finish(&logprobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_have_four_lists),
        cmocka_unit_test(chat_has_bytes),
        cmocka_unit_test(infinities_and_equal_spellings_stay_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
