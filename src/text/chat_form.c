#include "text/chat_form.h"

#include "base/mem.h"

enum { TEMPLATE_SIZE_MAX = 1 << 20 };

static const char CHATML_TURN[] = "'<|im_start|>' + message";
static const char QWEN2_SYSTEM[] = "You are a helpful assistant.";
static const char QWEN25_SYSTEM[] = "You are Qwen, created by Alibaba Cloud. "
                                    "You are a helpful assistant.";
static const char LLAMA3_DATE[] = "26 Jul 2024";

/* More particular ones first; of one name the first is the one that
 * --chat-template means. Marks are sought after quotes and line feeds have
 * been made uniform. */
static const struct text_chat_form FORMS[] = {
    {.name = "qwen3",
     .family = TEXT_CHAT_CHATML,
     .marks = {CHATML_TURN, "ns.last_query_index", "reasoning_content"},
     .wraps_tools = true,
     .thinks = true,
     .can_skip_thinking = true},
    {.name = "qwen2.5",
     .family = TEXT_CHAT_CHATML,
     .marks = {CHATML_TURN, "<tool_response>"},
     .wraps_tools = true},
    {.name = "chatml", .family = TEXT_CHAT_CHATML, .marks = {CHATML_TURN}},
    {.name = "qwen2", .family = TEXT_CHAT_CHATML, .marks = {CHATML_TURN}},
    {.name = "llama3.1",
     .family = TEXT_CHAT_LLAMA3,
     .marks = {"<|start_header_id|>system<|end_header_id|>\n\n",
               "'Cutting Knowledge Date: December 2023\n'",
               "'Today Date: ' + date_string + '\n\n'"},
     .has_date = true},
    {.name = "llama3",
     .family = TEXT_CHAT_LLAMA3,
     .marks = {"'<|start_header_id|>' + message['role'] + "
               "'<|end_header_id|>\n\n'+ message['content'] | trim + "
               "'<|eot_id|>'",
               "bos_token + content"}},
    {.name = "llama2",
     .family = TEXT_CHAT_LLAMA2,
     .marks = {"bos_token + '[INST] ' + content.strip() + ' [/INST]'",
               "'<<SYS>>\n' + system_message + '\n<</SYS>>\n\n'",
               "+ content.strip() + ' ' + eos_token"}},
    {.name = "mistral-v7",
     .family = TEXT_CHAT_MISTRAL,
     .marks = {"'[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]'",
               "'[INST] ' + message['content'] + '[/INST]'",
               "' ' + message['content'] + eos_token"},
     .mistral = {"[INST] ", "[/INST]", " ", "", .takes_system = true,
                 .system_is_own_turn = true}},
    {.name = "mistral-v1",
     .family = TEXT_CHAT_MISTRAL,
     .marks = {"' [INST] ' + system_message + '\n\n' + message['content'] + "
               "' [/INST]'",
               "loop.first and system_message is defined",
               "' ' + message['content'] + eos_token"},
     .mistral = {" [INST] ", " [/INST]", " ", "", .takes_system = true}},
    {.name = "mistral-v3",
     .family = TEXT_CHAT_MISTRAL,
     .marks = {"'[INST] ' + message['content'] + '[/INST]'",
               "system_message is defined",
               "' ' + message['content']|trim + eos_token"},
     .mistral = {"[INST] ", "[/INST]", " ", "", .answer_is_trimmed = true,
                 .takes_system = true, .system_goes_last = true}},
    {.name = "mistral-tekken",
     .family = TEXT_CHAT_MISTRAL,
     .marks = {"'[INST]' + message['content'] + '[/INST]'",
               "system_message is defined",
               "{{- message['content'] + eos_token"},
     .mistral = {"[INST]", "[/INST]", "", "", .takes_system = true,
                 .system_goes_last = true}},
    {.name = "mistral-v0.1",
     .family = TEXT_CHAT_MISTRAL,
     .marks = {"'[INST] ' + message['content'] + ' [/INST]'",
               "{{ message['content'] + eos_token + ' ' }}"},
     .mistral = {"[INST] ", " [/INST]", "", " "}},
    {.name = "mistral-v0.2",
     .family = TEXT_CHAT_MISTRAL,
     .marks = {"'[INST] ' + message['content'] + ' [/INST]'",
               "{{ message['content'] + eos_token}}"},
     .mistral = {"[INST] ", " [/INST]", "", ""}},
    {.name = "gemma3",
     .family = TEXT_CHAT_GEMMA,
     .marks = {"'<start_of_turn>' + role + '\n' + (first_user_prefix if "
               "loop.first else '')",
               "set first_user_prefix = messages[0]['content'] + '\n\n'",
               "message['content'] | trim"},
     .alternates = true,
     .leads_with_system = true},
    {.name = "gemma",
     .family = TEXT_CHAT_GEMMA,
     .marks = {"'<start_of_turn>' + role + '\n' + message['content'] | trim + "
               "'<end_of_turn>\n'",
               "raise_exception('System role not supported')"},
     .alternates = true},
    {.name = "zephyr",
     .family = TEXT_CHAT_ZEPHYR,
     .marks = {"'<|user|>\n' + message['content'] + eos_token }}",
               "'<|system|>\n' + message['content'] + eos_token }}",
               "loop.last and add_generation_prompt"},
     .breaks_lines = true},
};
enum { FORM_COUNT = sizeof(FORMS) / sizeof(FORMS[0]) };

/* Signs of a dialect that only looks like one of ours. */
static const char *const STRANGERS[] = {
    "<|im_sep|>", "[gMASK]",           "{% macro",
    "{%- macro",  "<|start_of_role|>", "true == true",
    "documents",  "builtin_role",      "<|channel|>",
};

size_t text_chat_find(struct span text, const char *part)
{
    const uint8_t *at = text.data == NULL
                            ? NULL
                            : memmem(text.data, text.size, part, strlen(part));
    return at == NULL ? SIZE_MAX : (size_t)(at - text.data);
}

static bool holds(struct span text, const char *part)
{
    return text_chat_find(text, part) != SIZE_MAX;
}

/* Escaped line feeds become real ones, double quotes single ones, so that one
 * mark serves all spellings. */
static void make_uniform(struct span text, struct buf *out)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte == '\\' && i + 1 < text.size && text.data[i + 1] == 'n') {
            byte = '\n';
            i++;
        }
        buf_add_byte(out, byte == '"' ? '\'' : byte);
    }
}

static bool has_all(struct span text, const char *const marks[3])
{
    for (size_t i = 0; i < 3 && marks[i] != NULL; i++) {
        if (!holds(text, marks[i])) {
            return false;
        }
    }
    return true;
}

/* A whole system turn inside one literal is what the template puts in when
 * the conversation has none. */
static void read_default_system(struct text_chat *chat, struct span text)
{
    static const char BEGIN[] = "'<|im_start|>system\n";
    size_t at = text_chat_find(text, BEGIN);
    while (at != SIZE_MAX) {
        text = span_slice(text, at + sizeof(BEGIN) - 1, text.size);
        size_t end = text_chat_find(text, "<|im_end|>");
        size_t quote = text_chat_find(text, "'");
        /* An apostrophe in the sentence is written \'. */
        while (quote != SIZE_MAX && quote > 0 && quote < end &&
               text.data[quote - 1] == '\\') {
            size_t more =
                text_chat_find(span_slice(text, quote + 1, text.size), "'");
            quote = more == SIZE_MAX ? SIZE_MAX : quote + 1 + more;
        }
        if (end != SIZE_MAX && end > 0 && end < quote) {
            for (size_t i = 0; i < end; i++) {
                if (text.data[i] != '\\') {
                    buf_add_byte(&chat->default_system, text.data[i]);
                }
            }
            return;
        }
        at = text_chat_find(text, BEGIN);
    }
}

static void read_date(struct text_chat *chat, struct span text)
{
    static const char BEGIN[] = "set date_string = '";
    size_t at = text_chat_find(text, BEGIN);
    if (at == SIZE_MAX) {
        return;
    }
    text = span_slice(text, at + sizeof(BEGIN) - 1, text.size);
    size_t end = text_chat_find(text, "'");
    if (end != SIZE_MAX) {
        buf_add_span(&chat->date, span_slice(text, 0, end));
    }
}

/* What chatml templates differ in. False: in something we do not know. */
static bool read_chatml(struct text_chat *chat, struct span text)
{
    struct text_chat_form *form = &chat->form;
    read_default_system(chat, text);
    bool is_plain = !form->wraps_tools;
    if (is_plain && (holds(text, "trim") || holds(text, "strip(") ||
                     holds(text, "raise_exception"))) {
        return false;
    }
    form->leaves_last_open =
        holds(text, "(loop.last and add_generation_prompt) or not loop.last");
    form->prints_bos =
        holds(text, "{{ bos_token }}") || holds(text, "{{bos_token}}");
    form->bos_needs_question =
        holds(text, "if messages[0]['role'] == 'user' or "
                    "messages[0]['role'] == 'system' %}{{ bos_token }}");
    form->prints_eos = holds(
        text, "elif messages[-1]['role'] == 'assistant' %}{{ eos_token }}");
    if (form->thinks) {
        form->can_skip_thinking = holds(text, "enable_thinking is false");
        form->begins_thinking =
            holds(text, "'<|im_start|>assistant\n<think>\n'");
    }
    if (is_plain && chat->default_system.size > 0) {
        form->name = "qwen2";
    }
    return holds(text, "<|im_end|>") && holds(text, "<|im_start|>assistant\n");
}

static bool read_zephyr(struct text_chat *chat, struct span text)
{
    static const char END[] =
        "'<|user|>\n' + message['content'] + eos_token }}";
    size_t end = text_chat_find(text, END) + sizeof(END) - 1;
    chat->form.breaks_lines = end < text.size && text.data[end] == '\n';
    return true;
}

static bool read_differences(struct text_chat *chat, struct span text)
{
    struct text_chat_form *form = &chat->form;
    switch (form->family) {
    case TEXT_CHAT_CHATML:
        return read_chatml(chat, text);
    case TEXT_CHAT_LLAMA3:
        read_date(chat, text);
        form->always_prompts = !holds(text, "if add_generation_prompt");
        return !form->has_date || chat->date.size > 0;
    case TEXT_CHAT_MISTRAL:
        form->mistral.system_goes_last =
            form->mistral.system_goes_last &&
            holds(text, "loop.last and system_message is defined");
        return true;
    case TEXT_CHAT_ZEPHYR:
        return read_zephyr(chat, text);
    case TEXT_CHAT_GEMMA:
        form->alternates = holds(
            text, "(message['role'] == 'user') != (loop.index0 % 2 == 0)");
        return holds(text, "'<start_of_turn>model\n'") &&
               holds(text, "if add_generation_prompt");
    case TEXT_CHAT_LLAMA2:
        return true;
    }
    return false;
}

static bool is_stranger(struct span text)
{
    for (size_t i = 0; i < sizeof(STRANGERS) / sizeof(STRANGERS[0]); i++) {
        if (holds(text, STRANGERS[i])) {
            return true;
        }
    }
    return false;
}

static bool match_form(struct text_chat *chat, struct span text)
{
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (has_all(text, FORMS[i].marks)) {
            chat->form = FORMS[i];
            return read_differences(chat, text);
        }
    }
    return false;
}

enum err text_chat_recognise(struct text_chat *chat, struct span template)
{
    struct buf uniform;
    buf_init(&uniform, TEMPLATE_SIZE_MAX);
    make_uniform(template, &uniform);
    enum err err = buf_error(&uniform);
    if (err == OK && (is_stranger(buf_span(&uniform)) ||
                      !match_form(chat, buf_span(&uniform)))) {
        err = ERR_UNSUPPORTED;
    }
    buf_finish(&uniform);
    return err == ERR_FULL ? ERR_UNSUPPORTED : err;
}

enum err text_chat_named(struct text_chat *chat, const char *name)
{
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (strcmp(FORMS[i].name, name) != 0) {
            continue;
        }
        chat->form = FORMS[i];
        if (!strcmp(name, "qwen2")) {
            buf_add_string(&chat->default_system, QWEN2_SYSTEM);
        } else if (!strcmp(name, "qwen2.5")) {
            buf_add_string(&chat->default_system, QWEN25_SYSTEM);
        } else if (!strcmp(name, "llama3.1")) {
            buf_add_string(&chat->date, LLAMA3_DATE);
        }
        return OK;
    }
    return ERR_NOT_FOUND;
}

void text_chat_add_names(struct buf *out)
{
    for (size_t i = 0; i < FORM_COUNT; i++) {
        buf_printf(out, i == 0 ? "%s" : ", %s", FORMS[i].name);
    }
}
