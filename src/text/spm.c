#include "text/spm.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/merge.h"

static const char ESCAPED_SPACE[] = "\xe2\x96\x81"; /* U+2581 */

struct text_spm {
    const struct text_vocab *vocab;
    bool adds_space_prefix;
    text_token byte_tokens[256];
};

enum err text_spm_create(const struct gguf *gguf,
                         const struct text_vocab *vocab, struct why *why,
                         struct text_spm **spm_out)
{
    bool adds_space_prefix;
    enum err err = gguf_read_bool(gguf, "tokenizer.ggml.add_space_prefix", true,
                                  why, &adds_space_prefix);
    if (err != OK) {
        return err;
    }
    struct text_spm *spm = mem_new(sizeof(*spm));
    spm->vocab = vocab;
    spm->adds_space_prefix = adds_space_prefix;
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof(text), "<0x%02X>", byte);
        text_token id = text_vocab_find(vocab, span_of_string(text));
        bool is_byte =
            id != TEXT_TOKEN_NONE && vocab->types[id] == TEXT_TYPE_BYTE;
        spm->byte_tokens[byte] = is_byte ? id : TEXT_TOKEN_NONE;
    }
    *spm_out = spm;
    return OK;
}

void text_spm_destroy(struct text_spm *spm)
{
    mem_free(spm);
}

/* Spaces become U+2581; returns the bytes written. */
static size_t escape(struct span text, bool has_prefix, uint8_t *out)
{
    size_t size = 0;
    if (has_prefix) {
        memcpy(out, ESCAPED_SPACE, 3);
        size = 3;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == ' ') {
            memcpy(out + size, ESCAPED_SPACE, 3);
            size += 3;
        } else {
            out[size++] = text.data[i];
        }
    }
    return size;
}

/* Floats to integers of the reverse order: the best score comes first. */
static uint32_t priority_of(double score)
{
    float narrow = (float)score + 0.0f;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    bool is_negative = (bits >> 31) != 0;
    return is_negative ? bits : ~(bits | 0x80000000u);
}

struct encoding {
    const struct text_spm *spm;
    struct span text; /* escaped */
};

static bool find_pair(const void *context, const struct text_symbol *left,
                      const struct text_symbol *right,
                      struct text_merge *merge_out)
{
    const struct encoding *encoding = context;
    const struct text_vocab *vocab = encoding->spm->vocab;
    struct span joined = {encoding->text.data + left->begin,
                          left->size + right->size};
    text_token id = text_vocab_find_plain(vocab, joined);
    if (id == TEXT_TOKEN_NONE) {
        return false;
    }
    merge_out->id = id;
    merge_out->priority =
        priority_of(gguf_array_float_at(&vocab->scores, (uint64_t)id));
    return true;
}

/* One symbol a character; returns how many. */
static uint32_t cut(const struct encoding *encoding,
                    struct text_symbol *symbols)
{
    uint32_t count = 0;
    for (size_t at = 0; at < encoding->text.size;) {
        struct span rest = span_slice(encoding->text, at, encoding->text.size);
        size_t size = utf8_size(rest);
        size = size > 0 ? size : 1;
        symbols[count++] = (struct text_symbol){
            .begin = (uint32_t)at,
            .size = (uint32_t)size,
            .id = text_vocab_find_plain(encoding->spm->vocab,
                                        span_slice(rest, 0, size))};
        at += size;
    }
    return count;
}

/* A character without a token: its bytes, or the unknown token once. */
static void spell(const struct text_spm *spm, struct span character,
                  struct text_sink *sink)
{
    for (size_t i = 0; i < character.size; i++) {
        text_token id = spm->byte_tokens[character.data[i]];
        if (id == TEXT_TOKEN_NONE) {
            if (spm->vocab->unknown != TEXT_TOKEN_NONE) {
                text_sink_add(sink, spm->vocab->unknown);
            }
            return;
        }
        text_sink_add(sink, id);
    }
}

static enum err encode_escaped(const struct encoding *encoding,
                               struct text_merger *merger,
                               struct text_sink *sink)
{
    enum err err = text_merger_reserve(merger, (uint32_t)encoding->text.size);
    if (err != OK) {
        return err;
    }
    uint32_t count = cut(encoding, merger->symbols);
    text_merger_run(merger, count, find_pair, encoding);
    for (uint32_t i = 0; i < count; i++) {
        const struct text_symbol *symbol = &merger->symbols[i];
        if (symbol->size > 0 && symbol->id != TEXT_TOKEN_NONE) {
            text_sink_add(sink, symbol->id);
        } else if (symbol->size > 0) {
            spell(encoding->spm,
                  span_slice(encoding->text, symbol->begin,
                             symbol->begin + symbol->size),
                  sink);
        }
    }
    return OK;
}

enum err text_spm_encode(const struct text_spm *spm, struct span text,
                         bool is_start, struct text_merger *merger,
                         struct text_sink *sink)
{
    if (text.size == 0) {
        return OK;
    }
    if (text.size > UINT32_MAX / 16) {
        return ERR_FULL;
    }
    uint8_t *escaped = mem_try_array(text.size + 1, 3);
    if (escaped == NULL) {
        return ERR_NO_MEMORY;
    }
    size_t size = escape(text, is_start && spm->adds_space_prefix, escaped);
    struct encoding encoding = {spm, span_of(escaped, size)};
    enum err err = encode_escaped(&encoding, merger, sink);
    mem_free(escaped);
    return err;
}
