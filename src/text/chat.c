#include "text/chat.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/chat_form.h"
#include "text/tokenizer_vocab.h"

enum { DEFAULTS_SIZE_MAX = 1 << 16, NAMES_SIZE_MAX = 1024 };

static enum err refuse(struct why *why, enum err code, const char *what)
{
    struct buf names;
    buf_init(&names, NAMES_SIZE_MAX);
    text_chat_add_names(&names);
    why_say(why, code, "%s; choose one with --chat-template: %s", what,
            buf_string(&names));
    buf_finish(&names);
    return code;
}

static struct span token_text(const struct text_tokenizer *tokenizer,
                              text_token id)
{
    return id == TEXT_TOKEN_NONE
               ? span_of(NULL, 0)
               : text_vocab_text(text_tokenizer_vocab(tokenizer), (uint32_t)id);
}

static enum err choose(struct text_chat *chat, const struct gguf *gguf,
                       const char *name, struct why *why)
{
    if (name != NULL) {
        char what[128];
        snprintf(what, sizeof(what), "chat template \"%s\" is not known", name);
        enum err err = text_chat_named(chat, name);
        return err == OK ? OK : refuse(why, ERR_UNSUPPORTED, what);
    }
    struct span template;
    enum err err =
        gguf_read_string(gguf, "tokenizer.chat_template", why, &template);
    if (err != OK) {
        return err;
    }
    if (template.size == 0) {
        return refuse(why, ERR_NOT_FOUND,
                      "the model file has no chat template (key "
                      "tokenizer.chat_template)");
    }
    err = text_chat_recognise(chat, template);
    return err == ERR_UNSUPPORTED
               ? refuse(why, err,
                        "key tokenizer.chat_template is none that we know")
               : err;
}

enum err text_chat_create(const struct gguf *gguf,
                          const struct text_tokenizer *tokenizer,
                          const char *name, struct why *why,
                          struct text_chat **chat_out)
{
    struct text_chat *chat = mem_new(sizeof(*chat));
    buf_init(&chat->default_system, DEFAULTS_SIZE_MAX);
    buf_init(&chat->date, DEFAULTS_SIZE_MAX);
    chat->bos = token_text(tokenizer, text_bos(tokenizer));
    chat->eos = token_text(tokenizer, text_eos(tokenizer));
    enum err err = choose(chat, gguf, name, why);
    if (err != OK) {
        text_chat_destroy(chat);
        return err;
    }
    *chat_out = chat;
    return OK;
}

void text_chat_destroy(struct text_chat *chat)
{
    if (chat == NULL) {
        return;
    }
    buf_finish(&chat->default_system);
    buf_finish(&chat->date);
    mem_free(chat);
}

const char *text_chat_name(const struct text_chat *chat)
{
    return chat->form.name;
}

struct span text_chat_role(const struct text_chat_message *message)
{
    return span_equals_string(message->role, "developer")
               ? span_of_string("system")
               : message->role;
}

bool text_chat_is(const struct text_chat_message *message, const char *role)
{
    return span_equals_string(text_chat_role(message), role);
}

static bool is_space(int32_t point)
{
    return (point >= 0x09 && point <= 0x0d) ||
           (point >= 0x1c && point <= 0x20) || point == 0x85 || point == 0xa0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200a) ||
           point == 0x2028 || point == 0x2029 || point == 0x202f ||
           point == 0x205f || point == 0x3000;
}

struct span text_chat_trim(struct span text)
{
    size_t begin = SIZE_MAX;
    size_t end = 0;
    for (size_t at = 0; at < text.size;) {
        struct span rest = span_slice(text, at, text.size);
        size_t size = utf8_size(rest);
        if (size == 0 || !is_space(utf8_point(rest))) {
            begin = begin == SIZE_MAX ? at : begin;
            end = at + (size == 0 ? 1 : size);
        }
        at += size == 0 ? 1 : size;
    }
    return span_slice(text, begin, end);
}

struct span text_chat_drop_lines(struct span text)
{
    size_t at = 0;
    while (at < text.size && text.data[at] == '\n') {
        at++;
    }
    return span_slice(text, at, text.size);
}

enum err text_chat_check_turns(const struct text_chat *chat,
                               const struct text_chat_message *messages,
                               size_t message_count, size_t first,
                               struct why *why)
{
    for (size_t i = first; i < message_count; i++) {
        bool is_user = (i - first) % 2 == 0;
        if (!text_chat_is(&messages[i], is_user ? "user" : "assistant")) {
            return why_say(why, ERR_INVALID,
                           "messages[%zu].role: the %s template wants user "
                           "and assistant in turn, after at most one system "
                           "message: here %s",
                           i, chat->form.name, is_user ? "user" : "assistant");
        }
    }
    return OK;
}

static enum err check_roles(const struct text_chat_message *messages,
                            size_t message_count, struct why *why)
{
    static const char *const ROLES[] = {"system", "user", "assistant", "tool"};
    for (size_t i = 0; i < message_count; i++) {
        bool is_known = false;
        for (size_t k = 0; k < sizeof(ROLES) / sizeof(ROLES[0]); k++) {
            is_known = is_known || text_chat_is(&messages[i], ROLES[k]);
        }
        if (!is_known) {
            return why_say(
                why, ERR_INVALID,
                "messages[%zu].role: \"%.*s\" is not system, "
                "developer, user, assistant or tool",
                i, messages[i].role.size < 64 ? (int)messages[i].role.size : 64,
                messages[i].role.data);
        }
    }
    return message_count > 0
               ? OK
               : why_say(why, ERR_INVALID, "messages: there is none");
}

enum err text_chat_render(const struct text_chat *chat,
                          const struct text_chat_message *messages,
                          size_t message_count,
                          const struct text_chat_options *options,
                          struct why *why, struct buf *out)
{
    static enum err (*const RENDER[])(
        const struct text_chat *, const struct text_chat_message *, size_t,
        const struct text_chat_options *, struct why *, struct buf *) = {
        [TEXT_CHAT_CHATML] = text_chatml_render,
        [TEXT_CHAT_GEMMA] = text_gemma_render,
        [TEXT_CHAT_LLAMA2] = text_llama2_render,
        [TEXT_CHAT_LLAMA3] = text_llama3_render,
        [TEXT_CHAT_MISTRAL] = text_mistral_render,
        [TEXT_CHAT_ZEPHYR] = text_zephyr_render,
    };
    enum err err = check_roles(messages, message_count, why);
    if (err == OK) {
        err = RENDER[chat->form.family](chat, messages, message_count, options,
                                        why, out);
    }
    if (err == OK && buf_error(out) != OK) {
        err = why_say(why, buf_error(out),
                      "messages: the conversation is longer than the limit");
    }
    return err;
}
