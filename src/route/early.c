#include "route/answer.h"

#include <stdio.h>

/* serve.md 2.12: a request that ended with its first token still gets the
 * stream it asked for, told from the context worker's whole answer. */
struct telling {
    const struct api_object *answer;
    bool is_chat;
    struct buf *out;
};

static void add_raw(const struct telling *telling, const char *key)
{
    const struct api_member *member = api_find(telling->answer, key);
    if (member != NULL) {
        buf_add_json_string(telling->out, span_of_string(key));
        buf_add_byte(telling->out, ':');
        buf_add_span(telling->out, member->value.text);
        buf_add_byte(telling->out, ',');
    }
}

static void begin_chunk(const struct telling *telling)
{
    buf_add_string(telling->out, "data: {");
    add_raw(telling, "id");
    buf_printf(telling->out, "\"object\":\"%s\",",
               telling->is_chat ? "chat.completion.chunk" : "text_completion");
    add_raw(telling, "created");
    add_raw(telling, "model");
    buf_add_string(telling->out, "\"choices\":[");
}

static void end_chunk(const struct telling *telling)
{
    buf_add_string(telling->out, "]}\n\n");
}

static struct span index_of(const struct api_object *choice)
{
    const struct api_member *member = api_find(choice, "index");
    return member == NULL ? span_of_string("0") : member->value.text;
}

/* One chunk of one choice: `{"index":i,"delta":<delta>,"finish_reason":<r>}`. */
static void add_delta(const struct telling *telling,
                      const struct api_object *choice, struct span delta,
                      struct span reason)
{
    begin_chunk(telling);
    buf_add_string(telling->out, "{\"index\":");
    buf_add_span(telling->out, index_of(choice));
    buf_add_string(telling->out, ",\"delta\":");
    buf_add_span(telling->out, delta);
    buf_add_string(telling->out, ",\"finish_reason\":");
    buf_add_span(telling->out, reason);
    buf_add_byte(telling->out, '}');
    end_chunk(telling);
}

/* In a stream each tool call carries its place in the list. */
static void add_tool_calls(struct api_json list, struct buf *out)
{
    size_t cursor = 0;
    struct api_json element;
    buf_add_byte(out, '[');
    for (uint32_t i = 0; api_array_next(list, &cursor, &element); i++) {
        struct api_object call;
        if (api_scan_object(element, NULL, &call) != OK) {
            continue;
        }
        char text[16];
        snprintf(text, sizeof(text), "%u", i);
        struct api_edit edit = {"index", text, 0};
        buf_add_string(out, i == 0 ? "" : ",");
        api_splice(&call, &edit, 1, out);
    }
    buf_add_byte(out, ']');
}

/* The message without its role, which the first chunk has told. */
static void add_message(const struct api_object *message, struct buf *out)
{
    struct buf calls;
    const struct api_member *member = api_find(message, "tool_calls");
    buf_init(&calls, message->body.size * 2 + 64);
    bool has_calls = member != NULL && api_array_count(member->value) > 0;
    if (has_calls) {
        add_tool_calls(member->value, &calls);
    }
    struct api_edit edits[] = {
        {"role", NULL, 0},
        {"tool_calls", has_calls ? buf_string(&calls) : NULL, calls.size},
    };
    api_splice(message, edits, 2, out);
    buf_finish(&calls);
}

static enum err tell_chat(const struct telling *telling,
                          const struct api_object *choice, struct why *why)
{
    struct api_object message;
    const struct api_member *member = api_find(choice, "message");
    const struct api_member *reason = api_find(choice, "finish_reason");
    if (member == NULL || api_scan_object(member->value, why, &message) != OK) {
        return why_say(why, ERR_CORRUPT,
                       "the context answer has a choice without message");
    }
    struct span null = span_of_string("null");
    struct buf delta;
    buf_init(&delta, member->value.text.size * 2 + 64);
    add_message(&message, &delta);
    add_delta(telling, choice,
              span_of_string("{\"role\":\"assistant\",\"content\":\"\"}"),
              null);
    add_delta(telling, choice, buf_span(&delta), null);
    add_delta(telling, choice, span_of_string("{}"),
              reason == NULL ? null : reason->value.text);
    buf_finish(&delta);
    return OK;
}

static void tell_text(const struct telling *telling,
                      const struct api_object *choice)
{
    const struct api_edit edit = {"disaggregated_params", NULL, 0};
    begin_chunk(telling);
    api_splice(choice, &edit, 1, telling->out);
    end_chunk(telling);
}

static enum err tell_choices(const struct telling *telling,
                             struct api_json list, struct why *why)
{
    size_t cursor = 0;
    struct api_json element;
    while (api_array_next(list, &cursor, &element)) {
        struct api_object choice;
        if (api_scan_object(element, why, &choice) != OK) {
            return why_prefix(why, ERR_CORRUPT, "the context answer, choices");
        }
        if (telling->is_chat) {
            enum err code = tell_chat(telling, &choice, why);
            if (code != OK) {
                return code;
            }
        } else {
            tell_text(telling, &choice);
        }
    }
    return OK;
}

static void tell_usage(const struct telling *telling)
{
    const struct api_member *usage = api_find(telling->answer, "usage");
    begin_chunk(telling);
    buf_add_string(telling->out, "],\"usage\":");
    buf_add_span(telling->out,
                 usage == NULL ? span_of_string("null") : usage->value.text);
    buf_add_string(telling->out, "}\n\n");
}

enum err route_answer_stream(struct span body, bool is_chat, bool wants_usage,
                             struct why *why, struct buf *out)
{
    struct api_object object;
    if (api_scan_answer(body, why, &object) != OK) {
        return why_prefix(why, ERR_CORRUPT, "the context answer");
    }
    struct telling telling = {&object, is_chat, out};
    const struct api_member *choices = api_find(&object, "choices");
    if (choices == NULL) {
        return why_say(why, ERR_CORRUPT, "the context answer has no choices");
    }
    enum err code = tell_choices(&telling, choices->value, why);
    if (code != OK) {
        return code;
    }
    if (wants_usage) {
        tell_usage(&telling);
    }
    buf_add_string(out, "data: [DONE]\n\n");
    return buf_error(out);
}
