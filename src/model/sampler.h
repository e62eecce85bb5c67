#pragma once
/* model/sampler: logits to one token. Pure: the same logits, settings, history
 * and position give the same token on any server, so a hand-off cannot change
 * a draw (base/rng.h: keyed by seed and choice, counted by position).
 *
 * Order: logit_bias, repetition penalty (prompt and output), presence and
 * frequency penalties (output only), temperature, top_k, top_p, min_p, draw. A
 * temperature of 0 is greedy: the smallest id among the best. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { SAMPLER_BIAS_COUNT_MAX = 1024, SAMPLER_TOP_COUNT_MAX = 20 };

struct sampler_bias {
    int32_t token;
    float bias;
};

struct sampler_options {
    float temperature; /* 0: greedy */
    int32_t top_k; /* 0: all */
    float top_p; /* 1: all */
    float min_p; /* 0: all */
    float presence_penalty; /* 0: none */
    float frequency_penalty; /* 0: none */
    float repetition_penalty; /* 1: none */
    uint64_t seed;
    uint32_t bias_count;
    const struct sampler_bias *biases; /* owned by whoever holds the options */
};
/* The neutral settings: temperature 1, everything else off. */
struct sampler_options sampler_defaults(void);
/* ERR_INVALID names the field and its range. */
MUST_USE enum err sampler_options_check(const struct sampler_options *options,
                                        uint32_t vocab_size, struct why *why);

struct sampler_top {
    int32_t token;
    float logprob; /* of the unmodified distribution, natural logarithm */
};

struct sampler_input {
    float *logits; /* (vocab_size); changed */
    uint32_t vocab_size;
    const int32_t *history; /* prompt, then output */
    uint32_t prompt_count;
    uint32_t history_count;
    uint32_t choice; /* index among n */
    bool forbid_end; /* min_tokens not reached: end tokens cannot be drawn */
    const int32_t *end_tokens;
    uint32_t end_count;
    int32_t logprob_count; /* -1: none; 0..20: alternatives wanted */
};

struct sampler_result {
    int32_t token;
    float logprob; /* when logprob_count >= 0 */
    uint32_t top_count;
    struct sampler_top top[SAMPLER_TOP_COUNT_MAX]; /* best first */
};

struct sampler; /* scratch for one vocabulary size; one thread */
struct sampler *sampler_create(uint32_t vocab_size);
void sampler_destroy(struct sampler *sampler);
void sampler_run(struct sampler *sampler, const struct sampler_options *options,
                 const struct sampler_input *input,
                 struct sampler_result *result_out);
/* Log probabilities of `target` and the best alternatives under the unmodified
 * distribution; for echoed prompts. */
void sampler_score(struct sampler *sampler, const float *logits, int32_t target,
                   int32_t logprob_count, struct sampler_result *result_out);
