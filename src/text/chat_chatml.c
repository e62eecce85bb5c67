/* ChatML: <|im_start|>role LF content <|im_end|> LF, and what the Qwen
 * generations added: a default system message, tool answers inside user
 * turns, old thoughts left out. */
#include "text/chat_form.h"

struct turn {
    const struct text_chat *chat;
    const struct text_chat_message *messages;
    size_t count;
    size_t last_query; /* thoughts before it are dropped */
    bool has_prompt;
};

static bool is_wrapped(struct span content)
{
    static const char END[] = "</tool_response>";
    size_t size = sizeof(END) - 1;
    return span_starts_with(content, "<tool_response>") &&
           content.size >= size &&
           span_equals_string(
               span_slice(content, content.size - size, content.size), END);
}

/* The last question of a person, not an answer of a tool. */
static size_t find_last_query(const struct text_chat_message *messages,
                              size_t count)
{
    for (size_t i = count; i-- > 0;) {
        if (text_chat_is(&messages[i], "user") &&
            !is_wrapped(messages[i].content)) {
            return i;
        }
    }
    return count - 1;
}

static void add_begin(struct span role, struct buf *out)
{
    buf_add_string(out, "<|im_start|>");
    buf_add_span(out, role);
    buf_add_byte(out, '\n');
}

static void add_turn(struct span role, struct span content, struct buf *out)
{
    add_begin(role, out);
    buf_add_span(out, content);
    buf_add_string(out, "<|im_end|>\n");
}

/* Several tool answers in a row share one user turn. */
static void add_tool(const struct turn *turn, size_t i, struct buf *out)
{
    const struct text_chat_message *messages = turn->messages;
    if (i == 0 || !text_chat_is(&messages[i - 1], "tool")) {
        buf_add_string(out, "<|im_start|>user");
    }
    buf_add_string(out, "\n<tool_response>\n");
    buf_add_span(out, messages[i].content);
    buf_add_string(out, "\n</tool_response>");
    if (i + 1 == turn->count || !text_chat_is(&messages[i + 1], "tool")) {
        buf_add_string(out, "<|im_end|>\n");
    }
}

/* Where the last `part` in `text` ends, or 0. */
static size_t after_last(struct span text, const char *part)
{
    size_t end = 0;
    for (;;) {
        size_t at = text_chat_find(span_slice(text, end, text.size), part);
        if (at == SIZE_MAX) {
            return end;
        }
        end += at + strlen(part);
    }
}

static struct span drop_last_lines(struct span text)
{
    while (text.size > 0 && text.data[text.size - 1] == '\n') {
        text.size--;
    }
    return text;
}

/* "<think>why</think>what" to its two parts. */
static void part_thought(struct span content, struct span *thought_out,
                         struct span *answer_out)
{
    size_t end = text_chat_find(content, "</think>");
    *thought_out = span_of(NULL, 0);
    *answer_out = content;
    if (end == SIZE_MAX) {
        return;
    }
    struct span before = drop_last_lines(span_slice(content, 0, end));
    *thought_out = drop_last_lines(text_chat_drop_lines(
        span_slice(before, after_last(before, "<think>"), before.size)));
    *answer_out = text_chat_drop_lines(
        span_slice(content, after_last(content, "</think>"), content.size));
}

static void add_thinking_answer(const struct turn *turn, size_t i,
                                struct buf *out)
{
    struct span thought;
    struct span answer;
    part_thought(turn->messages[i].content, &thought, &answer);
    bool is_last = i + 1 == turn->count;
    add_begin(span_of_string("assistant"), out);
    if (i > turn->last_query && (is_last || thought.size > 0)) {
        buf_add_string(out, "<think>\n");
        buf_add_span(out, thought);
        buf_add_string(out, "\n</think>\n\n");
        answer = text_chat_drop_lines(answer);
    }
    buf_add_span(out, answer);
    buf_add_string(out, "<|im_end|>\n");
}

static void add_message(const struct turn *turn, size_t i, struct buf *out)
{
    const struct text_chat_form *form = &turn->chat->form;
    const struct text_chat_message *message = &turn->messages[i];
    if (form->wraps_tools && text_chat_is(message, "tool")) {
        add_tool(turn, i, out);
    } else if (form->thinks && text_chat_is(message, "assistant")) {
        add_thinking_answer(turn, i, out);
    } else if (form->leaves_last_open && i + 1 == turn->count &&
               !turn->has_prompt) {
        add_begin(text_chat_role(message), out);
        buf_add_span(out, message->content);
    } else {
        add_turn(text_chat_role(message), message->content, out);
    }
}

static void add_prompt(const struct turn *turn,
                       const struct text_chat_options *options, struct buf *out)
{
    const struct text_chat_form *form = &turn->chat->form;
    bool is_answered =
        text_chat_is(&turn->messages[turn->count - 1], "assistant");
    if (!turn->has_prompt) {
        buf_add_span(out, form->prints_eos && is_answered ? turn->chat->eos
                                                          : span_of(NULL, 0));
        return;
    }
    if (form->leaves_last_open && is_answered) {
        return;
    }
    add_begin(span_of_string("assistant"), out);
    if (form->begins_thinking) {
        buf_add_string(out, "<think>\n");
    } else if (form->can_skip_thinking && options->disable_thinking) {
        buf_add_string(out, "<think>\n\n</think>\n\n");
    }
}

enum err text_chatml_render(const struct text_chat *chat,
                            const struct text_chat_message *messages,
                            size_t message_count,
                            const struct text_chat_options *options,
                            struct why *why, struct buf *out)
{
    (void)why;
    struct turn turn = {.chat = chat,
                        .messages = messages,
                        .count = message_count,
                        .last_query = find_last_query(messages, message_count),
                        .has_prompt = options->add_generation_prompt};
    bool is_question = text_chat_is(&messages[0], "user") ||
                       text_chat_is(&messages[0], "system");
    if (chat->form.prints_bos &&
        (is_question || !chat->form.bos_needs_question)) {
        buf_add_span(out, chat->bos);
    }
    if (chat->default_system.size > 0 &&
        !text_chat_is(&messages[0], "system")) {
        add_turn(span_of_string("system"), buf_span(&chat->default_system),
                 out);
    }
    for (size_t i = 0; i < message_count; i++) {
        add_message(&turn, i, out);
    }
    add_prompt(&turn, options, out);
    return OK;
}
