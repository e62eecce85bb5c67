#pragma once
/* node/generate: one prompt to the end in this process: no engine, no cache
 * reuse, no batching. What the cluster answers must equal it, token for token
 * (decision 11), so it stays as plain as can be. */
#include "base/err.h"
#include "model/sampler.h"
#include "node/model_file.h"

struct node_generate_options {
    const struct node_model_file *file;
    const int32_t *prompt;
    uint32_t prompt_count;
    uint32_t max_tokens;
    struct sampler_options sampling;
    uint32_t choice;
    bool ignore_end;
    /* Each token as it comes; may be NULL. */
    void (*on_token)(void *context, int32_t token);
    void *context;
};
struct node_generate_result {
    int32_t *tokens; /* (token_count), heap, the caller's; the end token, when
                      * one was drawn, is the last */
    uint32_t token_count;
    bool stopped; /* by an end token, else by length */
};
MUST_USE enum err node_generate(const struct node_generate_options *options,
                                struct why *why,
                                struct node_generate_result *result_out);
