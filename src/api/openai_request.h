#pragma once
/* api/openai_request: a client's body to one struct (serve.md 2.4).
 *
 *   body --scan--> members --table of fields--> values --checks--> request
 *
 * Strict: a field that is not in the list, one of the wrong type, one out of
 * range and one whose feature we lack (set to anything but its neutral value)
 * are refused by name. `null` counts as absent. Pure; the request owns its
 * text and ids, only `handoff` points into the body. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/handoff.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum openai_route {
    OPENAI_COMPLETIONS = 1,
    OPENAI_CHAT = 2,
    OPENAI_TOKENIZE = 4,
    OPENAI_DETOKENIZE = 8
};

enum {
    OPENAI_CHOICE_COUNT_MAX = 16,
    OPENAI_STOP_COUNT_MAX = 16,
    OPENAI_STOP_SIZE_MAX = 1024,
    OPENAI_STOP_TOKEN_COUNT_MAX = 64,
    OPENAI_BIAS_COUNT_MAX = 1024,
    OPENAI_LOGPROB_COUNT_MAX = 20,
    OPENAI_MESSAGE_COUNT_MAX = 4096,
    OPENAI_SALT_SIZE_MAX = 1024,
    OPENAI_RETENTION_COUNT_MAX = 16
};

/* A piece of `text`: resolved by openai_text, since text grows while read. */
struct openai_text {
    size_t at, size;
};
struct openai_message {
    struct openai_text role, content;
};
struct openai_bias {
    int32_t token;
    float bias;
};
/* How long what is cached of these tokens is kept, of pages that nobody uses. */
struct openai_retention_rule {
    int64_t first_token, end_token; /* of the prompt; end -1: open */
    int64_t priority; /* 0 .. 100 */
    int64_t duration_ms; /* -1: for good */
};
struct openai_retention {
    uint32_t rule_count; /* no two touch the same token */
    struct openai_retention_rule rules[OPENAI_RETENTION_COUNT_MAX];
    bool has_decode;
    struct openai_retention_rule decode; /* of what is generated */
};
struct openai_first_logprob {
    bool is_known;
    double logprob;
    uint32_t top_count;
    int32_t top_tokens[OPENAI_LOGPROB_COUNT_MAX];
    double top_logprobs[OPENAI_LOGPROB_COUNT_MAX];
};

struct openai_request {
    enum openai_route route;
    struct buf text; /* every string of the body that we keep */

    struct openai_text model;
    bool has_prompt_text;
    struct openai_text prompt;
    int32_t *ids; /* prompt, prompt_token_ids(_b64) or tokens; owned */
    uint32_t id_count;
    bool has_ids;
    struct openai_message *messages; /* owned */
    uint32_t message_count;
    bool has_messages;
    bool add_special_tokens; /* completions: true, chat: false */
    bool add_generation_prompt;
    bool disable_thinking;
    int64_t truncate_prompt_tokens; /* 0: whole; else its last tokens */
    struct openai_text cache_salt; /* size 0: none */
    struct openai_retention retention; /* kv_cache_retention_config */

    int64_t n;
    int64_t best_of; /* 0: not given */
    int64_t max_tokens; /* -1: not given */
    int64_t max_completion_tokens; /* chat's other name; -1: not given */
    int64_t min_tokens;
    bool ignore_eos;
    bool echo;
    uint32_t stop_count;
    struct openai_text stops[OPENAI_STOP_COUNT_MAX];
    uint32_t stop_token_count;
    int32_t stop_tokens[OPENAI_STOP_TOKEN_COUNT_MAX];
    bool include_stop_str_in_output;
    bool skip_special_tokens;
    bool detokenize;

    double temperature, top_p, min_p;
    double presence_penalty, frequency_penalty, repetition_penalty;
    int64_t top_k;
    bool has_seed;
    int64_t seed;
    struct openai_bias *biases; /* owned */
    uint32_t bias_count;

    int32_t logprob_count; /* -1: none; alternatives a token */

    bool stream;
    bool has_stream_options;
    bool include_usage;
    bool continuous_usage_stats;

    struct api_handoff handoff; /* spans into the body */
    /* Log probabilities of the first tokens, from the context server. */
    struct openai_first_logprob *first_logprobs; /* (n) or NULL; owned */

    /* As they came, for the checks at the end. */
    bool has_prompt_ids, has_prompt_b64, has_handoff;
    bool wants_logprobs;
    int64_t top_logprobs; /* -1: not given */
};

struct openai_limits {
    uint32_t id_count_max; /* of a prompt, before any cut */
};

/* What is wrong: a line and the field it is about ("" when none). */
struct openai_fault {
    struct why why;
    char param[64];
};

/* ERR_INVALID and ERR_UNSUPPORTED (a field we lack): 400. `fault` is filled.
 * On OK the request must be finished. */
MUST_USE enum err openai_request_parse(enum openai_route route,
                                       struct span body,
                                       const struct openai_limits *limits,
                                       struct openai_fault *fault,
                                       struct openai_request *request_out);
void openai_request_finish(struct openai_request *request);
struct span openai_text(const struct openai_request *request,
                        struct openai_text text);
/* `stream_options`, of which an object without the field means true (serve.md
 * 2.4). ERR_INVALID: no object, another member, no flag; `why` holds no name. */
struct openai_stream_options {
    bool include_usage, continuous_usage_stats;
};
MUST_USE enum err openai_stream_options_read(
    struct api_json value, struct why *why,
    struct openai_stream_options *options_out);
/* The bounds of a body, a line each. */
void openai_request_describe_limits(struct buf *out);
