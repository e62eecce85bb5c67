#pragma once
/* text/split: cuts text into the words that BPE may not join; private to text.
 *
 * Each `tokenizer.ggml.pre` names a list of patterns; each cuts what the one
 * before left, and what a pattern does not match is a word too. The one file
 * that knows PCRE2. Immutable after create: any thread. */
#include "base/err.h"
#include "base/span.h"

struct text_split;

/* ERR_UNSUPPORTED: `why` names the key and what we have. An empty name is
 * "default". */
MUST_USE enum err text_split_create(struct span name, struct why *why,
                                    struct text_split **split_out);
void text_split_destroy(struct text_split *split);
/* The name as we write it, one per set of patterns. */
const char *text_split_name(const struct text_split *split);

/* What is left of one text, and the words found so far. */
typedef enum err (*text_word_fn)(void *context, struct span word);
/* Calls `word` for each piece of `text`, in order, together all of it. Bytes
 * that are not UTF-8 come as words of their own. The first error of `word`
 * ends it. ERR_NO_MEMORY, ERR_INTERNAL. */
MUST_USE enum err text_split_run(const struct text_split *split,
                                 struct span text, text_word_fn word,
                                 void *context);
