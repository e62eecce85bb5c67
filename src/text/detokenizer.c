#include "base/utf8.h"
#include "text/detokenizer.h"

#include "text/tokenizer_vocab.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

/* `out` NULL: only the state moves. */
static void emit(const void *bytes, size_t size, struct buf *out)
{
    if (out != NULL) {
        buf_add(out, bytes, size);
    }
}

/* Adds a byte to the character at hand. One that cannot go on becomes U+FFFD,
 * and the byte is looked at again as the first of the next. */
static void add_byte(struct text_detokenizer *detokenizer, uint8_t byte,
                     struct buf *out)
{
    uint8_t *held = detokenizer->held;
    uint8_t count = detokenizer->held_count;
    if (count > 0 && !utf8_continues(held[0], count, byte)) {
        emit(REPLACEMENT, 3, out);
        count = 0;
    }
    held[count++] = byte;
    size_t expected = utf8_expected(held[0]);
    if (expected == 0) {
        emit(REPLACEMENT, 3, out);
        count = 0;
    } else if (count == expected) {
        emit(held, count, out);
        count = 0;
    }
    detokenizer->held_count = count;
}

static void add_token(struct text_detokenizer *detokenizer, text_token id,
                      struct buf *out)
{
    const struct text_vocab *vocab =
        text_tokenizer_vocab(detokenizer->tokenizer);
    if (id < 0 || (uint32_t)id >= vocab->count ||
        (text_token_is_special(detokenizer->tokenizer, id) &&
         !detokenizer->show_special)) {
        return;
    }
    struct text_piece piece = text_vocab_piece(vocab, (uint32_t)id);
    uint8_t byte;
    bool is_first = !detokenizer->started && !vocab->is_byte_level;
    while (text_piece_next(&piece, &byte)) {
        if (!is_first || byte != ' ') {
            add_byte(detokenizer, byte, out);
        }
        is_first = false;
        detokenizer->started = true;
    }
}

void text_detokenizer_init(struct text_detokenizer *detokenizer,
                           const struct text_tokenizer *tokenizer,
                           bool show_special)
{
    *detokenizer = (struct text_detokenizer){.tokenizer = tokenizer,
                                             .show_special = show_special};
}

void text_detokenizer_prime(struct text_detokenizer *detokenizer,
                            const text_token *prompt, size_t count)
{
    /* The front settles whether the text has begun, the end what of a
     * character is open: a token has a byte at least. */
    size_t at = 0;
    while (at < count && !detokenizer->started) {
        add_token(detokenizer, prompt[at++], NULL);
    }
    size_t tail = count > 2 * UTF8_SIZE_MAX ? count - 2 * UTF8_SIZE_MAX : 0;
    if (at < tail) {
        detokenizer->held_count = 0;
        at = tail;
    }
    while (at < count) {
        add_token(detokenizer, prompt[at++], NULL);
    }
}

void text_detokenizer_add(struct text_detokenizer *detokenizer, text_token id,
                          struct buf *out)
{
    add_token(detokenizer, id, out);
}

void text_detokenizer_flush(struct text_detokenizer *detokenizer,
                            struct buf *out)
{
    if (detokenizer->held_count > 0) {
        buf_add(out, REPLACEMENT, 3);
        detokenizer->held_count = 0;
    }
}
