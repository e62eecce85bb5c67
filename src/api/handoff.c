#include "api/handoff.h"

#include <string.h>

/* The base64 and endpoint texts are signed and relayed byte for byte, so they
 * must mean what they spell: plain ASCII without escapes. */
static enum err read_plain(struct api_json value, size_t size_max,
                           struct why *why, struct span *out)
{
    if (value.kind != API_JSON_STRING) {
        return why_say(why, ERR_INVALID, "must be a string");
    }
    struct span text = span_slice(value.text, 1, value.text.size - 1);
    if (text.size > size_max) {
        return why_say(why, ERR_INVALID, "is longer than %zu bytes", size_max);
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] >= 0x7f || text.data[i] == '\\') {
            return why_say(why, ERR_INVALID,
                           "must be plain ASCII without escapes");
        }
    }
    *out = text.data == NULL ? span_of("", 0) : text;
    return OK;
}

static enum err read_endpoint(struct api_json value, struct why *why,
                              struct api_handoff *handoff)
{
    size_t cursor = 0;
    struct api_json first = value;
    if (value.kind == API_JSON_ARRAY &&
        !api_array_next(value, &cursor, &first)) {
        return why_say(why, ERR_INVALID, "must not be an empty list");
    }
    return read_plain(first, API_ENDPOINT_SIZE - 1, why, &handoff->endpoint);
}

static enum err read_opaque(struct api_json value, struct why *why,
                            struct api_handoff *handoff)
{
    return read_plain(value, 1u << 20, why, &handoff->opaque);
}

static enum err read_type(struct api_json value, struct why *why,
                          struct api_handoff *handoff)
{
    static const struct {
        const char *name;
        enum api_request_type type;
    } TYPES[] = {
        {"\"context_only\"", API_REQUEST_CONTEXT},
        {"\"generation_only\"", API_REQUEST_GENERATION},
        {"\"context_and_generation\"", API_REQUEST_WHOLE},
    };
    for (size_t i = 0; i < sizeof(TYPES) / sizeof(TYPES[0]); i++) {
        if (span_equals_string(value.text, TYPES[i].name)) {
            handoff->type = TYPES[i].type;
            return OK;
        }
    }
    return why_say(why, ERR_INVALID,
                   "must be context_only, generation_only or "
                   "context_and_generation");
}

static enum err read_style(struct api_json value, struct why *why,
                           struct api_handoff *handoff)
{
    if (span_equals_string(value.text, "\"context_first\"") ||
        span_equals_string(value.text, "0")) {
        handoff->schedule_style = 0;
        return OK;
    }
    if (span_equals_string(value.text, "\"generation_first\"") ||
        span_equals_string(value.text, "1")) {
        handoff->schedule_style = 1;
        return OK;
    }
    return why_say(why, ERR_INVALID,
                   "must be 0 (context_first) or 1 (generation_first)");
}

static enum err read_disagg_id(struct api_json value, struct why *why,
                               struct api_handoff *handoff)
{
    handoff->has_disagg_id = true;
    return api_read_int(value, 0, INT64_MAX, why, &handoff->disagg_id);
}

static enum err read_ctx_id(struct api_json value, struct why *why,
                            struct api_handoff *handoff)
{
    handoff->has_ctx_id = true;
    return api_read_int(value, 0, INT64_MAX, why, &handoff->ctx_id);
}

static enum err read_dp_rank(struct api_json value, struct why *why,
                             struct api_handoff *handoff)
{
    handoff->has_dp_rank = true;
    return api_read_int(value, 0, INT32_MAX, why, &handoff->dp_rank);
}

static enum err read_first_tokens(struct api_json value, struct why *why,
                                  struct api_handoff *handoff)
{
    size_t count = 0;
    enum err code = api_read_ids(value, INT32_MAX, why, handoff->first_tokens,
                                 API_FIRST_TOKEN_COUNT_MAX, &count);
    if (code != OK) {
        return ERR_INVALID;
    }
    handoff->first_token_count = (uint32_t)count;
    return OK;
}

static enum err read_wants_base64(struct api_json value, struct why *why,
                                  struct api_handoff *handoff)
{
    return api_read_bool(value, why, &handoff->wants_prompt_base64);
}

/* An absent or null count stays 0. */
static enum err read_count(const struct api_object *object, const char *key,
                           struct why *why, int64_t *out)
{
    const struct api_member *member = api_find(object, key);
    if (member == NULL || member->value.kind == API_JSON_NULL) {
        return OK;
    }
    enum err code = api_read_int(member->value, 0, INT64_MAX, why, out);
    return code == OK ? OK : why_prefix(why, code, "%s", key);
}

static enum err read_cached(const struct api_object *usage, struct why *why,
                            int64_t *out)
{
    const struct api_member *member = api_find(usage, "prompt_tokens_details");
    struct api_object details;
    if (member == NULL || member->value.kind == API_JSON_NULL) {
        return OK;
    }
    enum err code = api_scan_object(member->value, why, &details);
    if (code != OK) {
        return why_prefix(why, ERR_INVALID, "prompt_tokens_details");
    }
    return read_count(&details, "cached_tokens", why, out);
}

enum err api_usage_read(struct api_json value, struct why *why,
                        struct api_usage *usage_out)
{
    struct api_object object;
    struct api_usage usage = {0};
    enum err code = api_scan_object(value, why, &object);
    if (code != OK) {
        return ERR_INVALID;
    }
    if ((code = read_count(&object, "prompt_tokens", why,
                           &usage.prompt_tokens)) != OK ||
        (code = read_count(&object, "completion_tokens", why,
                           &usage.completion_tokens)) != OK ||
        (code = read_count(&object, "total_tokens", why,
                           &usage.total_tokens)) != OK ||
        (code = read_cached(&object, why, &usage.cached_tokens)) != OK) {
        return code;
    }
    *usage_out = usage;
    return OK;
}

static enum err read_ctx_usage(struct api_json value, struct why *why,
                               struct api_handoff *handoff)
{
    handoff->has_ctx_usage = true;
    return api_usage_read(value, why, &handoff->ctx_usage);
}

static const struct {
    const char *key;
    enum err (*read)(struct api_json value, struct why *why,
                     struct api_handoff *handoff);
} FIELDS[] = {
    {"request_type", read_type},
    {"disagg_request_id", read_disagg_id},
    {"ctx_request_id", read_ctx_id},
    {"first_gen_tokens", read_first_tokens},
    {"encoded_opaque_state", read_opaque},
    {"ctx_info_endpoint", read_endpoint},
    {"ctx_dp_rank", read_dp_rank},
    {"schedule_style", read_style},
    {"ctx_usage", read_ctx_usage},
    {"return_prompt_token_ids_b64", read_wants_base64},
};

enum err api_handoff_read(struct api_json value, struct why *why,
                          struct api_handoff *handoff_out)
{
    struct api_object object;
    struct api_handoff handoff = {0};
    if (api_scan_object(value, why, &object) != OK) {
        return why_prefix(why, ERR_INVALID, "disaggregated_params");
    }
    for (size_t i = 0; i < sizeof(FIELDS) / sizeof(FIELDS[0]); i++) {
        const struct api_member *member = api_find(&object, FIELDS[i].key);
        if (member == NULL || member->value.kind == API_JSON_NULL) {
            continue;
        }
        enum err code = FIELDS[i].read(member->value, why, &handoff);
        if (code != OK) {
            return why_prefix(why, ERR_INVALID, "disaggregated_params.%s",
                              FIELDS[i].key);
        }
    }
    *handoff_out = handoff;
    return OK;
}

enum err api_handoff_rid(const struct api_handoff *handoff, int64_t *rid_out)
{
    if (!handoff->has_ctx_id && !handoff->has_disagg_id) {
        return ERR_NOT_FOUND;
    }
    *rid_out = handoff->has_ctx_id ? handoff->ctx_id : handoff->disagg_id;
    return OK;
}
