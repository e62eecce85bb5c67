#pragma once
/* wire/cancel: the body of CANCEL_SESSION (transfer.md 2.8). rid and attempt
 * stand in the header; the body says which slice the receiver waits for and
 * why. Idempotent in both directions. Pure, any thread. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

struct wire_cancel {
    int64_t receiver_slice; /* not negative */
    uint8_t reason; /* enum agree_reason */
};

void wire_cancel_encode(const struct wire_cancel *cancel, struct buf *out);
MUST_USE enum err wire_cancel_decode(struct span body, struct why *why,
                                     struct wire_cancel *cancel_out);
