#pragma once
/* api/openai_logprobs: log probabilities as they come, in either of OpenAI's
 * two forms, written at once so that nothing but text is kept.
 *
 *   completions {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
 *   chat        {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}
 *
 * JSON has no infinity: -9999 stands for it, as in OpenAI's own answers. */
#include <stdbool.h>
#include <stdint.h>

#include "api/openai_request.h"
#include "base/buf.h"
#include "base/span.h"

struct openai_logprob {
    struct span token; /* its bytes, perhaps half a character */
    double logprob;
};

struct openai_logprobs {
    /* private */
    bool is_chat;
    uint32_t count;
    uint64_t offset; /* characters before the next token */
    struct buf parts[4];
};

void openai_logprobs_init(struct openai_logprobs *logprobs, bool is_chat,
                          size_t cap);
void openai_logprobs_finish(struct openai_logprobs *logprobs);
uint32_t openai_logprobs_count(const struct openai_logprobs *logprobs);
/* `is_known` false: the first token of an echoed prompt, which has none. */
void openai_logprobs_add(struct openai_logprobs *logprobs, bool is_known,
                         struct openai_logprob chosen,
                         const struct openai_logprob *top, uint32_t top_count);
/* Adds the JSON object and forgets the tokens; offsets go on. */
void openai_logprobs_print(struct openai_logprobs *logprobs, struct buf *out);
enum err openai_logprobs_error(const struct openai_logprobs *logprobs);
