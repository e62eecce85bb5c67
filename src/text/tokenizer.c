#include "text/tokenizer.h"

#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "text/bpe.h"
#include "text/merge.h"
#include "text/spm.h"
#include "text/tokenizer_vocab.h"

struct text_tokenizer {
    struct text_vocab vocab;
    struct text_bpe *bpe; /* one of the two */
    struct text_spm *spm;
    bool adds_bos;
    bool adds_eos;
    char kind[32]; /* "bpe llama-bpe", "spm" */
};

static enum err read_model(const struct gguf *gguf, struct why *why,
                           bool *is_byte_level_out)
{
    static const char KEY[] = "tokenizer.ggml.model";
    struct span model;
    enum err err = gguf_read_string(gguf, KEY, why, &model);
    if (err != OK) {
        return err;
    }
    if (model.size == 0) {
        return why_say(why, ERR_INVALID, "key %s is missing", KEY);
    }
    *is_byte_level_out = span_equals_string(model, "gpt2");
    if (!*is_byte_level_out && !span_equals_string(model, "llama")) {
        return why_say(why, ERR_UNSUPPORTED,
                       "key %s: \"%.*s\" is not supported; we have gpt2 and "
                       "llama",
                       KEY, model.size < 64 ? (int)model.size : 64, model.data);
    }
    return OK;
}

static enum err create_family(struct text_tokenizer *tokenizer,
                              const struct gguf *gguf, bool is_byte_level,
                              struct why *why)
{
    enum err err = text_vocab_init(&tokenizer->vocab, gguf, is_byte_level, why);
    if (err != OK) {
        return err;
    }
    if (!is_byte_level) {
        tokenizer->adds_bos = true;
        snprintf(tokenizer->kind, sizeof(tokenizer->kind), "spm");
        return text_spm_create(gguf, &tokenizer->vocab, why, &tokenizer->spm);
    }
    err = text_bpe_create(gguf, &tokenizer->vocab, why, &tokenizer->bpe);
    if (err == OK) {
        tokenizer->adds_bos = text_bpe_adds_bos(tokenizer->bpe);
        snprintf(tokenizer->kind, sizeof(tokenizer->kind), "bpe %s",
                 text_bpe_name(tokenizer->bpe));
    }
    return err;
}

/* What the file says wins over the family's habit. */
static enum err read_ends(struct text_tokenizer *tokenizer,
                          const struct gguf *gguf, struct why *why)
{
    enum err err =
        gguf_read_bool(gguf, "tokenizer.ggml.add_bos_token",
                       tokenizer->adds_bos, why, &tokenizer->adds_bos);
    if (err == OK) {
        err = gguf_read_bool(gguf, "tokenizer.ggml.add_eos_token",
                             tokenizer->adds_eos, why, &tokenizer->adds_eos);
    }
    return err;
}

enum err text_tokenizer_create(const struct gguf *gguf, struct why *why,
                               struct text_tokenizer **tokenizer_out)
{
    bool is_byte_level = false;
    enum err err = read_model(gguf, why, &is_byte_level);
    if (err != OK) {
        return err;
    }
    struct text_tokenizer *tokenizer = mem_new(sizeof(*tokenizer));
    err = create_family(tokenizer, gguf, is_byte_level, why);
    if (err == OK) {
        err = read_ends(tokenizer, gguf, why);
    }
    if (err != OK) {
        text_tokenizer_destroy(tokenizer);
        return err;
    }
    *tokenizer_out = tokenizer;
    return OK;
}

void text_tokenizer_destroy(struct text_tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    text_bpe_destroy(tokenizer->bpe);
    text_spm_destroy(tokenizer->spm);
    text_vocab_finish(&tokenizer->vocab);
    mem_free(tokenizer);
}

static enum err encode_plain(const struct text_tokenizer *tokenizer,
                             struct span text, bool is_start,
                             struct text_merger *merger, struct text_sink *sink)
{
    return tokenizer->bpe != NULL
               ? text_bpe_encode(tokenizer->bpe, text, merger, sink)
               : text_spm_encode(tokenizer->spm, text, is_start, merger, sink);
}

/* Cuts the specials out; what lies between goes to the family. */
static enum err encode_parts(const struct text_tokenizer *tokenizer,
                             struct span text, bool parse_special,
                             struct text_merger *merger, struct text_sink *sink)
{
    bool is_start = true;
    while (text.size > 0) {
        text_token special = TEXT_TOKEN_NONE;
        size_t begin = text_vocab_find_special(&tokenizer->vocab, text,
                                               parse_special, &special);
        enum err err = encode_plain(tokenizer, span_slice(text, 0, begin),
                                    is_start, merger, sink);
        if (err != OK) {
            return err;
        }
        if (special == TEXT_TOKEN_NONE) {
            return OK;
        }
        text_sink_add(sink, special);
        size_t size =
            text_vocab_text(&tokenizer->vocab, (uint32_t)special).size;
        text = span_slice(text, begin + size, text.size);
        is_start = true;
    }
    return OK;
}

enum err text_encode(const struct text_tokenizer *tokenizer, struct span text,
                     const struct text_encode_options *options, text_token *ids,
                     size_t id_count_max, size_t *id_count_out)
{
    const struct text_vocab *vocab = &tokenizer->vocab;
    /* No token is longer than the longest: spare the work for what cannot
     * fit. */
    if (text.size / (vocab->token_size_max + 1) > id_count_max) {
        return ERR_FULL;
    }
    struct text_sink sink = {.ids = ids, .count_max = id_count_max};
    if (options->add_special && tokenizer->adds_bos &&
        vocab->bos != TEXT_TOKEN_NONE) {
        text_sink_add(&sink, vocab->bos);
    }
    struct text_merger merger;
    text_merger_init(&merger);
    enum err err =
        encode_parts(tokenizer, text, options->parse_special, &merger, &sink);
    text_merger_finish(&merger);
    if (options->add_special && tokenizer->adds_eos &&
        vocab->eos != TEXT_TOKEN_NONE) {
        text_sink_add(&sink, vocab->eos);
    }
    if (err != OK || sink.is_over) {
        return err != OK ? err : ERR_FULL;
    }
    *id_count_out = sink.count;
    return OK;
}

const struct text_vocab *text_tokenizer_vocab(
    const struct text_tokenizer *tokenizer)
{
    return &tokenizer->vocab;
}

void text_token_bytes(const struct text_tokenizer *tokenizer, text_token id,
                      bool show_special, struct buf *out)
{
    if (id < 0 || (uint32_t)id >= tokenizer->vocab.count ||
        (text_token_is_special(tokenizer, id) && !show_special)) {
        return;
    }
    struct text_piece piece = text_vocab_piece(&tokenizer->vocab, (uint32_t)id);
    uint8_t byte;
    while (text_piece_next(&piece, &byte)) {
        buf_add_byte(out, byte);
    }
}

bool text_token_is_special(const struct text_tokenizer *tokenizer,
                           text_token id)
{
    if (id < 0 || (uint32_t)id >= tokenizer->vocab.count) {
        return false;
    }
    uint8_t type = tokenizer->vocab.types[id];
    return type == TEXT_TYPE_CONTROL || type == TEXT_TYPE_UNKNOWN;
}

text_token text_token_find(const struct text_tokenizer *tokenizer,
                           struct span text)
{
    return text_vocab_find(&tokenizer->vocab, text);
}

uint32_t text_vocab_size(const struct text_tokenizer *tokenizer)
{
    return tokenizer->vocab.count;
}

text_token text_bos(const struct text_tokenizer *tokenizer)
{
    return tokenizer->vocab.bos;
}

text_token text_eos(const struct text_tokenizer *tokenizer)
{
    return tokenizer->vocab.eos;
}

uint32_t text_end_tokens(const struct text_tokenizer *tokenizer,
                         text_token *ids_out, uint32_t count_max)
{
    const struct text_vocab *vocab = &tokenizer->vocab;
    for (uint32_t i = 0; i < vocab->end_count && i < count_max; i++) {
        ids_out[i] = vocab->ends[i];
    }
    return vocab->end_count;
}

const char *text_tokenizer_kind(const struct text_tokenizer *tokenizer)
{
    return tokenizer->kind;
}
