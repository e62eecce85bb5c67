#include "route/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct span member_text(const struct api_object *object, const char *key,
                               enum api_json_kind kind)
{
    const struct api_member *member = api_find(object, key);
    return member == NULL || member->value.kind != kind ? span_of(NULL, 0)
                                                        : member->value.text;
}

/* What a choice says: its finish reason, and the hand-off it describes. */
struct choice {
    struct span finish_reason; /* with quotes; no data: none */
    struct api_json params;
    struct api_handoff handoff;
};

static bool is_pending(const struct choice *choice)
{
    struct span reason = choice->finish_reason;
    return reason.data == NULL || span_equals_string(reason, "\"length\"") ||
           span_equals_string(reason, "\"not_finished\"");
}

static enum err say_bad_choice(const struct choice *choice, uint32_t index,
                               struct why *why)
{
    int size =
        (int)(choice->finish_reason.size < 32 ? choice->finish_reason.size
                                              : 32);
    const struct api_handoff *handoff = &choice->handoff;
    return why_say(why, ERR_CORRUPT,
                   "context answer, choice %u: finish_reason %.*s but "
                   "ctx_request_id is %s and disagg_request_id is %s",
                   index, size == 0 ? 4 : size,
                   size == 0 ? "null"
                             : (const char *)choice->finish_reason.data,
                   handoff->has_ctx_id ? "set" : "null",
                   handoff->has_disagg_id ? "set" : "null");
}

static enum err read_choice(struct api_json value, uint32_t index,
                            struct why *why, struct choice *choice)
{
    struct api_object object;
    if (api_scan_object(value, why, &object) != OK) {
        return why_prefix(why, ERR_CORRUPT, "context answer, choice %u", index);
    }
    const struct api_member *params = api_find(&object, "disaggregated_params");
    if (params == NULL || params->value.kind != API_JSON_OBJECT) {
        return why_say(why, ERR_CORRUPT,
                       "context answer, choice %u: no disaggregated_params",
                       index);
    }
    choice->params = params->value;
    choice->finish_reason =
        member_text(&object, "finish_reason", API_JSON_STRING);
    if (api_handoff_read(params->value, why, &choice->handoff) != OK) {
        return why_prefix(why, ERR_CORRUPT, "context answer, choice %u", index);
    }
    bool has_ids = choice->handoff.has_ctx_id && choice->handoff.has_disagg_id;
    return is_pending(choice) && !has_ids ? say_bad_choice(choice, index, why)
                                          : OK;
}

static enum err read_choices(struct api_json list, struct why *why,
                             struct route_answer *answer)
{
    uint32_t index = 0;
    size_t cursor = 0;
    struct api_json element;
    answer->is_final = true;
    while (api_array_next(list, &cursor, &element)) {
        struct choice choice = {0};
        enum err code = read_choice(element, index, why, &choice);
        if (code != OK) {
            return code;
        }
        answer->is_final &= !is_pending(&choice);
        if (index++ == 0) {
            answer->params = choice.params;
            answer->handoff = choice.handoff;
        }
    }
    return index > 0 ? OK
                     : why_say(why, ERR_CORRUPT, "context answer: no choices");
}

static enum err scan_answer(struct span body, struct why *why,
                            struct api_object *object,
                            struct api_json *choices_out)
{
    if (api_scan_answer(body, why, object) != OK) {
        return why_prefix(why, ERR_CORRUPT, "the worker's answer");
    }
    const struct api_member *choices = api_find(object, "choices");
    if (choices == NULL || choices->value.kind != API_JSON_ARRAY) {
        return why_say(why, ERR_CORRUPT, "the worker's answer has no choices");
    }
    *choices_out = choices->value;
    return OK;
}

enum err route_answer_read(struct span body, int64_t id, struct why *why,
                           struct route_answer *answer_out)
{
    struct api_object object;
    struct api_json choices;
    struct route_answer answer = {.id = id};
    enum err code = scan_answer(body, why, &object, &choices);
    if (code == OK) {
        code = read_choices(choices, why, &answer);
    }
    if (code != OK) {
        return code;
    }
    if (answer.handoff.has_disagg_id) {
        answer.id = answer.handoff.disagg_id;
    }
    const struct api_member *usage = api_find(&object, "usage");
    if (usage != NULL && usage->value.kind == API_JSON_OBJECT) {
        answer.usage = usage->value.text;
        if (api_usage_read(usage->value, why, &answer.usage_counts) != OK) {
            return why_prefix(why, ERR_CORRUPT, "context answer, usage");
        }
    }
    answer.prompt_ids =
        member_text(&object, "prompt_token_ids", API_JSON_ARRAY);
    answer.prompt_base64 =
        member_text(&object, "prompt_token_ids_b64", API_JSON_STRING);
    *answer_out = answer;
    return OK;
}

/* The choices without their hand-offs. */
static enum err add_choices(struct api_json list, struct why *why,
                            struct buf *out)
{
    size_t cursor = 0;
    struct api_json element;
    const struct api_edit edit = {"disaggregated_params", NULL, 0};
    buf_add_byte(out, '[');
    for (bool is_first = true; api_array_next(list, &cursor, &element);
         is_first = false) {
        struct api_object choice;
        if (api_scan_object(element, why, &choice) != OK) {
            return why_prefix(why, ERR_CORRUPT, "the worker's answer, choices");
        }
        buf_add_string(out, is_first ? "" : ",");
        api_splice(&choice, &edit, 1, out);
    }
    buf_add_byte(out, ']');
    return OK;
}

static void add_details(const struct api_object *usage, int64_t cached,
                        struct buf *out)
{
    struct api_object details;
    const struct api_member *member = api_find(usage, "prompt_tokens_details");
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, cached);
    struct api_edit edit = {"cached_tokens", text, 0};
    if (member != NULL &&
        api_scan_object(member->value, NULL, &details) == OK) {
        api_splice(&details, &edit, 1, out);
    } else {
        buf_printf(out, "{\"cached_tokens\":%s}", text);
    }
}

/* The usage with the context worker's prompt numbers (serve.md 2.12); nothing
 * when it has them already. */
static void add_usage(const struct api_object *answer,
                      const struct api_usage *context, struct buf *out)
{
    struct api_object usage;
    struct api_usage counts;
    const struct api_member *member = api_find(answer, "usage");
    if (member == NULL || api_scan_object(member->value, NULL, &usage) != OK ||
        api_usage_read(member->value, NULL, &counts) != OK) {
        return;
    }
    int64_t total = context->prompt_tokens + counts.completion_tokens;
    bool is_right = counts.prompt_tokens == context->prompt_tokens &&
                    counts.cached_tokens == context->cached_tokens &&
                    counts.total_tokens == total;
    if (is_right) {
        return;
    }
    char prompt_text[32], total_text[32];
    struct buf details;
    buf_init(&details, member->value.text.size + 128);
    snprintf(prompt_text, sizeof(prompt_text), "%" PRId64,
             context->prompt_tokens);
    snprintf(total_text, sizeof(total_text), "%" PRId64, total);
    add_details(&usage, context->cached_tokens, &details);
    struct api_edit edits[] = {
        {"prompt_tokens", prompt_text, 0},
        {"total_tokens", total_text, 0},
        {"prompt_tokens_details", buf_string(&details), details.size},
    };
    api_splice(&usage, edits, 3, out);
    buf_finish(&details);
}

enum err route_answer_clean(struct span body, const struct api_usage *context,
                            struct why *why, struct buf *out)
{
    struct api_object object;
    struct api_json list;
    enum err code = scan_answer(body, why, &object, &list);
    if (code != OK) {
        return code;
    }
    struct buf choices, usage;
    buf_init(&choices, body.size + 16);
    buf_init(&usage, body.size + 512);
    code = add_choices(list, why, &choices);
    if (context != NULL) {
        add_usage(&object, context, &usage);
    }
    struct api_edit edits[4] = {
        {"prompt_token_ids", NULL, 0},
        {"prompt_token_ids_b64", NULL, 0},
        {"choices", buf_string(&choices), choices.size},
        {"usage", buf_string(&usage), usage.size},
    };
    if (code == OK) {
        api_splice(&object, edits, usage.size > 0 ? 4 : 3, out);
        code = buf_error(out);
    }
    buf_finish(&usage);
    buf_finish(&choices);
    return code;
}
