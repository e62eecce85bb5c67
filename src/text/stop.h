#pragma once
/* text/stop: finds the first stop string in text that comes in pieces.
 *
 * Text that may still be the start of a stop string is held back; the rest is
 * released at once. */
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum { TEXT_STOP_COUNT_MAX = 16, TEXT_STOP_SIZE_MAX = 1024 };

struct text_stop;
/* ERR_INVALID: too many, empty or too long ones; `why` names it. */
MUST_USE enum err text_stop_create(const struct span *strings, size_t count,
                                   bool include_in_output, struct why *why,
                                   struct text_stop **stop_out);
void text_stop_destroy(struct text_stop *stop);
/* Adds what may be shown to `out`. Returns the index of the string that
 * matched (its text is then shown only when asked), else -1. The match that
 * ends first wins; of those that end together the longest. */
int text_stop_add(struct text_stop *stop, struct span text, struct buf *out);
/* No more text: what was held is released. */
void text_stop_flush(struct text_stop *stop, struct buf *out);
