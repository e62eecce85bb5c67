#pragma once
/* gguf/index: names to numbers, by hash, with the names left where they are.
 *
 * Open addressing over 32-bit slots. A slot holds number + 1 in its low bits
 * and a tag of the hash in the bits that the number leaves free, so that most
 * misses cost no look at a name. Serves keys, tensors and vocabularies. Built
 * once, then immutable: any thread may look up. */
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum { GGUF_INDEX_NONE = -1, GGUF_INDEX_COUNT_MAX = 1 << 27 };

/* The name of a number; `owner` is what the index was given. */
typedef struct span (*gguf_name_at_fn)(const void *owner, uint32_t number);

struct gguf_index {
    /* private */
    uint32_t *slots;
    uint32_t slot_mask;
    uint32_t number_bits;
    gguf_name_at_fn name_at;
    const void *owner;
};

/* For numbers below `count_max`. ERR_FULL: beyond GGUF_INDEX_COUNT_MAX;
 * ERR_NO_MEMORY. */
MUST_USE enum err gguf_index_init(struct gguf_index *index, uint32_t count_max,
                                  gguf_name_at_fn name_at, const void *owner);
void gguf_index_finish(struct gguf_index *index);
/* Adds `number` under its name, unless the name is there: then returns the
 * number that holds it, else GGUF_INDEX_NONE. */
int64_t gguf_index_add(struct gguf_index *index, uint32_t number);
/* The number, or GGUF_INDEX_NONE. */
int64_t gguf_index_find(const struct gguf_index *index, struct span name);
