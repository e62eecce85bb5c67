#pragma once
/* text/tokenizer: text to token ids and back, as the model file says.
 *
 * Two families: byte-level BPE (`tokenizer.ggml.model` = gpt2, with the
 * pre-tokenizers gpt-2, llama-bpe, qwen2 and default) and SentencePiece style
 * (= llama, with byte fallback). Copies nothing of the vocabulary: it keeps
 * spans into the mapped file. Immutable after create: any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "gguf/gguf.h"

typedef int32_t text_token;
enum { TEXT_TOKEN_NONE = -1 };

struct text_tokenizer;
/* ERR_UNSUPPORTED / ERR_INVALID: `why` names the key. `gguf` must outlive it. */
MUST_USE enum err text_tokenizer_create(const struct gguf *gguf,
                                        struct why *why,
                                        struct text_tokenizer **tokenizer_out);
void text_tokenizer_destroy(struct text_tokenizer *tokenizer);

struct text_encode_options {
    bool add_special; /* add BOS / EOS where the file asks for it */
    bool parse_special; /* "<|im_end|>" in the text is one token, not letters */
};
/* Any bytes are accepted: what is not UTF-8 goes through byte tokens or, where
 * the vocabulary has none, becomes U+FFFD. ERR_FULL: more than `id_count_max`
 * ids; nothing is valid then. Any thread; memory of its own is freed again. */
MUST_USE enum err text_encode(const struct text_tokenizer *tokenizer,
                              struct span text,
                              const struct text_encode_options *options,
                              text_token *ids, size_t id_count_max,
                              size_t *id_count_out);

/* Adds the bytes of one token; special and control tokens add nothing unless
 * `show_special`. Not cut at characters: see text/detokenizer.h. */
void text_token_bytes(const struct text_tokenizer *tokenizer, text_token id,
                      bool show_special, struct buf *out);
bool text_token_is_special(const struct text_tokenizer *tokenizer,
                           text_token id);
/* The id whose text in the vocabulary is exactly this, or TEXT_TOKEN_NONE. */
text_token text_token_find(const struct text_tokenizer *tokenizer,
                           struct span text);

uint32_t text_vocab_size(const struct text_tokenizer *tokenizer);
text_token text_bos(const struct text_tokenizer *tokenizer);
text_token text_eos(const struct text_tokenizer *tokenizer);
/* All ids that end a generation: eos, eot, eom, and tokens whose text is one
 * of the known turn ends. At most `count_max`; returns how many there are. */
uint32_t text_end_tokens(const struct text_tokenizer *tokenizer,
                         text_token *ids_out, uint32_t count_max);
const char *text_tokenizer_kind(const struct text_tokenizer *tokenizer);
