#pragma once
/* api/openai_answer: the bytes of OpenAI's answers (serve.md 2.5, 2.6): whole
 * bodies, stream chunks and their end. Pure; everything is handed in. */
#include <stdbool.h>
#include <stdint.h>

#include "api/handoff.h"
#include "api/openai_logprobs.h"
#include "api/openai_request.h"
#include "base/buf.h"
#include "base/span.h"

struct openai_head {
    enum openai_route route; /* completions or chat */
    const char *id; /* "cmpl-..." */
    int64_t created; /* seconds since 1970 */
    struct span model; /* as the client wrote it */
};

enum openai_stop_kind {
    OPENAI_STOP_NONE, /* null: length, or an end token */
    OPENAI_STOP_STRING,
    OPENAI_STOP_TOKEN
};

struct openai_choice {
    uint32_t index;
    struct span text;
    bool has_token_ids; /* detokenize = false */
    const int32_t *token_ids;
    uint32_t token_id_count;
    struct openai_logprobs *logprobs; /* NULL: none asked for */
    const char *finish_reason; /* NULL: null, goes on */
    enum openai_stop_kind stop_kind;
    struct span stop_string;
    int32_t stop_token;
    struct span handoff; /* JSON of disaggregated_params; empty: no member */
};

/* What a whole answer has besides its choices. */
struct openai_body {
    const struct openai_choice *choices;
    uint32_t choice_count;
    struct api_usage usage;
    bool has_prompt_ids; /* context only: the ids go with the hand-off */
    bool as_base64;
    const int32_t *prompt_ids;
    uint32_t prompt_id_count;
};
void openai_answer_body(const struct openai_head *head,
                        const struct openai_body *body, struct buf *out);

/* One event each, with `data: ` and the blank line. */
enum openai_chunk_kind {
    OPENAI_CHUNK_ROLE, /* chat: {"role":"assistant","content":""} */
    OPENAI_CHUNK_TEXT,
    OPENAI_CHUNK_FINISH /* text empty, finish_reason set */
};
/* `usage`: NULL none; `has_usage_member` prints null then. */
void openai_answer_chunk(const struct openai_head *head,
                         enum openai_chunk_kind kind,
                         const struct openai_choice *choice,
                         bool has_usage_member, const struct api_usage *usage,
                         struct buf *out);
void openai_answer_usage_chunk(const struct openai_head *head,
                               const struct api_usage *usage, struct buf *out);
void openai_answer_done(struct buf *out);
/* A failure after the head; no [DONE] may follow. */
void openai_answer_error_event(int status, const char *type,
                               const char *message, struct buf *out);

/* The object a context leg answers with. `first_logprobs` is JSON or empty. */
struct openai_handoff {
    int64_t rid;
    const int32_t *first_tokens;
    uint32_t first_token_count;
    struct span opaque; /* base64 */
    const char *endpoint;
    struct span first_logprobs;
};
void openai_answer_handoff(const struct openai_handoff *handoff,
                           struct buf *out);
