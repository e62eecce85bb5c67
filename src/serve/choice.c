#include "serve/choice.h"

#include <inttypes.h>
#include <math.h>

#include "base/check.h"

enum { TEXT_CAP = 64 << 20 };

enum err serve_choice_init(struct serve_choice *choice,
                           const struct serve_choice_options *options,
                           struct why *why)
{
    const struct openai_request *body = options->body;
    struct span stops[OPENAI_STOP_COUNT_MAX];
    *choice = (struct serve_choice){.options = *options, .stop_index = -1};
    for (uint32_t i = 0; i < body->stop_count; i++) {
        stops[i] = openai_text(body, body->stops[i]);
    }
    if (body->stop_count > 0) {
        enum err err = text_stop_create(stops, body->stop_count,
                                        body->include_stop_str_in_output, why,
                                        &choice->stop);
        if (err != OK) {
            return why_prefix(why, err, "stop");
        }
    }
    choice->is_muted = body->max_tokens == 0;
    text_detokenizer_init(&choice->detokenizer, options->tokenizer,
                          !body->skip_special_tokens);
    text_detokenizer_prime(&choice->detokenizer, options->prompt,
                           options->prompt_count);
    buf_init(&choice->piece, TEXT_CAP);
    buf_init(&choice->shown, TEXT_CAP);
    buf_init(&choice->token_ids, TEXT_CAP);
    buf_init(&choice->first_logprob, 1 << 16);
    openai_logprobs_init(&choice->logprobs, body->route == OPENAI_CHAT,
                         TEXT_CAP);
    return OK;
}

void serve_choice_finish(struct serve_choice *choice)
{
    if (choice->stop != NULL) {
        text_stop_destroy(choice->stop);
    }
    buf_finish(&choice->piece);
    buf_finish(&choice->shown);
    buf_finish(&choice->token_ids);
    buf_finish(&choice->first_logprob);
    openai_logprobs_finish(&choice->logprobs);
}

static bool contains(const int32_t *tokens, uint32_t count, int32_t token)
{
    for (uint32_t i = 0; i < count; i++) {
        if (tokens[i] == token) {
            return true;
        }
    }
    return false;
}

static bool is_stop_token(const struct serve_choice *choice, int32_t token)
{
    const struct openai_request *body = choice->options.body;
    return contains(body->stop_tokens, body->stop_token_count, token);
}

static bool is_last(const struct serve_choice *choice, int32_t token)
{
    const struct openai_request *body = choice->options.body;
    return is_stop_token(choice, token) ||
           (!body->ignore_eos &&
            contains(choice->options.end_tokens,
                     choice->options.end_token_count, token));
}

/* Text of one token through the matcher; below min_tokens it is not looked at.
 */
static bool show(struct serve_choice *choice)
{
    int index = -1;
    struct span text = buf_span(&choice->piece);
    bool is_early =
        (int64_t)choice->token_count <= choice->options.body->min_tokens;
    if (choice->stop == NULL || is_early) {
        buf_add_span(&choice->shown, text);
    } else {
        index = text_stop_add(choice->stop, text, &choice->shown);
    }
    buf_reset(&choice->piece);
    if (index < 0) {
        return false;
    }
    choice->is_stopped = true;
    choice->stop_kind = OPENAI_STOP_STRING;
    choice->stop_index = index;
    return true;
}

static void add_logprobs(struct serve_choice *choice, bool is_known,
                         const struct serve_token *token)
{
    const struct text_tokenizer *tokenizer = choice->options.tokenizer;
    struct openai_logprob chosen, top[OPENAI_LOGPROB_COUNT_MAX];
    size_t ends[OPENAI_LOGPROB_COUNT_MAX + 1];
    uint32_t count = token->top_count < OPENAI_LOGPROB_COUNT_MAX
                         ? token->top_count
                         : OPENAI_LOGPROB_COUNT_MAX;
    struct buf *text = &choice->piece;
    buf_reset(text);
    text_token_bytes(tokenizer, token->id, true, text);
    ends[0] = text->size;
    for (uint32_t i = 0; i < count; i++) {
        text_token_bytes(tokenizer, token->top[i].token, true, text);
        ends[i + 1] = text->size;
    }
    for (uint32_t i = 0; i < count; i++) {
        top[i] = (struct openai_logprob){
            span_slice(buf_span(text), ends[i], ends[i + 1]),
            token->top[i].logprob};
    }
    chosen = (struct openai_logprob){span_slice(buf_span(text), 0, ends[0]),
                                     token->logprob};
    openai_logprobs_add(&choice->logprobs, is_known, chosen, top, count);
    buf_reset(text);
}

/* What the generation side needs to repeat this token's log probability. */
static void keep_first(struct serve_choice *choice,
                       const struct serve_token *token)
{
    struct buf *out = &choice->first_logprob;
    float least = -1e30f;
    buf_printf(out, "{\"logprob\":%.9g,\"top\":[",
               isfinite(token->logprob) ? token->logprob : least);
    for (uint32_t i = 0; i < token->top_count; i++) {
        float logprob = token->top[i].logprob;
        buf_printf(out, "%s[%" PRId32 ",%.9g]", i == 0 ? "" : ",",
                   token->top[i].token, isfinite(logprob) ? logprob : least);
    }
    buf_add_string(out, "]}");
}

bool serve_choice_add(struct serve_choice *choice,
                      const struct serve_token *token)
{
    const struct openai_request *body = choice->options.body;
    if (choice->is_stopped || choice->is_finished || choice->is_muted) {
        return false;
    }
    if (choice->token_count == 0) {
        choice->first_token = token->id;
    }
    choice->token_count++;
    choice->last_token = token->id;
    if (body->logprob_count >= 0 && token->has_logprob) {
        if (choice->token_count == 1) {
            keep_first(choice, token);
        }
        add_logprobs(choice, true, token);
    }
    if (!body->detokenize) {
        buf_add(&choice->token_ids, &token->id, sizeof(token->id));
        return false;
    }
    if (is_last(choice, token->id) && !body->include_stop_str_in_output) {
        return false;
    }
    text_detokenizer_add(&choice->detokenizer, token->id, &choice->piece);
    return show(choice);
}

void serve_choice_score(struct serve_choice *choice, bool is_known,
                        const struct serve_token *token)
{
    add_logprobs(choice, is_known, token);
}

static void flush(struct serve_choice *choice)
{
    if (choice->is_stopped || !choice->options.body->detokenize) {
        return;
    }
    text_detokenizer_flush(&choice->detokenizer, &choice->piece);
    if (!show(choice) && choice->stop != NULL) {
        text_stop_flush(choice->stop, &choice->shown);
    }
}

void serve_choice_end(struct serve_choice *choice, enum engine_finish finish,
                      int32_t token)
{
    CHECK(!choice->is_finished);
    bool is_stop = finish == ENGINE_FINISH_STOP && !choice->is_stopped;
    /* The token that ends it counts, reported as a token before or not. */
    if (is_stop && !choice->is_muted &&
        (choice->token_count == 0 || choice->last_token != token)) {
        const struct serve_token last = {.id = token};
        serve_choice_add(choice, &last);
    }
    flush(choice);
    choice->is_finished = true;
    choice->finish = finish;
    if (is_stop && !choice->is_stopped && is_stop_token(choice, token)) {
        choice->stop_kind = OPENAI_STOP_TOKEN;
        choice->stop_token = token;
    }
}

const char *serve_choice_finish_reason(const struct serve_choice *choice)
{
    if (!choice->is_finished) {
        return NULL;
    }
    if (choice->is_muted) {
        return "length";
    }
    return choice->is_stopped || choice->finish == ENGINE_FINISH_STOP
               ? "stop"
               : "length";
}

enum err serve_choice_error(const struct serve_choice *choice)
{
    enum err err = buf_error(&choice->shown);
    err = err == OK ? buf_error(&choice->token_ids) : err;
    return err == OK ? openai_logprobs_error(&choice->logprobs) : err;
}
