/* Whole flows: a client, the front end, two scripted workers, real sockets on
 * one loop. What each worker was sent is compared byte by byte. */
#include "mock_worker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "route/front_internal.h"

#define ID "1116289174535"
#define CHAT_CTX_PARAMS                                         \
    "{\"request_type\":\"context_only\",\"ctx_request_id\":77," \
    "\"disagg_request_id\":" ID ",\"first_gen_tokens\":[310],"  \
    "\"encoded_opaque_state\":\"b3BhcXVl\",\"ctx_dp_rank\":0,"  \
    "\"ctx_info_endpoint\":\"tcp://10.0.0.1:5000\"}"
#define CTX_USAGE                                                      \
    "{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4," \
    "\"prompt_tokens_details\":{\"cached_tokens\":0}}"

static const char CHAT[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
    "\"max_tokens\":8}";
static const char CHAT_STREAM[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
    "\"max_tokens\":8,\"stream\":true,\"stream_options\":"
    "{\"include_usage\":true}}";
static const char CTX_CHAT[] =
    "{\"id\":\"chatcmpl-a\",\"object\":\"chat.completion\",\"created\":1,"
    "\"model\":\"m\",\"prompt_token_ids_b64\":\"AQAAAE4jAADFCQAA\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
    "\"content\":\"He\"},\"finish_reason\":\"length\","
    "\"disaggregated_params\":" CHAT_CTX_PARAMS "}],\"usage\":" CTX_USAGE "}";
static const char CTX_FINAL[] =
    "{\"id\":\"chatcmpl-a\",\"object\":\"chat.completion\",\"created\":1,"
    "\"model\":\"m\",\"prompt_token_ids_b64\":\"AQAA\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
    "\"content\":\"He\"},\"finish_reason\":\"stop\","
    "\"disaggregated_params\":{\"request_type\":\"context_only\","
    "\"ctx_request_id\":null,\"disagg_request_id\":null}}],"
    "\"usage\":" CTX_USAGE "}";
static const char GEN_CHAT[] =
    "{\"id\":\"chatcmpl-b\",\"choices\":[{\"index\":0,\"message\":"
    "{\"content\":\"Hello\"},\"finish_reason\":\"stop\","
    "\"disaggregated_params\":null}],\"usage\":{\"prompt_tokens\":32,"
    "\"completion_tokens\":4,\"total_tokens\":36,"
    "\"prompt_tokens_details\":{\"cached_tokens\":32}},"
    "\"prompt_token_ids\":null}";
static const char CTX_TEXT[] =
    "{\"id\":\"cmpl-a\",\"prompt_token_ids\":[1,2,3],\"choices\":[{\"index\":0,"
    "\"text\":\"He\",\"finish_reason\":\"length\",\"disaggregated_"
    "params\":" CHAT_CTX_PARAMS "}],\"usage\":" CTX_USAGE "}";

#define GEN_PARAMS                                                        \
    "{\"request_type\":\"generation_only\",\"ctx_request_id\":77,"        \
    "\"disagg_request_id\":" ID ",\"first_gen_tokens\":[310],"            \
    "\"encoded_opaque_state\":\"b3BhcXVl\",\"ctx_dp_rank\":0,"            \
    "\"ctx_info_endpoint\":\"tcp://10.0.0.1:5000\",\"schedule_style\":0," \
    "\"ctx_usage\":" CTX_USAGE "}"

static const char *const CHUNKS[] = {"data: {\"a\":1}\n\n", "data: [DO",
                                     "NE]\n\n"};

static void begin(struct mock_cluster *c)
{
    mock_begin(c);
    mock_wait_ready(c);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\nlacks %s", text, part);
    }
}

/* The body of a context leg with its id taken out of the comparison. */
static void assert_context_body(const char *body, const char *before,
                                const char *after)
{
    assert_int_equal(strncmp(body, before, strlen(before)), 0);
    long long id = atoll(body + strlen(before));
    assert_true(id >= 1ll << 40);
    assert_string_equal(strchr(body + strlen(before), ','), after);
}

/* [serve T24 T25 T36] both legs byte by byte, and signed so that our workers
 * take them; the answer is clean and its usage is the context worker's. */
static void a_chat_takes_two_legs(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    strcpy(c.config.internal_auth_key, "secret");
    begin(&c);
    const struct http_header headers[] = {{"x-session-id", "c1"},
                                          {"x-trtllm-evil", "1"},
                                          {"x-trtllm-disagg-auth", "forged"},
                                          {"x-baton-disagg-auth", "forged"},
                                          {0}};
    mock_send(&c, "POST", "/v1/chat/completions", CHAT, headers, &reply);
    mock_turns(&c, &reply.is_over, 5000);
    assert_context_body(
        c.ctx.bodies[0],
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
        ",\"max_tokens\":8,\"stream\":false,\"stream_options\":null,"
        "\"conversation_params\":{\"conversation_id\":\"c1\"},"
        "\"disaggregated_params\":{\"request_type\":\"context_only\","
        "\"disagg_request_id\":",
        ",\"schedule_style\":0,\"return_prompt_token_ids_b64\":true}}");
    assert_string_equal(
        c.gen.bodies[0],
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
        ",\"max_tokens\":8,\"conversation_params\":{\"conversation_id\":\"c1\"}"
        ",\"prompt_token_ids_b64\":\"AQAAAE4jAADFCQAA\","
        "\"disaggregated_params\":" GEN_PARAMS "}");
    assert_string_equal(
        c.gen.auth[0], "sha256=2c855337a244b082618df980f3ca112bdd1d90f76609d813"
                       "aef90813a9cf64b9");
    assert_string_equal(c.ctx.auth[0], "");
    assert_true(mock_is_signed(&c.ctx, 0, "secret"));
    assert_true(mock_is_signed(&c.gen, 0, "secret"));
    assert_string_equal(c.ctx.evil[0], "");
    assert_true(atoi(c.gen.deadline[0]) > 100000);
    assert_int_equal(reply.status, 200);
    assert_string_equal(
        buf_string(&reply.body),
        "{\"id\":\"chatcmpl-b\",\"choices\":[{\"index\":0,\"message\":"
        "{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}],\"usage\":"
        "{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7,"
        "\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    assert_int_equal(c.ctx.abort_count + c.gen.abort_count, 0);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T24] worker bytes pass unchanged, over any chunk border. */
static void a_stream_is_relayed_verbatim(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen,
             (struct mock_step){.chunks = {CHUNKS[0], CHUNKS[1], CHUNKS[2]}});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT_STREAM, &reply);
    assert_has(c.ctx.bodies[0], "\"stream\":false,\"stream_options\":null");
    assert_has(c.gen.bodies[0], "\"stream\":true,\"stream_options\":"
                                "{\"include_usage\":true}");
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.end, HTTP_CALL_COMPLETE);
    assert_string_equal(reply.type, "text/event-stream");
    assert_string_equal(buf_string(&reply.body),
                        "data: {\"a\":1}\n\ndata: [DONE]\n\n");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T24] completions carry the prompt's ids; [serve T26] history is
 * stripped to the last message when asked. */
static void legs_carry_ids_and_stripped_history(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_TEXT});
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    c.config.gen_strip_message_history = true;
    begin(&c);
    mock_ask(&c, "POST", "/v1/completions",
             "{\"model\":\"m\",\"prompt\":[\"x\"],\"max_tokens\":3}", &reply);
    buf_finish(&reply.body);
    assert_has(c.ctx.bodies[0], "\"prompt\":\"x\"");
    assert_has(c.gen.bodies[0], "\"prompt\":[1,2,3],");
    mock_ask(&c, "POST", "/v1/chat/completions",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"user\",\"content\":\"b\"}],\"tools\":[{}]}",
             &reply);
    buf_finish(&reply.body);
    assert_has(c.gen.bodies[1],
               "{\"messages\":[{\"role\":\"user\",\"content\":\"b\"}],"
               "\"tools\":[{}]");
    mock_end(&c);
}

/* [serve T27] a finished context answer is the whole answer, also as a stream. */
static void an_early_end_needs_no_generation_leg(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_FINAL});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(
        buf_string(&reply.body),
        "{\"id\":\"chatcmpl-a\",\"object\":\"chat.completion\",\"created\":1,"
        "\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
        "\"assistant\",\"content\":\"He\"},\"finish_reason\":\"stop\"}],"
        "\"usage\":" CTX_USAGE "}");
    buf_finish(&reply.body);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT_STREAM, &reply);
    const char *body = buf_string(&reply.body);
    assert_has(body, "\"delta\":{\"content\":\"He\"}");
    assert_has(body, "\"finish_reason\":\"stop\"");
    assert_has(body, "\"choices\":[],\"usage\":" CTX_USAGE);
    assert_has(body, "data: [DONE]\n\n");
    buf_finish(&reply.body);
    assert_int_equal(c.gen.post_count, 0);
    mock_end(&c);
}

/* [serve T28] a context answer that cannot be followed is a 502. */
static void a_context_answer_without_a_hand_off_fails(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){
                         .body = "{\"choices\":[{\"index\":0,\"finish_reason\""
                                 ":\"length\"}]}"});
    mock_add(&c.ctx,
             (struct mock_step){
                 .body = "{\"choices\":[{\"finish_reason\":\"length\","
                         "\"disaggregated_params\":{\"request_type\":"
                         "\"context_only\",\"ctx_request_id\":null}}]}"});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 502);
    assert_has(buf_string(&reply.body), "choice 0: no disaggregated_params");
    buf_finish(&reply.body);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 502);
    assert_has(buf_string(&reply.body), "ctx_request_id is null");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T35] one server under both roles takes both legs. */
static void a_mixed_server_takes_both_legs(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    c.is_mixed = true;
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.ctx, (struct mock_step){.body = GEN_CHAT});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(c.ctx.post_count, 2);
    assert_has(c.ctx.bodies[1], "generation_only");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T37] one token: the context worker answers alone, nothing is handed
 * off, the client's own body goes there. */
static void one_token_needs_no_hand_off(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = GEN_CHAT});
    begin(&c);
    mock_ask(&c, "POST", "/v1/completions",
             "{\"prompt\":\"x\", \"max_tokens\":1}", &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(c.ctx.bodies[0],
                        "{\"prompt\":\"x\", \"max_tokens\":1}");
    assert_has(buf_string(&reply.body), "\"prompt_tokens\":32");
    assert_int_equal(c.gen.post_count, 0);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T87] no 200 before a chunk; an empty stream is a 502; a later failure
 * is an error event without [DONE]. */
static void a_stream_fails_visibly(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.status = 500,
                                        .body = "{\"message\":"
                                                "\"boom\"}"});
    mock_add(&c.gen,
             (struct mock_step){.end = MOCK_CUT, .chunks = {CHUNKS[0]}});
    mock_add(&c.gen, (struct mock_step){.chunks = {CHUNKS[0], "data: {\"b"}});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT_STREAM, &reply);
    assert_int_equal(reply.status, 500);
    assert_has(buf_string(&reply.body), "boom");
    buf_finish(&reply.body);
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            mock_wait_ready(&c);
        }
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT_STREAM, &reply);
        assert_int_equal(reply.status, 200);
        assert_has(buf_string(&reply.body), "\"type\":\"upstream_error\"");
        assert_null(strstr(buf_string(&reply.body), "[DONE]"));
        buf_finish(&reply.body);
    }
    assert_int_equal(c.gen.post_count, 3);
    mock_end(&c);
}

static void assert_metric(struct mock_cluster *c, const char *line)
{
    struct mock_reply reply;
    mock_ask(c, "GET", "/metrics", NULL, &reply);
    assert_has(buf_string(&reply.body), line);
    buf_finish(&reply.body);
}

/* [serve T87] a stream that ends well but before any chunk is a 502 and no
 * response; one with a chunk counts as one. */
static void an_empty_stream_is_a_502(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.chunks = {""}});
    mock_add(&c.gen,
             (struct mock_step){.chunks = {CHUNKS[0], CHUNKS[1], CHUNKS[2]}});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT_STREAM, &reply);
    assert_int_equal(reply.status, 502);
    buf_finish(&reply.body);
    assert_metric(&c, "total_responses_total 0\n");
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT_STREAM, &reply);
    assert_int_equal(reply.status, 200);
    buf_finish(&reply.body);
    assert_metric(&c, "total_responses_total 1\n");
    mock_end(&c);
}

/* [serve T21 T22] the worker's words arrive, its address does not; a 4xx is
 * not retried. */
static void a_worker_error_keeps_its_status(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){
                         .status = 400,
                         .body = "{\"object\":\"error\",\"message\":\"bad x at "
                                 "http://10.0.0.1:9/\"}"});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 400);
    assert_has(buf_string(&reply.body), "\"message\":\"bad x at [address]\"");
    assert_has(buf_string(&reply.body), "\"detail\":\"bad x at [address]\"");
    assert_int_equal(c.ctx.post_count, 1);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* What the content is at fault for is the client's, the rest is counted as
 * something to look into. */
static void a_clients_mistake_is_no_workers_error(void **state)
{
    static const struct {
        int status;
        const char *counter;
    } CASES[] = {
        {400, "validation_exceptions_total 1\n"},
        {404, "validation_exceptions_total 1\n"},
        {413, "validation_exceptions_total 1\n"},
        {408, "http_exceptions_total 1\n"},
        {429, "http_exceptions_total 1\n"},
        {401, "http_exceptions_total 1\n"}, /* of the leg: a 502 */
        {503, "http_exceptions_total 1\n"},
        {500, "internal_errors_total 1\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct mock_cluster c;
        struct mock_reply reply;
        mock_prepare(&c);
        c.config.max_retries = 0;
        mock_add(&c.ctx, (struct mock_step){.status = CASES[i].status,
                                            .body = "{\"message\":\"no\"}"});
        begin(&c);
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
        buf_finish(&reply.body);
        assert_metric(&c, CASES[i].counter);
        mock_end(&c);
    }
}

/* [serve T79] the id of the first post is taken there: a second one has another
 * id, and nobody aborts what is under the first. */
static void a_taken_id_is_posted_anew(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    c.config.max_retries = 0;
    mock_add(&c.ctx, (struct mock_step){
                         .status = 409,
                         .body = "{\"message\":\"request is here already\"}"});
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(c.ctx.post_count, 2);
    assert_string_not_equal(c.ctx.bodies[0], c.ctx.bodies[1]);
    assert_int_equal(c.ctx.abort_count + c.gen.abort_count, 0);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T96] a hand-off that failed between the workers begins again as a
 * whole, once, and the client sees nothing of it; the second failure is told. */
static void a_failed_hand_off_begins_again_once(void **state)
{
    static const struct mock_step FAILURE = {
        .status = 502,
        .body = "{\"error\":{\"message\":\"KV transfer failed: peer-cancel\","
                "\"type\":\"kv_transfer_failed\"}}"};
    (void)state;
    for (int failures = 1; failures <= 2; failures++) {
        struct mock_cluster c;
        struct mock_reply reply;
        mock_prepare(&c);
        c.config.max_retries = 0;
        mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
        for (int i = 0; i < failures; i++) {
            mock_add(&c.gen, FAILURE);
        }
        mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
        begin(&c);
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
        assert_int_equal(reply.status, failures == 1 ? 200 : 502);
        assert_int_equal(c.ctx.post_count, 2);
        assert_int_equal(c.gen.post_count, 2);
        if (failures == 2) {
            assert_has(buf_string(&reply.body), "peer-cancel");
        }
        buf_finish(&reply.body);
        mock_end(&c);
    }
}

/* What only the hand-off can be at fault for is no client's error, and its words
 * name fields that the client never sent. */
static void a_refused_hand_off_is_a_502(void **state)
{
    static const struct mock_step REFUSALS[] = {
        {.status = 403, .body = "{\"message\":\"x-trtllm-disagg-auth: no\"}"},
        {.status = 401, .body = "{\"message\":\"x-trtllm-disagg-auth: no\"}"},
        {.status = 400,
         .body = "{\"error\":{\"message\":\"encoded_opaque_state: made for "
                 "others\",\"param\":\"disaggregated_params\"}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(REFUSALS) / sizeof(REFUSALS[0]); i++) {
        struct mock_cluster c;
        struct mock_reply reply;
        mock_prepare(&c);
        mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
        mock_add(&c.gen, REFUSALS[i]);
        begin(&c);
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
        assert_int_equal(reply.status, 502);
        assert_has(buf_string(&reply.body), "refused the hand-off");
        assert_null(strstr(buf_string(&reply.body), "x-trtllm"));
        assert_null(strstr(buf_string(&reply.body), "opaque"));
        buf_finish(&reply.body);
        mock_end(&c);
    }
}

/* [serve T20] nobody is ready: 503 with Retry-After, and health says so. */
static void without_workers_the_answer_is_503(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    c.ctx.health = 503;
    c.gen.health = 503;
    mock_begin(&c);
    mock_turns(&c, NULL, 50);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 503);
    assert_string_equal(reply.retry_after, "1");
    assert_has(buf_string(&reply.body), "ServiceUnavailableError");
    buf_finish(&reply.body);
    mock_ask(&c, "GET", "/health", NULL, &reply);
    assert_int_equal(reply.status, 503);
    buf_finish(&reply.body);
    mock_ask(&c, "GET", "/v1/models", NULL, &reply);
    assert_int_equal(reply.status, 503);
    assert_has(buf_string(&reply.body), "{\"object\":\"error\"");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T16 T23] what is not a client's to send is refused by name. */
static void internal_fields_are_refused(void **state)
{
    static const char *const BODIES[][2] = {
        {"{\"messages\":[],\"disaggregated_params\":{}}",
         "disaggregated_params"},
        {"{\"messages\":[],\"prompt_token_ids_b64\":\"AQ==\"}",
         "prompt_token_ids_b64"},
        {"{\"messages\":[],\"conversation_params\":"
         "{\"subagent_affinity_id\":\"x\"}}",
         "subagent_affinity_id"},
        {"{\"messages\":[],\"chat_template\":\"x\"}", "chat_template"},
        {"{\"messages\":[],\"stream_options\":{}}", "stream_options"},
        {"{\"messages\":[}", "not valid JSON at byte 13"},
    };
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    begin(&c);
    for (size_t i = 0; i < sizeof(BODIES) / sizeof(BODIES[0]); i++) {
        mock_ask(&c, "POST", "/v1/chat/completions", BODIES[i][0], &reply);
        assert_int_equal(reply.status, 400);
        assert_has(buf_string(&reply.body), BODIES[i][1]);
        buf_finish(&reply.body);
    }
    assert_int_equal(c.ctx.post_count, 0);
    mock_end(&c);
}

static void set_flag(void *context)
{
    *(bool *)context = true;
}

/* Word that breaks on its way is said again: else a worker keeps pages of a
 * client that left until its own deadline. */
static void a_torn_abort_is_said_again(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.end = MOCK_HANG});
    c.ctx.abort_cuts = 2;
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT, NULL, &reply);
    for (int i = 0; i < 1000 && c.ctx.post_count == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    http_call_cancel(reply.call);
    for (int i = 0; i < 1000 && c.ctx.abort_count < 3; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    assert_int_equal(c.ctx.abort_count, 3);
    assert_string_equal(c.ctx.aborts[0], c.ctx.aborts[2]);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* When a crowd leaves at once, each hand-off of it is given up: more words wait
 * than are under way, and none is dropped. The drain waits for them. */
static void every_abort_of_a_crowd_is_told(void **state)
{
    enum { CROWD = 2000 };
    struct mock_cluster c;
    bool is_idle = false;
    (void)state;
    mock_prepare(&c);
    c.config.max_inflight = CROWD / 2;
    begin(&c);
    for (int i = 0; i < CROWD; i++) {
        front_abort(c.front, 0, i + 1);
    }
    route_front_drain(c.front, set_flag, &is_idle);
    io_loop_turn(c.loop, 0);
    assert_false(is_idle);
    mock_turns(&c, &is_idle, 20000);
    assert_true(is_idle);
    assert_int_equal(c.ctx.abort_count, CROWD);
    mock_end(&c);
}

/* [serve T89] a client that leaves during prefill: the worker sees it at once,
 * and both workers are told to let go. */
static void a_leaving_client_ends_the_leg(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.end = MOCK_HANG});
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT, NULL, &reply);
    for (int i = 0; i < 1000 && c.ctx.post_count == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    http_call_cancel(reply.call);
    for (int i = 0;
         i < 1000 && (c.ctx.abort_count == 0 || c.ctx.gone_count == 0); i++) {
        io_loop_turn(c.loop, 2000000);
    }
    assert_int_equal(c.ctx.gone_count, 1);
    assert_int_equal(c.ctx.abort_count, 1);
    assert_has(c.ctx.aborts[0], "{\"disagg_request_id\":");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T90] and during decoding, both hold something. */
static void a_leaving_client_ends_a_stream(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen,
             (struct mock_step){.end = MOCK_HANG, .chunks = {CHUNKS[0]}});
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT_STREAM, NULL, &reply);
    for (int i = 0; i < 1000 && reply.body.size == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    http_call_cancel(reply.call);
    for (int i = 0;
         i < 1000 && (c.gen.abort_count == 0 || c.ctx.abort_count == 0 ||
                      c.gen.gone_count == 0);
         i++) {
        io_loop_turn(c.loop, 2000000);
    }
    assert_int_equal(c.gen.gone_count, 1);
    assert_string_equal(c.gen.aborts[0], "{\"disagg_request_id\":" ID "}");
    assert_string_equal(c.ctx.aborts[0], "{\"disagg_request_id\":" ID "}");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T94] the deadline is a 504, and the leg ends with it. */
static void the_deadline_is_a_504(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.end = MOCK_HANG});
    c.config.request_timeout_s = 0.1;
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 504);
    mock_turns(&c, NULL, 20);
    assert_int_equal(c.ctx.gone_count, 1);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T93] silence in a stream is bounded as well. */
static void a_silent_stream_is_cut(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen,
             (struct mock_step){.end = MOCK_HANG, .chunks = {CHUNKS[0]}});
    c.config.stream_idle_timeout_s = 0.1;
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT_STREAM, &reply);
    assert_int_equal(reply.status, 200);
    assert_has(buf_string(&reply.body), "upstream_error");
    assert_has(buf_string(&reply.body), "the stream was silent for too long");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* A context worker that has died: the generation worker does both phases. */
static void a_dead_role_is_stood_in_for(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    begin(&c);
    mock_die(&c.ctx);
    for (int i = 0; i < 2; i++) {
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
        assert_int_equal(reply.status, 200);
        assert_string_equal(c.gen.bodies[i], CHAT);
        buf_finish(&reply.body);
    }
    mock_ask(&c, "GET", "/health", NULL, &reply);
    assert_int_equal(reply.status, 200);
    buf_finish(&reply.body);
    mock_ask(&c, "GET", "/cluster_info", NULL, &reply);
    assert_has(buf_string(&reply.body), "\"is_ready\":false");
    assert_has(buf_string(&reply.body),
               "\"ready\":{\"context\":false,\"generation\":true}");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* Two workers of different models never work together: the generation worker
 * is named wherever one asks, requests go whole to the other one, and none is
 * handed on, whatever the marks of the tokenizers. */
static void workers_of_two_models_are_never_paired(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    struct buf text;
    (void)state;
    mock_prepare(&c);
    c.config.server_start_timeout_s = 0;
    c.ctx.info = "{\"model_mark\":\"aa\",\"tokenizer_mark\":\"01\"}";
    c.gen.info = "{\"model_mark\":\"bb\",\"tokenizer_mark\":\"01\"}";
    mock_add(&c.ctx, (struct mock_step){.body = GEN_CHAT});
    mock_begin(&c);
    const struct route_server *servers = c.front->pool.servers;
    for (int i = 0; i < 1000 && servers[1].misfit == ROUTE_FITS; i++) {
        io_loop_turn(c.loop, 5000000);
    }
    assert_false(route_front_is_ready(c.front));
    buf_init(&text, 1000);
    route_front_tell_unready(c.front, &text);
    assert_has(buf_string(&text), "generation 127.0.0.1:");
    assert_has(buf_string(&text),
               "it serves another model (model_mark bb) than most (aa)");
    buf_finish(&text);
    mock_ask(&c, "GET", "/cluster_info", NULL, &reply);
    assert_has(buf_string(&reply.body), "\"is_ready\":false");
    assert_has(buf_string(&reply.body),
               "\"state\":\"misfit\",\"open_legs\":0,\"misfit\":\"it serves "
               "another model (model_mark bb) than most (aa)\"}");
    buf_finish(&reply.body);
    for (int i = 0; i < 3; i++) {
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
        assert_int_equal(reply.status, 200);
        assert_string_equal(c.ctx.bodies[i], CHAT);
        buf_finish(&reply.body);
    }
    assert_int_equal(c.gen.post_count, 0);
    mock_end(&c);
}

/* A worker under another name is a misfit like one of another model: every
 * request goes to those that are asked for alike. */
static void a_worker_of_another_name_gets_no_requests(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    c.config.server_start_timeout_s = 0;
    c.ctx.info = "{\"served_model_names\":[\"m\"]}";
    c.gen.info = "{\"served_model_names\":[\"n\"]}";
    mock_add(&c.ctx, (struct mock_step){.body = GEN_CHAT});
    mock_begin(&c);
    const struct route_server *servers = c.front->pool.servers;
    for (int i = 0; i < 1000 && servers[1].misfit == ROUTE_FITS; i++) {
        io_loop_turn(c.loop, 5000000);
    }
    mock_ask(&c, "GET", "/cluster_info", NULL, &reply);
    assert_has(buf_string(&reply.body),
               "(served_model_names [\\\"n\\\"]) than most ([\\\"m\\\"])\"}");
    buf_finish(&reply.body);
    for (int i = 0; i < 4; i++) {
        const char *path = i < 2 ? "/v1/chat/completions" : "/v1/models";
        mock_ask(&c, i < 2 ? "POST" : "GET", path, i < 2 ? CHAT : NULL, &reply);
        assert_int_equal(reply.status, 200);
        buf_finish(&reply.body);
    }
    assert_int_equal(c.gen.post_count + c.gen.light_count, 0);
    mock_end(&c);
}

/* Limits that differ: both legs and what is only forwarded carry the least, so
 * that a request fits everywhere or nowhere; what nobody says is not sent. */
static void the_least_limit_goes_with_every_call(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mock_cluster c;
        struct mock_reply reply;
        const char *expected = i == 0 ? "128" : "";
        mock_prepare(&c);
        c.ctx.info = i == 0 ? "{\"max_seq_len\":4096}" : "{}";
        c.gen.info = i == 0 ? "{\"max_seq_len\":128}" : "{}";
        mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
        mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
        begin(&c);
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
        buf_finish(&reply.body);
        assert_string_equal(c.ctx.max_seq[0], expected);
        assert_string_equal(c.gen.max_seq[0], expected);
        mock_ask(&c, "GET", "/v1/models", NULL, &reply);
        buf_finish(&reply.body);
        assert_string_equal(c.ctx.light_max_seq, expected);
        mock_ask(&c, "GET", "/cluster_info", NULL, &reply);
        assert_int_equal(strstr(buf_string(&reply.body),
                                "\"is_degraded\":false,\"max_seq_len\":128,"
                                "\"servers\":[") != NULL,
                         i == 0);
        buf_finish(&reply.body);
        mock_end(&c);
    }
}

/* The same marks, or one of them unknown: a pair like any other. */
static void an_unknown_mark_fits(void **state)
{
    static const char *const INFOS[] = {
        "{\"model_mark\":\"aa\",\"tokenizer_mark\":\"01\"}",
        "{\"model_mark\":\"aa\"}", "{\"model_mark\":null}", "{}"};
    (void)state;
    for (size_t i = 0; i < sizeof(INFOS) / sizeof(INFOS[0]); i++) {
        struct mock_cluster c;
        struct mock_reply reply;
        mock_prepare(&c);
        c.ctx.info = INFOS[0];
        c.gen.info = INFOS[i];
        mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
        mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
        begin(&c);
        mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
        assert_int_equal(reply.status, 200);
        assert_int_equal(c.gen.post_count, 1);
        buf_finish(&reply.body);
        mock_end(&c);
    }
}

static struct mock_cluster *dying;

static void on_post_die(void *context)
{
    (void)context;
    mock_die(&dying->gen);
}

/* [serve T96] the generation worker dies with the request: proven gone, so the
 * request begins again, once, on who is left. */
static void a_lost_hand_off_begins_again_once(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.ctx, (struct mock_step){.body = GEN_CHAT});
    mock_add(&c.gen, (struct mock_step){.end = MOCK_HANG});
    begin(&c);
    dying = &c;
    mock_send(&c, "POST", "/v1/chat/completions", CHAT, NULL, &reply);
    for (int i = 0; i < 1000 && c.gen.post_count == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    io_loop_defer(c.loop, on_post_die, NULL);
    mock_turns(&c, &reply.is_over, 5000);
    assert_int_equal(reply.status, 200);
    assert_int_equal(c.ctx.post_count, 2);
    assert_string_equal(c.ctx.bodies[1], CHAT);
    assert_string_equal(c.ctx.aborts[0], "{\"disagg_request_id\":" ID "}");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T81] lost, but the worker lives: it may hold the request, so it is
 * not posted again. */
static void a_possibly_delivered_leg_is_not_posted_again(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.end = MOCK_CUT});
    begin(&c);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &reply);
    assert_int_equal(reply.status, 502);
    assert_int_equal(c.gen.post_count, 1);
    assert_int_equal(c.ctx.post_count, 1);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T96] a worker that accepts and then freezes: once its health probes
 * have failed, what is open there ends. A begun stream is cut, a request of
 * which nothing was answered begins again, and the context worker lets go. */
static void a_frozen_worker_loses_its_legs(void **state)
{
    struct mock_cluster c;
    struct mock_reply stream, chat;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.ctx, (struct mock_step){.body = GEN_CHAT});
    mock_add(&c.gen,
             (struct mock_step){.end = MOCK_HANG, .chunks = {CHUNKS[0]}});
    mock_add(&c.gen, (struct mock_step){.end = MOCK_HANG});
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT_STREAM, NULL, &stream);
    for (int i = 0; i < 1000 && stream.body.size == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    mock_send(&c, "POST", "/v1/chat/completions", CHAT, NULL, &chat);
    for (int i = 0; i < 1000 && c.gen.post_count < 2; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    c.gen.health = 500;
    mock_turns(&c, &stream.is_over, 20000);
    mock_turns(&c, &chat.is_over, 20000);
    assert_has(buf_string(&stream.body), "upstream_error");
    assert_null(strstr(buf_string(&stream.body), "[DONE]"));
    assert_int_equal(chat.status, 200);
    assert_string_equal(c.ctx.bodies[2], CHAT);
    for (int i = 0; i < 1000 && (c.gen.gone_count < 2 || c.ctx.abort_count < 2);
         i++) {
        io_loop_turn(c.loop, 2000000);
    }
    assert_int_equal(c.gen.gone_count, 2);
    assert_int_equal(c.gen.post_count, 2);
    assert_int_equal(c.ctx.abort_count, 2);
    assert_string_equal(c.ctx.aborts[0], "{\"disagg_request_id\":" ID "}");
    buf_finish(&stream.body);
    buf_finish(&chat.body);
    mock_end(&c);
}

/* Bearer token, CORS, 404, 405, forwarded pages, metrics. */
static void the_door_is_kept(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    const struct http_header good[] = {{"Authorization", "bearer k1"}, {0}};
    const struct http_header bad[] = {{"Authorization", "Bearer k12"}, {0}};
    (void)state;
    mock_prepare(&c);
    strcpy(c.config.api_key, "k1");
    strcpy(c.config.cors_origin, "*");
    begin(&c);
    static const struct {
        const char *method, *path;
        int auth, status;
    } CASES[] = {
        {"GET", "/v1/models", 0, 401},
        {"GET", "/v1/models", 1, 401},
        {"GET", "/v1/models", 2, 200},
        {"POST", "/v1/models", 2, 405},
        {"GET", "/nothing", 2, 404},
        {"GET", "/health", 0, 200},
        {"HEAD", "/health", 0, 200},
        {"HEAD", "/v1/models", 1, 401},
        {"HEAD", "/v1/models", 2, 200},
        {"HEAD", "/v1/completions", 2, 405},
        {"GET", "/version", 0, 200},
        {"GET", "/metrics", 0, 200},
        {"OPTIONS", "/v1/models", 0, 204},
        {"POST", "/tokenize", 2, 200},
        {"GET", "/v1/completions", 2, 405},
        {"GET", "/prometheus/metrics", 0, 200},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const struct http_header *sets[] = {NULL, bad, good};
        mock_send(&c, CASES[i].method, CASES[i].path,
                  CASES[i].method[0] == 'P' ? "{}" : NULL, sets[CASES[i].auth],
                  &reply);
        mock_turns(&c, &reply.is_over, 5000);
        assert_int_equal(reply.status, CASES[i].status);
        if (reply.status != 405) {
            assert_string_equal(reply.origin, "*");
        }
        buf_finish(&reply.body);
    }
    mock_ask(&c, "GET", "/metrics", NULL, &reply);
    assert_has(buf_string(&reply.body), "# TYPE total_requests_total counter");
    assert_has(buf_string(&reply.body),
               "baton_front_server_state{role=\"context\",server=\"127.0.0.1:");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* Proof: who has no key cannot make us keep a body: the head of a long one is
 * answered, not a byte of it having come. */
static void no_body_is_kept_of_a_stranger(void **state)
{
    static const char HEAD[] = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                               "Content-Type: application/json\r\n"
                               "Content-Length: 1000000\r\n\r\n";
    struct mock_cluster c;
    char answer[4096] = {0};
    (void)state;
    mock_prepare(&c);
    strcpy(c.config.api_key, "k1");
    begin(&c);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(route_front_port(c.front)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)),
                     0);
    assert_int_equal(send(fd, HEAD, sizeof(HEAD) - 1, 0), sizeof(HEAD) - 1);
    for (int i = 0; i < 5000 && strchr(answer, '\r') == NULL; i++) {
        io_loop_turn(c.loop, 1000000);
        IGNORE(recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT) < 0);
    }
    assert_memory_equal(answer, "HTTP/1.1 401 ", 13);
    close(fd);
    mock_end(&c);
}

/* A client stops reading in the middle of a large stream: others are served
 * meanwhile, and every byte arrives once it goes on. */
static void a_slow_client_delays_nobody_else(void **state)
{
    enum { PIECE = 8 << 20 };
    struct mock_cluster c;
    struct mock_reply slow, quick;
    (void)state;
    char *piece = malloc(PIECE + 1);
    memset(piece, 'x', PIECE);
    memcpy(piece, "data: ", 6);
    memcpy(piece + PIECE - 2, "\n\n", 3);
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen, (struct mock_step){.chunks = {piece, "data: [DONE]\n\n"}});
    mock_add(&c.gen, (struct mock_step){.body = GEN_CHAT});
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT_STREAM, NULL, &slow);
    buf_finish(&slow.body);
    buf_init(&slow.body, PIECE + 4096);
    for (int i = 0; i < 1000 && slow.status == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    http_call_set_reading(slow.call, false);
    mock_ask(&c, "POST", "/v1/chat/completions", CHAT, &quick);
    assert_int_equal(quick.status, 200);
    assert_false(slow.is_over);
    http_call_set_reading(slow.call, true);
    mock_turns(&c, &slow.is_over, 8000);
    assert_int_equal(slow.body.size, PIECE + strlen("data: [DONE]\n\n"));
    assert_int_equal(slow.end, HTTP_CALL_COMPLETE);
    buf_finish(&slow.body);
    buf_finish(&quick.body);
    mock_end(&c);
    free(piece);
}

/* New work is refused, old work ends, then idle is told. */
static void a_drain_ends_when_the_last_request_does(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    bool is_idle = false;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.end = MOCK_HANG});
    c.config.request_timeout_s = 0.3;
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT, NULL, &reply);
    for (int i = 0; i < 1000 && c.ctx.post_count == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    route_front_drain(c.front, set_flag, &is_idle);
    io_loop_turn(c.loop, 0);
    assert_false(is_idle);
    mock_turns(&c, &is_idle, 5000);
    assert_true(is_idle);
    assert_true(reply.is_over);
    assert_int_equal(reply.status, 504);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* While an old stream goes on the port is open: who balances load and who comes
 * late are told, questions are answered, and the stream ends whole. */
static void a_draining_front_end_says_so(void **state)
{
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *says;
    } CASES[] = {
        {"GET", "/health", NULL, 503, "{\"status\":\"draining\"}"},
        {"POST", "/v1/chat/completions", CHAT, 503, "shutting down"},
        {"POST", "/v1/completions", "{\"prompt\":\"x\"}", 503, "shutting down"},
        {"GET", "/v1/models", NULL, 503, "shutting down"},
        {"POST", "/tokenize", "{}", 503, "shutting down"},
        {"GET", "/metrics", NULL, 200, "counter"},
        {"GET", "/cluster_info", NULL, 200, "is_ready"},
    };
    struct mock_cluster c;
    struct mock_reply old;
    bool is_idle = false;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
    mock_add(&c.gen,
             (struct mock_step){.chunks = {CHUNKS[0], CHUNKS[1], CHUNKS[2]}});
    c.gen.holds = true;
    begin(&c);
    mock_send(&c, "POST", "/v1/chat/completions", CHAT_STREAM, NULL, &old);
    for (int i = 0; i < 1000 && c.gen.post_count == 0; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    route_front_drain(c.front, set_flag, &is_idle);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct mock_reply reply;
        mock_ask(&c, CASES[i].method, CASES[i].path, CASES[i].body, &reply);
        assert_int_equal(reply.status, CASES[i].status);
        assert_has(buf_string(&reply.body), CASES[i].says);
        assert_string_equal(reply.retry_after, reply.status == 503 ? "1" : "");
        assert_string_equal(reply.server_state, i == 0 ? "draining" : "");
        buf_finish(&reply.body);
    }
    assert_false(is_idle);
    mock_release(&c.gen);
    mock_turns(&c, &is_idle, 5000);
    assert_true(is_idle && old.is_over);
    assert_has(buf_string(&old.body), "[DONE]");
    assert_int_equal(c.ctx.post_count + c.ctx.light_count, 1);
    buf_finish(&old.body);
    mock_end(&c);
}

/* What is open at the end of the time for it hears why, in each shape. */
static void a_drain_that_takes_too_long_says_so(void **state)
{
    (void)state;
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        struct mock_cluster c;
        struct mock_reply reply;
        bool is_idle = false;
        mock_prepare(&c);
        mock_add(&c.ctx, (struct mock_step){.body = CTX_CHAT});
        mock_add(&c.gen,
                 (struct mock_step){.end = MOCK_HANG,
                                    .chunks = {is_stream ? CHUNKS[0] : NULL}});
        c.config.drain_timeout_s = 0.1;
        begin(&c);
        mock_send(&c, "POST", "/v1/chat/completions",
                  is_stream ? CHAT_STREAM : CHAT, NULL, &reply);
        for (int i = 0; i < 1000 &&
                        c.gen.post_count + reply.status < (is_stream ? 201 : 1);
             i++) {
            io_loop_turn(c.loop, 2000000);
        }
        route_front_drain(c.front, set_flag, &is_idle);
        mock_turns(&c, &is_idle, 5000);
        assert_true(is_idle && reply.is_over);
        assert_int_equal(reply.status, is_stream ? 200 : 503);
        assert_has(buf_string(&reply.body), "the server shuts down");
        assert_null(strstr(buf_string(&reply.body), "[DONE]"));
        buf_finish(&reply.body);
        mock_end(&c);
    }
}

static void ask_models(struct mock_cluster *c, int status)
{
    struct mock_reply reply;
    mock_ask(c, "GET", "/v1/models", NULL, &reply);
    assert_int_equal(reply.status, status);
    buf_finish(&reply.body);
}

/* [serve T13] One model is asked for as it is spelt; the worker's answer is the
 * client's, whatever it says. */
static void one_model_is_the_workers_to_describe(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    begin(&c);
    mock_ask(&c, "GET", "/v1/models/org%2Fa?x=1", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(c.ctx.light_path, "/v1/models/org%2Fa");
    buf_finish(&reply.body);
    c.ctx.light_status = 404;
    mock_ask(&c, "GET", "/v1/models/nobody", NULL, &reply);
    assert_int_equal(reply.status, 404);
    assert_string_equal(buf_string(&reply.body), "{\"mock\":1}");
    buf_finish(&reply.body);
    mock_end(&c);
}

/* A worker that refuses, or says 503, or takes the call and then goes down
 * without a word: another one answers, long before the request's deadline. */
static void a_forwarded_call_finds_a_worker_that_is_up(void **state)
{
    struct mock_cluster c;
    struct mock_reply reply;
    (void)state;
    mock_prepare(&c);
    begin(&c);
    c.ctx.light_status = 503;
    ask_models(&c, 200);
    assert_int_equal(c.gen.light_count, 1);
    c.gen.light_status = 503;
    ask_models(&c, 503);
    c.gen.light_status = 0;
    c.ctx.light_status = -1;
    mock_send(&c, "POST", "/tokenize", "{}", NULL, &reply);
    for (int i = 0; i < 1000 && c.ctx.light_count < 3; i++) {
        io_loop_turn(c.loop, 2000000);
    }
    c.ctx.health = 500;
    mock_turns(&c, &reply.is_over, 20000);
    assert_true(reply.is_over);
    assert_int_equal(reply.status, 200);
    assert_string_equal(c.gen.light_path, "/tokenize");
    buf_finish(&reply.body);
    ask_models(&c, 200);
    assert_int_equal(c.ctx.light_count, 3);
    mock_die(&c.gen);
    mock_turns(&c, NULL, 50);
    ask_models(&c, 503);
    assert_int_equal(c.ctx.light_count, 3);
    mock_end(&c);
}

/* [serve T93] The client's deadline is the request's when it is the smaller:
 * seen by the worker, kept towards the client, and refused when it is none. */
static void a_client_may_ask_for_less_time(void **state)
{
    static const struct http_header LESS[] = {{"X-Baton-Deadline-Ms", "200"},
                                              {0}};
    static const struct http_header MORE[] = {
        {"x-baton-deadline-ms", "999999999"}, {0}};
    static const struct http_header BAD[] = {{"x-baton-deadline-ms", "soon"},
                                             {0}};
    static const struct http_header PAST[] = {{"x-baton-deadline-ms", "0"},
                                              {0}};
    static const struct {
        const struct http_header *headers;
        const char *path;
        int status;
    } CASES[] = {{LESS, "/v1/chat/completions", 504},
                 {BAD, "/v1/chat/completions", 400},
                 {PAST, "/v1/chat/completions", 504},
                 {MORE, "/tokenize", 200},
                 {BAD, "/tokenize", 400}};
    struct mock_cluster c;
    (void)state;
    mock_prepare(&c);
    mock_add(&c.ctx, (struct mock_step){.end = MOCK_HANG});
    begin(&c);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct mock_reply reply;
        mock_send(&c, "POST", CASES[i].path, CHAT, CASES[i].headers, &reply);
        mock_turns(&c, &reply.is_over, 5000);
        assert_int_equal(reply.status, CASES[i].status);
        if (CASES[i].status == 400) {
            assert_has(buf_string(&reply.body), "x-baton-deadline-ms");
        }
        buf_finish(&reply.body);
    }
    int seen = atoi(c.ctx.deadline[0]);
    assert_true(seen > 0 && seen <= 200);
    assert_int_equal(c.ctx.post_count, 1);
    c.ctx.light_status = -1;
    struct mock_reply reply;
    mock_send(&c, "POST", "/tokenize", "{}", LESS, &reply);
    mock_turns(&c, &reply.is_over, 5000);
    assert_int_equal(reply.status, 504);
    buf_finish(&reply.body);
    mock_end(&c);
}

/* [serve T13] What says it is no JSON is refused by the header's name before
 * anything is asked; what curl says unasked passes, unless from a page. */
static void a_body_says_it_is_json_or_nothing(void **state)
{
    static const char FORM[] = "application/x-www-form-urlencoded";
    static const struct http_header PAGE[] = {{"Origin", "http://x"}, {0}};
    static const struct {
        const char *type;
        const struct http_header *headers;
        int status;
    } CASES[] = {{"application/json", PAGE, 200},
                 {"application/ld+json", NULL, 200},
                 {FORM, NULL, 200},
                 {NULL, NULL, 200},
                 {FORM, PAGE, 400},
                 {"text/plain", NULL, 400},
                 {"multipart/form-data", NULL, 400}};
    struct mock_cluster c;
    (void)state;
    mock_prepare(&c);
    begin(&c);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct mock_reply reply;
        mock_send_as(&c, "POST", "/tokenize", CASES[i].type, "{}",
                     CASES[i].headers, &reply);
        mock_turns(&c, &reply.is_over, 5000);
        assert_int_equal(reply.status, CASES[i].status);
        if (CASES[i].status == 400) {
            assert_has(buf_string(&reply.body), "Content-Type: ");
        }
        buf_finish(&reply.body);
    }
    assert_int_equal(c.ctx.light_count + c.gen.light_count, 4);
    mock_end(&c);
}

/* Whoever asks why the start took too long is told of each server that is not
 * ready, and of no other. */
static void servers_that_are_not_ready_say_why(void **state)
{
    struct mock_cluster c;
    struct buf out;
    char name[64];
    (void)state;
    mock_prepare(&c);
    buf_init(&out, 4096);
    uint16_t gone = c.gen.port;
    mock_die(&c.gen);
    c.ctx.health = 418;
    mock_begin(&c);
    mock_turns(&c, NULL, 100);
    route_front_tell_unready(c.front, &out);
    snprintf(name, sizeof(name), "generation 127.0.0.1:%u: ", gone);
    assert_has(buf_string(&out), name);
    assert_has(buf_string(&out), "Connection refused");
    snprintf(name, sizeof(name), "context 127.0.0.1:%u: ", c.ctx.port);
    assert_has(buf_string(&out), name);
    assert_has(buf_string(&out), "it answers /health with status 418");
    c.ctx.health = 0;
    for (int i = 0; i < 1000 && strstr(buf_string(&out), name) != NULL; i++) {
        io_loop_turn(c.loop, 5000000);
        buf_reset(&out);
        route_front_tell_unready(c.front, &out);
    }
    assert_null(strstr(buf_string(&out), name));
    assert_has(buf_string(&out), "generation 127.0.0.1:");
    buf_finish(&out);
    mock_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_takes_two_legs),
        cmocka_unit_test(a_stream_is_relayed_verbatim),
        cmocka_unit_test(legs_carry_ids_and_stripped_history),
        cmocka_unit_test(an_early_end_needs_no_generation_leg),
        cmocka_unit_test(a_context_answer_without_a_hand_off_fails),
        cmocka_unit_test(a_mixed_server_takes_both_legs),
        cmocka_unit_test(one_token_needs_no_hand_off),
        cmocka_unit_test(a_stream_fails_visibly),
        cmocka_unit_test(an_empty_stream_is_a_502),
        cmocka_unit_test(a_worker_error_keeps_its_status),
        cmocka_unit_test(a_failed_hand_off_begins_again_once),
        cmocka_unit_test(a_refused_hand_off_is_a_502),
        cmocka_unit_test(a_clients_mistake_is_no_workers_error),
        cmocka_unit_test(a_taken_id_is_posted_anew),
        cmocka_unit_test(workers_of_two_models_are_never_paired),
        cmocka_unit_test(a_worker_of_another_name_gets_no_requests),
        cmocka_unit_test(the_least_limit_goes_with_every_call),
        cmocka_unit_test(an_unknown_mark_fits),
        cmocka_unit_test(without_workers_the_answer_is_503),
        cmocka_unit_test(internal_fields_are_refused),
        cmocka_unit_test(a_torn_abort_is_said_again),
        cmocka_unit_test(every_abort_of_a_crowd_is_told),
        cmocka_unit_test(a_leaving_client_ends_the_leg),
        cmocka_unit_test(a_leaving_client_ends_a_stream),
        cmocka_unit_test(the_deadline_is_a_504),
        cmocka_unit_test(a_silent_stream_is_cut),
        cmocka_unit_test(a_dead_role_is_stood_in_for),
        cmocka_unit_test(a_lost_hand_off_begins_again_once),
        cmocka_unit_test(a_possibly_delivered_leg_is_not_posted_again),
        cmocka_unit_test(a_frozen_worker_loses_its_legs),
        cmocka_unit_test(the_door_is_kept),
        cmocka_unit_test(no_body_is_kept_of_a_stranger),
        cmocka_unit_test(a_slow_client_delays_nobody_else),
        cmocka_unit_test(a_drain_ends_when_the_last_request_does),
        cmocka_unit_test(a_draining_front_end_says_so),
        cmocka_unit_test(a_drain_that_takes_too_long_says_so),
        cmocka_unit_test(one_model_is_the_workers_to_describe),
        cmocka_unit_test(a_forwarded_call_finds_a_worker_that_is_up),
        cmocka_unit_test(a_client_may_ask_for_less_time),
        cmocka_unit_test(a_body_says_it_is_json_or_nothing),
        cmocka_unit_test(servers_that_are_not_ready_say_why),
    };
    log_setup(&(struct log_options){.level = LOG_ERROR});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
