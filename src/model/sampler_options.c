/* The settings of a draw: neutral values and ranges. */
#include <stddef.h>

#include "model/sampler.h"

struct sampler_options sampler_defaults(void)
{
    return (struct sampler_options){
        .temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f};
}

/* Written so that NaN fails too. */
static bool is_within(float value, float low, float high)
{
    return value >= low && value <= high;
}

static enum err check_biases(const struct sampler_options *options,
                             uint32_t vocab_size, struct why *why)
{
    if (options->bias_count > SAMPLER_BIAS_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "logit_bias: %u entries, at most %d",
                       options->bias_count, SAMPLER_BIAS_COUNT_MAX);
    }
    for (uint32_t i = 0; i < options->bias_count; i++) {
        const struct sampler_bias *bias = &options->biases[i];
        if (bias->token < 0 || (uint32_t)bias->token >= vocab_size) {
            return why_say(why, ERR_INVALID,
                           "logit_bias: token %d, must be 0 to %u", bias->token,
                           vocab_size - 1);
        }
        if (!is_within(bias->bias, -100.0f, 100.0f)) {
            return why_say(why, ERR_INVALID,
                           "logit_bias: %g for token %d, must be -100 to 100",
                           (double)bias->bias, bias->token);
        }
    }
    return OK;
}

enum err sampler_options_check(const struct sampler_options *options,
                               uint32_t vocab_size, struct why *why)
{
    const struct {
        const char *name;
        float value;
        float low;
        float high;
    } RANGES[] = {
        {"temperature", options->temperature, 0.0f, 100.0f},
        {"top_p", options->top_p, 0.0f, 1.0f},
        {"min_p", options->min_p, 0.0f, 1.0f},
        {"presence_penalty", options->presence_penalty, -2.0f, 2.0f},
        {"frequency_penalty", options->frequency_penalty, -2.0f, 2.0f},
        {"repetition_penalty", options->repetition_penalty, 0.01f, 100.0f},
    };
    for (size_t i = 0; i < sizeof(RANGES) / sizeof(RANGES[0]); i++) {
        if (!is_within(RANGES[i].value, RANGES[i].low, RANGES[i].high)) {
            return why_say(why, ERR_INVALID, "%s: %g, must be %g to %g",
                           RANGES[i].name, (double)RANGES[i].value,
                           (double)RANGES[i].low, (double)RANGES[i].high);
        }
    }
    if (options->top_k < 0) {
        return why_say(why, ERR_INVALID, "top_k: %d, must be 0 or more",
                       options->top_k);
    }
    return check_biases(options, vocab_size, why);
}
