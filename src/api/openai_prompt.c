/* api/openai_prompt: the forms a prompt may have (serve.md 2.4): text, ids, a
 * list of one of either, base64 of ids, a conversation. */
#include <inttypes.h>
#include <stdio.h>

#include "api/openai_fields.h"
#include "base/mem.h"

/* The last member that brought ids counts; `ids` becomes the request's. */
static void take_ids(struct openai_request *request, int32_t *ids, size_t count)
{
    mem_free(request->ids);
    request->ids = ids;
    request->id_count = (uint32_t)count;
    request->has_ids = true;
}

static enum err read_ids(const struct openai_limits *limits,
                         struct api_json value, struct why *why,
                         struct openai_request *request)
{
    size_t count = 0;
    uint32_t room = api_array_count(value);
    if (room > limits->id_count_max) {
        return why_say(why, ERR_INVALID,
                       "has %" PRIu32 " token ids, more than %" PRIu32, room,
                       limits->id_count_max);
    }
    int32_t *ids = mem_try_array(room > 0 ? room : 1, sizeof(*ids));
    if (ids == NULL) {
        return why_say(why, ERR_NO_MEMORY, "has no room");
    }
    enum err err = api_read_ids(value, INT32_MAX, why, ids, room, &count);
    if (err != OK) {
        mem_free(ids);
        return ERR_INVALID;
    }
    take_ids(request, ids, count);
    return OK;
}

static enum err read_prompt_text(struct api_json value, struct why *why,
                                 struct openai_request *request)
{
    enum err err = openai_text_read(request, value, why, &request->prompt);
    request->has_prompt_text = err == OK;
    return err;
}

/* ["a"] and [[1,2]] are what they hold; [1,2] is itself. */
enum err openai_read_prompt(const struct openai_limits *limits,
                            struct api_json value, struct why *why,
                            struct openai_request *request)
{
    size_t cursor = 0;
    struct api_json first;
    if (value.kind == API_JSON_STRING) {
        return read_prompt_text(value, why, request);
    }
    if (value.kind != API_JSON_ARRAY || request->route == OPENAI_TOKENIZE) {
        return why_say(why, ERR_INVALID,
                       request->route == OPENAI_TOKENIZE
                           ? "must be a string"
                           : "must be a string or a list of integers");
    }
    if (!api_array_next(value, &cursor, &first)) {
        return why_say(why, ERR_INVALID, "must not be an empty list");
    }
    if (first.kind != API_JSON_STRING &&
        (request->has_prompt_ids || request->has_prompt_b64)) {
        return OK; /* ids given apart win */
    }
    if (first.kind != API_JSON_STRING && first.kind != API_JSON_ARRAY) {
        return read_ids(limits, value, why, request);
    }
    struct api_json second;
    if (api_array_next(value, &cursor, &second)) {
        return why_say(why, ERR_INVALID,
                       "must hold one prompt, not a list of several");
    }
    return first.kind == API_JSON_STRING
               ? read_prompt_text(first, why, request)
               : read_ids(limits, first, why, request);
}

enum err openai_read_prompt_ids(const struct openai_limits *limits,
                                struct api_json value, struct why *why,
                                struct openai_request *request)
{
    request->has_prompt_ids = true;
    return read_ids(limits, value, why, request);
}

enum err openai_read_tokens(const struct openai_limits *limits,
                            struct api_json value, struct why *why,
                            struct openai_request *request)
{
    return read_ids(limits, value, why, request);
}

enum err openai_read_prompt_base64(const struct openai_limits *limits,
                                   struct api_json value, struct why *why,
                                   struct openai_request *request)
{
    struct openai_text text;
    size_t count = 0;
    enum err err = openai_text_read(request, value, why, &text);
    if (err != OK) {
        return err;
    }
    size_t room = text.size / 16 * 3 + 3;
    if (text.size / 16 * 3 > limits->id_count_max) {
        return why_say(why, ERR_INVALID, "has more than %" PRIu32 " token ids",
                       limits->id_count_max);
    }
    int32_t *ids = mem_try_array(room, sizeof(*ids));
    if (ids == NULL) {
        return why_say(why, ERR_NO_MEMORY, "has no room");
    }
    err = api_ids_decode(openai_text(request, text), INT32_MAX, why, ids, room,
                         &count);
    if (err != OK) {
        mem_free(ids);
        return ERR_INVALID;
    }
    take_ids(request, ids, count);
    request->has_prompt_b64 = true;
    return OK;
}

/* [{"type": "text", "text": ...}, ...]: the texts one after the other. */
static enum err read_parts(struct api_json value, struct why *why,
                           struct openai_request *request,
                           struct openai_text *content_out)
{
    size_t cursor = 0;
    uint32_t index = 0;
    struct api_json part;
    struct openai_text content = {request->text.size, 0};
    while (api_array_next(value, &cursor, &part)) {
        struct api_object object;
        struct openai_text text;
        enum err err = api_scan_object(part, why, &object);
        if (err != OK) {
            return why_prefix(why, ERR_INVALID, "content[%" PRIu32 "]", index);
        }
        const struct api_member *type = api_find(&object, "type");
        if (type == NULL || !span_equals_string(type->value.text, "\"text\"")) {
            return why_say(why, ERR_UNSUPPORTED,
                           "content[%" PRIu32 "].type: only text is supported",
                           index);
        }
        const struct api_member *member = api_find(&object, "text");
        if (member == NULL) {
            return why_say(why, ERR_INVALID,
                           "content[%" PRIu32 "].text: is required", index);
        }
        err = openai_text_read(request, member->value, why, &text);
        if (err != OK) {
            return why_prefix(why, err, "content[%" PRIu32 "].text", index);
        }
        index++;
    }
    content.size = request->text.size - content.at;
    *content_out = content;
    return OK;
}

static enum err read_content(const struct api_object *object, struct why *why,
                             struct openai_request *request,
                             struct openai_text *content_out)
{
    const struct api_member *member = api_find(object, "content");
    if (member == NULL || member->value.kind == API_JSON_NULL) {
        *content_out = (struct openai_text){0};
        return OK;
    }
    if (member->value.kind == API_JSON_ARRAY) {
        return read_parts(member->value, why, request, content_out);
    }
    enum err err = openai_text_read(request, member->value, why, content_out);
    return err == OK ? OK
                     : why_say(why, err,
                               "content: must be a string or a list of parts");
}

/* Extra keys pass; what would change the prompt and is not rendered does
 * not. */
static enum err refuse_tools(const struct api_object *object, struct why *why)
{
    static const char *const names[] = {"tools", "tool_calls", "function_call"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct api_member *member = api_find(object, names[i]);
        if (member != NULL && member->value.kind != API_JSON_NULL &&
            !span_equals_string(member->value.text, "[]")) {
            return why_say(why, ERR_UNSUPPORTED,
                           "%s: is not supported by this server", names[i]);
        }
    }
    return OK;
}

static enum err read_message(struct api_json value, struct why *why,
                             struct openai_request *request,
                             struct openai_message *message_out)
{
    struct api_object object;
    enum err err = api_scan_object(value, why, &object);
    if (err == OK) {
        err = refuse_tools(&object, why);
    }
    if (err != OK) {
        return err;
    }
    const struct api_member *role = api_find(&object, "role");
    if (role == NULL) {
        return why_say(why, ERR_INVALID, "role: is required");
    }
    err = openai_text_read(request, role->value, why, &message_out->role);
    if (err != OK) {
        return why_prefix(why, err, "role");
    }
    return read_content(&object, why, request, &message_out->content);
}

enum err openai_read_messages(const struct openai_limits *limits,
                              struct api_json value, struct why *why,
                              struct openai_request *request)
{
    (void)limits;
    size_t cursor = 0;
    struct api_json element;
    if (value.kind != API_JSON_ARRAY) {
        return why_say(why, ERR_INVALID, "must be a list of messages");
    }
    uint32_t count = api_array_count(value);
    if (count == 0 || count > OPENAI_MESSAGE_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "must have 1 to %d messages",
                       OPENAI_MESSAGE_COUNT_MAX);
    }
    request->messages = mem_new_array(count, sizeof(*request->messages));
    while (api_array_next(value, &cursor, &element)) {
        uint32_t i = request->message_count;
        enum err err =
            read_message(element, why, request, &request->messages[i]);
        if (err != OK) {
            struct why inner = *why;
            return why_say(why, err, "messages[%" PRIu32 "]%s%s", i,
                           element.kind == API_JSON_OBJECT ? "." : ": ",
                           inner.text);
        }
        request->message_count++;
    }
    request->has_messages = true;
    return OK;
}
