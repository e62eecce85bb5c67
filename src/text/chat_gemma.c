/* Gemma: turns between marks, the assistant is called "model". Gemma 3 puts a
 * system message before the first user's words; the older ones refuse it. */
#include "text/chat_form.h"

/* User messages stand at even places, and nowhere else. */
static enum err check_turns(const struct text_chat *chat,
                            const struct text_chat_message *messages,
                            size_t message_count, size_t first, struct why *why)
{
    for (size_t i = first; chat->form.alternates && i < message_count; i++) {
        bool is_even = (i - first) % 2 == 0;
        if (text_chat_is(&messages[i], "user") != is_even) {
            return why_say(why, ERR_INVALID,
                           "messages[%zu].role: the %s template wants user "
                           "and assistant in turn: here %s",
                           i, chat->form.name, is_even ? "user" : "assistant");
        }
    }
    return OK;
}

enum err text_gemma_render(const struct text_chat *chat,
                           const struct text_chat_message *messages,
                           size_t message_count,
                           const struct text_chat_options *options,
                           struct why *why, struct buf *out)
{
    bool has_system = text_chat_is(&messages[0], "system");
    if (has_system && !chat->form.leads_with_system) {
        return why_say(why, ERR_INVALID,
                       "messages[0].role: the %s template takes no system "
                       "message",
                       chat->form.name);
    }
    size_t first = has_system ? 1 : 0;
    enum err err = check_turns(chat, messages, message_count, first, why);
    if (err != OK) {
        return err;
    }
    buf_add_span(out, chat->bos);
    for (size_t i = first; i < message_count; i++) {
        bool is_answer = text_chat_is(&messages[i], "assistant");
        buf_add_string(out, "<start_of_turn>");
        buf_add_span(out, is_answer ? span_of_string("model")
                                    : text_chat_role(&messages[i]));
        buf_add_byte(out, '\n');
        if (has_system && i == first) {
            buf_add_span(out, messages[0].content);
            buf_add_string(out, "\n\n");
        }
        buf_add_span(out, text_chat_trim(messages[i].content));
        buf_add_string(out, "<end_of_turn>\n");
    }
    if (options->add_generation_prompt) {
        buf_add_string(out, "<start_of_turn>model\n");
    }
    return OK;
}
