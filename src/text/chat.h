#pragma once
/* text/chat: a conversation to the prompt text that its model was trained on.
 *
 * Recognises the family from the template text in the file (never runs it):
 * ChatML (Qwen 2, 2.5 and 3 variants), Llama 2, Llama 3, Mistral, Zephyr.
 * Rendering equals that of the template itself for system, user and assistant
 * turns. Pure, any thread. */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "text/tokenizer.h"

struct text_chat; /* a recognised template with the specials it prints */

/* `name`: "chatml", "llama2", ... from --chat-template; NULL: look at the file.
 * ERR_UNSUPPORTED: `why` lists the names and hints at --chat-template.
 * ERR_NOT_FOUND: the file has no template and none was named. */
MUST_USE enum err text_chat_create(const struct gguf *gguf,
                                   const struct text_tokenizer *tokenizer,
                                   const char *name, struct why *why,
                                   struct text_chat **chat_out);
void text_chat_destroy(struct text_chat *chat);
const char *text_chat_name(const struct text_chat *chat);

struct text_chat_message {
    struct span role; /* "system", "user", "assistant", "tool", "developer" */
    struct span content;
};
struct text_chat_options {
    bool add_generation_prompt;
    bool disable_thinking; /* Qwen 3: enable_thinking = false */
};
/* ERR_INVALID names the message ("messages[2].role ..."). The result is to be
 * encoded with parse_special and without add_special: BOS is in the text where
 * the template prints one. ERR_FULL by the cap of `out`. */
MUST_USE enum err text_chat_render(const struct text_chat *chat,
                                   const struct text_chat_message *messages,
                                   size_t message_count,
                                   const struct text_chat_options *options,
                                   struct why *why, struct buf *out);
