#include "api/openai_answer.h"

#include <inttypes.h>

#include "api/error.h"

static void add_ids(struct buf *out, const int32_t *ids, uint32_t count)
{
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        buf_printf(out, i == 0 ? "%" PRId32 : ",%" PRId32, ids[i]);
    }
    buf_add_byte(out, ']');
}

static void add_head(const struct openai_head *head, bool is_chunk,
                     struct buf *out)
{
    bool is_chat = head->route == OPENAI_CHAT;
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64,
               head->id,
               !is_chat   ? "text_completion"
               : is_chunk ? "chat.completion.chunk"
                          : "chat.completion",
               head->created);
    buf_add_string(out, ",\"model\":");
    buf_add_json_string(out, head->model);
}

static void add_usage(const struct api_usage *usage, struct buf *out)
{
    buf_printf(out,
               "{\"prompt_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64
               ",\"total_tokens\":%" PRId64
               ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRId64 "}}",
               usage->prompt_tokens, usage->completion_tokens,
               usage->total_tokens, usage->cached_tokens);
}

static void add_end(const struct openai_choice *choice, struct buf *out)
{
    buf_add_string(out, ",\"logprobs\":");
    if (choice->logprobs == NULL) {
        buf_add_string(out, "null");
    } else {
        openai_logprobs_print(choice->logprobs, out);
    }
    if (choice->finish_reason == NULL) {
        buf_add_string(out, ",\"finish_reason\":null");
    } else {
        buf_printf(out, ",\"finish_reason\":\"%s\"", choice->finish_reason);
    }
    buf_add_string(out, ",\"stop_reason\":");
    switch (choice->stop_kind) {
    case OPENAI_STOP_NONE:
        buf_add_string(out, "null");
        break;
    case OPENAI_STOP_STRING:
        buf_add_json_string(out, choice->stop_string);
        break;
    case OPENAI_STOP_TOKEN:
        buf_printf(out, "%" PRId32, choice->stop_token);
        break;
    }
}

static void add_choice_ids(const struct openai_choice *choice, struct buf *out)
{
    if (choice->has_token_ids) {
        buf_add_string(out, ",\"token_ids\":");
        add_ids(out, choice->token_ids, choice->token_id_count);
    }
}

static void add_choice(const struct openai_head *head,
                       const struct openai_choice *choice, struct buf *out)
{
    buf_printf(out, "{\"index\":%" PRIu32, choice->index);
    if (head->route == OPENAI_CHAT) {
        buf_add_string(out,
                       ",\"message\":{\"role\":\"assistant\",\"content\":");
        buf_add_json_string(out, choice->text);
        buf_add_byte(out, '}');
    } else {
        buf_add_string(out, ",\"text\":");
        buf_add_json_string(out, choice->text);
    }
    add_choice_ids(choice, out);
    add_end(choice, out);
    if (choice->handoff.size > 0) {
        buf_add_string(out, ",\"disaggregated_params\":");
        buf_add_span(out, choice->handoff);
    }
    buf_add_byte(out, '}');
}

static void add_prompt_ids(const struct openai_body *body, struct buf *out)
{
    if (!body->has_prompt_ids) {
        return;
    }
    if (body->as_base64) {
        buf_add_string(out, ",\"prompt_token_ids_b64\":\"");
        api_ids_encode(body->prompt_ids, body->prompt_id_count, out);
        buf_add_byte(out, '"');
    } else {
        buf_add_string(out, ",\"prompt_token_ids\":");
        add_ids(out, body->prompt_ids, body->prompt_id_count);
    }
}

void openai_answer_body(const struct openai_head *head,
                        const struct openai_body *body, struct buf *out)
{
    add_head(head, false, out);
    buf_add_string(out, ",\"choices\":[");
    for (uint32_t i = 0; i < body->choice_count; i++) {
        buf_add_string(out, i == 0 ? "" : ",");
        add_choice(head, &body->choices[i], out);
    }
    buf_add_string(out, "],\"usage\":");
    add_usage(&body->usage, out);
    add_prompt_ids(body, out);
    buf_add_byte(out, '}');
}

static void add_delta(const struct openai_head *head,
                      enum openai_chunk_kind kind,
                      const struct openai_choice *choice, struct buf *out)
{
    if (head->route != OPENAI_CHAT) {
        buf_add_string(out, ",\"text\":");
        buf_add_json_string(out, choice->text);
        return;
    }
    buf_add_string(out, ",\"delta\":{");
    if (kind == OPENAI_CHUNK_ROLE) {
        buf_add_string(out, "\"role\":\"assistant\",\"content\":\"\"");
    } else if (kind == OPENAI_CHUNK_TEXT) {
        buf_add_string(out, "\"content\":");
        buf_add_json_string(out, choice->text);
    }
    buf_add_byte(out, '}');
}

void openai_answer_chunk(const struct openai_head *head,
                         enum openai_chunk_kind kind,
                         const struct openai_choice *choice,
                         bool has_usage_member, const struct api_usage *usage,
                         struct buf *out)
{
    buf_add_string(out, "data: ");
    add_head(head, true, out);
    buf_printf(out, ",\"choices\":[{\"index\":%" PRIu32, choice->index);
    add_delta(head, kind, choice, out);
    add_choice_ids(choice, out);
    add_end(choice, out);
    buf_add_string(out, "}]");
    if (usage != NULL) {
        buf_add_string(out, ",\"usage\":");
        add_usage(usage, out);
    } else if (has_usage_member) {
        buf_add_string(out, ",\"usage\":null");
    }
    buf_add_string(out, "}\n\n");
}

void openai_answer_usage_chunk(const struct openai_head *head,
                               const struct api_usage *usage, struct buf *out)
{
    buf_add_string(out, "data: ");
    add_head(head, true, out);
    buf_add_string(out, ",\"choices\":[],\"usage\":");
    add_usage(usage, out);
    buf_add_string(out, "}\n\n");
}

void openai_answer_done(struct buf *out)
{
    buf_add_string(out, "data: [DONE]\n\n");
}

void openai_answer_error_event(int status, const char *type,
                               const char *message, struct buf *out)
{
    buf_add_string(out, "data: ");
    api_error_body(status, type, message, NULL, NULL, out);
    buf_add_string(out, "\n\n");
}

void openai_answer_handoff(const struct openai_handoff *handoff,
                           struct buf *out)
{
    buf_printf(out,
               "{\"request_type\":\"context_only\",\"ctx_request_id\":%" PRId64
               ",\"disagg_request_id\":%" PRId64 ",\"first_gen_tokens\":",
               handoff->rid, handoff->rid);
    add_ids(out, handoff->first_tokens, handoff->first_token_count);
    if (handoff->first_logprobs.size > 0) {
        buf_add_string(out, ",\"first_gen_log_probs\":");
        buf_add_span(out, handoff->first_logprobs);
    }
    buf_add_string(out, ",\"encoded_opaque_state\":");
    buf_add_json_string(out, handoff->opaque);
    buf_add_string(out, ",\"ctx_dp_rank\":0,\"ctx_info_endpoint\":");
    buf_add_json_string(out, span_of_string(handoff->endpoint));
    buf_add_byte(out, '}');
}
