#pragma once
/* text/merge: joins neighbours until none fit, best pair first; private to
 * text. Both tokenizer families are this loop with another idea of "best".
 *
 *   t h e   -->  th e   -->  the         priorities say which pair is next
 *
 * A heap holds the candidate pairs, a linked list the symbols: n symbols cost
 * O(n log n), however long a run is. Lowest priority first, then leftmost. One
 * thread; the memory is kept between runs. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tokenizer.h"

struct text_symbol {
    uint32_t begin; /* offset in the text at hand */
    uint32_t size; /* 0: joined to the one before */
    text_token id;
    uint32_t previous;
    uint32_t next;
};

struct text_merge {
    uint32_t priority;
    text_token id; /* of the joined symbol */
};
/* False: these two do not join. */
typedef bool (*text_pair_fn)(const void *context,
                             const struct text_symbol *left,
                             const struct text_symbol *right,
                             struct text_merge *merge_out);

struct text_merger {
    struct text_symbol *symbols; /* filled by the caller: begin, size, id */
    /* private */
    uint32_t capacity;
    struct text_candidate *heap;
    uint32_t heap_count;
};

void text_merger_init(struct text_merger *merger);
void text_merger_finish(struct text_merger *merger);
/* Room for `count` symbols; what was there is lost. ERR_NO_MEMORY. */
MUST_USE enum err text_merger_reserve(struct text_merger *merger,
                                      uint32_t count);
/* Afterwards the symbols with a size are the result, in order. */
void text_merger_run(struct text_merger *merger, uint32_t count,
                     text_pair_fn pair, const void *context);
