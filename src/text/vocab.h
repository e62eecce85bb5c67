#pragma once
/* text/vocab: the token list of a model file; private to text.
 *
 *   id --> text (a span into the file), type, score
 *   text --> id (hash)
 *   specials, sorted by text: what is cut out before anything else
 *
 * Immutable after init: any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "gguf/gguf.h"
#include "gguf/index.h"
#include "text/tokenizer.h"

/* Numbers are the file format's. */
enum text_token_type {
    TEXT_TYPE_NORMAL = 1,
    TEXT_TYPE_UNKNOWN = 2,
    TEXT_TYPE_CONTROL = 3,
    TEXT_TYPE_USER_DEFINED = 4,
    TEXT_TYPE_UNUSED = 5,
    TEXT_TYPE_BYTE = 6
};

enum {
    TEXT_TOKEN_COUNT_MAX = 1 << 24,
    TEXT_TOKEN_SIZE_MAX = 65535,
    TEXT_END_COUNT_MAX = 16
};

struct text_vocab {
    uint32_t count;
    uint32_t token_size_max; /* bytes of the longest text */
    bool is_byte_level; /* texts are in the byte alphabet, else SPM's */
    struct span bytes; /* the packed texts, in the file */
    uint32_t *offsets; /* (count + 1): where the text of an id begins */
    uint8_t *types; /* (count) */
    struct gguf_array scores; /* count 0: none */
    struct gguf_index index;
    uint32_t *specials; /* ids sorted by the bytes of their text */
    uint32_t special_count;
    bool begins_special[256]; /* by first byte */
    text_token bos;
    text_token eos;
    text_token unknown;
    text_token ends[TEXT_END_COUNT_MAX];
    uint32_t end_count;
};

MUST_USE enum err text_vocab_init(struct text_vocab *vocab,
                                  const struct gguf *gguf, bool is_byte_level,
                                  struct why *why);
void text_vocab_finish(struct text_vocab *vocab);

struct span text_vocab_text(const struct text_vocab *vocab, uint32_t id);
/* By exact text, of any type. */
text_token text_vocab_find(const struct text_vocab *vocab, struct span text);
/* By exact text, but only what ordinary text may turn into: control, byte,
 * unknown and unused tokens are not found. */
text_token text_vocab_find_plain(const struct text_vocab *vocab,
                                 struct span text);
/* The first special token in `text`, the longest where several start there.
 * Control and unknown ones count only with `parse_special`. Returns where it
 * begins, or text.size. */
size_t text_vocab_find_special(const struct text_vocab *vocab, struct span text,
                               bool parse_special, text_token *id_out);

/* The bytes that a token stands for, one at a time. */
struct text_piece {
    struct span rest;
    bool is_byte_level;
    bool is_escaped; /* SPM: U+2581 is a space */
    int32_t byte; /* a byte token's, else TEXT_POINT_NONE */
    uint8_t raw_count;
};
struct text_piece text_vocab_piece(const struct text_vocab *vocab, uint32_t id);
bool text_piece_next(struct text_piece *piece, uint8_t *byte_out);
