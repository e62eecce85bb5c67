#include "world.h"

#include <inttypes.h>

#include "api/handoff.h"

#define JSON "Content-Type: application/json\r\n"
#define RID "4611686018427387905"

/* Posts the body of a leg, signed as it is. */
static struct client *send_signed(struct world *world, const char *body)
{
    char headers[512], signature[80];
    struct api_handoff handoff;
    struct api_object object;
    struct why why;
    assert_int_equal(api_scan(span_of_string(body), &why, &object), OK);
    const struct api_member *params = api_find(&object, "disaggregated_params");
    assert_int_equal(api_handoff_read(params->value, &why, &handoff), OK);
    api_sign_leg(world->parts.auth_key, &handoff, signature);
    snprintf(headers, sizeof(headers), JSON "x-baton-disagg-auth: %s\r\n",
             signature);
    return client_send(world, "POST", "/v1/completions", headers, body);
}

/* Proof: a context leg's answer has what the generation leg needs: the id it
 * was given, first tokens, the state and where to pull from. [serve T19] the
 * id is one no double holds. What moved is told when it has gone. */
static void a_context_leg_answers_with_the_handoff(void **state)
{
    struct world *world = *state;
    struct client *client = send_signed(
        world,
        "{\"model\":\"stem\",\"prompt\":\"ab\",\"stream\":false,"
        "\"stream_options\":null,\"disaggregated_params\":{\"request_type\":"
        "\"context_only\",\"disagg_request_id\":" RID ","
        "\"schedule_style\":0,\"return_prompt_token_ids_b64\":true}}");
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->kind, ENGINE_CONTEXT_ONLY);
    assert_true(made->rid == INT64_C(4611686018427387905));
    world_say(world, made->id, 0, 0, "H");
    world_finish(world, made->id, 0, ENGINE_FINISH_HANDOFF, 0);
    client_await(world, client, NULL);
    client_has(client, "\"finish_reason\":\"length\"");
    client_has(client, "\"ctx_request_id\":" RID ",\"disagg_request_id\":" RID
                       ",\"first_gen_tokens\":[75]");
    client_has(client, "\"ctx_info_endpoint\":\"tcp://127.0.0.1:7\"");
    client_has(client, "\"prompt_token_ids_b64\":\"AQAAAGQAAABlAAAA\"");
    struct api_opaque opaque;
    struct why why;
    char *at = strstr(client->data, "encoded_opaque_state\":\"") + 23;
    assert_int_equal(
        api_opaque_decode(span_of(at, strcspn(at, "\"")), &why, &opaque), OK);
    assert_true(opaque.incarnation == UINT64_C(0xfedcba9876543210));
    assert_true(opaque.rid == INT64_C(4611686018427387905));
    assert_int_equal(opaque.prompt_tokens, 3);
    assert_int_equal(opaque.tokens_per_block, 32);
    const int32_t ids[] = {1, 100, 101}, first[] = {75};
    const struct api_sealed sealed = {.ids = ids,
                                      .id_count = 3,
                                      .first_tokens = first,
                                      .first_token_count = 1};
    assert_true(api_opaque_is_sealed(world->parts.auth_key, &sealed, &opaque));
    client_close(client);
    world_answers(world, "GET", "/transfers", "", "", 200,
                  "\"role\":\"context\",\"result\":\"sending\"");
    world_post(world, &(struct engine_event){
                          .kind = ENGINE_EVENT_SENT,
                          .id = made->id,
                          .journey = {.moved_bytes = 77, .lane = "sysv"}});
    world_answers(world, "GET", "/transfers", "", "", 200,
                  "\"lane\":\"sysv\",\"bytes\":77,");
    engine_request_free(made);
}

/* Proof: n choices share one hand-off with a first token each; one that goes
 * on makes all go on. Ids come as a list when base64 was not asked for. */
static void n_choices_are_handed_over_together(void **state)
{
    struct world *world = *state;
    struct client *client = send_signed(
        world,
        "{\"model\":\"stem\",\"prompt\":[5],\"n\":2,\"disaggregated_params\":"
        "{\"request_type\":\"context_only\",\"disagg_request_id\":9}}");
    struct engine_request *made = world_submitted(world);
    world_token(world, made->id, 0, 0, MODEL_EOS);
    world_finish(world, made->id, 0, ENGINE_FINISH_STOP, MODEL_EOS);
    world_say(world, made->id, 1, 0, "H");
    world_finish(world, made->id, 1, ENGINE_FINISH_HANDOFF, 0);
    client_await(world, client, NULL);
    char *first = strstr(client->data, "\"first_gen_tokens\":[2,75]");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "\"first_gen_tokens\":[2,75]"));
    client_lacks(client, "\"finish_reason\":\"stop\"");
    client_has(client, "\"prompt_token_ids\":[5]");
    client_close(client);
    engine_request_free(made);
}

struct leg {
    const char *key, *signature; /* NULL signature: made with `key` */
    bool without_header;
    uint32_t prompt_tokens, tokens_per_block;
    const char *endpoint; /* JSON */
    const char *first; /* JSON list */
    const char *extra; /* members of the body, a comma in front */
    const char *params; /* the same for disaggregated_params */
    const char *seal_key, *salt; /* of the context worker; NULL: `key`, none */
    int32_t id, first_token; /* the ids it had were id, 6, 7 */
};

static struct leg good_leg(void)
{
    return (struct leg){
        .key = "secret",
        .prompt_tokens = 3,
        .tokens_per_block = 32,
        .endpoint = "\"tcp://10.0.0.1:5000\"",
        .first = "[75]",
        .extra = "",
        .params = "",
        .id = 5,
        .first_token = 75,
    };
}

static void add_state(const struct leg *leg, struct buf *out)
{
    const char *key = leg->seal_key == NULL ? leg->key : leg->seal_key;
    const int32_t ids[] = {leg->id, 6, 7};
    const struct api_sealed sealed = {
        .ids = ids,
        .id_count = 3,
        .salt = span_of_string(leg->salt == NULL ? "" : leg->salt),
        .first_tokens = &leg->first_token,
        .first_token_count = 1};
    struct api_opaque opaque = {.incarnation = 77,
                                .rid = 5,
                                .prompt_tokens = leg->prompt_tokens,
                                .tokens_per_block = leg->tokens_per_block};
    api_opaque_seal(span_of_string(key), &sealed, &opaque);
    api_opaque_encode(&opaque, out);
}

static struct client *send_leg(struct world *world, const struct leg *leg)
{
    char headers[512], body[2048], signature[80];
    struct buf opaque;
    buf_init(&opaque, 1024);
    add_state(leg, &opaque);
    const struct api_handoff handoff = {
        .type = API_REQUEST_GENERATION,
        .has_ctx_id = true,
        .has_disagg_id = true,
        .ctx_id = 5,
        .disagg_id = 5,
        .endpoint = span_of_string("tcp://10.0.0.1:5000"),
        .opaque = buf_span(&opaque),
    };
    api_sign_leg(span_of_string(leg->key), &handoff, signature);
    snprintf(headers, sizeof(headers), JSON "%s%s%s",
             leg->without_header ? "" : "x-baton-disagg-auth: ",
             leg->without_header ? ""
             : leg->signature    ? leg->signature
                                 : signature,
             leg->without_header ? "" : "\r\n");
    snprintf(body, sizeof(body),
             "{\"model\":\"stem\",\"prompt\":[5,6,7]%s,"
             "\"disaggregated_params\":{\"request_type\":\"generation_only\","
             "\"ctx_request_id\":5,\"disagg_request_id\":5,"
             "\"first_gen_tokens\":%s,\"encoded_opaque_state\":\"%s\","
             "\"ctx_dp_rank\":0,\"ctx_info_endpoint\":%s,\"schedule_style\":0,"
             "\"ctx_usage\":{\"prompt_tokens\":32,\"completion_tokens\":1,"
             "\"total_tokens\":33,\"prompt_tokens_details\":{\"cached_tokens\":"
             "1}}%s}}",
             leg->extra, leg->first, buf_string(&opaque), leg->endpoint,
             leg->params);
    buf_finish(&opaque);
    return client_send(world, "POST", "/v1/completions", headers, body);
}

static void leg_refused(struct world *world, const struct leg *leg, int status,
                        const char *text)
{
    struct client *client = send_leg(world, leg);
    client_await(world, client, NULL);
    if (client_status(client) != status) {
        fail_msg("wanted %d: %s", status, client->data);
    }
    client_has(client, text);
    client_close(client);
}

/* [serve T103] Proof: right signature in; missing, wrong and foreign ones
 * out; a list counts as its first endpoint. */
static void a_generation_leg_must_be_signed(void **state)
{
    struct world *world = *state;
    struct leg leg = good_leg();
    struct client *client = send_leg(world, &leg);
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->kind, ENGINE_GENERATION_ONLY);
    assert_int_equal(made->rid, 5);
    assert_int_equal(made->sender_incarnation, 77);
    assert_string_equal(made->sender_endpoint, "tcp://10.0.0.1:5000");
    assert_int_equal(made->first_tokens[0], 75);
    client_close(client);
    engine_request_free(made);
    assert_int_equal(world_command(world).kind, ENGINE_CANCEL);
    leg.without_header = true;
    leg_refused(world, &leg, 401, "x-baton-disagg-auth: is required");
    leg = good_leg();
    leg.key = "other";
    leg_refused(world, &leg, 403, "does not match");
    leg = good_leg();
    leg.signature = "sha256=00";
    leg_refused(world, &leg, 403, "does not match");
    leg = good_leg();
    leg.endpoint = "\"tcp://evil:1\"";
    leg_refused(world, &leg, 403, "does not match");
    leg = good_leg();
    leg.endpoint = "[\"tcp://10.0.0.1:5000\",\"tcp://other:1\"]";
    client = send_leg(world, &leg);
    made = world_submitted(world);
    assert_string_equal(made->sender_endpoint, "tcp://10.0.0.1:5000");
    client_close(client);
    engine_request_free(made);
}

/* [serve T103] Proof: with no key at all a strict worker refuses, and one
 * told otherwise lets pass. */
static void without_a_key_strictness_decides(void **state)
{
    struct world *world = *state;
    struct leg leg = good_leg();
    (void)world;
    struct world *open = calloc(1, sizeof(*open));
    world_open(open);
    world_ready(open);
    leg_refused(open, &leg, 403, "auth key");
    open->config.strict_internal_auth = false;
    leg.seal_key = "";
    struct client *client = send_leg(open, &leg);
    struct engine_request *made = world_submitted(open);
    client_close(client);
    engine_request_free(made);
    world_close(open);
    free(open);
}

/* Proof: ids, first token or salt that the context worker did not have, or a
 * seal under another key: refused, signed or not; the right salt passes. */
static void a_leg_of_another_prompt_is_refused(void **state)
{
    struct world *world = *state;
    struct leg leg = good_leg();
    leg.id = 4;
    leg_refused(world, &leg, 400, "encoded_opaque_state: was made for other");
    leg = good_leg();
    leg.first_token = 74;
    leg_refused(world, &leg, 400, "encoded_opaque_state: was made for other");
    leg = good_leg();
    leg.salt = "s";
    leg_refused(world, &leg, 400, "encoded_opaque_state: was made for other");
    leg.extra = ",\"cache_salt\":\"t\"";
    leg_refused(world, &leg, 400, "encoded_opaque_state: was made for other");
    leg.extra = ",\"cache_salt\":\"s\"";
    struct client *client = send_leg(world, &leg);
    engine_request_free(world_submitted(world));
    client_close(client);
    assert_int_equal(world_command(world).kind, ENGINE_CANCEL);
    leg = good_leg();
    leg.seal_key = "other";
    leg_refused(world, &leg, 400, "encoded_opaque_state: was made for other");
}

/* Proof: what does not fit this worker or contradicts itself is named. */
static void a_leg_that_does_not_fit_is_refused(void **state)
{
    struct world *world = *state;
    struct leg leg = good_leg();
    leg.prompt_tokens = 4;
    leg_refused(world, &leg, 400, "the context server had 4");
    leg = good_leg();
    leg.tokens_per_block = 24;
    leg_refused(world, &leg, 400, "24 tokens a block");
    leg.tokens_per_block = 0;
    leg_refused(world, &leg, 400, " 0 tokens a block");
    leg = good_leg();
    leg.first = "[75,76]";
    leg_refused(world, &leg, 400, "first_gen_tokens");
    leg = good_leg();
    leg.first = "[300]";
    leg_refused(world, &leg, 400, "300");
    leg = good_leg();
    leg.first = "[]";
    leg_refused(world, &leg, 400, "generation_first");
    leg = good_leg();
    leg.extra = ",\"echo\":true,\"logprobs\":1";
    leg_refused(world, &leg, 400, "echo");
}

/* ---- generation-first ---- */

static struct client *send_early(struct world *world, const char *params,
                                 const char *extra, bool is_signed)
{
    char body[1024];
    snprintf(body, sizeof(body),
             "{\"model\":\"stem\",\"prompt\":\"ab\"%s,"
             "\"disaggregated_params\":{\"request_type\":\"generation_only\","
             "\"schedule_style\":1%s}}",
             extra, params);
    return is_signed ? send_signed(world, body)
                     : client_post(world, "/v1/completions", body);
}

#define EARLY                                          \
    ",\"ctx_info_endpoint\":[\"tcp://10.0.0.1:5000\"]" \
    ",\"disagg_request_id\":9"

/* Proof: the generation leg of generation-first has its own prompt, the id and
 * where to pull from, nothing else; its first token comes from the engine with
 * its log probability, and counts once. */
static void a_generation_first_leg_takes_its_first_token_from_the_engine(
    void **state)
{
    struct world *world = *state;
    struct client *client = send_early(world, EARLY ",\"ctx_request_id\":9",
                                       ",\"logprobs\":0", true);
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->kind, ENGINE_GENERATION_ONLY);
    assert_true(made->is_generation_first);
    assert_int_equal(made->rid, 9);
    assert_int_equal(made->sender_incarnation, 0);
    assert_string_equal(made->sender_endpoint, "tcp://10.0.0.1:5000");
    assert_int_equal(made->prompt_count, 3);
    world_token(world, made->id, 0, 0, TOKEN_OF('H'));
    world_say(world, made->id, 0, 1, "ey");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "\"text\":\"Hey\"");
    client_has(client, "\"completion_tokens\":3");
    client_has(client, "\"token_logprobs\":[");
    client_close(client);
    engine_request_free(made);
}

/* Proof: the context leg says the style to the engine and answers as usual. */
static void a_generation_first_context_leg_answers_as_usual(void **state)
{
    struct world *world = *state;
    struct client *client = send_signed(
        world,
        "{\"model\":\"stem\",\"prompt\":\"ab\",\"disaggregated_params\":{"
        "\"request_type\":\"context_only\",\"disagg_request_id\":9,"
        "\"schedule_style\":\"generation_first\"}}");
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->kind, ENGINE_CONTEXT_ONLY);
    assert_true(made->is_generation_first);
    assert_int_equal(made->rid, 9);
    world_say(world, made->id, 0, 0, "H");
    world_finish(world, made->id, 0, ENGINE_FINISH_HANDOFF, 0);
    client_await(world, client, NULL);
    client_has(client, "\"first_gen_tokens\":[75]");
    client_close(client);
    engine_request_free(made);
}

/* [serve T103] Proof: what such a leg lacks or must not have is named; it names
 * whom to contact, so it must be signed like any other. */
static void a_generation_first_leg_that_cannot_be_is_refused(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *params;
        const char *text;
    } CASES[] = {
        {EARLY ",\"first_gen_tokens\":[75]",
         "first_gen_tokens: must be absent"},
        {",\"ctx_info_endpoint\":\"tcp://10.0.0.1:5000\"",
         "disagg_request_id: is required"},
        {EARLY ",\"ctx_request_id\":8", "ctx_request_id: must be"},
        {",\"disagg_request_id\":9", "ctx_info_endpoint: is required"},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct client *client = send_early(world, CASES[i].params, "", true);
        client_await(world, client, NULL);
        assert_int_equal(client_status(client), 400);
        client_has(client, CASES[i].text);
        client_close(client);
    }
    struct client *client = send_early(world, EARLY, "", false);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 401);
    client_close(client);
}

static void answer_leg(struct world *world, const struct leg *leg,
                       const char *more, bool repeats_first,
                       struct client **client_out)
{
    *client_out = send_leg(world, leg);
    struct engine_request *made = world_submitted(world);
    if (repeats_first) {
        world_token(world, made->id, 0, 0, TOKEN_OF('H'));
    }
    world_say(world, made->id, 0, 1, more);
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, *client_out, NULL);
    engine_request_free(made);
}

/* [serve T36 T37] Proof: the first token shows exactly once and counts,
 * whether the engine repeats it or not; the prompt's numbers are the context
 * server's, in the body and in the usage chunk. */
static void the_first_token_shows_once(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 2; i++) {
        struct client *client;
        struct leg leg = good_leg();
        answer_leg(world, &leg, "ey!", i == 0, &client);
        client_has(client, "\"text\":\"Hey!\"");
        client_has(client, "\"usage\":{\"prompt_tokens\":32,"
                           "\"completion_tokens\":4,\"total_tokens\":36,"
                           "\"prompt_tokens_details\":{\"cached_tokens\":1}}");
        client_close(client);
        leg.extra = ",\"stream\":true,\"stream_options\":{}";
        answer_leg(world, &leg, "ey!", i == 0, &client);
        client_has(client, "\"choices\":[],\"usage\":{\"prompt_tokens\":32,"
                           "\"completion_tokens\":4,\"total_tokens\":36");
        client_close(client);
        leg.extra = ",\"max_tokens\":1";
        answer_leg(world, &leg, "", i == 0, &client);
        client_has(client, "\"text\":\"H\"");
        client_has(client, "\"completion_tokens\":1");
        client_close(client);
    }
}

/* [serve T37] Proof: an end token handed over as the first shows nothing. */
static void an_end_token_may_be_the_first(void **state)
{
    struct world *world = *state;
    struct leg leg = good_leg();
    leg.first = "[2]";
    leg.first_token = 2;
    struct client *client = send_leg(world, &leg);
    struct engine_request *made = world_submitted(world);
    world_finish(world, made->id, 0, ENGINE_FINISH_STOP, MODEL_EOS);
    client_await(world, client, NULL);
    client_has(client, "\"text\":\"\"");
    client_has(client, "\"finish_reason\":\"stop\"");
    client_has(client, "\"completion_tokens\":1");
    client_close(client);
    engine_request_free(made);
}

/* Proof: a stop string that begins in the first token is found. */
static void a_stop_string_may_begin_in_the_first_token(void **state)
{
    struct world *world = *state;
    struct client *client;
    struct leg leg = good_leg();
    leg.extra = ",\"stop\":\"Hey\"";
    answer_leg(world, &leg, "ey!", false, &client);
    client_has(client, "\"text\":\"\"");
    client_has(client, "\"stop_reason\":\"Hey\"");
    client_close(client);
}

static void handoff_lost(struct world *world, struct client *client,
                         enum err error, const char *text)
{
    struct engine_request *made = world_submitted(world);
    world_fail(world, made->id, error, text);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 502);
    client_has(client, "\"type\":\"kv_transfer_failed\"");
    client_has(client, text);
    client_close(client);
    engine_request_free(made);
}

/* Proof: a lost hand-off has its own type, so that the front end may begin
 * again, and so has one that the peer gave up while our client waits, on either
 * side; [serve T96] on the worker's side. */
static void a_lost_handoff_has_its_own_type(void **state)
{
    struct world *world = *state;
    struct leg leg = good_leg();
    handoff_lost(world, send_leg(world, &leg), ERR_CLOSED,
                 "the sender is gone");
    handoff_lost(world, send_leg(world, &leg), ERR_CANCELLED,
                 "KV transfer failed: peer-cancel");
    world_answers(world, "GET", "/transfers", "", "", 200,
                  "\"disagg_request_id\":5,\"role\":\"generation\","
                  "\"result\":\"failed\"");
    handoff_lost(world,
                 send_signed(world,
                             "{\"model\":\"stem\",\"prompt\":[5],"
                             "\"disaggregated_params\":{\"request_type\":"
                             "\"context_only\",\"disagg_request_id\":9,"
                             "\"schedule_style\":1}}"),
                 ERR_CANCELLED, "KV transfer failed: peer-cancel");
}

/* Proof: KV that its sender no longer has while the request has time left: the
 * same prompt is submitted again, whole, and its answer is the answer, usage
 * and text; a request without time left gets the failure. [transfer T77] */
static void a_handoff_that_came_too_late_is_computed_here(void **state)
{
    struct world *world = *state;
    struct leg leg = good_leg();
    struct client *client = send_leg(world, &leg);
    struct engine_request *made = world_submitted(world);
    world_fail(world, made->id, ERR_TIMEOUT, "KV transfer failed: expired");
    struct engine_request *again = world_submitted(world);
    assert_int_equal(again->kind, ENGINE_AGGREGATED);
    assert_true(again->id == made->id);
    assert_int_equal(again->prompt_count, 3);
    assert_memory_equal(again->prompt, made->prompt, 12);
    assert_int_equal(again->max_new_tokens, made->max_new_tokens);
    assert_true(again->deadline_ns == made->deadline_ns);
    world_say(world, again->id, 0, 0, "Hey");
    world_finish(world, again->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 200);
    client_has(client, "\"text\":\"Hey\"");
    client_has(client, "\"prompt_tokens\":3,\"completion_tokens\":3");
    client_close(client);
    engine_request_free(made);
    engine_request_free(again);
    world_answers(world, "GET", "/metrics", "", "", 200,
                  "baton_handoffs_recomputed_total 1\n");
    client = send_leg(world, &leg);
    made = world_submitted(world);
    world_fail(world, made->id, ERR_TIMEOUT, "KV transfer failed: expired");
    again = world_submitted(world);
    world_fail(world, again->id, ERR_TIMEOUT, "the deadline has passed");
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 504);
    client_close(client);
    engine_request_free(made);
    engine_request_free(again);
}

static struct client *send_abort(struct world *world, int64_t id)
{
    char headers[256], body[128], signature[80];
    api_sign_abort(world->parts.auth_key, id, signature);
    snprintf(headers, sizeof(headers), JSON "x-baton-disagg-auth: %s\r\n",
             signature);
    snprintf(body, sizeof(body), "{\"disagg_request_id\":%" PRId64 "}", id);
    return client_send(world, "POST", "/v1/disagg/abort", headers, body);
}

/* Proof: an abort goes to the engine by its rid, and its word comes back. One of
 * what is gone already is no failed request. */
static void an_abort_is_answered_by_the_engine(void **state)
{
    struct world *world = *state;
    for (int found = 0; found < 2; found++) {
        struct client *client = send_abort(world, INT64_C(4611686018427387905));
        struct engine_command command = world_command(world);
        assert_int_equal(command.kind, ENGINE_ABORT_RID);
        assert_true(command.rid == INT64_C(4611686018427387905));
        world_post(world, &(struct engine_event){.kind = ENGINE_EVENT_ABORTED,
                                                 .id = command.id,
                                                 .found = found == 1});
        client_await(world, client, NULL);
        assert_int_equal(client_status(client), found ? 200 : 404);
        client_close(client);
    }
    world_answers(world, "GET", "/metrics", "", "", 200,
                  "baton_request_failures_total{status=\"4xx\"} 0\n");
    world_answers(world, "POST", "/v1/disagg/abort",
                  JSON "x-baton-disagg-auth: x\r\n",
                  "{\"disagg_request_id\":\"5\"}", 400, "integer");
}

/* Proof: log probabilities of the first token cross with the hand-off. */
static void first_logprobs_cross_with_the_handoff(void **state)
{
    struct world *world = *state;
    struct client *client = send_signed(
        world, "{\"model\":\"stem\",\"prompt\":[5],\"logprobs\":0,"
               "\"disaggregated_params\":{\"request_type\":\"context_only\","
               "\"disagg_request_id\":9}}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "H");
    world_finish(world, made->id, 0, ENGINE_FINISH_HANDOFF, 0);
    client_await(world, client, NULL);
    client_has(client, "\"first_gen_log_probs\":[{\"logprob\":-0.5,\"top\":[]}"
                       "]");
    client_close(client);
    engine_request_free(made);
}

/* Proof: and the generation leg shows them for its first token, cut to what
 * was asked for, then those of its own engine. */
static void first_logprobs_show_on_the_other_side(void **state)
{
    struct world *world = *state;
    struct client *client;
    struct leg leg = good_leg();
    leg.extra = ",\"logprobs\":1";
    leg.params = ",\"first_gen_log_probs\":[{\"logprob\":-0.25,\"top\":"
                 "[[75,-0.25],[76,-3]]}]";
    answer_leg(world, &leg, "i", true, &client);
    client_has(client, "\"tokens\":[\"H\",\"i\"],"
                       "\"token_logprobs\":[-0.25,-0.5]");
    client_has(client, "\"top_logprobs\":[{\"H\":-0.25},{\"i\":-0.5}]");
    client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_SIGNED(a_context_leg_answers_with_the_handoff),
        TEST_SIGNED(n_choices_are_handed_over_together),
        TEST_SIGNED(a_generation_leg_must_be_signed),
        TEST_SIGNED(without_a_key_strictness_decides),
        TEST_SIGNED(a_leg_that_does_not_fit_is_refused),
        TEST_SIGNED(a_leg_of_another_prompt_is_refused),
        TEST_SIGNED(a_handoff_that_came_too_late_is_computed_here),
        TEST_SIGNED(
            a_generation_first_leg_takes_its_first_token_from_the_engine),
        TEST_SIGNED(a_generation_first_context_leg_answers_as_usual),
        TEST_SIGNED(a_generation_first_leg_that_cannot_be_is_refused),
        TEST_SIGNED(the_first_token_shows_once),
        TEST_SIGNED(an_end_token_may_be_the_first),
        TEST_SIGNED(a_stop_string_may_begin_in_the_first_token),
        TEST_SIGNED(a_lost_handoff_has_its_own_type),
        TEST_SIGNED(an_abort_is_answered_by_the_engine),
        TEST_SIGNED(first_logprobs_cross_with_the_handoff),
        TEST_SIGNED(first_logprobs_show_on_the_other_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
