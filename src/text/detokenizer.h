#pragma once
/* text/detokenizer: token ids to text, one at a time, never half a character.
 *
 * Bytes of an unfinished UTF-8 character wait for the next token; at the end,
 * or as soon as they cannot become one, they turn into U+FFFD. The first token
 * of a SentencePiece text loses its leading space only at the start of a whole
 * text, as the family's own decoder does. Open, no memory: copy it to fork. */
#include "base/buf.h"
#include "text/tokenizer.h"

struct text_detokenizer {
    const struct text_tokenizer *tokenizer;
    bool show_special;
    /* private */
    bool started;
    uint8_t held_count;
    uint8_t held[4];
};

void text_detokenizer_init(struct text_detokenizer *detokenizer,
                           const struct text_tokenizer *tokenizer,
                           bool show_special);
/* The tokens before the generation, so that spacing is right: adds nothing. */
void text_detokenizer_prime(struct text_detokenizer *detokenizer,
                            const text_token *prompt, size_t count);
void text_detokenizer_add(struct text_detokenizer *detokenizer, text_token id,
                          struct buf *out);
/* What was held comes out as U+FFFD. */
void text_detokenizer_flush(struct text_detokenizer *detokenizer,
                            struct buf *out);
