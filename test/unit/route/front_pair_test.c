/* Whole generation-first flows: a client, the front end, two scripted workers,
 * real sockets on one loop. Bodies are compared byte by byte. */
#include "mock_worker.h"

#include "route/front_internal.h"

#define INFO                                                              \
    "{\"hand_off\":true,\"disaggregated_params\":{\"ctx_info_endpoint\":" \
    "[\"tcp://10.0.0.1:5000\"],\"zone\":7}}"

static const char CHAT[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
    "\"max_tokens\":8,\"n\":2,\"logprobs\":true}";
static const char STREAM[] =
    "{\"prompt\":[\"hi\"],\"max_tokens\":8,\"stream\":true,"
    "\"stream_options\":{\"include_usage\":true}}";
static const char GEN_CHAT[] =
    "{\"id\":\"b\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Yes\"},"
    "\"finish_reason\":\"stop\",\"disaggregated_params\":null}],"
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,"
    "\"total_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":2}}}";
static const char CLEAN_CHAT[] =
    "{\"id\":\"b\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Yes\"},"
    "\"finish_reason\":\"stop\"}],"
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,"
    "\"total_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":2}}}";
static const char *const CHUNKS[] = {"data: {\"a\":1}\n\n", "data: [DO",
                                     "NE]\n\n"};
static const char SORRY[] =
    "{\"object\":\"error\",\"message\":\"sorry\",\"type\":\"x\",\"code\":500}";
static const char KV_FAILED[] =
    "{\"error\":{\"message\":\"lost\",\"type\":\"kv_transfer_failed\"}}";
/* A context answer of the other style. */
static const char CTX_CHAT[] =
    "{\"id\":\"a\",\"prompt_token_ids_b64\":\"AQAAAE4jAADFCQAA\",\"choices\":"
    "[{\"index\":0,\"message\":{\"content\":\"Y\"},\"finish_reason\":"
    "\"length\",\"disaggregated_params\":{\"request_type\":\"context_only\","
    "\"ctx_request_id\":77,\"disagg_request_id\":1116289174535,"
    "\"first_gen_tokens\":[310],\"encoded_opaque_state\":\"b3BhcXVl\"}}]}";

static void prepare(struct mock_cluster *c)
{
    mock_prepare(c);
    c->config.schedule_style = CONFIG_ROUTE_GENERATION_FIRST;
    c->ctx.info = INFO;
    mock_add(&c->ctx, (struct mock_step){.body = "{\"choices\":[]}"});
}

static void begin(struct mock_cluster *c)
{
    mock_begin(c);
    mock_wait_ready(c);
}

static void turn_until(struct mock_cluster *c, const int *count, int wanted)
{
    for (int i = 0; i < 2000 && *count < wanted; i++) {
        io_loop_turn(c->loop, 2000000);
    }
    assert_int_equal(*count, wanted);
}

static void turn_until_idle(struct mock_cluster *c)
{
    for (int i = 0; i < 2000 && c->front->open_count > 0; i++) {
        io_loop_turn(c->loop, 2000000);
    }
    assert_int_equal(c->front->open_count, 0);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\nlacks %s", text, part);
    }
}

static void assert_metric(struct mock_cluster *c, const char *line)
{
    struct mock_reply reply;
    mock_ask(c, "GET", "/metrics", NULL, &reply);
    assert_has(buf_string(&reply.body), line);
    buf_finish(&reply.body);
}

/* I1: nothing is open, so no load is booked. */
static void finish(struct mock_cluster *c, struct mock_reply *reply)
{
    turn_until_idle(c);
    for (uint32_t i = 0; i < c->front->pool.server_count; i++) {
        assert_int_equal(c->front->pool.servers[i].open_legs, 0);
    }
    buf_finish(&reply->body);
    mock_end(c);
}

static long long id_in(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    assert_non_null(at);
    return atoll(at + strlen(key));
}

/* The body with its id written as 42. */
static void assert_body(const char *body, long long id, const char *wanted)
{
    char number[32];
    struct buf text;
    buf_init(&text, 65536);
    sprintf(number, "%lld", id);
    for (const char *at = body; *at != 0;) {
        bool is_id = strncmp(at, number, strlen(number)) == 0;
        buf_add(&text, is_id ? "42" : at, is_id ? 2 : 1);
        at += is_id ? strlen(number) : 1;
    }
    assert_string_equal(buf_string(&text), wanted);
    buf_finish(&text);
}

#define CHAT_HEAD                                                             \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]," \
    "\"max_tokens\":8,\"n\":2,\"logprobs\":true,"
#define SESSION "\"conversation_params\":{\"conversation_id\":\"c1\"},"

/* [serve T30 T33 T36] each worker answers only when the other one has its
 * post. Both legs byte by byte; both are signed; only the generation leg
 * names an endpoint, which the foreign header is over; the answer is the
 * generation worker's own. */
static void a_chat_is_posted_to_both_at_once(void **state)
{
    const struct http_header headers[] = {{"x-session-id", "c1"}, {0}};
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    c.ctx.waits_for_other = true;
    c.gen.waits_for_other = true;
    strcpy(c.config.internal_auth_key, "secret");
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT, headers, &reply);
    mock_turns(&c, &reply.is_over, 5000);
    assert_int_equal(reply.status, 200);
    assert_string_equal(buf_string(&reply.body), CLEAN_CHAT);
    long long id = id_in(c.ctx.bodies[0], "\"disagg_request_id\":");
    assert_true(id >= 1ll << 40);
    assert_body(c.ctx.bodies[0], id,
                CHAT_HEAD
                "\"stream\":false,\"stream_options\":null," SESSION
                "\"disaggregated_params\":{\"request_type\":\"context_only\","
                "\"disagg_request_id\":42,\"schedule_style\":1,"
                "\"return_prompt_token_ids_b64\":false}}");
    assert_body(c.gen.bodies[0], id,
                CHAT_HEAD SESSION
                "\"disaggregated_params\":{\"ctx_info_endpoint\":"
                "\"tcp://10.0.0.1:5000\",\"zone\":7,\"request_type\":"
                "\"generation_only\",\"ctx_request_id\":42,"
                "\"disagg_request_id\":42,\"schedule_style\":1}}");
    char wanted[80];
    api_sign(span_of_string("secret"), span_of_string("tcp://10.0.0.1:5000"),
             span_of(NULL, 0), wanted);
    assert_string_equal(c.gen.auth[0], wanted);
    assert_string_equal(c.ctx.auth[0], "");
    assert_true(mock_is_signed(&c.ctx, 0, "secret"));
    assert_true(mock_is_signed(&c.gen, 0, "secret"));
    assert_true(atoi(c.gen.deadline[0]) > 100000);
    assert_true(atoi(c.ctx.deadline[0]) > 100000);
    turn_until_idle(&c);
    assert_int_equal(c.ctx.abort_count + c.gen.abort_count, 0);
    assert_metric(&c,
                  "baton_front_handoffs_total{style=\"generation_first\"} 1");
    assert_metric(&c, "baton_front_handoffs_total{style=\"context_first\"} 0");
    assert_metric(&c, "ctx_completed_requests_total 1");
    assert_metric(&c, "gen_completed_requests_total 1");
    finish(&c, &reply);
}

/* [serve T30] a stream as well, byte for byte; its prompt stays text. */
static void a_stream_is_posted_to_both_at_once(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    mock_add(&c.gen,
             (struct mock_step){.chunks = {CHUNKS[0], CHUNKS[1], CHUNKS[2]}});
    c.ctx.waits_for_other = true;
    c.gen.waits_for_other = true;
    begin(&c);
    mock_ask(&c, "POST", "/v1/completions", STREAM, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(buf_string(&reply.body),
                        "data: {\"a\":1}\n\ndata: [DONE]\n\n");
    assert_has(c.gen.bodies[0], "{\"prompt\":\"hi\",\"max_tokens\":8,"
                                "\"stream\":true,\"stream_options\":{");
    assert_has(c.ctx.bodies[0], "{\"prompt\":\"hi\",\"max_tokens\":8,"
                                "\"stream\":false,\"stream_options\":null");
    finish(&c, &reply);
}

/* The generation answer is whole: the client has it at once. The context leg
 * ends by itself, and nobody is told to abort. */
static void the_answer_does_not_wait_for_the_context_leg(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    c.ctx.holds = true;
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(c.front->open_count, 1);
    turn_until(&c, &c.ctx.post_count, 1);
    mock_release(&c.ctx);
    turn_until_idle(&c);
    assert_int_equal(c.ctx.abort_count + c.gen.abort_count, 0);
    assert_int_equal(c.ctx.gone_count, 0);
    finish(&c, &reply);
}

/* [serve T31] the context leg ends with the generation leg, and the client has
 * what the worker said. */
static void a_failed_generation_leg_ends_the_context_leg(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    mock_add(&c.gen, (struct mock_step){.status = 500, .body = SORRY});
    c.gen.waits_for_other = true;
    c.ctx.holds = true;
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 500);
    assert_has(buf_string(&reply.body), "sorry");
    turn_until(&c, &c.ctx.gone_count, 1);
    turn_until(&c, &c.ctx.abort_count, 1);
    turn_until(&c, &c.gen.abort_count, 1);
    assert_string_equal(c.ctx.aborts[0], c.gen.aborts[0]);
    assert_int_equal(c.gen.post_count, 1);
    finish(&c, &reply);
}

/* [serve T32] and the other way round: no chunk has come, so it is a status. */
static void a_failed_context_leg_ends_the_generation_leg(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.steps[0] = (struct mock_step){.status = 422, .body = SORRY};
    c.ctx.waits_for_other = true;
    mock_add(&c.gen, (struct mock_step){.end = MOCK_HANG});
    begin(&c);
    mock_ask(&c, "POST", "/v1/completions", STREAM, &reply);
    assert_int_equal(reply.status, 422);
    assert_has(buf_string(&reply.body), "sorry");
    turn_until(&c, &c.gen.gone_count, 1);
    turn_until(&c, &c.gen.abort_count, 1);
    assert_int_equal(c.ctx.post_count, 1);
    finish(&c, &reply);
}

/* [serve T32] after a chunk the failure is seen inside the stream. */
static void a_context_failure_after_a_chunk_cuts_the_stream(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.steps[0] = (struct mock_step){.status = 500, .body = SORRY};
    c.ctx.holds = true;
    mock_add(&c.gen,
             (struct mock_step){.end = MOCK_HANG, .chunks = {CHUNKS[0]}});
    begin(&c);
    mock_send(&c, "POST", "/v1/completions", STREAM, NULL, &reply);
    for (int i = 0; i < 1000 && reply.body.size == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    turn_until(&c, &c.ctx.post_count, 1);
    mock_release(&c.ctx);
    mock_turns(&c, &reply.is_over, 5000);
    assert_int_equal(reply.status, 200);
    assert_has(buf_string(&reply.body), "the context worker failed");
    assert_null(strstr(buf_string(&reply.body), "[DONE]"));
    turn_until(&c, &c.gen.gone_count, 1);
    turn_until(&c, &c.gen.abort_count, 1);
    finish(&c, &reply);
}

/* [serve T79] a context worker that is busy: both legs again, under a new id
 * for both. */
static void a_retry_has_a_new_id_on_both_legs(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.steps[0] = (struct mock_step){.status = 503, .body = SORRY};
    mock_add(&c.ctx, (struct mock_step){.body = "{}"});
    mock_add(&c.gen, (struct mock_step){.end = MOCK_HANG});
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    c.ctx.waits_for_other = true;
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(c.ctx.post_count, 2);
    assert_int_equal(c.gen.post_count, 2);
    long long ids[2];
    for (int i = 0; i < 2; i++) {
        ids[i] = id_in(c.ctx.bodies[i], "\"disagg_request_id\":");
        assert_true(id_in(c.gen.bodies[i], "\"disagg_request_id\":") == ids[i]);
        assert_true(id_in(c.gen.bodies[i], "\"ctx_request_id\":") == ids[i]);
    }
    assert_true(ids[0] != ids[1]);
    turn_until(&c, &c.gen.abort_count, 1);
    assert_true(id_in(c.gen.aborts[0], ":") == ids[0]);
    assert_metric(&c, "ctx_retry_requests_total 1");
    assert_metric(&c, "gen_retry_requests_total 1");
    finish(&c, &reply);
}

/* [serve T96] the context worker is not where it said: it is asked first, and
 * its own words are asked for again. */
static void a_failed_transfer_goes_context_first(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.steps[0] = (struct mock_step){.end = MOCK_HANG};
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.status = 502, .body = KV_FAILED});
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    c.gen.waits_for_other = true;
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_has(c.ctx.bodies[1], "\"schedule_style\":0");
    assert_has(c.gen.bodies[1], "\"encoded_opaque_state\":\"b3BhcXVl\"");
    assert_metric(&c, "baton_front_generation_first_fallbacks_total 1");
    assert_metric(&c, "baton_front_full_restarts_total 1");
    const struct route_server *ctx = &c.front->pool.servers[0];
    for (int i = 0; i < 2000 && ctx->is_stale; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    assert_true(route_peer_is_known(&ctx->peer));
    finish(&c, &reply);
}

/* [serve T8] what a starting worker answers is not taken for an answer. */
static void a_starting_worker_is_asked_again(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.info_status = 503;
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    mock_begin(&c);
    struct front_probe *probe = &c.front->probes[0];
    for (int i = 0; i < 2000 && probe->fault[0] == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    assert_string_equal(probe->fault,
                        "it answers /server_info with status 503");
    c.ctx.info_status = 0;
    mock_wait_ready(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_has(c.gen.bodies[0], "tcp://10.0.0.1:5000");
    finish(&c, &reply);
}

/* A worker that does not say where it can be met. */
static void a_silent_context_worker_is_asked_first(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.info = "{\"hand_off\":true}";
    c.ctx.steps[0] = (struct mock_step){.body = CTX_CHAT};
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_has(c.ctx.bodies[0], "\"schedule_style\":0");
    assert_metric(&c, "baton_front_generation_first_fallbacks_total 1");
    assert_metric(&c, "baton_front_handoffs_total{style=\"context_first\"} 1");
    finish(&c, &reply);
}

/* [serve T89 T91] a client that leaves, before a chunk and after one: both
 * workers see it at once, and both are told. */
static void a_leaving_client_ends_both_legs(void **state)
{
    (void)state;
    for (int has_chunk = 0; has_chunk < 2; has_chunk++) {
        struct mock_cluster c;
        struct mock_reply reply;
        prepare(&c);
        c.ctx.steps[0] = (struct mock_step){.end = MOCK_HANG};
        mock_add(&c.gen,
                 (struct mock_step){.end = MOCK_HANG,
                                    .chunks = {has_chunk ? CHUNKS[0] : NULL}});
        begin(&c);
        mock_send(&c, "POST", "/v1/completions", STREAM, NULL, &reply);
        turn_until(&c, &c.ctx.post_count, 1);
        turn_until(&c, &c.gen.post_count, 1);
        for (int i = 0; has_chunk && i < 1000 && reply.body.size == 0; i++) {
            io_loop_turn(c.loop, 2000000);
        }
        http_call_cancel(reply.call);
        turn_until(&c, &c.ctx.gone_count, 1);
        turn_until(&c, &c.gen.gone_count, 1);
        turn_until(&c, &c.ctx.abort_count, 1);
        turn_until(&c, &c.gen.abort_count, 1);
        assert_string_equal(c.ctx.aborts[0], c.gen.aborts[0]);
        finish(&c, &reply);
    }
}

/* [serve T94] the deadline ends both as well. */
static void the_deadline_ends_both_legs(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.steps[0] = (struct mock_step){.end = MOCK_HANG};
    mock_add(&c.gen, (struct mock_step){.end = MOCK_HANG});
    c.config.request_timeout_s = 0.1;
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 504);
    turn_until(&c, &c.ctx.gone_count, 1);
    turn_until(&c, &c.gen.gone_count, 1);
    finish(&c, &reply);
}

/* [serve T32] the only context worker dies under the request: the generation
 * worker does both phases, under nobody's id. */
static void a_dead_context_worker_is_stood_in_for(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    prepare(&c);
    c.ctx.steps[0] = (struct mock_step){.end = MOCK_CUT};
    c.ctx.waits_for_other = true;
    mock_add(&c.gen, (struct mock_step){.end = MOCK_HANG});
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_null(strstr(c.gen.bodies[1], "disaggregated_params"));
    turn_until(&c, &c.gen.gone_count, 1);
    turn_until(&c, &c.gen.abort_count, 1);
    finish(&c, &reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_is_posted_to_both_at_once),
        cmocka_unit_test(a_stream_is_posted_to_both_at_once),
        cmocka_unit_test(the_answer_does_not_wait_for_the_context_leg),
        cmocka_unit_test(a_failed_generation_leg_ends_the_context_leg),
        cmocka_unit_test(a_failed_context_leg_ends_the_generation_leg),
        cmocka_unit_test(a_context_failure_after_a_chunk_cuts_the_stream),
        cmocka_unit_test(a_retry_has_a_new_id_on_both_legs),
        cmocka_unit_test(a_failed_transfer_goes_context_first),
        cmocka_unit_test(a_starting_worker_is_asked_again),
        cmocka_unit_test(a_silent_context_worker_is_asked_first),
        cmocka_unit_test(a_leaving_client_ends_both_legs),
        cmocka_unit_test(the_deadline_ends_both_legs),
        cmocka_unit_test(a_dead_context_worker_is_stood_in_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
