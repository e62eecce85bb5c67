/* api/openai_request: walks the members of a body and checks what depends on
 * more than one of them. */
#include "api/openai_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/openai_fields.h"
#include "api/scan.h"
#include "base/check.h"
#include "base/mem.h"

static void init_defaults(struct openai_request *request,
                          enum openai_route route, size_t body_size)
{
    *request = (struct openai_request){
        .route = route,
        .add_special_tokens = route != OPENAI_CHAT,
        .add_generation_prompt = true,
        .n = 1,
        .max_tokens = -1,
        .max_completion_tokens = -1,
        .skip_special_tokens = true,
        .detokenize = true,
        .temperature = 1,
        .top_p = 1,
        .repetition_penalty = 1,
        .logprob_count = -1,
        .top_logprobs = -1,
    };
    buf_init(&request->text, body_size + 1);
}

void openai_request_finish(struct openai_request *request)
{
    buf_finish(&request->text);
    mem_free(request->ids);
    mem_free(request->messages);
    mem_free(request->biases);
    mem_free(request->first_logprobs);
    *request = (struct openai_request){0};
}

struct span openai_text(const struct openai_request *request,
                        struct openai_text text)
{
    return span_slice(buf_span(&request->text), text.at, text.at + text.size);
}

void openai_request_describe_limits(struct buf *out)
{
    buf_printf(out, "fields of a body    %d at most, nested %d deep\n",
               API_MEMBER_COUNT_MAX, API_DEPTH_MAX);
    buf_printf(out, "choices (n)         %d at most\n",
               OPENAI_CHOICE_COUNT_MAX);
    buf_printf(out, "messages            %d at most\n",
               OPENAI_MESSAGE_COUNT_MAX);
    buf_printf(out, "stop strings        %d of %d bytes, and %d token ids\n",
               OPENAI_STOP_COUNT_MAX, OPENAI_STOP_SIZE_MAX,
               OPENAI_STOP_TOKEN_COUNT_MAX);
    buf_printf(out, "logit_bias          %d members at most\n",
               OPENAI_BIAS_COUNT_MAX);
    buf_printf(out, "logprobs            %d alternatives a token\n",
               OPENAI_LOGPROB_COUNT_MAX);
    buf_printf(out, "cache_salt          %d bytes at most\n",
               OPENAI_SALT_SIZE_MAX);
    buf_printf(out, "retention           %d ranges at most\n",
               OPENAI_RETENTION_COUNT_MAX);
}

static enum err say(struct openai_fault *fault, const char *param,
                    const char *text)
{
    snprintf(fault->param, sizeof(fault->param), "%s", param);
    return why_say(&fault->why, ERR_INVALID, "%s: %s", param, text);
}

/* Some readers name the whole path themselves: "messages[0].role: ...". */
static bool is_named(const char *text, const char *name)
{
    size_t size = strlen(name);
    return size > 0 && strncmp(text, name, size) == 0 &&
           strchr(":.[", text[size]) != NULL && text[size] != 0;
}

/* Names the field and, inside it, whatever the reader named. */
static enum err read_member(const struct openai_limits *limits,
                            const struct api_member *member,
                            struct openai_fault *fault,
                            struct openai_request *request)
{
    enum err err = openai_field_read(limits, member->key, member->value,
                                     &fault->why, request);
    if (err != OK) {
        api_key_text(member->key, fault->param, sizeof(fault->param));
        if (!is_named(fault->why.text, fault->param)) {
            const char *name = fault->param[0] == 0 ? "\"\"" : fault->param;
            why_prefix(&fault->why, err, "%s", name);
        }
    }
    return err;
}

static enum err check_prompt(struct openai_request *request,
                             struct openai_fault *fault)
{
    if (request->route == OPENAI_DETOKENIZE) {
        return request->has_ids ? OK : say(fault, "tokens", "is required");
    }
    if (request->has_prompt_ids && request->has_prompt_b64) {
        return say(fault, "prompt_token_ids_b64",
                   "must not come together with prompt_token_ids");
    }
    if (request->route == OPENAI_TOKENIZE) {
        if (request->has_prompt_text == request->has_messages) {
            return say(fault, "prompt", "give either prompt or messages");
        }
        return OK;
    }
    bool needs_ids = request->handoff.type == API_REQUEST_GENERATION &&
                     request->handoff.schedule_style == 0;
    if (needs_ids && !request->has_ids) {
        return say(fault, "prompt_token_ids",
                   "is required for generation_only");
    }
    if (request->route == OPENAI_CHAT && !request->has_messages &&
        !request->has_ids) {
        return say(fault, "messages", "is required");
    }
    if (request->route == OPENAI_COMPLETIONS && !request->has_prompt_text &&
        !request->has_ids) {
        return say(fault, "prompt", "is required");
    }
    return OK;
}

/* Chat may say max_completion_tokens or max_tokens, or both alike. */
static enum err settle_max_tokens(struct openai_request *request,
                                  struct openai_fault *fault)
{
    if (request->max_completion_tokens >= 0) {
        if (request->max_tokens >= 0 &&
            request->max_tokens != request->max_completion_tokens) {
            return say(fault, "max_completion_tokens",
                       "differs from max_tokens");
        }
        request->max_tokens = request->max_completion_tokens;
    }
    if (request->max_tokens == 0 && !request->echo) {
        return say(fault, "max_tokens", "must be at least 1 without echo");
    }
    if (request->max_tokens >= 0 && request->min_tokens > request->max_tokens) {
        return say(fault, "min_tokens", "must not be above max_tokens");
    }
    return OK;
}

static enum err settle_logprobs(struct openai_request *request,
                                struct openai_fault *fault)
{
    if (request->route != OPENAI_CHAT) {
        return OK;
    }
    if (request->top_logprobs >= 0 && !request->wants_logprobs) {
        return say(fault, "top_logprobs", "needs logprobs = true");
    }
    if (request->wants_logprobs) {
        request->logprob_count =
            request->top_logprobs >= 0 ? (int32_t)request->top_logprobs : 0;
    }
    return OK;
}

static enum err check_output(const struct openai_request *request,
                             struct openai_fault *fault)
{
    if (request->has_stream_options && !request->stream) {
        return say(fault, "stream_options", "needs stream = true");
    }
    if (request->best_of > 0 && request->best_of != request->n) {
        return say(fault, "best_of",
                   "other than n is not supported by this server");
    }
    if (!request->detokenize && request->stop_count > 0) {
        return say(fault, "stop", "needs detokenize = true");
    }
    if (!request->detokenize && request->echo) {
        return say(fault, "echo", "needs detokenize = true");
    }
    return OK;
}

static enum err check_handoff(const struct openai_request *request,
                              struct openai_fault *fault)
{
    const struct api_handoff *handoff = &request->handoff;
    if (handoff->type == API_REQUEST_WHOLE) {
        return OK;
    }
    if (request->max_tokens == 0) {
        return say(fault, "max_tokens", "must be at least 1 for a hand-off");
    }
    if (request->stream && handoff->type == API_REQUEST_CONTEXT) {
        return say(fault, "stream", "must be false for context_only");
    }
    return OK;
}

static enum err check_all(struct openai_request *request,
                          struct openai_fault *fault)
{
    enum err err = check_prompt(request, fault);
    if (err != OK || (request->route & (OPENAI_TOKENIZE | OPENAI_DETOKENIZE))) {
        return err;
    }
    if (request->model.size == 0) {
        return say(fault, "model", "is required");
    }
    err = settle_max_tokens(request, fault);
    if (err == OK) {
        err = settle_logprobs(request, fault);
    }
    if (err == OK) {
        err = check_output(request, fault);
    }
    return err == OK ? check_handoff(request, fault) : err;
}

/* "model: is given twice" */
static void name_twin(struct openai_fault *fault)
{
    size_t size = strlen(fault->why.text) - strlen(": is given twice");
    snprintf(fault->param, sizeof(fault->param), "%.*s", (int)size,
             fault->why.text);
}

enum err openai_request_parse(enum openai_route route, struct span body,
                              const struct openai_limits *limits,
                              struct openai_fault *fault,
                              struct openai_request *request_out)
{
    struct api_object object;
    struct openai_request request;
    *fault = (struct openai_fault){0};
    enum err err = api_scan(body, &fault->why, &object);
    if (err == ERR_EXISTS) {
        name_twin(fault);
        return ERR_INVALID;
    }
    if (err != OK) {
        return why_prefix(&fault->why, ERR_INVALID, "body");
    }
    init_defaults(&request, route, body.size);
    for (uint32_t i = 0; i < object.member_count && err == OK; i++) {
        err = read_member(limits, &object.members[i], fault, &request);
    }
    if (err == OK) {
        err = check_all(&request, fault);
    }
    if (err != OK) {
        openai_request_finish(&request);
        return err;
    }
    *request_out = request;
    return OK;
}
