#pragma once
/* wire/aux: what a sender tells beside the pages, the body of AUX_RESULT
 * (transfer.md 1.5): the first token of each choice, with what a client may
 * have asked about it.
 *
 *    0 u32 prompt_tokens      a choice: i32 token, u32 logprob (F32), u32
 *    4 u32 cached_tokens        top_count, then i32 token, u32 logprob each
 *    8 u32 choice_count
 *   12 16 bytes that name the prompt
 *
 * Pure, any thread. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum { WIRE_CHOICE_COUNT_MAX = 16, WIRE_TOP_COUNT_MAX = 20 };

struct wire_token {
    int32_t token;
    float logprob;
};

struct wire_aux {
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t choice_count;
    uint8_t prompt_digest[16];
    struct wire_choice {
        struct wire_token first;
        uint32_t top_count;
        struct wire_token tops[WIRE_TOP_COUNT_MAX];
    } choices[WIRE_CHOICE_COUNT_MAX];
};

void wire_aux_encode(const struct wire_aux *aux, struct buf *out);
/* ERR_CORRUPT: another size than its counts say. ERR_INVALID names the field:
 * no choice or too many, a negative token, a logprob that is no number. */
MUST_USE enum err wire_aux_decode(struct span body, struct why *why,
                                  struct wire_aux *aux_out);
