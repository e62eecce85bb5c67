#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "route/body.h"

/* The bodies of the legs, made from the client's by edits. */
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

static void build_context(const struct route_body *body, int64_t id, int style,
                          bool wants_base64, struct buf *out)
{
    struct edits edits = {0};
    struct buf params;
    buf_init(&params, 512);
    buf_printf(
        &params,
        "{\"request_type\":\"context_only\",\"disagg_request_id\":%" PRId64
        ",\"schedule_style\":%d,\"return_prompt_token_ids_b64\":%s}",
        id, style, wants_base64 ? "true" : "false");
    edit(&edits, "stream", span_of_string("false"));
    edit(&edits, "stream_options", span_of_string("null"));
    edit_shared(body, &edits);
    edit(&edits, "prompt_token_ids_b64", span_of(NULL, 0));
    edit(&edits, "disaggregated_params", buf_span(&params));
    api_splice(&body->object, edits.edits, edits.count, out);
    buf_finish(&params);
}

void route_body_context(const struct route_body *body, int64_t id,
                        bool wants_base64, struct buf *out)
{
    build_context(body, id, 0, wants_base64, out);
}

void route_body_pair_context(const struct route_body *body, int64_t id,
                             struct buf *out)
{
    build_context(body, id, 1, false, out);
}

/* What the context worker says of itself, with our four fields. */
static enum err add_pair_params(int64_t id, const struct route_peer *peer,
                                struct why *why, struct buf *out)
{
    struct api_object object;
    enum err code = api_scan(span_of(peer->params, peer->size), why, &object);
    if (code != OK) {
        return code;
    }
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, id);
    struct edits edits = {0};
    edit(&edits, "request_type", span_of_string("\"generation_only\""));
    edit(&edits, "ctx_request_id", span_of_string(text));
    edit(&edits, "disagg_request_id", span_of_string(text));
    edit(&edits, "schedule_style", span_of_string("1"));
    api_splice(&object, edits.edits, edits.count, out);
    return OK;
}

enum err route_body_pair_generation(const struct route_body *body, int64_t id,
                                    const struct route_peer *peer,
                                    struct why *why, struct buf *out)
{
    struct edits edits = {0};
    struct buf params;
    buf_init(&params, ROUTE_PEER_SIZE_MAX + 512);
    enum err code = add_pair_params(id, peer, why, &params);
    if (code == OK) {
        edit_shared(body, &edits);
        edit(&edits, "prompt_token_ids_b64", span_of(NULL, 0));
        edit(&edits, "disaggregated_params", buf_span(&params));
        api_splice(&body->object, edits.edits, edits.count, out);
        code = buf_error(out);
    }
    buf_finish(&params);
    return code;
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
