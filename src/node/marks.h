#pragma once
/* node/marks: two digests of a model file by which workers know that they hold
 * the same model and the same tokenizer. Any thread.
 *
 *   model      general.architecture, every key of that architecture (shapes,
 *              windows, rope ...), and of each tensor in the file's order its
 *              name, type and dimensions and 1 KiB of its data: whole where it
 *              is no longer, else four pieces from begin to end
 *   tokenizer  every key tokenizer.ggml.* (vocabulary, scores, merges, special
 *              ids); not the chat template, which changes no token's meaning
 *
 * Names and descriptions of the file do not count, nor whether it is split. The
 * data is sampled since a whole file is slow to read: this finds mistakes, and
 * nobody who means to deceive. */
#include <stdint.h>

#include "base/digest.h"
#include "gguf/gguf.h"

struct node_marks {
    uint8_t model[DIGEST_SHA256_SIZE], tokenizer[DIGEST_SHA256_SIZE];
    char model_text[2 * DIGEST_SHA256_SIZE + 1]; /* the same in hex */
    char tokenizer_text[2 * DIGEST_SHA256_SIZE + 1];
};
void node_marks_take(const struct gguf *gguf, struct node_marks *marks_out);
