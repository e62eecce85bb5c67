/* A model file with a vocabulary, then 0xFF 0x00 0xFF and a text: whatever the
 * file, encoding and decoding end and every id is one of the vocabulary. */
#include <stdlib.h>

#include "text/detokenizer.h"

enum { ID_COUNT_MAX = 1 << 16 };

static size_t find_border(const uint8_t *data, size_t size)
{
    for (size_t i = size; i-- > 3;) {
        if (data[i - 3] == 0xff && data[i - 2] == 0 && data[i - 1] == 0xff) {
            return i;
        }
    }
    return 0;
}

static void decode(const struct text_tokenizer *tokenizer,
                   const text_token *ids, size_t count)
{
    struct text_detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 64 << 20);
    text_detokenizer_init(&detokenizer, tokenizer, true);
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= text_vocab_size(tokenizer)) {
            abort();
        }
        text_detokenizer_add(&detokenizer, ids[i], &out);
    }
    text_detokenizer_flush(&detokenizer, &out);
    buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t border = find_border(data, size);
    struct why why = {0};
    struct gguf *gguf;
    struct text_tokenizer *tokenizer;
    if (gguf_open_bytes(span_of(data, border > 0 ? border - 3 : size), &why,
                        &gguf) != OK) {
        return 0;
    }
    if (text_tokenizer_create(gguf, &why, &tokenizer) != OK) {
        if (why.text[0] == 0) {
            abort();
        }
        gguf_close(gguf);
        return 0;
    }
    text_token *ids = malloc(ID_COUNT_MAX * sizeof(*ids));
    for (int round = 0; round < 2; round++) {
        struct text_encode_options options = {round == 1, round == 1};
        size_t count;
        if (text_encode(tokenizer, span_of(data + border, size - border),
                        &options, ids, ID_COUNT_MAX, &count) == OK) {
            decode(tokenizer, ids, count);
        }
    }
    free(ids);
    text_tokenizer_destroy(tokenizer);
    gguf_close(gguf);
    return 0;
}
