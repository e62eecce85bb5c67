/* serve/submit: ids and settings become an engine request. */
#include "serve/internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

static void cut_prompt(struct serve_request *request)
{
    int64_t keep = request->body.truncate_prompt_tokens;
    uint32_t count = request->job.id_count;
    if (keep > 0 && keep < count) {
        memmove(request->job.ids, request->job.ids + (count - (uint32_t)keep),
                (size_t)keep * sizeof(*request->job.ids));
        request->job.id_count = (uint32_t)keep;
    }
}

const char *serve_prompt_name(const struct serve_request *request)
{
    const struct openai_request *body = &request->body;
    return body->has_prompt_b64   ? "prompt_token_ids_b64"
           : body->has_prompt_ids ? "prompt_token_ids"
           : body->has_messages   ? "messages"
                                  : "prompt";
}

static enum err check_ids(const struct serve_request *request, struct why *why)
{
    uint32_t vocab_size = request->serve->parts.vocab_size;
    for (uint32_t i = 0; i < request->job.id_count; i++) {
        if ((uint32_t)request->job.ids[i] >= vocab_size) {
            return why_say(why, ERR_INVALID,
                           "%s: token id %" PRId32 " at %" PRIu32
                           " is not below the vocabulary size %" PRIu32,
                           serve_prompt_name(request), request->job.ids[i], i,
                           vocab_size);
        }
    }
    return OK;
}

static enum err check_stop_tokens(const struct serve_request *request,
                                  struct why *why)
{
    const struct openai_request *body = &request->body;
    for (uint32_t i = 0; i < body->stop_token_count; i++) {
        if ((uint32_t)body->stop_tokens[i] >=
            request->serve->parts.vocab_size) {
            return why_say(why, ERR_INVALID,
                           "stop_token_ids: id %" PRId32
                           " is not in the vocabulary",
                           body->stop_tokens[i]);
        }
    }
    return OK;
}

static enum err check_length(const struct serve_request *request,
                             struct why *why)
{
    uint32_t count = request->job.id_count;
    uint32_t max_seq = request->max_seq;
    if (count == 0) {
        return why_say(why, ERR_INVALID, "%s: must not be empty",
                       serve_prompt_name(request));
    }
    if (count >= max_seq) {
        return why_say(why, ERR_INVALID,
                       "%s: has %" PRIu32
                       " tokens; prompt and answer together are at most "
                       "%" PRIu32,
                       serve_prompt_name(request), count, max_seq);
    }
    return OK;
}

static struct sampler_options sampling_of(struct serve_request *request)
{
    const struct openai_request *body = &request->body;
    struct sampler_options sampling = sampler_defaults();
    sampling.temperature = (float)body->temperature;
    sampling.top_k = body->top_k < 0 ? 0 : (int32_t)body->top_k;
    sampling.top_p = (float)body->top_p;
    sampling.min_p = (float)body->min_p;
    sampling.presence_penalty = (float)body->presence_penalty;
    sampling.frequency_penalty = (float)body->frequency_penalty;
    sampling.repetition_penalty = (float)body->repetition_penalty;
    sampling.seed =
        body->has_seed ? (uint64_t)body->seed : rng_next(&request->serve->rng);
    return sampling;
}

/* Without max_tokens: 16 for completions, the rest of the context for chat.
 * Either way never beyond the context. */
static uint32_t new_token_count(const struct serve_request *request)
{
    const struct openai_request *body = &request->body;
    int64_t room = (int64_t)request->max_seq - request->job.id_count;
    int64_t count = body->max_tokens;
    if (count < 0) {
        count = body->route == OPENAI_CHAT ? room : 16;
    }
    count = count < 1 ? 1 : count; /* 0: echo; the token is not shown */
    return (uint32_t)(count < room ? count : room);
}

/* Requests of other salts share nothing. */
static struct prefix_scope_id scope_of(const struct openai_request *body)
{
    struct prefix_scope_id scope = {0};
    struct buf salt;
    if (body->cache_salt.size == 0) {
        return scope;
    }
    struct span text = openai_text(body, body->cache_salt);
    buf_init(&salt, text.size + 1);
    buf_add_span(&salt, text);
    scope.has_salt = true;
    scope.salt = prefix_salt_id(buf_string(&salt));
    buf_finish(&salt);
    return scope;
}

static struct kv_retention rule_of(const struct openai_retention_rule *rule)
{
    return (struct kv_retention){
        .first_token = (uint32_t)rule->first_token,
        .end_token =
            rule->end_token < 0 ? UINT32_MAX : (uint32_t)rule->end_token,
        .priority = (uint8_t)rule->priority,
        .duration_ms =
            rule->duration_ms < 0 ? UINT64_MAX : (uint64_t)rule->duration_ms,
    };
}

static struct kv_retention_plan retention_of(const struct openai_request *body)
{
    _Static_assert(sizeof(body->retention.rules) /
                           sizeof(body->retention.rules[0]) ==
                       KV_RETENTION_COUNT_MAX,
                   "as many on both sides");
    const struct openai_retention *asked = &body->retention;
    struct kv_retention_plan plan = {
        .rule_count = asked->rule_count,
        .has_generated = asked->has_decode,
        .generated = rule_of(&asked->decode),
    };
    for (uint32_t i = 0; i < asked->rule_count; i++) {
        plan.rules[i] = rule_of(&asked->rules[i]);
    }
    return plan;
}

static void add_biases(const struct openai_request *body,
                       struct engine_request *out)
{
    if (body->bias_count == 0) {
        return;
    }
    out->biases = mem_new_array(body->bias_count, sizeof(*out->biases));
    for (uint32_t i = 0; i < body->bias_count; i++) {
        out->biases[i] =
            (struct sampler_bias){body->biases[i].token, body->biases[i].bias};
    }
    out->sampling.biases = out->biases;
    out->sampling.bias_count = body->bias_count;
}

static struct engine_request *make_request(struct serve_request *request)
{
    const struct openai_request *body = &request->body;
    struct engine_request *out = mem_new(sizeof(*out));
    uint32_t count = new_token_count(request);
    out->id = request->id;
    out->kind = request->kind;
    out->arrival_ns = request->arrival_ns;
    out->deadline_ns = request->deadline_ns;
    out->scope = scope_of(body);
    out->retention = retention_of(body);
    out->prompt = request->job.ids;
    out->prompt_count = request->job.id_count;
    request->job.ids = NULL;
    out->choice_count = (uint32_t)body->n;
    out->max_new_tokens = count;
    out->is_length_asked = body->max_tokens > 0;
    out->min_tokens = (uint32_t)body->min_tokens;
    out->ignore_end = body->ignore_eos;
    out->stop_token_count = body->stop_token_count;
    memcpy(out->stop_tokens, body->stop_tokens, sizeof(body->stop_tokens));
    out->sampling = sampling_of(request);
    add_biases(body, out);
    out->logprob_count = body->logprob_count;
    out->score_prompt = body->echo && body->logprob_count >= 0;
    out->rid = request->rid;
    out->is_generation_first = request->is_generation_first;
    out->sender_incarnation = request->sender_incarnation;
    memcpy(out->sender_endpoint, request->sender_endpoint,
           sizeof(request->sender_endpoint));
    memcpy(out->first_tokens, body->handoff.first_tokens,
           sizeof(out->first_tokens));
    return out;
}

static enum err check_least(const struct serve_request *request,
                            struct why *why)
{
    int64_t least = request->body.min_tokens;
    uint32_t most = new_token_count(request);
    if (least <= most) {
        return OK;
    }
    return why_say(why, ERR_INVALID,
                   "min_tokens: is %" PRId64 ", the answer has at most %" PRIu32
                   " tokens",
                   least, most);
}

static enum err check_all(const struct serve_request *request, struct why *why)
{
    enum err err = check_length(request, why);
    if (err == OK) {
        err = check_ids(request, why);
    }
    if (err == OK) {
        err = check_stop_tokens(request, why);
    }
    return err == OK ? check_least(request, why) : err;
}

static void echo_prompt(struct serve_request *request,
                        struct serve_choice *choice)
{
    const struct openai_request *body = &request->body;
    if (body->has_prompt_text && body->truncate_prompt_tokens == 0) {
        buf_add_span(&choice->shown, openai_text(body, body->prompt));
        return;
    }
    for (uint32_t i = 0; i < request->prompt_count; i++) {
        text_token_bytes(request->serve->parts.tokenizer, request->prompt[i],
                         !body->skip_special_tokens, &choice->shown);
    }
}

static enum err make_choice(struct serve_request *request, uint32_t index,
                            struct why *why)
{
    const struct serve *serve = request->serve;
    struct serve_choice *choice = &request->choices[index];
    const struct serve_choice_options options = {
        .tokenizer = serve->parts.tokenizer,
        .body = &request->body,
        .end_tokens = serve->end_tokens,
        .end_token_count = serve->end_token_count,
        .prompt = request->prompt,
        .prompt_count = request->prompt_count,
    };
    enum err err = serve_choice_init(choice, &options, why);
    if (err != OK) {
        return err;
    }
    request->choice_count++;
    if (request->body.echo) {
        echo_prompt(request, choice);
        if (request->body.logprob_count >= 0) {
            const struct serve_token first = {.id = request->prompt[0]};
            serve_choice_score(choice, false, &first);
        }
    }
    return OK;
}

static enum err make_choices(struct serve_request *request, struct why *why)
{
    uint32_t count = (uint32_t)request->body.n;
    request->prompt_count = request->job.id_count;
    request->prompt =
        mem_copy(request->job.ids, request->prompt_count * sizeof(int32_t));
    request->choices = mem_new_array(count, sizeof(*request->choices));
    for (uint32_t i = 0; i < count; i++) {
        enum err err = make_choice(request, i, why);
        if (err != OK) {
            return err;
        }
    }
    return OK;
}

static enum err check_sampling(const struct serve_request *request,
                               const struct engine_request *made,
                               struct why *why)
{
    return sampler_options_check(&made->sampling,
                                 request->serve->parts.vocab_size, why);
}

static void post(struct serve_request *request, struct engine_request *made)
{
    const struct engine_command command = {
        .kind = ENGINE_SUBMIT,
        .id = request->id,
        .rid = request->rid,
        .request = made,
    };
    request->phase = SERVE_IN_ENGINE;
    if (engine_port_post(&request->serve->parts.engine, &command) != OK) {
        engine_request_free(made);
        serve_request_fail(request,
                           &(struct serve_failure){
                               .status = 429,
                               .message = "too many requests, try again",
                               .not_accepted = true,
                           });
    }
}

static void refuse(struct serve_request *request, const struct why *why)
{
    char param[64] = {0};
    size_t size = strcspn(why->text, ": ");
    memcpy(param, why->text, size < 63 ? size : 63);
    serve_request_fail(request, &(struct serve_failure){
                                    .status = 400,
                                    .message = why->text,
                                    .param = param,
                                });
}

void serve_submit_whole(struct serve_request *request, uint64_t place)
{
    request->kind = ENGINE_AGGREGATED;
    request->job.ids =
        mem_copy(request->prompt, request->prompt_count * sizeof(int32_t));
    request->job.id_count = request->prompt_count;
    struct engine_request *made = make_request(request);
    made->place = place;
    post(request, made);
}

void serve_submit(struct serve_request *request)
{
    struct why why = {{0}};
    cut_prompt(request);
    enum err err = check_all(request, &why);
    if (err == OK) {
        err = make_choices(request, &why);
    }
    if (err != OK) {
        refuse(request, &why);
        return;
    }
    struct engine_request *made = make_request(request);
    if (check_sampling(request, made, &why) != OK) {
        engine_request_free(made);
        refuse(request, &why);
        return;
    }
    post(request, made);
}
