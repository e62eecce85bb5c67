#include "text/bpe.h"

#include "base/check.h"
#include "base/mem.h"
#include "text/merge.h"
#include "text/split.h"
#include "text/alphabet.h"

enum { MERGE_COUNT_MAX = 1 << 24 };

static const char MERGES_KEY[] = "tokenizer.ggml.merges";

struct pair {
    text_token left;
    text_token right;
};

struct text_bpe {
    const struct text_vocab *vocab;
    struct text_split *split;
    bool takes_whole_words; /* a word that is a token is not merged */
    struct pair *pairs; /* (merge_count): number is rank */
    text_token *results; /* (merge_count) */
    uint32_t merge_count;
    struct gguf_index pair_index;
    text_token byte_tokens[256];
    text_token replacement[3]; /* for bytes that have no token */
    uint32_t replacement_count;
};

static struct span pair_at(const void *owner, uint32_t number)
{
    const struct text_bpe *bpe = owner;
    return span_of(&bpe->pairs[number], sizeof(struct pair));
}

static enum err refuse_merge(struct why *why, uint32_t rank, struct span text,
                             const char *what)
{
    return why_say(why, ERR_INVALID, "key %s: merge %u (%.*s) %s", MERGES_KEY,
                   rank, text.size < 64 ? (int)text.size : 64, text.data, what);
}

/* "Ġ th" is the pair (Ġ, th) and makes Ġth; all three must be tokens. */
static enum err add_merge(struct text_bpe *bpe, uint32_t rank, struct span text,
                          uint8_t *scratch, struct why *why)
{
    const uint8_t *space =
        text.size > 2 ? memchr(text.data + 1, ' ', text.size - 1) : NULL;
    if (space == NULL || text.size - 1 > bpe->vocab->token_size_max) {
        return refuse_merge(why, rank, text,
                            space == NULL ? "is not two tokens with a space"
                                          : "makes no token");
    }
    size_t left = (size_t)(space - text.data);
    memcpy(scratch, text.data, left);
    memcpy(scratch + left, space + 1, text.size - left - 1);
    struct pair pair = {
        text_vocab_find(bpe->vocab, span_slice(text, 0, left)),
        text_vocab_find(bpe->vocab, span_slice(text, left + 1, text.size))};
    text_token result =
        text_vocab_find(bpe->vocab, span_of(scratch, text.size - 1));
    if (pair.left == TEXT_TOKEN_NONE || pair.right == TEXT_TOKEN_NONE ||
        result == TEXT_TOKEN_NONE) {
        return refuse_merge(why, rank, text, "names what is not a token");
    }
    bpe->pairs[rank] = pair;
    bpe->results[rank] = result;
    /* Of equal pairs the first, lower rank counts. */
    gguf_index_add(&bpe->pair_index, rank);
    return OK;
}

static enum err add_merges(struct text_bpe *bpe, struct gguf_array *merges,
                           struct why *why)
{
    uint8_t *scratch = mem_try_array(bpe->vocab->token_size_max + 1, 1);
    if (scratch == NULL) {
        return why_say(why, ERR_NO_MEMORY, "key %s: no memory", MERGES_KEY);
    }
    enum err err = OK;
    struct span text;
    for (uint32_t rank = 0; err == OK && gguf_array_next_string(merges, &text);
         rank++) {
        err = add_merge(bpe, rank, text, scratch, why);
    }
    mem_free(scratch);
    return err;
}

static enum err read_merges(struct text_bpe *bpe, const struct gguf *gguf,
                            struct why *why)
{
    struct gguf_array merges;
    enum err err = gguf_read_array(gguf, MERGES_KEY, GGUF_STRING, why, &merges);
    if (err != OK) {
        return err;
    }
    if (merges.count == 0 || merges.count > MERGE_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "key %s: %llu merges", MERGES_KEY,
                       (unsigned long long)merges.count);
    }
    bpe->merge_count = (uint32_t)merges.count;
    bpe->pairs = mem_try_array(bpe->merge_count, sizeof(*bpe->pairs));
    bpe->results = mem_try_array(bpe->merge_count, sizeof(*bpe->results));
    if (bpe->pairs == NULL || bpe->results == NULL ||
        gguf_index_init(&bpe->pair_index, bpe->merge_count, pair_at, bpe) !=
            OK) {
        return why_say(why, ERR_NO_MEMORY, "key %s: no memory for %u merges",
                       MERGES_KEY, bpe->merge_count);
    }
    return add_merges(bpe, &merges, why);
}

static text_token find_byte(const struct text_vocab *vocab, uint8_t byte)
{
    uint8_t mapped[2];
    size_t size = text_alphabet_encode(byte, mapped);
    return text_vocab_find(vocab, span_of(mapped, size));
}

static void find_bytes(struct text_bpe *bpe)
{
    static const uint8_t REPLACEMENT[3] = {0xef, 0xbf, 0xbd};
    for (uint32_t byte = 0; byte < 256; byte++) {
        bpe->byte_tokens[byte] = find_byte(bpe->vocab, (uint8_t)byte);
    }
    for (uint32_t i = 0; i < 3; i++) {
        bpe->replacement[i] = bpe->byte_tokens[REPLACEMENT[i]];
        bpe->replacement_count +=
            bpe->replacement[i] != TEXT_TOKEN_NONE ? 1 : 0;
    }
    if (bpe->replacement_count < 3) {
        bpe->replacement[0] = bpe->vocab->unknown;
        bpe->replacement_count = bpe->vocab->unknown != TEXT_TOKEN_NONE;
    }
}

enum err text_bpe_create(const struct gguf *gguf,
                         const struct text_vocab *vocab, struct why *why,
                         struct text_bpe **bpe_out)
{
    struct span name;
    enum err err = gguf_read_string(gguf, "tokenizer.ggml.pre", why, &name);
    if (err != OK) {
        return err;
    }
    struct text_bpe *bpe = mem_new(sizeof(*bpe));
    bpe->vocab = vocab;
    err = text_split_create(name, why, &bpe->split);
    if (err == OK) {
        err = read_merges(bpe, gguf, why);
    }
    if (err != OK) {
        text_bpe_destroy(bpe);
        return err;
    }
    find_bytes(bpe);
    bpe->takes_whole_words = !strcmp(text_bpe_name(bpe), "llama-bpe");
    *bpe_out = bpe;
    return OK;
}

void text_bpe_destroy(struct text_bpe *bpe)
{
    if (bpe == NULL) {
        return;
    }
    text_split_destroy(bpe->split);
    gguf_index_finish(&bpe->pair_index);
    mem_free(bpe->pairs);
    mem_free(bpe->results);
    mem_free(bpe);
}

const char *text_bpe_name(const struct text_bpe *bpe)
{
    return text_split_name(bpe->split);
}

bool text_bpe_adds_bos(const struct text_bpe *bpe)
{
    return bpe->takes_whole_words;
}

static bool find_pair(const void *context, const struct text_symbol *left,
                      const struct text_symbol *right,
                      struct text_merge *merge_out)
{
    const struct text_bpe *bpe = context;
    struct pair pair = {left->id, right->id};
    int64_t rank =
        gguf_index_find(&bpe->pair_index, span_of(&pair, sizeof(pair)));
    if (rank == GGUF_INDEX_NONE) {
        return false;
    }
    merge_out->priority = (uint32_t)rank;
    merge_out->id = bpe->results[rank];
    return true;
}

/* The token that a whole word is, if it is one. */
static text_token find_word(const struct text_bpe *bpe, struct span word)
{
    uint8_t mapped[256];
    if (word.size > sizeof(mapped) / 2) {
        return TEXT_TOKEN_NONE;
    }
    size_t size = 0;
    for (size_t i = 0; i < word.size; i++) {
        size += text_alphabet_encode(word.data[i], mapped + size);
    }
    return text_vocab_find_plain(bpe->vocab, span_of(mapped, size));
}

struct encoding {
    const struct text_bpe *bpe;
    struct text_merger *merger;
    struct text_sink *sink;
};

static void add_symbol(const struct encoding *encoding, text_token id)
{
    if (id != TEXT_TOKEN_NONE) {
        text_sink_add(encoding->sink, id);
        return;
    }
    for (uint32_t i = 0; i < encoding->bpe->replacement_count; i++) {
        text_sink_add(encoding->sink, encoding->bpe->replacement[i]);
    }
}

static enum err encode_word(void *context, struct span word)
{
    const struct encoding *encoding = context;
    const struct text_bpe *bpe = encoding->bpe;
    if (encoding->sink->is_over || word.size > UINT32_MAX / 4) {
        return ERR_FULL;
    }
    if (bpe->takes_whole_words) {
        text_token id = find_word(bpe, word);
        if (id != TEXT_TOKEN_NONE) {
            text_sink_add(encoding->sink, id);
            return OK;
        }
    }
    uint32_t count = (uint32_t)word.size;
    enum err err = text_merger_reserve(encoding->merger, count);
    if (err != OK) {
        return err;
    }
    struct text_symbol *symbols = encoding->merger->symbols;
    for (uint32_t i = 0; i < count; i++) {
        symbols[i].begin = i;
        symbols[i].size = 1;
        symbols[i].id = bpe->byte_tokens[word.data[i]];
    }
    text_merger_run(encoding->merger, count, find_pair, bpe);
    for (uint32_t i = 0; i < count; i++) {
        if (symbols[i].size > 0) {
            add_symbol(encoding, symbols[i].id);
        }
    }
    return OK;
}

enum err text_bpe_encode(const struct text_bpe *bpe, struct span text,
                         struct text_merger *merger, struct text_sink *sink)
{
    struct encoding encoding = {bpe, merger, sink};
    return text_split_run(bpe->split, text, encode_word, &encoding);
}
