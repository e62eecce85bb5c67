/* Small vocabularies as model files: a byte-level one with all bytes and a few
 * merges, a SentencePiece one with byte tokens. */
#ifndef TEST_VOCAB_BUILDER_H
#define TEST_VOCAB_BUILDER_H

#include <stdio.h>

#include "text/tokenizer.h"
#include "text/alphabet.h"
#include "unit/gguf/builder.h"

enum { PIECE_COUNT_MAX = 512, PIECE_SIZE_MAX = 32 };

struct pieces {
    uint32_t count;
    char texts[PIECE_COUNT_MAX][PIECE_SIZE_MAX];
    int32_t types[PIECE_COUNT_MAX];
    float scores[PIECE_COUNT_MAX];
};

static inline uint32_t piece_add(struct pieces *pieces, const char *text,
                                 int32_t type, float score)
{
    uint32_t id = pieces->count++;
    snprintf(pieces->texts[id], PIECE_SIZE_MAX, "%s", text);
    pieces->types[id] = type;
    pieces->scores[id] = score;
    return id;
}

static inline void build_pieces(struct buf *out, const struct pieces *pieces,
                                bool has_scores)
{
    build_key_array(out, "tokenizer.ggml.tokens", BUILD_STRING, pieces->count);
    for (uint32_t i = 0; i < pieces->count; i++) {
        build_string(out, pieces->texts[i]);
    }
    build_key_array(out, "tokenizer.ggml.token_type", BUILD_I32, pieces->count);
    buf_add(out, pieces->types, pieces->count * sizeof(int32_t));
    if (has_scores) {
        build_key_array(out, "tokenizer.ggml.scores", BUILD_F32, pieces->count);
        buf_add(out, pieces->scores, pieces->count * sizeof(float));
    }
}

/* Byte tokens have the byte as id. Merges: "Ġ" is a space. */
static const char *const BYTE_MERGES[] = {"h e", "l l",    "he ll",
                                          "Ġ w", "hell o", "\xc3\x83 \xc2\xa9"};
enum { BYTE_MERGE_COUNT = 6, ID_HELLO = 260, ID_E_ACUTE = 261 };

static inline void fill_byte_pieces(struct pieces *pieces)
{
    pieces->count = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t mapped[3] = {0};
        text_alphabet_encode((uint8_t)byte, mapped);
        piece_add(pieces, (char *)mapped, 1, 0);
    }
    piece_add(pieces, "he", 1, 0); /* 256 */
    piece_add(pieces, "ll", 1, 0); /* 257 */
    piece_add(pieces, "hell", 1, 0); /* 258 */
    piece_add(pieces, "\xc4\xa0w", 1, 0);
    piece_add(pieces, "hello", 1, 0); /* 260 */
    piece_add(pieces, "\xc3\x83\xc2\xa9", 1, 0); /* 261: bytes C3 A9 */
    piece_add(pieces, "<|im_start|>", 3, 0); /* 262 */
    piece_add(pieces, "<|im_end|>", 3, 0); /* 263 */
    piece_add(pieces, "<|im", 3, 0); /* 264 */
    piece_add(pieces, "<think>", 4, 0); /* 265 */
}

static inline void build_byte_vocab(struct buf *out, const char *pre,
                                    const char *template)
{
    static struct pieces pieces;
    fill_byte_pieces(&pieces);
    build_header(out, 0, 7 + (template != NULL));
    build_key_string(out, "tokenizer.ggml.model", "gpt2");
    build_key_string(out, "tokenizer.ggml.pre", pre);
    build_pieces(out, &pieces, false);
    build_key_strings(out, "tokenizer.ggml.merges", BYTE_MERGES,
                      BYTE_MERGE_COUNT);
    build_key_u32(out, "tokenizer.ggml.bos_token_id", 262);
    build_key_u32(out, "tokenizer.ggml.eos_token_id", 263);
    if (template != NULL) {
        build_key_string(out, "tokenizer.chat_template", template);
    }
}

/* 0 unk, 1 <s>, 2 </s>, 3 to 258 bytes, then pieces; "_" is U+2581. */
static inline void build_spm_vocab(struct buf *out, const char *template)
{
    static const char *const TEXTS[] = {"\xe2\x96\x81",
                                        "a",
                                        "b",
                                        "c",
                                        "ab",
                                        "\xe2\x96\x81"
                                        "a",
                                        "\xe2\x96\x81"
                                        "ab",
                                        "bc"};
    static const float SCORES[] = {-20, -21, -22, -23, -3, -2, -4, -1};
    static struct pieces pieces;
    pieces.count = 0;
    piece_add(&pieces, "<unk>", 2, 0);
    piece_add(&pieces, "<s>", 3, 0);
    piece_add(&pieces, "</s>", 3, 0);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof(text), "<0x%02X>", byte);
        piece_add(&pieces, text, 6, 0);
    }
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        piece_add(&pieces, TEXTS[i], 1, SCORES[i]);
    }
    build_header(out, 0, 7 + (template != NULL));
    build_key_string(out, "tokenizer.ggml.model", "llama");
    build_pieces(out, &pieces, true);
    build_key_u32(out, "tokenizer.ggml.bos_token_id", 1);
    build_key_u32(out, "tokenizer.ggml.eos_token_id", 2);
    build_key_u32(out, "tokenizer.ggml.unknown_token_id", 0);
    if (template != NULL) {
        build_key_string(out, "tokenizer.chat_template", template);
    }
}
enum {
    SPM_SPACE = 259,
    SPM_A,
    SPM_B,
    SPM_C,
    SPM_AB,
    SPM_SP_A,
    SPM_SP_AB,
    SPM_BC
};

struct vocab_fixture {
    struct buf built;
    struct gguf *gguf;
    struct text_tokenizer *tokenizer;
};

static inline enum err fixture_open(struct vocab_fixture *fixture,
                                    struct why *why)
{
    *why = (struct why){0};
    fixture->tokenizer = NULL;
    enum err err =
        gguf_open_bytes(buf_span(&fixture->built), why, &fixture->gguf);
    if (err != OK) {
        fixture->gguf = NULL;
        return err;
    }
    return text_tokenizer_create(fixture->gguf, why, &fixture->tokenizer);
}

static inline void fixture_close(struct vocab_fixture *fixture)
{
    text_tokenizer_destroy(fixture->tokenizer);
    gguf_close(fixture->gguf);
    buf_finish(&fixture->built);
}

#endif
