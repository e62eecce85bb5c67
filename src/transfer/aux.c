#include "transfer/aux.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "wire/aux.h"

_Static_assert((int)TRANSFER_CHOICE_COUNT_MAX == (int)WIRE_CHOICE_COUNT_MAX,
               "both sides of the border hold the same choices");
_Static_assert((int)TRANSFER_TOP_COUNT_MAX == (int)WIRE_TOP_COUNT_MAX,
               "and the same alternatives");

void transfer_aux_encode(const struct transfer_aux *aux, struct buf *out)
{
    struct wire_aux wire = {.prompt_tokens = aux->prompt_tokens,
                            .cached_tokens = aux->cached_tokens,
                            .choice_count = aux->choice_count};
    CHECK(aux->choice_count <= WIRE_CHOICE_COUNT_MAX);
    memcpy(wire.prompt_digest, aux->prompt_digest, sizeof(wire.prompt_digest));
    for (uint32_t i = 0; i < aux->choice_count; i++) {
        const struct transfer_first *from = &aux->firsts[i];
        struct wire_choice *to = &wire.choices[i];
        CHECK(from->top_count <= WIRE_TOP_COUNT_MAX);
        to->first = (struct wire_token){from->token, from->logprob};
        to->top_count = from->top_count;
        for (uint32_t k = 0; k < from->top_count; k++) {
            to->tops[k] =
                (struct wire_token){from->tops[k].token, from->tops[k].logprob};
        }
    }
    wire_aux_encode(&wire, out);
}

static void fill(struct transfer_aux *aux, const struct wire_aux *wire)
{
    aux->prompt_tokens = wire->prompt_tokens;
    aux->cached_tokens = wire->cached_tokens;
    aux->choice_count = wire->choice_count;
    memcpy(aux->prompt_digest, wire->prompt_digest, sizeof(aux->prompt_digest));
    for (uint32_t i = 0; i < wire->choice_count; i++) {
        const struct wire_choice *from = &wire->choices[i];
        struct transfer_first *to = &aux->firsts[i];
        to->token = from->first.token;
        to->logprob = from->first.logprob;
        to->top_count = from->top_count;
        for (uint32_t k = 0; k < from->top_count; k++) {
            to->tops[k] = (struct transfer_top){from->tops[k].token,
                                                from->tops[k].logprob};
        }
    }
}

enum err transfer_aux_decode(struct span body, struct why *why,
                             struct transfer_aux **aux_out)
{
    struct wire_aux wire;
    enum err err = wire_aux_decode(body, why, &wire);
    if (err) {
        return err;
    }
    struct transfer_aux *aux = mem_try_array(1, sizeof(*aux));
    if (aux == NULL) {
        return why_say(why, ERR_NO_MEMORY, "aux: no memory");
    }
    fill(aux, &wire);
    *aux_out = aux;
    return OK;
}
