#include "route/body.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
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
    struct api_object options;
    if (!is_set(member)) {
        return OK;
    }
    if (!body->is_stream) {
        return why_say(why, ERR_INVALID,
                       "stream_options: needs stream to be true");
    }
    if (api_scan_object(member->value, why, &options) != OK) {
        return why_prefix(why, ERR_INVALID, "stream_options");
    }
    const struct api_member *usage = api_find(&options, "include_usage");
    /* Given options without the field mean true (serve.md 2.4). */
    body->wants_usage = true;
    if (is_set(usage) &&
        api_read_bool(usage->value, why, &body->wants_usage) != OK) {
        return why_prefix(why, ERR_INVALID, "stream_options.include_usage");
    }
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
        return why_prefix(why, ERR_INVALID, "body");
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

enum { EDIT_COUNT_MAX = 8 };

struct edits {
    uint32_t count;
    struct api_edit edits[EDIT_COUNT_MAX];
};

static void edit(struct edits *edits, const char *key, struct span text)
{
    CHECK(edits->count < EDIT_COUNT_MAX);
    edits->edits[edits->count++] =
        (struct api_edit){key, (const char *)text.data, text.size};
}

static void edit_shared(const struct route_body *body, struct edits *edits)
{
    if (body->prompt.data != NULL) {
        edit(edits, "prompt", body->prompt);
    }
    if (body->conversation.size > 0) {
        edit(edits, "conversation_params", buf_span(&body->conversation));
    }
}

void route_body_whole(const struct route_body *body, struct buf *out)
{
    struct edits edits = {0};
    edit_shared(body, &edits);
    edit(&edits, "disaggregated_params", span_of(NULL, 0));
    edit(&edits, "prompt_token_ids_b64", span_of(NULL, 0));
    api_splice(&body->object, edits.edits, edits.count, out);
}

void route_body_context(const struct route_body *body, int64_t id,
                        bool wants_base64, struct buf *out)
{
    struct edits edits = {0};
    struct buf params;
    buf_init(&params, 512);
    buf_printf(
        &params,
        "{\"request_type\":\"context_only\",\"disagg_request_id\":%" PRId64
        ",\"schedule_style\":0,\"return_prompt_token_ids_b64\":%s}",
        id, wants_base64 ? "true" : "false");
    edit(&edits, "stream", span_of_string("false"));
    edit(&edits, "stream_options", span_of_string("null"));
    edit_shared(body, &edits);
    edit(&edits, "prompt_token_ids_b64", span_of(NULL, 0));
    edit(&edits, "disaggregated_params", buf_span(&params));
    api_splice(&body->object, edits.edits, edits.count, out);
    buf_finish(&params);
}

/* The context worker's object with our four fields; unknown ones stay. */
static enum err add_params(const struct route_answer *answer, struct why *why,
                           struct buf *out)
{
    struct api_object object;
    enum err code = api_scan_object(answer->params, why, &object);
    if (code != OK) {
        return code;
    }
    char id[32];
    snprintf(id, sizeof(id), "%" PRId64, answer->id);
    struct edits edits = {0};
    edit(&edits, "request_type", span_of_string("\"generation_only\""));
    edit(&edits, "disagg_request_id", span_of_string(id));
    edit(&edits, "schedule_style", span_of_string("0"));
    edit(&edits, "ctx_usage",
         answer->usage.data == NULL ? span_of_string("null") : answer->usage);
    api_splice(&object, edits.edits, edits.count, out);
    return OK;
}

/* Ids in base64 as a JSON list, for routes that know only that. */
static enum err add_ids(struct span base64, struct why *why, struct buf *out)
{
    struct buf bytes;
    buf_init(&bytes, base64.size + 4);
    enum err code = digest_decode_base64(base64, &bytes);
    if (code != OK || bytes.size % 4 != 0) {
        buf_finish(&bytes);
        return why_say(why, ERR_INVALID,
                       "prompt_token_ids_b64: not a list of ids");
    }
    for (size_t i = 0; i < bytes.size; i += 4) {
        int32_t id;
        memcpy(&id, bytes.data + i, sizeof(id));
        buf_printf(out, "%c%d", i == 0 ? '[' : ',', id);
    }
    buf_add_string(out, bytes.size == 0 ? "[]" : "]");
    buf_finish(&bytes);
    return OK;
}

static struct span without_quotes(struct span text)
{
    return span_slice(text, 1, text.size - 1);
}

static enum err edit_ids(const struct route_body *body,
                         const struct route_answer *answer, struct why *why,
                         struct buf *ids, struct edits *edits)
{
    struct span base64 = answer->prompt_base64;
    if (answer->prompt_ids.data == NULL && base64.data == NULL) {
        return why_say(why, ERR_INVALID,
                       "the context answer lacks the prompt's token ids");
    }
    if (body->is_chat && base64.data != NULL) {
        edit(edits, "prompt_token_ids_b64", base64);
        edit(edits, "prompt_token_ids", span_of(NULL, 0));
        return OK;
    }
    edit(edits, "prompt_token_ids_b64", span_of(NULL, 0));
    struct span list = answer->prompt_ids;
    if (list.data == NULL) {
        enum err code = add_ids(without_quotes(base64), why, ids);
        if (code != OK) {
            return code;
        }
        list = buf_span(ids);
    }
    edit(edits, body->is_chat ? "prompt_token_ids" : "prompt", list);
    return OK;
}

static void add_last_message(const struct route_body *body, struct buf *out)
{
    const struct api_member *member = api_find(&body->object, "messages");
    size_t cursor = 0;
    struct api_json message;
    struct span last = {0};
    while (member != NULL && api_array_next(member->value, &cursor, &message)) {
        last = message.text;
    }
    if (last.data != NULL) {
        buf_add_byte(out, '[');
        buf_add_span(out, last);
        buf_add_byte(out, ']');
    }
}

enum err route_body_generation(const struct route_body *body,
                               const struct route_answer *answer,
                               bool strip_history, struct why *why,
                               struct buf *out)
{
    struct edits edits = {0};
    struct buf ids, params, messages;
    buf_init(&ids, 4 * answer->prompt_base64.size + 16);
    buf_init(&params, answer->params.text.size + answer->usage.size + 1024);
    buf_init(&messages, body->object.body.size + 2);
    if (body->conversation.size > 0) {
        edit(&edits, "conversation_params", buf_span(&body->conversation));
    }
    enum err code = edit_ids(body, answer, why, &ids, &edits);
    if (code == OK) {
        code = add_params(answer, why, &params);
    }
    if (body->is_chat && strip_history) {
        add_last_message(body, &messages);
    }
    if (messages.size > 0) {
        edit(&edits, "messages", buf_span(&messages));
    }
    if (code == OK) {
        edit(&edits, "disaggregated_params", buf_span(&params));
        api_splice(&body->object, edits.edits, edits.count, out);
        code = buf_error(out);
    }
    buf_finish(&messages);
    buf_finish(&params);
    buf_finish(&ids);
    return code;
}
