#pragma once
/* text/bpe: byte-level BPE; private to text.
 *
 *   text --split--> words --bytes--> ids --merges, lowest rank first--> ids
 *
 * Immutable after create: any thread. */
#include "text/sink.h"
#include "text/vocab.h"

struct text_bpe;

/* `vocab` must outlive it. ERR_INVALID, ERR_UNSUPPORTED: `why` names the key. */
MUST_USE enum err text_bpe_create(const struct gguf *gguf,
                                  const struct text_vocab *vocab,
                                  struct why *why, struct text_bpe **bpe_out);
void text_bpe_destroy(struct text_bpe *bpe);
/* "llama-bpe", ... */
const char *text_bpe_name(const struct text_bpe *bpe);
/* Whether its texts begin with BOS unless the file says otherwise. */
bool text_bpe_adds_bos(const struct text_bpe *bpe);

struct text_merger;
/* Text without specials. ERR_NO_MEMORY, ERR_FULL (one word of over 1 GB). */
MUST_USE enum err text_bpe_encode(const struct text_bpe *bpe, struct span text,
                                  struct text_merger *merger,
                                  struct text_sink *sink);
