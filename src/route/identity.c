#include "route/identity.h"

#include <string.h>

#include "base/digest.h"

static struct span strip(struct span text)
{
    while (text.size > 0 && text.data[0] <= ' ') {
        text = span_slice(text, 1, text.size);
    }
    while (text.size > 0 && text.data[text.size - 1] <= ' ') {
        text = span_slice(text, 0, text.size - 1);
    }
    return text;
}

/* A longer id becomes its digest, so that tables stay bounded. */
static void add_id(struct span id, struct buf *out)
{
    if (id.size <= ROUTE_CONVERSATION_SIZE_MAX) {
        buf_add_json_string(out, id);
        return;
    }
    uint8_t digest[DIGEST_BLAKE3_SIZE];
    digest_blake3(NULL, id, digest, sizeof(digest));
    buf_add_byte(out, '"');
    digest_add_hex(out, span_of(digest, sizeof(digest)));
    buf_add_byte(out, '"');
}

/* The text of a string, or a number as it is spelt; stripped, in `out`. */
static enum err read_id(struct api_json value, struct why *why, struct buf *out)
{
    if (value.kind == API_JSON_NUMBER) {
        buf_add_span(out, value.text);
        return OK;
    }
    return api_read_string(value, why, out);
}

/* The body's own `conversation_params`: its id made canonical. */
static enum err from_params(const struct api_member *params, struct why *why,
                            struct buf *out)
{
    struct api_object object;
    struct buf text, id;
    if (api_scan_object(params->value, why, &object) != OK) {
        return why_prefix(why, ERR_INVALID, "conversation_params");
    }
    const struct api_member *internal =
        api_find(&object, "subagent_affinity_id");
    if (internal != NULL && internal->value.kind != API_JSON_NULL) {
        return why_say(why, ERR_INVALID,
                       "conversation_params.subagent_affinity_id: is not a "
                       "client's to set");
    }
    const struct api_member *member = api_find(&object, "conversation_id");
    if (member == NULL) {
        return OK;
    }
    buf_init(&text, params->value.text.size + 1);
    buf_init(&id, 8 * ROUTE_CONVERSATION_SIZE_MAX);
    enum err code = read_id(member->value, why, &text);
    struct span stripped = strip(buf_span(&text));
    if (code == OK && stripped.size == 0) {
        code = why_say(why, ERR_INVALID, "must not be blank");
    }
    if (code == OK) {
        add_id(stripped, &id);
        struct api_edit edit = {"conversation_id", buf_string(&id), id.size};
        api_splice(&object, &edit, 1, out);
    }
    buf_finish(&id);
    buf_finish(&text);
    return code == OK ? OK
                      : why_prefix(why, ERR_INVALID,
                                   "conversation_params.conversation_id");
}

/* Adds the stripped text of a string member; false when there is none. */
static bool from_member(const struct api_object *object, const char *key,
                        struct buf *id)
{
    const struct api_member *member = api_find(object, key);
    if (member == NULL || member->value.kind != API_JSON_STRING) {
        return false;
    }
    struct buf text;
    buf_init(&text, member->value.text.size);
    bool is_good = api_read_string(member->value, NULL, &text) == OK;
    struct span stripped = strip(buf_span(&text));
    if (is_good && stripped.size > 0) {
        add_id(stripped, id);
    }
    buf_finish(&text);
    return id->size > 0;
}

static bool from_metadata(const struct api_object *body, struct buf *id)
{
    const struct api_member *member = api_find(body, "client_metadata");
    struct api_object metadata;
    return member != NULL &&
           api_scan_object(member->value, NULL, &metadata) == OK &&
           (from_member(&metadata, "thread_id", id) ||
            from_member(&metadata, "session_id", id));
}

static bool from_header(route_header_get *header, const void *context,
                        struct buf *id)
{
    static const char *const NAMES[] = {"x-claude-code-session-id",
                                        "x-claude-session-id",
                                        "x-session-id",
                                        "x-correlation-id",
                                        "x-session-affinity",
                                        "x-multi-turn-session-id"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct span value;
        if (header != NULL && header(context, NAMES[i], &value) &&
            strip(value).size > 0) {
            add_id(strip(value), id);
            return true;
        }
    }
    return false;
}

/* Adds the id to the client's object, or makes one. */
static void add_params(const struct api_member *params, const struct buf *id,
                       struct buf *out)
{
    struct api_object object;
    bool has_object =
        params != NULL && api_scan_object(params->value, NULL, &object) == OK;
    struct api_edit edit = {"conversation_id", buf_string(id), id->size};
    if (has_object) {
        api_splice(&object, &edit, 1, out);
    } else {
        buf_add_string(out, "{\"conversation_id\":");
        buf_add_span(out, buf_span(id));
        buf_add_byte(out, '}');
    }
}

enum err route_identity_read(const struct api_object *body,
                             route_header_get *header,
                             const void *header_context, struct why *why,
                             struct buf *out)
{
    const struct api_member *params = api_find(body, "conversation_params");
    if (params != NULL && params->value.kind == API_JSON_NULL) {
        params = NULL;
    }
    if (params != NULL) {
        enum err code = from_params(params, why, out);
        if (code != OK || out->size > 0) {
            return code;
        }
    }
    struct buf id;
    buf_init(&id, 8 * ROUTE_CONVERSATION_SIZE_MAX);
    if (from_header(header, header_context, &id) ||
        from_member(body, "prompt_cache_key", &id) ||
        from_metadata(body, &id)) {
        add_params(params, &id, out);
    }
    buf_finish(&id);
    return OK;
}
