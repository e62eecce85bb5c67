/* Mistral: [INST] turns whose spaces and place of the system message moved
 * from version to version; and Zephyr's headed lines. */
#include "text/chat_form.h"

static void add_user(const struct text_chat *chat, struct span system,
                     bool has_system, struct span content, struct buf *out)
{
    const struct text_mistral_form *form = &chat->form.mistral;
    buf_add_string(out, form->user_begin);
    if (has_system) {
        buf_add_span(out, system);
        buf_add_string(out, "\n\n");
    }
    buf_add_span(out, content);
    buf_add_string(out, form->user_end);
}

static void add_answer(const struct text_chat *chat, struct span content,
                       struct buf *out)
{
    const struct text_mistral_form *form = &chat->form.mistral;
    buf_add_string(out, form->answer_begin);
    buf_add_span(out,
                 form->answer_is_trimmed ? text_chat_trim(content) : content);
    buf_add_span(out, chat->eos);
    buf_add_string(out, form->answer_end);
}

/* From v7 on each message stands for itself, in any order. */
static enum err render_own_turns(const struct text_chat *chat,
                                 const struct text_chat_message *messages,
                                 size_t message_count, struct why *why,
                                 struct buf *out)
{
    buf_add_span(out, chat->bos);
    for (size_t i = 0; i < message_count; i++) {
        if (text_chat_is(&messages[i], "system")) {
            buf_add_string(out, "[SYSTEM_PROMPT] ");
            buf_add_span(out, messages[i].content);
            buf_add_string(out, "[/SYSTEM_PROMPT]");
        } else if (text_chat_is(&messages[i], "user")) {
            add_user(chat, span_of(NULL, 0), false, messages[i].content, out);
        } else if (text_chat_is(&messages[i], "assistant")) {
            add_answer(chat, messages[i].content, out);
        } else {
            return why_say(why, ERR_INVALID,
                           "messages[%zu].role: the %s template takes system, "
                           "user and assistant",
                           i, chat->form.name);
        }
    }
    return OK;
}

enum err text_mistral_render(const struct text_chat *chat,
                             const struct text_chat_message *messages,
                             size_t message_count,
                             const struct text_chat_options *options,
                             struct why *why, struct buf *out)
{
    (void)options;
    const struct text_mistral_form *form = &chat->form.mistral;
    if (form->system_is_own_turn) {
        return render_own_turns(chat, messages, message_count, why, out);
    }
    size_t first =
        form->takes_system && text_chat_is(&messages[0], "system") ? 1 : 0;
    enum err err =
        text_chat_check_turns(chat, messages, message_count, first, why);
    if (err != OK) {
        return err;
    }
    size_t system_at = form->system_goes_last ? message_count - 1 : first;
    buf_add_span(out, chat->bos);
    for (size_t i = first; i < message_count; i++) {
        if (text_chat_is(&messages[i], "user")) {
            add_user(chat, messages[0].content, first == 1 && i == system_at,
                     messages[i].content, out);
        } else {
            add_answer(chat, messages[i].content, out);
        }
    }
    return OK;
}

enum err text_zephyr_render(const struct text_chat *chat,
                            const struct text_chat_message *messages,
                            size_t message_count,
                            const struct text_chat_options *options,
                            struct why *why, struct buf *out)
{
    (void)why;
    const char *line = chat->form.breaks_lines ? "\n" : "";
    for (size_t i = 0; i < message_count; i++) {
        /* The template prints nothing for other roles. */
        if (text_chat_is(&messages[i], "tool")) {
            continue;
        }
        buf_add_string(out, "<|");
        buf_add_span(out, text_chat_role(&messages[i]));
        buf_add_string(out, "|>\n");
        buf_add_span(out, messages[i].content);
        buf_add_span(out, chat->eos);
        buf_add_string(out, line);
    }
    if (options->add_generation_prompt) {
        buf_add_string(out, "<|assistant|>");
        buf_add_string(out, line);
    }
    return OK;
}
