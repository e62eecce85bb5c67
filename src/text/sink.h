#pragma once
/* text/sink: where an encoder puts ids, up to a limit; private to text. */
#include <stdbool.h>
#include <stddef.h>

#include "text/tokenizer.h"

struct text_sink {
    text_token *ids;
    size_t count_max;
    size_t count;
    bool is_over; /* one more came than fits: the whole result is void */
};

static inline void text_sink_add(struct text_sink *sink, text_token id)
{
    if (sink->count == sink->count_max) {
        sink->is_over = true;
        return;
    }
    sink->ids[sink->count++] = id;
}
