#include "text/vocab.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/alphabet.h"

/* Tokens that end a turn in the families we know, whatever the keys say. */
static const char *const TURN_ENDS[] = {
    "<|im_end|>",    "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
    "<|endoftext|>", "<|end|>",    "</s>",       "<end_of_turn>",
};

static struct span text_at(const void *owner, uint32_t id)
{
    const struct text_vocab *vocab = owner;
    uint32_t begin = vocab->offsets[id] + (uint32_t)sizeof(uint64_t);
    return span_slice(vocab->bytes, begin, vocab->offsets[id + 1]);
}

struct span text_vocab_text(const struct text_vocab *vocab, uint32_t id)
{
    CHECK(id < vocab->count);
    return text_at(vocab, id);
}

static enum err read_texts(struct text_vocab *vocab, const struct gguf *gguf,
                           struct why *why)
{
    static const char KEY[] = "tokenizer.ggml.tokens";
    struct gguf_array array;
    enum err err = gguf_read_array(gguf, KEY, GGUF_STRING, why, &array);
    if (err != OK) {
        return err;
    }
    if (array.count == 0 || array.count > TEXT_TOKEN_COUNT_MAX ||
        array.bytes.size > UINT32_MAX) {
        return why_say(why, ERR_INVALID, "key %s: %llu tokens", KEY,
                       (unsigned long long)array.count);
    }
    vocab->count = (uint32_t)array.count;
    vocab->bytes = array.bytes;
    vocab->offsets = mem_try_array(vocab->count + 1, sizeof(uint32_t));
    if (vocab->offsets == NULL) {
        return why_say(why, ERR_NO_MEMORY, "key %s: no memory", KEY);
    }
    struct span text;
    for (uint32_t id = 0; gguf_array_next_string(&array, &text); id++) {
        if (text.size > TEXT_TOKEN_SIZE_MAX) {
            return why_say(why, ERR_INVALID,
                           "key %s: token %u has %zu bytes, at most %d", KEY,
                           id, text.size, TEXT_TOKEN_SIZE_MAX);
        }
        vocab->token_size_max = text.size > vocab->token_size_max
                                    ? (uint32_t)text.size
                                    : vocab->token_size_max;
        vocab->offsets[id + 1] =
            vocab->offsets[id] + (uint32_t)(sizeof(uint64_t) + text.size);
    }
    return OK;
}

static enum err read_types(struct text_vocab *vocab, const struct gguf *gguf,
                           struct why *why)
{
    static const char KEY[] = "tokenizer.ggml.token_type";
    struct gguf_array array;
    enum err err = gguf_read_array(gguf, KEY, GGUF_INT, why, &array);
    if (err != OK) {
        return err;
    }
    if (array.count != 0 && array.count != vocab->count) {
        return why_say(why, ERR_INVALID, "key %s: %llu types for %u tokens",
                       KEY, (unsigned long long)array.count, vocab->count);
    }
    vocab->types = mem_try_array(vocab->count, sizeof(uint8_t));
    if (vocab->types == NULL) {
        return why_say(why, ERR_NO_MEMORY, "key %s: no memory", KEY);
    }
    for (uint32_t id = 0; id < vocab->count; id++) {
        int64_t type = array.count == 0 ? TEXT_TYPE_NORMAL
                                        : gguf_array_integer_at(&array, id);
        if (type < 0 || type > TEXT_TYPE_BYTE) {
            return why_say(why, ERR_INVALID, "key %s: token %u has type %lld",
                           KEY, id, (long long)type);
        }
        vocab->types[id] = type == 0 ? TEXT_TYPE_NORMAL : (uint8_t)type;
    }
    return OK;
}

static enum err read_scores(struct text_vocab *vocab, const struct gguf *gguf,
                            struct why *why)
{
    static const char KEY[] = "tokenizer.ggml.scores";
    enum err err = gguf_read_array(gguf, KEY, GGUF_FLOAT, why, &vocab->scores);
    if (err == OK && vocab->scores.count != vocab->count) {
        err =
            why_say(why, ERR_INVALID, "key %s: %llu scores for %u tokens", KEY,
                    (unsigned long long)vocab->scores.count, vocab->count);
    }
    return err;
}

/* An id from the file becomes a control token even if its type says less. */
static enum err read_id(struct text_vocab *vocab, const struct gguf *gguf,
                        const char *key, struct why *why, text_token *id_out)
{
    uint32_t id;
    enum err err = gguf_read_u32(gguf, key, UINT32_MAX, why, &id);
    if (err != OK) {
        return err;
    }
    if (id != UINT32_MAX && id >= vocab->count) {
        return why_say(why, ERR_INVALID, "key %s: %u, but there are %u tokens",
                       key, id, vocab->count);
    }
    *id_out = id == UINT32_MAX ? TEXT_TOKEN_NONE : (text_token)id;
    if (id != UINT32_MAX && vocab->types[id] == TEXT_TYPE_NORMAL) {
        vocab->types[id] = TEXT_TYPE_CONTROL;
    }
    return OK;
}

static void add_end(struct text_vocab *vocab, text_token id)
{
    if (id == TEXT_TOKEN_NONE) {
        return;
    }
    for (uint32_t i = 0; i < vocab->end_count; i++) {
        if (vocab->ends[i] == id) {
            return;
        }
    }
    CHECK(vocab->end_count < TEXT_END_COUNT_MAX);
    vocab->ends[vocab->end_count++] = id;
}

static enum err read_specials(struct text_vocab *vocab, const struct gguf *gguf,
                              struct why *why)
{
    text_token eot = TEXT_TOKEN_NONE;
    text_token eom = TEXT_TOKEN_NONE;
    text_token padding = TEXT_TOKEN_NONE;
    const struct {
        const char *key;
        text_token *id_out;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", &vocab->bos},
        {"tokenizer.ggml.eos_token_id", &vocab->eos},
        {"tokenizer.ggml.unknown_token_id", &vocab->unknown},
        {"tokenizer.ggml.padding_token_id", &padding},
        {"tokenizer.ggml.eot_token_id", &eot},
        {"tokenizer.ggml.eom_token_id", &eom},
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        enum err err = read_id(vocab, gguf, ids[i].key, why, ids[i].id_out);
        if (err != OK) {
            return err;
        }
    }
    add_end(vocab, vocab->eos);
    add_end(vocab, eot);
    add_end(vocab, eom);
    return OK;
}

static void find_turn_ends(struct text_vocab *vocab)
{
    for (size_t i = 0; i < sizeof(TURN_ENDS) / sizeof(TURN_ENDS[0]); i++) {
        text_token id = text_vocab_find(vocab, span_of_string(TURN_ENDS[i]));
        if (id != TEXT_TOKEN_NONE &&
            (vocab->types[id] == TEXT_TYPE_CONTROL ||
             vocab->types[id] == TEXT_TYPE_USER_DEFINED)) {
            add_end(vocab, id);
        }
    }
}

static bool is_cut_out(uint8_t type)
{
    return type == TEXT_TYPE_CONTROL || type == TEXT_TYPE_USER_DEFINED ||
           type == TEXT_TYPE_UNKNOWN;
}

static int compare_texts(const void *a, const void *b, void *context)
{
    struct span left = text_at(context, *(const uint32_t *)a);
    struct span right = text_at(context, *(const uint32_t *)b);
    size_t size = left.size < right.size ? left.size : right.size;
    int order = memcmp(left.data, right.data, size);
    return order != 0 ? order
                      : (left.size > right.size) - (left.size < right.size);
}

static enum err sort_specials(struct text_vocab *vocab, struct why *why)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab->count; id++) {
        count += is_cut_out(vocab->types[id]);
    }
    vocab->specials = mem_try_array(count + 1, sizeof(uint32_t));
    if (vocab->specials == NULL) {
        return why_say(why, ERR_NO_MEMORY, "no memory for special tokens");
    }
    for (uint32_t id = 0; id < vocab->count; id++) {
        if (is_cut_out(vocab->types[id]) && text_at(vocab, id).size > 0) {
            vocab->specials[vocab->special_count++] = id;
            vocab->begins_special[text_at(vocab, id).data[0]] = true;
        }
    }
    qsort_r(vocab->specials, vocab->special_count, sizeof(uint32_t),
            compare_texts, vocab);
    return OK;
}

/* From the last id down: of equal texts the last one counts. */
static enum err index_texts(struct text_vocab *vocab, struct why *why)
{
    enum err err = gguf_index_init(&vocab->index, vocab->count, text_at, vocab);
    if (err != OK) {
        return why_say(why, err, "no memory to index %u tokens", vocab->count);
    }
    for (uint32_t id = vocab->count; id-- > 0;) {
        if (text_at(vocab, id).size > 0) {
            gguf_index_add(&vocab->index, id);
        }
    }
    return OK;
}

enum err text_vocab_init(struct text_vocab *vocab, const struct gguf *gguf,
                         bool is_byte_level, struct why *why)
{
    *vocab = (struct text_vocab){.is_byte_level = is_byte_level};
    enum err err = read_texts(vocab, gguf, why);
    if (err == OK) {
        err = read_types(vocab, gguf, why);
    }
    if (err == OK && !is_byte_level) {
        err = read_scores(vocab, gguf, why);
    }
    if (err == OK) {
        err = read_specials(vocab, gguf, why);
    }
    if (err == OK) {
        err = index_texts(vocab, why);
    }
    if (err == OK) {
        find_turn_ends(vocab);
        err = sort_specials(vocab, why);
    }
    if (err != OK) {
        text_vocab_finish(vocab);
    }
    return err;
}

void text_vocab_finish(struct text_vocab *vocab)
{
    mem_free(vocab->offsets);
    mem_free(vocab->types);
    mem_free(vocab->specials);
    gguf_index_finish(&vocab->index);
    *vocab = (struct text_vocab){0};
}

text_token text_vocab_find(const struct text_vocab *vocab, struct span text)
{
    if (text.size == 0 || text.size > vocab->token_size_max) {
        return TEXT_TOKEN_NONE;
    }
    return (text_token)gguf_index_find(&vocab->index, text);
}

text_token text_vocab_find_plain(const struct text_vocab *vocab,
                                 struct span text)
{
    text_token id = text_vocab_find(vocab, text);
    if (id == TEXT_TOKEN_NONE || vocab->types[id] == TEXT_TYPE_NORMAL ||
        vocab->types[id] == TEXT_TYPE_USER_DEFINED) {
        return id;
    }
    return TEXT_TOKEN_NONE;
}

/* Byte `at` of special number `number`, or -1 past its end: shorter first. */
static int special_byte(const struct text_vocab *vocab, uint32_t number,
                        size_t at)
{
    struct span text = text_at(vocab, vocab->specials[number]);
    return at < text.size ? text.data[at] : -1;
}

/* The first special in [low, high) whose byte `at` is at least `byte`; all
 * there share the bytes before. */
static uint32_t lower_bound(const struct text_vocab *vocab, uint32_t low,
                            uint32_t high, size_t at, int byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (special_byte(vocab, middle, at) < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest special that `text` starts with: the sorted list is narrowed
 * byte by byte, as if it were a tree. */
static text_token longest_special(const struct text_vocab *vocab,
                                  struct span text, bool parse_special)
{
    text_token found = TEXT_TOKEN_NONE;
    uint32_t low = 0;
    uint32_t high = vocab->special_count;
    for (size_t at = 0; at < text.size; at++) {
        low = lower_bound(vocab, low, high, at, text.data[at]);
        high = lower_bound(vocab, low, high, at, text.data[at] + 1);
        if (low == high) {
            break;
        }
        uint32_t id = vocab->specials[low];
        if (text_at(vocab, id).size == at + 1 &&
            (parse_special || vocab->types[id] == TEXT_TYPE_USER_DEFINED)) {
            found = (text_token)id;
        }
    }
    return found;
}

size_t text_vocab_find_special(const struct text_vocab *vocab, struct span text,
                               bool parse_special, text_token *id_out)
{
    for (size_t at = 0; at < text.size; at++) {
        if (!vocab->begins_special[text.data[at]]) {
            continue;
        }
        text_token id = longest_special(vocab, span_slice(text, at, text.size),
                                        parse_special);
        if (id != TEXT_TOKEN_NONE) {
            *id_out = id;
            return at;
        }
    }
    return text.size;
}

/* "<0x0A>" to 10. */
static int32_t byte_of_text(struct span text)
{
    if (text.size != 6 || !span_starts_with(text, "<0x") ||
        text.data[5] != '>') {
        return TEXT_POINT_NONE;
    }
    int32_t byte = 0;
    for (size_t i = 3; i < 5; i++) {
        uint8_t digit = text.data[i];
        int32_t value = digit >= '0' && digit <= '9'   ? digit - '0'
                        : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                        : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                                       : -1;
        if (value < 0) {
            return TEXT_POINT_NONE;
        }
        byte = byte * 16 + value;
    }
    return byte;
}

struct text_piece text_vocab_piece(const struct text_vocab *vocab, uint32_t id)
{
    uint8_t type = vocab->types[id];
    bool is_raw = is_cut_out(type);
    struct text_piece piece = {.rest = text_vocab_text(vocab, id),
                               .byte = TEXT_POINT_NONE};
    if (!vocab->is_byte_level && type == TEXT_TYPE_BYTE) {
        piece.byte = byte_of_text(piece.rest);
    }
    piece.is_byte_level = vocab->is_byte_level && !is_raw;
    piece.is_escaped =
        !vocab->is_byte_level && (!is_raw || type == TEXT_TYPE_USER_DEFINED);
    return piece;
}

/* One character of the byte alphabet; what is not in it stands for itself. */
static bool next_mapped(struct text_piece *piece, uint8_t *byte_out)
{
    size_t size = utf8_size(piece->rest);
    int32_t byte = size == 0 ? TEXT_POINT_NONE
                             : text_alphabet_decode(utf8_point(piece->rest));
    if (byte == TEXT_POINT_NONE) {
        piece->raw_count = size == 0 ? 1 : (uint8_t)size;
        return false;
    }
    piece->rest = span_slice(piece->rest, size, piece->rest.size);
    *byte_out = (uint8_t)byte;
    return true;
}

bool text_piece_next(struct text_piece *piece, uint8_t *byte_out)
{
    if (piece->byte != TEXT_POINT_NONE) {
        *byte_out = (uint8_t)piece->byte;
        piece->byte = TEXT_POINT_NONE;
        piece->rest = span_of(NULL, 0);
        return true;
    }
    if (piece->rest.size == 0) {
        return false;
    }
    if (piece->is_byte_level && piece->raw_count == 0 &&
        next_mapped(piece, byte_out)) {
        return true;
    }
    size_t taken = 1;
    if (piece->is_escaped && span_starts_with(piece->rest, "\xe2\x96\x81")) {
        taken = 3;
        *byte_out = ' ';
    } else {
        *byte_out = piece->rest.data[0];
    }
    if (piece->raw_count > 0) {
        piece->raw_count--;
    }
    piece->rest = span_slice(piece->rest, taken, piece->rest.size);
    return true;
}
