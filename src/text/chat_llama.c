/* Llama 2: [INST] turns with the system message inside the first. Llama 3:
 * named headers; from 3.1 on a system turn with two dates comes first. */
#include "base/mem.h"
#include "text/chat_form.h"

static void add_llama2_user(const struct text_chat *chat, struct span system,
                            struct span content, struct buf *out)
{
    buf_add_span(out, chat->bos);
    buf_add_string(out, "[INST] ");
    if (system.data != NULL) {
        buf_add_string(out, "<<SYS>>\n");
        buf_add_span(out, system);
        buf_add_string(out, "\n<</SYS>>\n\n");
        /* Both are trimmed as one, so only the end of the content is. */
        struct span trimmed = text_chat_trim(content);
        content = trimmed.size == 0
                      ? trimmed
                      : span_slice(content, 0,
                                   (size_t)(trimmed.data - content.data) +
                                       trimmed.size);
    } else {
        content = text_chat_trim(content);
    }
    buf_add_span(out, content);
    buf_add_string(out, " [/INST]");
}

enum err text_llama2_render(const struct text_chat *chat,
                            const struct text_chat_message *messages,
                            size_t message_count,
                            const struct text_chat_options *options,
                            struct why *why, struct buf *out)
{
    (void)options;
    size_t first = text_chat_is(&messages[0], "system") ? 1 : 0;
    struct span system = first == 1 ? messages[0].content : span_of(NULL, 0);
    if (first == 1 && system.data == NULL) {
        system = span_of_string("");
    }
    enum err err =
        text_chat_check_turns(chat, messages, message_count, first, why);
    for (size_t i = first; err == OK && i < message_count; i++) {
        if (text_chat_is(&messages[i], "user")) {
            add_llama2_user(chat, i == first ? system : span_of(NULL, 0),
                            messages[i].content, out);
        } else {
            buf_add_byte(out, ' ');
            buf_add_span(out, text_chat_trim(messages[i].content));
            buf_add_byte(out, ' ');
            buf_add_span(out, chat->eos);
        }
    }
    return err;
}

static void add_header(struct span role, struct buf *out)
{
    buf_add_string(out, "<|start_header_id|>");
    buf_add_span(out, role);
    buf_add_string(out, "<|end_header_id|>\n\n");
}

static void add_dated_system(const struct text_chat *chat, struct span system,
                             struct buf *out)
{
    add_header(span_of_string("system"), out);
    buf_add_string(out, "Cutting Knowledge Date: December 2023\nToday Date: ");
    buf_add_span(out, buf_span(&chat->date));
    buf_add_string(out, "\n\n");
    buf_add_span(out, text_chat_trim(system));
    buf_add_string(out, "<|eot_id|>");
}

enum err text_llama3_render(const struct text_chat *chat,
                            const struct text_chat_message *messages,
                            size_t message_count,
                            const struct text_chat_options *options,
                            struct why *why, struct buf *out)
{
    (void)why;
    size_t first = 0;
    buf_add_span(out, chat->bos);
    if (chat->form.has_date) {
        first = text_chat_is(&messages[0], "system") ? 1 : 0;
        add_dated_system(
            chat, first == 1 ? messages[0].content : span_of(NULL, 0), out);
    }
    for (size_t i = first; i < message_count; i++) {
        /* The dated template writes a tool's text as JSON, a string too. */
        bool is_tool =
            chat->form.has_date && text_chat_is(&messages[i], "tool");
        if (is_tool) {
            add_header(span_of_string("ipython"), out);
            buf_add_json_string(out, messages[i].content);
        } else {
            add_header(text_chat_role(&messages[i]), out);
            buf_add_span(out, text_chat_trim(messages[i].content));
        }
        buf_add_string(out, "<|eot_id|>");
    }
    if (options->add_generation_prompt || chat->form.always_prompts) {
        add_header(span_of_string("assistant"), out);
    }
    return OK;
}
