#pragma once
/* text/chat_form: which known template a text is; private to text.
 *
 * A template is a program that we do not run. It is recognised by expressions
 * that it must and must not hold; what differs within a family (a default
 * system message, a space, who gets the end mark) is read off its own text. */
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "text/chat.h"

enum text_chat_family {
    TEXT_CHAT_CHATML,
    TEXT_CHAT_GEMMA,
    TEXT_CHAT_LLAMA2,
    TEXT_CHAT_LLAMA3,
    TEXT_CHAT_MISTRAL,
    TEXT_CHAT_ZEPHYR
};

/* Where a Mistral template puts spaces and the system message. */
struct text_mistral_form {
    const char *user_begin; /* "[INST] " */
    const char *user_end; /* " [/INST]" */
    const char *answer_begin; /* before an assistant's content */
    const char *answer_end; /* after its end mark */
    bool answer_is_trimmed;
    bool takes_system; /* else a system message is refused */
    bool system_is_own_turn; /* [SYSTEM_PROMPT] ... */
    bool system_goes_last; /* with the last user turn, not the first */
};

struct text_chat_form {
    const char *name;
    enum text_chat_family family;
    /* Needed in the template; all given must be there. NULL ends. */
    const char *marks[3];
    struct text_mistral_form mistral;
    /* ChatML */
    bool prints_bos; /* before the first turn */
    bool bos_needs_question; /* only before a system or user turn */
    bool prints_eos; /* after a last answer, without a prompt */
    bool leaves_last_open; /* no end mark there, without a prompt */
    bool wraps_tools; /* tool turns are user turns in tags */
    bool thinks; /* old thoughts are dropped */
    bool can_skip_thinking;
    bool begins_thinking; /* the prompt opens a thought */
    /* Llama 3 */
    bool always_prompts; /* whatever add_generation_prompt says */
    bool has_date; /* system turn with dates, always there */
    /* Zephyr */
    bool breaks_lines; /* after each end mark */
    /* Gemma */
    bool alternates; /* user messages at even places only */
    bool leads_with_system; /* before the first words; else refused */
};

struct text_chat {
    struct text_chat_form form;
    struct buf default_system; /* empty: none */
    struct buf date;
    struct span bos;
    struct span eos;
};

/* Fills form, default_system and date. ERR_UNSUPPORTED: not recognised. */
MUST_USE enum err text_chat_recognise(struct text_chat *chat,
                                      struct span template);
/* The form of that name as its publisher wrote it. ERR_NOT_FOUND. */
MUST_USE enum err text_chat_named(struct text_chat *chat, const char *name);
/* "chatml, qwen2, ..." */
void text_chat_add_names(struct buf *out);

/* The families. Roles are known ones, there is a message. */
MUST_USE enum err text_chatml_render(const struct text_chat *chat,
                                     const struct text_chat_message *messages,
                                     size_t message_count,
                                     const struct text_chat_options *options,
                                     struct why *why, struct buf *out);
MUST_USE enum err text_gemma_render(const struct text_chat *chat,
                                    const struct text_chat_message *messages,
                                    size_t message_count,
                                    const struct text_chat_options *options,
                                    struct why *why, struct buf *out);
MUST_USE enum err text_llama2_render(const struct text_chat *chat,
                                     const struct text_chat_message *messages,
                                     size_t message_count,
                                     const struct text_chat_options *options,
                                     struct why *why, struct buf *out);
MUST_USE enum err text_llama3_render(const struct text_chat *chat,
                                     const struct text_chat_message *messages,
                                     size_t message_count,
                                     const struct text_chat_options *options,
                                     struct why *why, struct buf *out);
MUST_USE enum err text_mistral_render(const struct text_chat *chat,
                                      const struct text_chat_message *messages,
                                      size_t message_count,
                                      const struct text_chat_options *options,
                                      struct why *why, struct buf *out);
MUST_USE enum err text_zephyr_render(const struct text_chat *chat,
                                     const struct text_chat_message *messages,
                                     size_t message_count,
                                     const struct text_chat_options *options,
                                     struct why *why, struct buf *out);

/* The role as templates know it: "developer" is "system". */
struct span text_chat_role(const struct text_chat_message *message);
bool text_chat_is(const struct text_chat_message *message, const char *role);
/* Without white space around, as the templates' trim does it. */
struct span text_chat_trim(struct span text);
/* Without line feeds at the front. */
struct span text_chat_drop_lines(struct span text);
/* Where `part` first is in `text`, or SIZE_MAX. */
size_t text_chat_find(struct span text, const char *part);
/* Refuses what is not user, assistant, user, ... from `first` on. */
MUST_USE enum err text_chat_check_turns(
    const struct text_chat *chat, const struct text_chat_message *messages,
    size_t message_count, size_t first, struct why *why);
