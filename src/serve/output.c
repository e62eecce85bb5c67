/* serve/output: what the client sees: event streams while tokens come, or one
 * body at the end. */
#include "serve/internal.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* A client that does not read is cut once this much waits for it. */
enum { BLOCKED_SIZE_MAX = 4 << 20 };

static struct openai_head head_of(const struct serve_request *request)
{
    return (struct openai_head){
        .route = request->body.route,
        .id = request->public_id,
        .created = request->created,
        .model = openai_text(&request->body, request->body.model),
    };
}

/* The context server's numbers for the prompt, when it had one. */
static struct api_usage usage_of(const struct serve_request *request)
{
    const struct api_handoff *handoff = &request->body.handoff;
    struct api_usage usage = {
        .prompt_tokens = request->prompt_count,
        .cached_tokens = request->journey.cached_tokens,
    };
    if (request->kind == ENGINE_GENERATION_ONLY && handoff->has_ctx_usage) {
        usage.prompt_tokens = handoff->ctx_usage.prompt_tokens;
        usage.cached_tokens = handoff->ctx_usage.cached_tokens;
    }
    for (uint32_t i = 0; i < request->choice_count; i++) {
        usage.completion_tokens += request->choices[i].token_count;
    }
    usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
    return usage;
}

/* With one choice handed over, all go on at the other side. */
static bool is_handed_over(const struct serve_request *request)
{
    for (uint32_t i = 0; i < request->choice_count; i++) {
        if (request->choices[i].finish == ENGINE_FINISH_HANDOFF) {
            return true;
        }
    }
    return false;
}

static struct openai_choice choice_of(struct serve_request *request,
                                      uint32_t index)
{
    struct serve_choice *choice = &request->choices[index];
    const struct openai_request *body = &request->body;
    struct openai_choice out = {
        .index = index,
        .text = buf_span(&choice->shown),
        .has_token_ids = !body->detokenize,
        .token_ids = (const int32_t *)(const void *)choice->token_ids.data,
        .token_id_count = (uint32_t)(choice->token_ids.size / sizeof(int32_t)),
        .logprobs = body->logprob_count >= 0 ? &choice->logprobs : NULL,
        .stop_kind = choice->stop_kind,
        .stop_token = choice->stop_token,
    };
    if (choice->stop_kind == OPENAI_STOP_STRING) {
        out.stop_string = openai_text(body, body->stops[choice->stop_index]);
    }
    return out;
}

static void report_end(struct serve_request *request)
{
    struct api_usage usage = usage_of(request);
    uint64_t now = io_loop_now(request->serve->options.loop);
    serve_stats_add_end(
        request->serve->stats,
        &(struct serve_stats_end){
            .kind = request->kind,
            .reason = serve_choice_finish_reason(&request->choices[0]),
            .total_ns = now - request->arrival_ns,
            .prompt_tokens = (uint32_t)usage.prompt_tokens,
            .completion_tokens = (uint32_t)usage.completion_tokens,
            .journey = &request->journey,
        });
}

static void add_opaque(const struct serve_request *request,
                       const int32_t *first_tokens, struct buf *out)
{
    const struct serve *serve = request->serve;
    struct api_opaque opaque = {
        .incarnation = serve->parts.incarnation,
        .rid = request->rid,
        .prompt_tokens = request->prompt_count,
        .tokens_per_block = serve->options.config->tokens_per_block,
    };
    const struct api_sealed sealed = {
        .ids = request->prompt,
        .id_count = request->prompt_count,
        .salt = openai_text(&request->body, request->body.cache_salt),
        .first_tokens = first_tokens,
        .first_token_count = request->choice_count,
    };
    api_opaque_seal(serve->parts.auth_key, &sealed, &opaque);
    api_opaque_encode(&opaque, out);
}

static void add_handoff(struct serve_request *request, struct buf *out)
{
    const struct serve *serve = request->serve;
    int32_t tokens[OPENAI_CHOICE_COUNT_MAX];
    struct buf opaque, logprobs;
    buf_init(&opaque, 4096);
    buf_init(&logprobs, 1 << 20);
    for (uint32_t i = 0; i < request->choice_count; i++) {
        tokens[i] = request->choices[i].first_token;
        buf_add_string(&logprobs, i == 0 ? "[" : ",");
        const struct buf *first = &request->choices[i].first_logprob;
        buf_add_string(&logprobs, first->size == 0 ? "null" : "");
        buf_add_span(&logprobs, buf_span(first));
    }
    buf_add_byte(&logprobs, ']');
    add_opaque(request, tokens, &opaque);
    bool has_logprobs = request->body.logprob_count >= 0;
    openai_answer_handoff(
        &(struct openai_handoff){
            .rid = request->rid,
            .first_tokens = tokens,
            .first_token_count = request->choice_count,
            .opaque = buf_span(&opaque),
            .endpoint = serve->parts.transfer_endpoint,
            .first_logprobs =
                has_logprobs ? buf_span(&logprobs) : span_of(NULL, 0),
        },
        out);
    buf_finish(&opaque);
    buf_finish(&logprobs);
}

static void write_body(struct serve_request *request, struct span handoff,
                       struct buf *out)
{
    struct openai_choice choices[OPENAI_CHOICE_COUNT_MAX];
    struct openai_head head = head_of(request);
    bool is_context = request->kind == ENGINE_CONTEXT_ONLY;
    bool goes_on = is_context && is_handed_over(request);
    for (uint32_t i = 0; i < request->choice_count; i++) {
        choices[i] = choice_of(request, i);
        choices[i].finish_reason =
            goes_on ? "length"
                    : serve_choice_finish_reason(&request->choices[i]);
        choices[i].handoff = handoff;
    }
    openai_answer_body(
        &head,
        &(struct openai_body){
            .choices = choices,
            .choice_count = request->choice_count,
            .usage = usage_of(request),
            .has_prompt_ids = is_context,
            .as_base64 = request->body.handoff.wants_prompt_base64,
            .prompt_ids = request->prompt,
            .prompt_id_count = request->prompt_count,
        },
        out);
}

static enum err choices_error(const struct serve_request *request)
{
    for (uint32_t i = 0; i < request->choice_count; i++) {
        enum err err = serve_choice_error(&request->choices[i]);
        if (err != OK) {
            return err;
        }
    }
    return OK;
}

static void answer_whole(struct serve_request *request)
{
    struct serve *serve = request->serve;
    struct buf handoff;
    buf_init(&handoff, 1 << 20);
    buf_reset(&serve->out);
    if (request->kind == ENGINE_CONTEXT_ONLY) {
        add_handoff(request, &handoff);
    }
    write_body(request, buf_span(&handoff), &serve->out);
    bool is_bad = choices_error(request) != OK || buf_error(&handoff) != OK ||
                  buf_error(&serve->out) != OK;
    buf_finish(&handoff);
    if (is_bad) {
        serve_request_fail(request, &(struct serve_failure){
                                        .status = 500,
                                        .message = "the answer is too long",
                                    });
        return;
    }
    report_end(request);
    http_exchange_set_user(request->exchange, NULL);
    serve_reply_json(serve, request->exchange, 200, buf_span(&serve->out));
    request->exchange = NULL;
    serve_request_give(request);
}

static void begin_stream(struct serve_request *request)
{
    static const struct http_header headers[] = {{"Cache-Control", "no-cache"},
                                                 {0}};
    if (!request->is_begun) {
        request->is_begun = true;
        http_exchange_begin(request->exchange, 200, "text/event-stream",
                            headers);
    }
}

/* False: the client is gone now, cut because it does not read. */
static bool send_out(struct serve_request *request)
{
    struct serve *serve = request->serve;
    struct http_exchange *exchange = request->exchange;
    if (serve->out.size == 0) {
        return true;
    }
    begin_stream(request);
    bool is_blocked = !http_exchange_write(exchange, buf_span(&serve->out));
    request->blocked_bytes =
        is_blocked ? request->blocked_bytes + serve->out.size : 0;
    if (request->blocked_bytes <= BLOCKED_SIZE_MAX &&
        buf_error(&serve->out) == OK) {
        return true;
    }
    http_exchange_set_user(exchange, NULL);
    http_exchange_cut(exchange);
    serve_stats_count_gone(serve->stats);
    serve_request_cancel(request);
    return false;
}

static void add_chunk(struct serve_request *request,
                      enum openai_chunk_kind kind,
                      const struct openai_choice *choice)
{
    const struct openai_request *body = &request->body;
    struct openai_head head = head_of(request);
    struct api_usage usage = usage_of(request);
    openai_answer_chunk(&head, kind, choice, body->include_usage,
                        body->continuous_usage_stats ? &usage : NULL,
                        &request->serve->out);
}

static void add_role_chunk(struct serve_request *request, uint32_t index)
{
    const struct openai_choice role = {.index = index};
    add_chunk(request, OPENAI_CHUNK_ROLE, &role);
    request->role_sent_count++;
}

static void add_text_chunk(struct serve_request *request, uint32_t index)
{
    struct serve_choice *choice = &request->choices[index];
    if (choice->shown.size == 0 && choice->token_ids.size == 0) {
        return;
    }
    struct openai_choice text = choice_of(request, index);
    text.stop_kind = OPENAI_STOP_NONE;
    add_chunk(request, OPENAI_CHUNK_TEXT, &text);
    buf_reset(&choice->shown);
    buf_reset(&choice->token_ids);
}

static void add_finish_chunk(struct serve_request *request, uint32_t index)
{
    struct serve_choice *choice = &request->choices[index];
    if (!choice->is_finished || choice->is_finish_sent) {
        return;
    }
    struct openai_choice end = choice_of(request, index);
    end.finish_reason = serve_choice_finish_reason(choice);
    end.has_token_ids = false;
    /* Those of tokens whose text never came out. */
    if (openai_logprobs_count(&choice->logprobs) == 0) {
        end.logprobs = NULL;
    }
    choice->is_finish_sent = true;
    add_chunk(request, OPENAI_CHUNK_FINISH, &end);
}

/* All that is new, into `out`. */
static void add_news(struct serve_request *request)
{
    buf_reset(&request->serve->out);
    if (request->body.route == OPENAI_CHAT && request->role_sent_count == 0) {
        for (uint32_t i = 0; i < request->choice_count; i++) {
            add_role_chunk(request, i);
        }
    }
    for (uint32_t i = 0; i < request->choice_count; i++) {
        add_text_chunk(request, i);
        add_finish_chunk(request, i);
    }
}

void serve_output_mark(struct serve_request *request)
{
    struct serve *serve = request->serve;
    if (request->body.stream && !request->is_dirty) {
        request->is_dirty = true;
        request->dirty_next = serve->dirty_first;
        serve->dirty_first = request;
    }
}

void serve_output_flush(struct serve *serve)
{
    while (serve->dirty_first != NULL) {
        struct serve_request *request = serve->dirty_first;
        serve->dirty_first = request->dirty_next;
        request->is_dirty = false;
        request->dirty_next = NULL;
        if (request->exchange != NULL) {
            add_news(request);
            IGNORE(send_out(request)); /* it is gone then */
        }
    }
}

static void complete_stream(struct serve_request *request)
{
    struct serve *serve = request->serve;
    struct openai_head head = head_of(request);
    struct api_usage usage = usage_of(request);
    add_news(request);
    if (request->body.include_usage) {
        openai_answer_usage_chunk(&head, &usage, &serve->out);
    }
    openai_answer_done(&serve->out);
    report_end(request);
    if (send_out(request)) {
        http_exchange_set_user(request->exchange, NULL);
        http_exchange_end(request->exchange);
        request->exchange = NULL;
        serve_request_give(request);
    }
}

/* Cancelled by the engine itself, with nobody here having asked for it. */
static bool is_cut_short(const struct serve_request *request)
{
    for (uint32_t i = 0; i < request->choice_count; i++) {
        if (request->choices[i].finish == ENGINE_FINISH_CANCELLED &&
            !request->choices[i].is_stopped) {
            return true;
        }
    }
    return false;
}

void serve_output_complete(struct serve_request *request)
{
    CHECK(request->exchange != NULL);
    if (is_cut_short(request)) {
        serve_request_fail(request, &(struct serve_failure){
                                        .status = 503,
                                        .message = "the request was aborted",
                                    });
    } else if (request->body.stream) {
        complete_stream(request);
    } else {
        answer_whole(request);
    }
}
