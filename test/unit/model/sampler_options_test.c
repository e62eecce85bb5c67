/* Ranges of settings: neutral ones pass, each field outside is named. */
#include "unit/base/test.h"

#include <math.h>

#include "model/sampler.h"

enum { VOCAB = 8 };

/* Each field just outside its range is named. */
static void bad_options_are_named(void **state)
{
    (void)state;
    struct why why = {0};
    struct sampler_options good = sampler_defaults();
    assert_int_equal(sampler_options_check(&good, VOCAB, &why), OK);
    const struct sampler_bias BIAS = {VOCAB, 1.0f};
    struct {
        const char *name;
        struct sampler_options options;
    } cases[] = {{"temperature", good},
                 {"top_p", good},
                 {"min_p", good},
                 {"presence_penalty", good},
                 {"frequency_penalty", good},
                 {"repetition_penalty", good},
                 {"top_k", good},
                 {"logit_bias", good}};
    cases[0].options.temperature = -0.1f;
    cases[1].options.top_p = 1.1f;
    cases[2].options.min_p = NAN;
    cases[3].options.presence_penalty = 2.1f;
    cases[4].options.frequency_penalty = -2.1f;
    cases[5].options.repetition_penalty = 0.0f;
    cases[6].options.top_k = -1;
    cases[7].options.biases = &BIAS;
    cases[7].options.bias_count = 1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sampler_options_check(&cases[i].options, VOCAB, &why),
                         ERR_INVALID);
        assert_non_null(strstr(why.text, cases[i].name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
