#pragma once
/* text/spm: SentencePiece as Llama uses it; private to text.
 *
 *   " a b" --escape--> "▁a▁b" --characters, joined by best score--> ids
 *
 * A character without a token is spelled in byte tokens. Immutable after
 * create: any thread. */
#include "text/sink.h"
#include "text/vocab.h"

struct text_spm;

/* `vocab` must outlive it. ERR_INVALID: `why` names the key. */
MUST_USE enum err text_spm_create(const struct gguf *gguf,
                                  const struct text_vocab *vocab,
                                  struct why *why, struct text_spm **spm_out);
void text_spm_destroy(struct text_spm *spm);

struct text_merger;
/* Text without specials; `is_start`: at the front, or after a special, where
 * the family puts a space. ERR_NO_MEMORY, ERR_FULL (over 300 MB). */
MUST_USE enum err text_spm_encode(const struct text_spm *spm, struct span text,
                                  bool is_start, struct text_merger *merger,
                                  struct text_sink *sink);
