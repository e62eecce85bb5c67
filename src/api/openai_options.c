/* api/openai_options: the fields that are more than a number or a flag. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/openai_fields.h"
#include "base/mem.h"

enum err openai_read_model(const struct openai_limits *limits,
                           struct api_json value, struct why *why,
                           struct openai_request *request)
{
    (void)limits;
    enum err err = openai_text_read(request, value, why, &request->model);
    if (err == OK && request->model.size == 0) {
        return why_say(why, ERR_INVALID, "must not be empty");
    }
    return err;
}

/* Accepted and of no effect here; the front end reads it. */
enum err openai_read_string(const struct openai_limits *limits,
                            struct api_json value, struct why *why,
                            struct openai_request *request)
{
    (void)limits;
    struct openai_text text;
    return openai_text_read(request, value, why, &text);
}

enum err openai_read_object(const struct openai_limits *limits,
                            struct api_json value, struct why *why,
                            struct openai_request *request)
{
    (void)limits;
    (void)request;
    return value.kind == API_JSON_OBJECT
               ? OK
               : why_say(why, ERR_INVALID, "must be an object");
}

static enum err add_stop(struct api_json value, struct why *why,
                         struct openai_request *request)
{
    struct openai_text text;
    if (request->stop_count == OPENAI_STOP_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "has more than %d strings",
                       OPENAI_STOP_COUNT_MAX);
    }
    enum err err = openai_text_read(request, value, why, &text);
    if (err != OK) {
        return why_say(why, err, "must be a string or a list of strings");
    }
    if (text.size == 0 || text.size > OPENAI_STOP_SIZE_MAX) {
        return why_say(why, ERR_INVALID,
                       "a stop string has 1 to %d bytes, not %zu",
                       OPENAI_STOP_SIZE_MAX, text.size);
    }
    request->stops[request->stop_count++] = text;
    return OK;
}

enum err openai_read_stop(const struct openai_limits *limits,
                          struct api_json value, struct why *why,
                          struct openai_request *request)
{
    (void)limits;
    size_t cursor = 0;
    struct api_json element;
    if (value.kind != API_JSON_ARRAY) {
        return add_stop(value, why, request);
    }
    while (api_array_next(value, &cursor, &element)) {
        enum err err = add_stop(element, why, request);
        if (err != OK) {
            return err;
        }
    }
    return OK;
}

enum err openai_read_stop_tokens(const struct openai_limits *limits,
                                 struct api_json value, struct why *why,
                                 struct openai_request *request)
{
    (void)limits;
    size_t count;
    enum err err = api_read_ids(value, INT32_MAX, why, request->stop_tokens,
                                OPENAI_STOP_TOKEN_COUNT_MAX, &count);
    if (err != OK) {
        return ERR_INVALID;
    }
    request->stop_token_count = (uint32_t)count;
    return OK;
}

static enum err read_bias(const struct api_member *member, struct why *why,
                          struct openai_bias *bias_out)
{
    char key[33];
    double bias;
    api_key_text(member->key, key, sizeof(key));
    size_t size = strlen(key);
    bool is_number =
        size > 0 && size <= 10 && strspn(key, "0123456789") == size;
    long long token = is_number ? strtoll(key, NULL, 10) : -1;
    if (token < 0 || token > INT32_MAX) {
        return why_say(why, ERR_INVALID, "\"%s\" is not a token id", key);
    }
    enum err err = api_read_number(member->value, -100, 100, why, &bias);
    if (err != OK) {
        return why_prefix(why, err, "[%lld]", token);
    }
    *bias_out = (struct openai_bias){(int32_t)token, (float)bias};
    return OK;
}

/* "7" and "07" are one token, so that two of them are a doubt too. */
static enum err keep_bias(struct openai_request *request,
                          struct openai_bias bias, struct why *why)
{
    for (uint32_t i = 0; i < request->bias_count; i++) {
        if (request->biases[i].token == bias.token) {
            return why_say(why, ERR_INVALID, "[%" PRId32 "]: is given twice",
                           bias.token);
        }
    }
    request->biases[request->bias_count++] = bias;
    return OK;
}

enum err openai_read_bias(const struct openai_limits *limits,
                          struct api_json value, struct why *why,
                          struct openai_request *request)
{
    (void)limits;
    struct api_member member;
    size_t cursor = 0;
    if (value.kind != API_JSON_OBJECT) {
        return why_say(why, ERR_INVALID,
                       "must be an object of at most %d numbers",
                       OPENAI_BIAS_COUNT_MAX);
    }
    for (uint32_t i = 0; api_object_next(value, &cursor, &member); i++) {
        struct openai_bias bias = {0};
        if (i == OPENAI_BIAS_COUNT_MAX) {
            return why_say(why, ERR_INVALID, "has more than %d members",
                           OPENAI_BIAS_COUNT_MAX);
        }
        enum err err = read_bias(&member, why, &bias);
        if (err != OK) {
            return err;
        }
        if (request->biases == NULL) {
            request->biases =
                mem_new_array(OPENAI_BIAS_COUNT_MAX, sizeof(*request->biases));
        }
        err = keep_bias(request, bias, why);
        if (err != OK) {
            return err;
        }
    }
    return OK;
}

enum err openai_read_seed(const struct openai_limits *limits,
                          struct api_json value, struct why *why,
                          struct openai_request *request)
{
    (void)limits;
    enum err err =
        api_read_int(value, INT64_MIN, INT64_MAX, why, &request->seed);
    request->has_seed = err == OK;
    return err;
}

/* A count for completions, a flag for chat. */
enum err openai_read_logprobs(const struct openai_limits *limits,
                              struct api_json value, struct why *why,
                              struct openai_request *request)
{
    (void)limits;
    int64_t count;
    if (request->route == OPENAI_CHAT) {
        return api_read_bool(value, why, &request->wants_logprobs);
    }
    enum err err =
        api_read_int(value, 0, OPENAI_LOGPROB_COUNT_MAX, why, &count);
    if (err == OK) {
        request->logprob_count = (int32_t)count;
    }
    return err;
}

static enum err read_flag(const struct api_object *object, const char *key,
                          struct why *why, bool *flag)
{
    const struct api_member *member = api_find(object, key);
    if (member == NULL || member->value.kind == API_JSON_NULL) {
        return OK;
    }
    enum err err = api_read_bool(member->value, why, flag);
    return err == OK ? OK : why_prefix(why, err, "%s", key);
}

enum err openai_only_members(const struct api_object *object,
                             const char *const *names, size_t count,
                             struct why *why)
{
    for (uint32_t i = 0; i < object->member_count; i++) {
        const struct api_member *member = &object->members[i];
        bool is_known = false;
        for (size_t k = 0; k < count; k++) {
            is_known |= api_key_equals(member->key, span_of_string(names[k]));
        }
        if (!is_known) {
            char key[64];
            api_key_text(member->key, key, sizeof(key));
            return why_say(why, ERR_INVALID, "%s: is not a known field", key);
        }
    }
    return OK;
}

enum err openai_stream_options_read(struct api_json value, struct why *why,
                                    struct openai_stream_options *options_out)
{
    static const char *const names[] = {"include_usage",
                                        "continuous_usage_stats"};
    struct api_object object;
    enum err err = api_scan_object(value, why, &object);
    if (err == OK) {
        err = openai_only_members(&object, names, 2, why);
    }
    *options_out = (struct openai_stream_options){.include_usage = true};
    if (err == OK) {
        err = read_flag(&object, "include_usage", why,
                        &options_out->include_usage);
    }
    if (err == OK) {
        err = read_flag(&object, "continuous_usage_stats", why,
                        &options_out->continuous_usage_stats);
    }
    return err;
}

enum err openai_read_stream_options(const struct openai_limits *limits,
                                    struct api_json value, struct why *why,
                                    struct openai_request *request)
{
    (void)limits;
    struct openai_stream_options options;
    enum err err = openai_stream_options_read(value, why, &options);
    request->has_stream_options = true;
    request->include_usage = options.include_usage;
    request->continuous_usage_stats = options.continuous_usage_stats;
    return err;
}

enum err openai_read_salt(const struct openai_limits *limits,
                          struct api_json value, struct why *why,
                          struct openai_request *request)
{
    (void)limits;
    enum err err = openai_text_read(request, value, why, &request->cache_salt);
    if (err != OK) {
        return err;
    }
    struct span salt = openai_text(request, request->cache_salt);
    bool is_blank = true;
    for (size_t i = 0; i < salt.size; i++) {
        is_blank &= salt.data[i] <= ' ';
    }
    if (is_blank || salt.size > OPENAI_SALT_SIZE_MAX) {
        return why_say(why, ERR_INVALID, "must be 1 to %d bytes and not blank",
                       OPENAI_SALT_SIZE_MAX);
    }
    return OK;
}

/* Routing is the front end's affair; a bad one is refused here too. */
enum err openai_read_conversation(const struct openai_limits *limits,
                                  struct api_json value, struct why *why,
                                  struct openai_request *request)
{
    (void)limits;
    struct api_object object;
    struct openai_text text;
    enum err err = api_scan_object(value, why, &object);
    if (err != OK) {
        return err;
    }
    const struct api_member *id = api_find(&object, "conversation_id");
    if (id == NULL) {
        return OK;
    }
    if (id->value.kind == API_JSON_NUMBER) {
        return OK;
    }
    err = openai_text_read(request, id->value, why, &text);
    if (err == OK && text.size == 0) {
        err = why_say(why, ERR_INVALID, "must not be empty");
    }
    return err == OK ? OK : why_prefix(why, err, "conversation_id");
}

/* {"type": "enabled"|"disabled"} */
enum err openai_read_thinking(const struct openai_limits *limits,
                              struct api_json value, struct why *why,
                              struct openai_request *request)
{
    (void)limits;
    static const char *const names[] = {"type"};
    struct api_object object;
    enum err err = api_scan_object(value, why, &object);
    if (err == OK) {
        err = openai_only_members(&object, names, 1, why);
    }
    if (err != OK) {
        return err;
    }
    const struct api_member *type = api_find(&object, "type");
    if (type != NULL && span_equals_string(type->value.text, "\"disabled\"")) {
        request->disable_thinking = true;
        return OK;
    }
    if (type != NULL && span_equals_string(type->value.text, "\"enabled\"")) {
        return OK;
    }
    return why_say(why, ERR_INVALID, "type: must be enabled or disabled");
}

enum err openai_read_template_options(const struct openai_limits *limits,
                                      struct api_json value, struct why *why,
                                      struct openai_request *request)
{
    (void)limits;
    static const char *const names[] = {"enable_thinking"};
    struct api_object object;
    bool enable = true;
    enum err err = api_scan_object(value, why, &object);
    if (err == OK) {
        err = openai_only_members(&object, names, 1, why);
    }
    if (err == OK) {
        err = read_flag(&object, "enable_thinking", why, &enable);
    }
    if (err == OK && !enable) {
        request->disable_thinking = true;
    }
    return err;
}

/* Tools are refused, so only the words that ask for none make sense. */
enum err openai_read_tool_choice(const struct openai_limits *limits,
                                 struct api_json value, struct why *why,
                                 struct openai_request *request)
{
    (void)limits;
    (void)request;
    if (span_equals_string(value.text, "\"none\"") ||
        span_equals_string(value.text, "\"auto\"")) {
        return OK;
    }
    return why_say(why, ERR_INVALID, "needs tools");
}

enum err openai_read_response_format(const struct openai_limits *limits,
                                     struct api_json value, struct why *why,
                                     struct openai_request *request)
{
    (void)limits;
    (void)request;
    struct api_object object;
    enum err err = api_scan_object(value, why, &object);
    if (err != OK) {
        return err;
    }
    const struct api_member *type = api_find(&object, "type");
    if (type == NULL) {
        return why_say(why, ERR_INVALID, "type: is required");
    }
    if (!span_equals_string(type->value.text, "\"text\"")) {
        return why_say(why, ERR_UNSUPPORTED,
                       "type: only text is supported by this server");
    }
    return OK;
}

enum err openai_read_handoff(const struct openai_limits *limits,
                             struct api_json value, struct why *why,
                             struct openai_request *request)
{
    (void)limits;
    struct api_object object;
    enum err err = api_handoff_read(value, why, &request->handoff);
    if (err == OK) {
        err = api_scan_object(value, why, &object);
    }
    if (err != OK) {
        return err;
    }
    request->has_handoff = true;
    const struct api_member *first = api_find(&object, "first_gen_log_probs");
    if (first != NULL && first->value.kind == API_JSON_ARRAY) {
        err = openai_read_first_logprobs(limits, first->value, why, request);
        if (err != OK) {
            return why_prefix(why, err, "first_gen_log_probs");
        }
    }
    return OK;
}
