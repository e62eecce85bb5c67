#pragma once
/* transfer/aux: the first tokens on their way between two engines (port.h) as
 * the body of AUX_RESULT (wire/aux.h). Private to transfer. */
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "transfer/port.h"

void transfer_aux_encode(const struct transfer_aux *aux, struct buf *out);
/* The caller's, from base/mem. ERR_NO_MEMORY; else as wire_aux_decode. */
MUST_USE enum err transfer_aux_decode(struct span body, struct why *why,
                                      struct transfer_aux **aux_out);
