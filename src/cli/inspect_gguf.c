#include "cli/inspect_gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static void print_value(struct gguf_value value)
{
    enum { SHOWN_MAX = 60 };
    switch (value.kind) {
    case GGUF_UINT:
        printf("%" PRIu64, value.unsigned_value);
        break;
    case GGUF_INT:
        printf("%" PRId64, value.signed_value);
        break;
    case GGUF_FLOAT:
        printf("%g", value.float_value);
        break;
    case GGUF_BOOL:
        printf("%s", value.bool_value ? "true" : "false");
        break;
    case GGUF_STRING: {
        struct buf text;
        buf_init(&text, 4096);
        buf_add_json_string(&text, span_slice(value.string, 0, SHOWN_MAX));
        printf("%s%s", buf_string(&text),
               value.string.size > SHOWN_MAX ? "..." : "");
        buf_finish(&text);
        break;
    }
    case GGUF_ARRAY:
        printf("(%" PRIu64 " elements)", value.array.count);
        break;
    }
}

/* Without what would drive the terminal. */
static const char *plain(struct span name, struct why *text)
{
    IGNORE(why_say(text, OK, "%.*s", (int)name.size, (const char *)name.data));
    return text->text;
}

static void print_keys(const struct gguf *gguf)
{
    struct why text;
    for (uint32_t i = 0; i < gguf_key_count(gguf); i++) {
        struct span name;
        struct gguf_value value;
        gguf_key_at(gguf, i, &name, &value);
        printf("  %-44s ", plain(name, &text));
        print_value(value);
        printf("\n");
    }
}

static void print_tensors(const struct gguf *gguf)
{
    struct why text;
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        printf("  %-36s %-5s %6" PRIu64 " x %" PRIu64 "\n",
               plain(tensor->name, &text), gguf_type_info(tensor->type)->name,
               tensor->dimensions[1], tensor->dimensions[0]);
    }
}

static void print_types(const struct gguf *gguf)
{
    uint32_t counts[GGUF_TYPE_COUNT] = {0};
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        counts[gguf_tensor_at(gguf, i)->type]++;
    }
    printf("tensors             %u, %.1f MiB:", gguf_tensor_count(gguf),
           (double)gguf_tensor_bytes(gguf) / 1048576.0);
    for (uint32_t type = 0; type < GGUF_TYPE_COUNT; type++) {
        if (counts[type] > 0) {
            printf(" %u %s", counts[type], gguf_type_info(type)->name);
        }
    }
    printf("\n");
}

/* Text of the file, or "none". */
static const char *text_of(const struct gguf *gguf, const char *key,
                           struct why *text)
{
    struct span value = {0};
    if (gguf_read_string(gguf, key, NULL, &value) != OK || value.size == 0) {
        return "none";
    }
    return plain(value, text);
}

/* 0: the file does not say, or says no number. */
static uint32_t number_of(const struct gguf *gguf, const char *architecture,
                          const char *key)
{
    char name[512];
    uint32_t number = 0;
    snprintf(name, sizeof(name), "%s.%s", architecture, key);
    return gguf_read_u32(gguf, name, 0, NULL, &number) == OK ? number : 0;
}

static void print_sizes(const struct gguf *gguf, const char *architecture)
{
    uint32_t layers = number_of(gguf, architecture, "block_count");
    uint32_t heads = number_of(gguf, architecture, "attention.head_count");
    uint32_t context = number_of(gguf, architecture, "context_length");
    if (layers > 0) {
        printf("layers              %u of %u values, feed-forward %u\n", layers,
               number_of(gguf, architecture, "embedding_length"),
               number_of(gguf, architecture, "feed_forward_length"));
    }
    if (heads > 0) {
        printf("attention           %u heads, %u for KV\n", heads,
               number_of(gguf, architecture, "attention.head_count_kv"));
    }
    if (context > 0) {
        printf("context             %u tokens\n", context);
    }
}

static void print_text_parts(const struct gguf *gguf)
{
    struct why text, more;
    struct gguf_array tokens = {0};
    struct span chat = {0};
    bool has_tokens = gguf_read_array(gguf, "tokenizer.ggml.tokens",
                                      GGUF_STRING, NULL, &tokens) == OK;
    printf("tokenizer           %s, splits as %s, %" PRIu64 " tokens\n",
           text_of(gguf, "tokenizer.ggml.model", &text),
           text_of(gguf, "tokenizer.ggml.pre", &more),
           has_tokens ? tokens.count : 0);
    bool has_chat =
        gguf_read_string(gguf, "tokenizer.chat_template", NULL, &chat) == OK &&
        chat.size > 0;
    printf("chat template       %s\n", has_chat ? "yes" : "no");
}

static void print_outline(const struct gguf *gguf)
{
    struct why text, more;
    const char *architecture = text_of(gguf, "general.architecture", &text);
    printf("name                %s\n", text_of(gguf, "general.name", &more));
    printf("file                %.1f MiB\n",
           (double)gguf_file_bytes(gguf) / 1048576.0);
    printf("architecture        %s\n", architecture);
    print_sizes(gguf, architecture);
    print_text_parts(gguf);
    print_types(gguf);
}

void cli_inspect_gguf(const struct gguf *gguf, bool show_tensors)
{
    print_outline(gguf);
    printf("\nkeys\n");
    print_keys(gguf);
    if (show_tensors) {
        printf("\ntensors\n");
        print_tensors(gguf);
    }
}
