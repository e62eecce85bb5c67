#pragma once
/* wire/refusal: the body of REFUSED, one line for a person that says why this
 * connection cannot be used. Pure, any thread. */
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

void wire_refusal_encode(const struct why *why, struct buf *out);
/* Control characters become '?', the line is cut to fit. Never fails: it only
 * ends in a log line. */
void wire_refusal_decode(struct span body, struct why *why_out);
