#include "route/body.h"

#include <inttypes.h>

#include "api/openai_request.h"
#include "route/identity.h"

enum { TEXT_SIZE_MAX = 1 << 20 };

static bool is_set(const struct api_member *member)
{
    return member != NULL && member->value.kind != API_JSON_NULL;
}

static bool is_true(const struct api_object *object, const char *key)
{
    const struct api_member *member = api_find(object, key);
    return member != NULL && span_equals_string(member->value.text, "true");
}

static enum err refuse_internal(const struct route_body *body,
                                const struct config_route *config,
                                struct why *why)
{
    static const char *const INTERNAL[] = {"disaggregated_params",
                                           "prompt_token_ids_b64"};
    for (size_t i = 0; i < 2; i++) {
        if (is_set(api_find(&body->object, INTERNAL[i]))) {
            return why_say(why, ERR_INVALID, "%s: is not a client's to set",
                           INTERNAL[i]);
        }
    }
    if (is_set(api_find(&body->object, "chat_template")) &&
        !config->allow_request_chat_template) {
        return why_say(why, ERR_INVALID,
                       "chat_template: not allowed by this server");
    }
    return OK;
}

static enum err read_stream_options(struct route_body *body, struct why *why)
{
    const struct api_member *member = api_find(&body->object, "stream_options");
    struct openai_stream_options options;
    if (!is_set(member)) {
        return OK;
    }
    if (!body->is_stream) {
        return why_say(why, ERR_INVALID, "stream_options: needs stream = true");
    }
    /* All of it: the context leg goes without, and a prompt would be computed
     * for a request that the other leg refuses. */
    if (openai_stream_options_read(member->value, why, &options) != OK) {
        return why_prefix(why, ERR_INVALID, "stream_options");
    }
    body->wants_usage = options.include_usage;
    return OK;
}

static enum err read_stream(struct route_body *body, struct why *why)
{
    const struct api_member *member = api_find(&body->object, "stream");
    if (is_set(member) &&
        api_read_bool(member->value, why, &body->is_stream) != OK) {
        return why_prefix(why, ERR_INVALID, "stream");
    }
    return read_stream_options(body, why);
}

static enum err check_ids(struct api_json list, struct why *why)
{
    size_t cursor = 0;
    struct api_json element;
    int64_t id;
    for (uint32_t i = 0; api_array_next(list, &cursor, &element); i++) {
        if (api_read_int(element, 0, INT32_MAX, why, &id) != OK) {
            return why_prefix(why, ERR_INVALID, "prompt[%" PRIu32 "]", i);
        }
    }
    return OK;
}

/* "a", ["a"], [1, 2], [[1, 2]]; one of a kind in a list is unwrapped, but [5]
 * is a prompt of one token. */
static enum err read_prompt(struct route_body *body, struct why *why)
{
    const struct api_member *member = api_find(&body->object, "prompt");
    size_t cursor = 0;
    struct api_json first;
    if (!is_set(member)) {
        return why_say(why, ERR_INVALID, "prompt: is missing");
    }
    if (member->value.kind == API_JSON_STRING) {
        return OK;
    }
    if (member->value.kind != API_JSON_ARRAY) {
        return why_say(why, ERR_INVALID,
                       "prompt: must be a string or a list of token ids");
    }
    if (!api_array_next(member->value, &cursor, &first)) {
        return why_say(why, ERR_INVALID, "prompt: must not be an empty list");
    }
    if (first.kind == API_JSON_NUMBER) {
        return check_ids(member->value, why);
    }
    struct api_json second;
    if (api_array_next(member->value, &cursor, &second)) {
        return why_say(why, ERR_INVALID,
                       "prompt: only one prompt a request is accepted");
    }
    if (first.kind != API_JSON_STRING && first.kind != API_JSON_ARRAY) {
        return why_say(why, ERR_INVALID,
                       "prompt: must be a string or a list of token ids");
    }
    body->prompt = first.text;
    if (first.kind == API_JSON_ARRAY && api_array_count(first) == 0) {
        return why_say(why, ERR_INVALID, "prompt: must not be an empty list");
    }
    return first.kind == API_JSON_ARRAY ? check_ids(first, why) : OK;
}

static enum err check_model(const struct route_body *body,
                            const struct config_route *config, struct why *why)
{
    const struct api_member *member = api_find(&body->object, "model");
    if (config->model_name_count == 0 || !is_set(member)) {
        return OK; /* the worker decides */
    }
    struct buf name;
    buf_init(&name, 1024);
    enum err code = api_read_string(member->value, why, &name);
    bool is_known = false;
    for (uint32_t i = 0; i < config->model_name_count; i++) {
        is_known |= span_equals_string(buf_span(&name), config->model_names[i]);
    }
    buf_finish(&name);
    if (code != OK) {
        return why_prefix(why, ERR_INVALID, "model");
    }
    return is_known ? OK
                    : why_say(why, ERR_NOT_FOUND,
                              "model: no such model is served here");
}

static bool is_at_most_one(const struct api_object *object, const char *key)
{
    const struct api_member *member = api_find(object, key);
    int64_t count;
    return is_set(member) &&
           api_read_int(member->value, INT64_MIN, INT64_MAX, NULL, &count) ==
               OK &&
           count <= 1;
}

/* One token at most, or scores of the prompt: a hand-off would cost more than
 * what is left to do. */
static bool needs_no_generation(const struct api_object *object)
{
    bool is_scoring =
        is_true(object, "echo") && is_set(api_find(object, "logprobs"));
    return is_scoring || is_at_most_one(object, "max_tokens") ||
           is_at_most_one(object, "max_completion_tokens");
}

static enum err read_fields(const struct route_body_options *options,
                            struct why *why, struct route_body *body)
{
    enum err code = refuse_internal(body, options->config, why);
    if (code != OK || (code = read_stream(body, why)) != OK ||
        (code = check_model(body, options->config, why)) != OK) {
        return code;
    }
    if (!body->is_chat && (code = read_prompt(body, why)) != OK) {
        return code;
    }
    body->is_whole = needs_no_generation(&body->object);
    return route_identity_read(&body->object, options->header,
                               options->header_context, why,
                               &body->conversation);
}

enum err route_body_read(struct span bytes,
                         const struct route_body_options *options,
                         struct why *why, struct route_body *body)
{
    enum err code = api_scan(bytes, why, &body->object);
    if (code != OK) {
        return code == ERR_EXISTS ? ERR_INVALID
                                  : why_prefix(why, ERR_INVALID, "body");
    }
    body->is_chat = options->is_chat;
    body->is_stream = false;
    body->wants_usage = false;
    body->is_whole = false;
    body->prompt = span_of(NULL, 0);
    buf_init(&body->conversation, bytes.size + TEXT_SIZE_MAX);
    code = read_fields(options, why, body);
    if (code != OK) {
        buf_finish(&body->conversation);
    }
    return code;
}

void route_body_finish(struct route_body *body)
{
    buf_finish(&body->conversation);
}
