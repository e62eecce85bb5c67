#pragma once
/* serve/choice: one of a request's n answers: tokens in, text to show out.
 *
 *   token -> detokenizer -> stop matcher -> shown
 *
 * Half characters and what may become a stop string are held back. A token
 * that ends the answer counts and is not shown unless asked for. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "api/openai_answer.h"
#include "api/openai_logprobs.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/port.h"
#include "text/detokenizer.h"
#include "text/stop.h"
#include "text/tokenizer.h"

struct serve_token {
    int32_t id;
    bool has_logprob;
    float logprob;
    const struct sampler_top *top;
    uint32_t top_count;
};

struct serve_choice_options {
    const struct text_tokenizer *tokenizer;
    const struct openai_request *body; /* outlives the choice */
    const int32_t *end_tokens; /* of the model */
    uint32_t end_token_count;
    const int32_t *prompt;
    uint32_t prompt_count;
};

struct serve_choice {
    /* private */
    struct serve_choice_options options;
    struct text_detokenizer detokenizer;
    struct text_stop *stop; /* NULL: no stop strings */
    struct buf piece;
    bool is_muted; /* max_tokens = 0: the one token is not part of the answer */
    /* for the one who prints */
    struct buf shown; /* text not yet sent */
    struct buf token_ids; /* int32, detokenize = false, not yet sent */
    struct openai_logprobs logprobs;
    struct buf first_logprob; /* JSON, for the hand-off */
    uint32_t token_count; /* so far, the first token included */
    int32_t first_token, last_token;
    bool is_stopped; /* a stop string matched: nothing more is taken */
    bool is_finished; /* the engine said so */
    enum engine_finish finish;
    bool is_finish_sent;
    enum openai_stop_kind stop_kind;
    int stop_index;
    int32_t stop_token;
};

/* ERR_INVALID: stop strings the matcher does not take; `why` says. */
MUST_USE enum err serve_choice_init(struct serve_choice *choice,
                                    const struct serve_choice_options *options,
                                    struct why *why);
void serve_choice_finish(struct serve_choice *choice);
/* True: a stop string just matched; the engine may stop working on it. */
bool serve_choice_add(struct serve_choice *choice,
                      const struct serve_token *token);
/* The log probability of a prompt token, for echo. */
void serve_choice_score(struct serve_choice *choice, bool is_known,
                        const struct serve_token *token);
/* The engine is done with it: what was held comes out. `token`: the end or
 * stop token for ENGINE_FINISH_STOP. */
void serve_choice_end(struct serve_choice *choice, enum engine_finish finish,
                      int32_t token);
/* "stop", "length"; NULL while it goes on. */
const char *serve_choice_finish_reason(const struct serve_choice *choice);
/* Memory or cap trouble on the way. */
enum err serve_choice_error(const struct serve_choice *choice);
