/* Tokenizes, or renders chats, for a test in another language: one process
 * for thousands of cases.
 *
 *   text_batch MODEL encode [special]    each record: a text
 *   text_batch MODEL chat [FAMILY]       each record: flags (1 generation
 *                                        prompt, 2 no thinking), then role
 *                                        and content of each message
 *
 * A record on stdin is a count of fields and the fields, each its size and its
 * bytes; numbers are 32-bit little-endian. Each answer is one line on stdout:
 * ids with spaces, the text as hex, or "! " and why not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat.h"
#include "text/tokenizer.h"

enum { FIELD_COUNT_MAX = 1024, SIZE_MAX_READ = 64 << 20 };

struct record {
    uint32_t count;
    struct span fields[FIELD_COUNT_MAX];
};

static void die(const char *text)
{
    fprintf(stderr, "text_batch: %s\n", text);
    exit(1);
}

static bool read_u32(uint32_t *value_out)
{
    return fread(value_out, 1, 4, stdin) == 4;
}

static bool read_record(struct record *record)
{
    if (!read_u32(&record->count)) {
        return false;
    }
    if (record->count > FIELD_COUNT_MAX) {
        die("too many fields");
    }
    for (uint32_t i = 0; i < record->count; i++) {
        uint32_t size;
        if (!read_u32(&size) || size > SIZE_MAX_READ) {
            die("bad record");
        }
        uint8_t *data = malloc(size + 1);
        if (fread(data, 1, size, stdin) != size) {
            die("short record");
        }
        record->fields[i] = span_of(data, size);
    }
    return true;
}

static void free_record(struct record *record)
{
    for (uint32_t i = 0; i < record->count; i++) {
        free((void *)record->fields[i].data);
    }
}

static void encode(const struct text_tokenizer *tokenizer, struct span text,
                   bool special)
{
    size_t count_max = text.size * 3 + 16;
    text_token *ids = malloc(count_max * sizeof(*ids));
    size_t count;
    struct text_encode_options options = {special, special};
    enum err err =
        text_encode(tokenizer, text, &options, ids, count_max, &count);
    if (err != OK) {
        printf("! %s\n", err_name(err));
        free(ids);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        printf(i == 0 ? "%d" : " %d", ids[i]);
    }
    putchar('\n');
    free(ids);
}

static void render(const struct text_chat *chat, const struct record *record)
{
    struct text_chat_message messages[FIELD_COUNT_MAX / 2];
    size_t count = 0;
    for (uint32_t i = 1; i + 1 < record->count; i += 2) {
        messages[count++] = (struct text_chat_message){record->fields[i],
                                                       record->fields[i + 1]};
    }
    int flags = record->fields[0].data[0];
    struct text_chat_options options = {(flags & 1) != 0, (flags & 2) != 0};
    struct why why = {0};
    struct buf out;
    buf_init(&out, SIZE_MAX_READ);
    enum err err =
        text_chat_render(chat, messages, count, &options, &why, &out);
    if (err != OK) {
        printf("! %s", why.text);
    }
    for (size_t i = 0; err == OK && i < out.size; i++) {
        printf("%02x", out.data[i]);
    }
    putchar('\n');
    buf_finish(&out);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        die("usage: text_batch MODEL encode [special] | chat [FAMILY]");
    }
    struct why why = {0};
    struct gguf *gguf;
    struct text_tokenizer *tokenizer;
    struct text_chat *chat = NULL;
    bool is_chat = !strcmp(argv[2], "chat");
    if (gguf_open(argv[1], &why, &gguf) != OK ||
        text_tokenizer_create(gguf, &why, &tokenizer) != OK) {
        die(why.text);
    }
    if (is_chat &&
        text_chat_create(gguf, tokenizer, argv[3], &why, &chat) != OK) {
        die(why.text);
    }
    struct record record;
    while (read_record(&record)) {
        if (is_chat) {
            render(chat, &record);
        } else {
            encode(tokenizer, record.fields[0], argc > 3);
        }
        free_record(&record);
    }
    text_chat_destroy(chat);
    text_tokenizer_destroy(tokenizer);
    gguf_close(gguf);
    return 0;
}
