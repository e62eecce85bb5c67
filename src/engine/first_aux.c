/* engine/first_aux: first tokens that travel with the last slice of a
 * generation-first prompt, from sampler to sampler's result (transfer.md 1.5). */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "engine/state.h"

_Static_assert((int)TRANSFER_CHOICE_COUNT_MAX >= (int)ENGINE_CHOICE_COUNT_MAX,
               "every choice has a place");
_Static_assert((int)TRANSFER_TOP_COUNT_MAX >= (int)SAMPLER_TOP_COUNT_MAX,
               "every alternative has a place");

static void fill_first(const struct sampler_result *result,
                       int32_t logprob_count, struct transfer_first *first)
{
    uint32_t tops = 0;
    if (logprob_count >= 0) {
        first->logprob = result->logprob;
        tops = result->top_count;
    }
    for (uint32_t i = 0; i < tops; i++) {
        first->tops[i] =
            (struct transfer_top){result->top[i].token, result->top[i].logprob};
    }
    first->top_count = tops;
}

_Static_assert(sizeof(((struct transfer_aux *)NULL)->prompt_digest) ==
                   PREFIX_PROMPT_DIGEST_SIZE,
               "the prompt's name has its place");

static void digest_of(const struct engine_request *request,
                      uint8_t out[PREFIX_PROMPT_DIGEST_SIZE])
{
    prefix_prompt_digest(&request->scope, request->prompt,
                         request->prompt_count, out);
}

struct transfer_aux *first_aux_make(const struct item *item,
                                    const struct first_token *firsts,
                                    uint32_t count)
{
    struct transfer_aux *aux = mem_new(sizeof(*aux));
    CHECK(count == item->request->choice_count);
    aux->prompt_tokens = item->request->prompt_count;
    aux->cached_tokens = item->journey.cached_tokens;
    aux->choice_count = count;
    digest_of(item->request, aux->prompt_digest);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(firsts[i].choice == i);
        aux->firsts[i].token = firsts[i].token;
        fill_first(firsts[i].result, item->request->logprob_count,
                   &aux->firsts[i]);
    }
    return aux;
}

static bool is_token(const struct engine_core *core, int32_t token)
{
    return token >= 0 && (uint32_t)token < core->options.vocab_size;
}

static enum err check_first(const struct engine_core *core,
                            const struct transfer_first *first, uint32_t choice,
                            struct why *why)
{
    if (!is_token(core, first->token)) {
        return why_say(why, ERR_INVALID,
                       "first token %d of choice %u is outside the vocabulary",
                       first->token, choice);
    }
    if (first->top_count > TRANSFER_TOP_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "choice %u has %u alternatives",
                       choice, first->top_count);
    }
    for (uint32_t i = 0; i < first->top_count; i++) {
        if (!is_token(core, first->tops[i].token)) {
            return why_say(why, ERR_INVALID,
                           "alternative %d of choice %u is outside the "
                           "vocabulary",
                           first->tops[i].token, choice);
        }
    }
    return OK;
}

enum err first_aux_check(const struct engine_core *core,
                         const struct item *item,
                         const struct transfer_aux *aux, struct why *why)
{
    const struct engine_request *request = item->request;
    if (aux == NULL) {
        return why_say(why, ERR_INVALID, "KV came without its first tokens");
    }
    if (aux->choice_count != request->choice_count) {
        return why_say(why, ERR_INVALID,
                       "first tokens of %u choices came, n is %u",
                       aux->choice_count, request->choice_count);
    }
    if (aux->prompt_tokens != request->prompt_count ||
        aux->cached_tokens > aux->prompt_tokens) {
        return why_say(why, ERR_INVALID,
                       "the sender computed a prompt of %u tokens, %u of them "
                       "cached, not of %u",
                       aux->prompt_tokens, aux->cached_tokens,
                       request->prompt_count);
    }
    /* A rid says which request was meant, not what was computed under it. */
    uint8_t digest[PREFIX_PROMPT_DIGEST_SIZE];
    digest_of(request, digest);
    if (memcmp(digest, aux->prompt_digest, sizeof(digest)) != 0) {
        return why_say(why, ERR_INVALID,
                       "the sender computed another prompt under this id");
    }
    for (uint32_t i = 0; i < aux->choice_count; i++) {
        enum err err = check_first(core, &aux->firsts[i], i, why);
        if (err != OK) {
            return err;
        }
    }
    return OK;
}

void first_aux_result(const struct item *item, const struct transfer_aux *aux,
                      uint32_t choice, struct sampler_result *result_out)
{
    const struct transfer_first *first = &aux->firsts[choice];
    int32_t asked = item->request->logprob_count;
    uint32_t most = asked < 0 ? 0 : (uint32_t)asked;
    *result_out = (struct sampler_result){
        .token = first->token,
        .logprob = first->logprob,
        .top_count = first->top_count < most ? first->top_count : most};
    for (uint32_t i = 0; i < result_out->top_count; i++) {
        result_out->top[i] =
            (struct sampler_top){first->tops[i].token, first->tops[i].logprob};
    }
}
