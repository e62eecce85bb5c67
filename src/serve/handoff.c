/* serve/handoff: what the legs of a hand-off must carry (serve.md 2.10), and
 * the abort of one. */
#include "serve/internal.h"

#include <inttypes.h>
#include <string.h>

#include "api/scan.h"
#include "base/mem.h"
#include "io/tcp.h"

static int check_context(struct serve_request *request, struct why *why)
{
    const struct api_handoff *handoff = &request->body.handoff;
    request->kind = ENGINE_CONTEXT_ONLY;
    request->is_generation_first = handoff->schedule_style != 0;
    if (!handoff->has_disagg_id) {
        return serve_refuse(
            why, 400, "disaggregated_params.disagg_request_id: is required");
    }
    request->rid = handoff->disagg_id;
    return 0;
}

/* Is it this prompt that the context server has computed? Else its KV would be
 * taken, and kept in the cache, for KV of other tokens. */
static int check_seal(const struct serve_request *request,
                      const struct api_opaque *opaque, struct why *why)
{
    const struct openai_request *body = &request->body;
    const struct api_sealed sealed = {
        .ids = body->ids,
        .id_count = body->id_count,
        .salt = openai_text(body, body->cache_salt),
        .first_tokens = body->handoff.first_tokens,
        .first_token_count = body->handoff.first_token_count,
    };
    if (api_opaque_is_sealed(request->serve->parts.auth_key, &sealed, opaque)) {
        return 0;
    }
    return serve_refuse(
        why, 400,
        "disaggregated_params.encoded_opaque_state: was made for "
        "other token ids, first tokens or cache_salt, or under "
        "another auth key");
}

/* The transfer cuts the blocks of one side into those of the other. */
static bool do_blocks_fit(uint32_t theirs, uint32_t ours)
{
    return theirs != 0 && (theirs % ours == 0 || ours % theirs == 0);
}

static int check_opaque(struct serve_request *request, struct why *why)
{
    const struct api_handoff *handoff = &request->body.handoff;
    const struct config_worker *config = request->serve->options.config;
    struct api_opaque opaque;
    if (api_opaque_decode(handoff->opaque, why, &opaque) != OK) {
        IGNORE(why_prefix(why, ERR_INVALID,
                          "disaggregated_params.encoded_opaque_state"));
        return 400;
    }
    if (opaque.rid != request->rid) {
        return serve_refuse(
            why, 400,
            "disaggregated_params.encoded_opaque_state: belongs to "
            "another request id");
    }
    if (!do_blocks_fit(opaque.tokens_per_block, config->tokens_per_block) ||
        opaque.kv_type != 0) {
        IGNORE(why_say(
            why, ERR_UNSUPPORTED,
            "disaggregated_params.encoded_opaque_state: the context server "
            "has %" PRIu32 " tokens a block and KV type %" PRIu32
            ", this one %" PRIu32 " and 0",
            opaque.tokens_per_block, opaque.kv_type, config->tokens_per_block));
        return 400;
    }
    if (opaque.prompt_tokens != request->body.id_count) {
        IGNORE(why_say(why, ERR_INVALID,
                       "prompt_token_ids: has %" PRIu32
                       " ids, the context server had %" PRIu32,
                       request->body.id_count, opaque.prompt_tokens));
        return 400;
    }
    request->sender_incarnation = opaque.incarnation;
    return check_seal(request, &opaque, why);
}

static int check_first_tokens(const struct serve_request *request,
                              struct why *why)
{
    const struct api_handoff *handoff = &request->body.handoff;
    if ((int64_t)handoff->first_token_count != request->body.n) {
        IGNORE(why_say(why, ERR_INVALID,
                       "disaggregated_params.first_gen_tokens: has %" PRIu32
                       " tokens, n is %" PRId64,
                       handoff->first_token_count, request->body.n));
        return 400;
    }
    for (uint32_t i = 0; i < handoff->first_token_count; i++) {
        if ((uint32_t)handoff->first_tokens[i] >=
            request->serve->parts.vocab_size) {
            IGNORE(why_say(why, ERR_INVALID,
                           "disaggregated_params.first_gen_tokens[%" PRIu32
                           "]: id %" PRId32 " is not in the vocabulary",
                           i, handoff->first_tokens[i]));
            return 400;
        }
    }
    return 0;
}

static int take_endpoint(struct serve_request *request, struct why *why)
{
    struct span endpoint = request->body.handoff.endpoint;
    struct io_address address;
    if (io_address_parse(endpoint, why, &address) != OK) {
        IGNORE(why_prefix(why, ERR_INVALID,
                          "disaggregated_params.ctx_info_endpoint"));
        return 400;
    }
    memcpy(request->sender_endpoint, endpoint.data, endpoint.size);
    return 0;
}

/* Context-first: what the context server answered comes with the request. */
static int check_answer(struct serve_request *request, struct why *why)
{
    const struct api_handoff *handoff = &request->body.handoff;
    if (handoff->first_token_count == 0) {
        return serve_refuse(
            why, 400,
            "disaggregated_params.first_gen_tokens: is required, "
            "unless schedule_style is 1 (generation_first)");
    }
    if (handoff->opaque.data == NULL || handoff->endpoint.data == NULL) {
        return serve_refuse(why, 400,
                            "disaggregated_params: encoded_opaque_state and "
                            "ctx_info_endpoint are required");
    }
    if (request->body.truncate_prompt_tokens > 0) {
        request->body.truncate_prompt_tokens = 0; /* the ids are cut already */
    }
    if (api_handoff_rid(handoff, &request->rid) != OK) {
        return serve_refuse(why, 400,
                            "disaggregated_params.ctx_request_id: is required");
    }
    int status = take_endpoint(request, why);
    if (status == 0) {
        status = check_first_tokens(request, why);
    }
    return status == 0 ? check_opaque(request, why) : status;
}

/* Generation-first: first tokens and KV come from the context server itself, so
 * nothing of its answer may be here, and both know the request by one id. */
static int check_no_answer(struct serve_request *request, struct why *why)
{
    const struct api_handoff *handoff = &request->body.handoff;
    if (handoff->first_token_count > 0) {
        return serve_refuse(
            why, 400,
            "disaggregated_params.first_gen_tokens: must be absent "
            "when schedule_style is 1 (generation_first)");
    }
    if (handoff->opaque.data != NULL) {
        return serve_refuse(
            why, 400,
            "disaggregated_params.encoded_opaque_state: must be "
            "absent when schedule_style is 1 (generation_first)");
    }
    if (handoff->endpoint.data == NULL) {
        return serve_refuse(
            why, 400, "disaggregated_params.ctx_info_endpoint: is required");
    }
    if (!handoff->has_disagg_id) {
        return serve_refuse(
            why, 400, "disaggregated_params.disagg_request_id: is required");
    }
    if (handoff->has_ctx_id && handoff->ctx_id != handoff->disagg_id) {
        return serve_refuse(why, 400,
                            "disaggregated_params.ctx_request_id: must be the "
                            "disagg_request_id when schedule_style is 1");
    }
    request->rid = handoff->disagg_id;
    return take_endpoint(request, why);
}

static int check_generation(struct serve_request *request, struct why *why)
{
    const struct api_handoff *handoff = &request->body.handoff;
    request->kind = ENGINE_GENERATION_ONLY;
    request->is_generation_first = handoff->schedule_style != 0;
    if (request->body.echo && request->body.logprob_count >= 0) {
        return serve_refuse(why, 400,
                            "echo: with logprobs is not supported for "
                            "generation_only");
    }
    return request->is_generation_first ? check_no_answer(request, why)
                                        : check_answer(request, why);
}

int serve_handoff_check(struct serve_request *request, struct why *why)
{
    const struct api_handoff *handoff = &request->body.handoff;
    int status = serve_auth_leg(request, why);
    if (status != 0) {
        return status;
    }
    switch (handoff->type) {
    case API_REQUEST_WHOLE:
        request->kind = ENGINE_AGGREGATED;
        return 0;
    case API_REQUEST_CONTEXT:
        return check_context(request, why);
    case API_REQUEST_GENERATION:
        return check_generation(request, why);
    }
    return 0;
}

static enum err read_abort(struct span body, struct why *why, int64_t *rid_out)
{
    struct api_object object;
    enum err err = api_scan(body, why, &object);
    if (err != OK) {
        return err;
    }
    const struct api_member *member = api_find(&object, "disagg_request_id");
    if (member == NULL) {
        return why_say(why, ERR_INVALID, "disagg_request_id: is required");
    }
    err = api_read_int(member->value, 0, INT64_MAX, why, rid_out);
    return err == OK ? OK : why_prefix(why, err, "disagg_request_id");
}

/* The engine answers with ENGINE_EVENT_ABORTED under the slot's id. */
static void post_abort(struct serve_request *request)
{
    const struct engine_command command = {
        .kind = ENGINE_ABORT_RID,
        .id = request->id,
        .rid = request->rid,
    };
    request->phase = SERVE_IN_ENGINE;
    if (engine_port_post(&request->serve->parts.engine, &command) != OK) {
        serve_request_fail(request, &(struct serve_failure){
                                        .status = 503,
                                        .message = "the engine is busy",
                                    });
    }
}

void serve_abort(struct serve *serve, struct http_exchange *exchange)
{
    struct why why = {{0}};
    int64_t rid;
    if (read_abort(http_exchange_body(exchange), &why, &rid) != OK) {
        serve_reply_failure(serve, exchange,
                            &(struct serve_failure){
                                .status = 400,
                                .message = why.text,
                                .param = "disagg_request_id",
                            });
        return;
    }
    int status = serve_auth_abort(serve, exchange, rid, &why);
    if (status != 0) {
        serve_reply_failure(
            serve, exchange,
            &(struct serve_failure){.status = status, .message = why.text});
        return;
    }
    struct serve_request *request =
        serve_request_take(serve, SERVE_ABORT, exchange);
    if (request == NULL) {
        serve_reply_failure(serve, exchange,
                            &(struct serve_failure){
                                .status = 503,
                                .message = "too many requests, try again",
                            });
        return;
    }
    request->rid = rid;
    post_abort(request);
}
