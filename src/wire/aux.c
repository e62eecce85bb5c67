#include "wire/aux.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "wire/bytes.h"

static void write_token(struct buf *out, const struct wire_token *token)
{
    uint32_t bits;
    memcpy(&bits, &token->logprob, sizeof(bits));
    wire_write_u32(out, (uint32_t)token->token);
    wire_write_u32(out, bits);
}

void wire_aux_encode(const struct wire_aux *aux, struct buf *out)
{
    CHECK(aux->choice_count > 0);
    CHECK(aux->choice_count <= WIRE_CHOICE_COUNT_MAX);
    wire_write_u32(out, aux->prompt_tokens);
    wire_write_u32(out, aux->cached_tokens);
    wire_write_u32(out, aux->choice_count);
    buf_add(out, aux->prompt_digest, sizeof(aux->prompt_digest));
    for (uint32_t i = 0; i < aux->choice_count; i++) {
        const struct wire_choice *choice = &aux->choices[i];
        CHECK(choice->top_count <= WIRE_TOP_COUNT_MAX);
        write_token(out, &choice->first);
        wire_write_u32(out, choice->top_count);
        for (uint32_t k = 0; k < choice->top_count; k++) {
            write_token(out, &choice->tops[k]);
        }
    }
}

static enum err read_token(struct wire_reader *reader, struct why *why,
                           struct wire_token *token_out)
{
    uint32_t token = wire_read_u32(reader);
    uint32_t bits = wire_read_u32(reader);
    memcpy(&token_out->logprob, &bits, sizeof(bits));
    token_out->token = (int32_t)token;
    if (token_out->token < 0) {
        return why_say(why, ERR_INVALID, "aux: token: negative");
    }
    if (isnan(token_out->logprob)) {
        return why_say(why, ERR_INVALID, "aux: logprob: not a number");
    }
    return OK;
}

static enum err read_choice(struct wire_reader *reader, struct why *why,
                            struct wire_choice *choice)
{
    enum err err = read_token(reader, why, &choice->first);
    choice->top_count = wire_read_u32(reader);
    if (!err && choice->top_count > WIRE_TOP_COUNT_MAX) {
        err = why_say(why, ERR_INVALID, "aux: top_count: out of bounds");
    }
    for (uint32_t i = 0; !err && i < choice->top_count; i++) {
        err = read_token(reader, why, &choice->tops[i]);
    }
    return err;
}

enum err wire_aux_decode(struct span body, struct why *why,
                         struct wire_aux *aux_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_aux aux = {0};
    aux.prompt_tokens = wire_read_u32(&reader);
    aux.cached_tokens = wire_read_u32(&reader);
    aux.choice_count = wire_read_u32(&reader);
    struct span digest = wire_read_span(&reader, sizeof(aux.prompt_digest));
    if (digest.size == sizeof(aux.prompt_digest)) {
        memcpy(aux.prompt_digest, digest.data, digest.size);
    }
    enum err err = OK;
    if (aux.choice_count == 0 || aux.choice_count > WIRE_CHOICE_COUNT_MAX) {
        err = why_say(why, ERR_INVALID, "aux: choice_count: out of bounds");
    }
    for (uint32_t i = 0; !err && i < aux.choice_count; i++) {
        err = read_choice(&reader, why, &aux.choices[i]);
    }
    if (reader.is_short || (!err && !wire_reader_is_done(&reader))) {
        err = why_say(why, ERR_CORRUPT, "aux: %zu bytes", body.size);
    }
    if (!err) {
        *aux_out = aux;
    }
    return err;
}
