/* Any text as a chat template: refused, or a conversation made of the same
 * bytes renders without a fault. A zero byte parts the messages. */
#include <stdlib.h>
#include <string.h>

#include "text/chat.h"
#include "unit/text/vocab_builder.h"

static struct vocab_fixture fixture;

static void open_model(const char *template)
{
    struct why why;
    build_spm_vocab(&fixture.built, template);
    if (fixture_open(&fixture, &why) != OK) {
        abort();
    }
}

static size_t cut_messages(struct span data, struct text_chat_message *messages,
                           size_t count_max)
{
    static const char *const ROLES[] = {"system", "user", "assistant", "tool"};
    size_t count = 0;
    for (size_t at = 0; at < data.size && count < count_max;) {
        const uint8_t *end = memchr(data.data + at, 0, data.size - at);
        size_t stop = end == NULL ? data.size : (size_t)(end - data.data);
        messages[count].role = span_of_string(ROLES[data.data[at] % 4]);
        messages[count++].content = span_slice(data, at, stop);
        at = stop + 1;
    }
    return count;
}

static void render(const struct text_chat *chat, struct span data)
{
    struct text_chat_message messages[16];
    size_t count = cut_messages(data, messages, 16);
    for (int flags = 0; flags < 4; flags++) {
        struct text_chat_options options = {flags & 1, flags & 2};
        struct why why = {0};
        struct buf out;
        buf_init(&out, 1 << 20);
        if (text_chat_render(chat, messages, count, &options, &why, &out) !=
                OK &&
            why.text[0] == 0) {
            abort();
        }
        buf_finish(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const NAMES[] = {NULL,       "qwen3",      "llama2",
                                        "llama3.1", "mistral-v3", "qwen2.5"};
    char *template = calloc(size + 2, 1);
    memcpy(template, data, size);
    open_model(template[0] == 0 ? "x" : template);
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct why why = {0};
        struct text_chat *chat;
        if (text_chat_create(fixture.gguf, fixture.tokenizer, NAMES[i], &why,
                             &chat) == OK) {
            render(chat, span_of(data, size));
            text_chat_destroy(chat);
        } else if (NAMES[i] != NULL) {
            abort();
        }
    }
    fixture_close(&fixture);
    free(template);
    return 0;
}
