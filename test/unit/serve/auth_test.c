#include "world.h"

#include "api/handoff.h"

#define JSON "Content-Type: application/json\r\n"
#define OWN "x-baton-disagg-auth"
#define FOREIGN "x-trtllm-disagg-auth"

static const struct api_handoff CONTEXT = {
    .type = API_REQUEST_CONTEXT,
    .has_disagg_id = true,
    .disagg_id = 9,
};

/* A context leg with this header, or none. */
static struct client *send_context(struct world *world, const char *name,
                                   const char *value)
{
    char headers[512];
    snprintf(headers, sizeof(headers), JSON "%s%s%s%s",
             name == NULL ? "" : name, name == NULL ? "" : ": ",
             name == NULL ? "" : value, name == NULL ? "" : "\r\n");
    return client_send(world, "POST", "/v1/completions", headers,
                       "{\"model\":\"stem\",\"prompt\":[5],"
                       "\"disaggregated_params\":{\"request_type\":"
                       "\"context_only\",\"disagg_request_id\":9}}");
}

static void context_taken(struct world *world, const char *name,
                          const char *value)
{
    struct client *client = send_context(world, name, value);
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->kind, ENGINE_CONTEXT_ONLY);
    assert_int_equal(made->rid, 9);
    client_close(client);
    engine_request_free(made);
    assert_int_equal(world_command(world).kind, ENGINE_CANCEL);
}

static void context_refused(struct world *world, const char *name,
                            const char *value, int status, const char *text)
{
    struct client *client = send_context(world, name, value);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), status);
    client_has(client, text);
    client_close(client);
}

/* Proof: a context leg pins pages, so it is taken with its own signature only:
 * not with none, one of another id, or the foreign header. [serve T103] */
static void a_context_leg_must_be_signed(void **state)
{
    struct world *world = *state;
    struct api_handoff other = CONTEXT;
    char signature[80];
    api_sign_leg(world->parts.auth_key, &CONTEXT, signature);
    context_taken(world, OWN, signature);
    context_refused(world, NULL, NULL, 401, OWN ": is required");
    context_refused(world, OWN, "", 403, OWN ": does not match");
    context_refused(world, FOREIGN, signature, 401, OWN ": is required");
    other.disagg_id = 10;
    api_sign_leg(world->parts.auth_key, &other, signature);
    context_refused(world, OWN, signature, 403, OWN ": does not match");
}

/* Proof: told not to be strict, a worker with a key takes unsigned legs and
 * those that a front end of another kind has signed as it knows to; a header
 * that is there must hold. */
static void a_lenient_worker_checks_what_is_there(void **state)
{
    struct world *world = *state;
    struct api_handoff leg = {.type = API_REQUEST_GENERATION};
    char signature[80], headers[256], body[512];
    world->config.strict_internal_auth = false;
    context_taken(world, NULL, NULL);
    context_refused(world, OWN, "sha256=00", 403, OWN ": does not match");
    leg.endpoint = span_of_string("tcp://10.0.0.1:5000");
    snprintf(body, sizeof(body),
             "{\"model\":\"stem\",\"prompt\":[5],\"disaggregated_params\":{"
             "\"request_type\":\"generation_only\",\"disagg_request_id\":9,"
             "\"schedule_style\":1,\"ctx_info_endpoint\":\"%s\"}}",
             "tcp://10.0.0.1:5000");
    api_sign(world->parts.auth_key, leg.endpoint, leg.opaque, signature);
    snprintf(headers, sizeof(headers), JSON FOREIGN ": %s\r\n", signature);
    struct client *client =
        client_send(world, "POST", "/v1/completions", headers, body);
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->kind, ENGINE_GENERATION_ONLY);
    client_close(client);
    engine_request_free(made);
    world_answers(world, "POST", "/v1/completions", JSON FOREIGN ": x\r\n",
                  body, 403, FOREIGN ": does not match");
}

/* Proof: an abort ends what others have begun: without a signature it is
 * refused, with one of another id too, and nothing reaches the engine. */
static void an_abort_must_be_signed(void **state)
{
    struct world *world = *state;
    char signature[80], headers[256];
    world_answers(world, "POST", "/v1/disagg/abort", JSON,
                  "{\"disagg_request_id\":9}", 401, OWN ": is required");
    api_sign_abort(world->parts.auth_key, 10, signature);
    snprintf(headers, sizeof(headers), JSON OWN ": %s\r\n", signature);
    world_answers(world, "POST", "/v1/disagg/abort", headers,
                  "{\"disagg_request_id\":9}", 403, OWN ": does not match");
    struct engine_command command;
    assert_false(io_mailbox_take(world->commands, &command));
}

/* Proof: the refusal of an unsigned abort does not wait for its body. */
static void an_unsigned_abort_is_refused_by_its_head(void **state)
{
    struct world *world = *state;
    struct client *client = client_begin(world, "POST", "/v1/disagg/abort",
                                         JSON "Expect: 100-continue\r\n"
                                              "Content-Length: 1000\r\n");
    client_await(world, client, OWN ": is required");
    assert_int_equal(client_status(client), 401);
    client_close(client);
}

/* Proof: a strict worker without a key refuses all of a hand-off, so that nobody
 * can make it hold pages, and says so beforehand; told otherwise it takes legs and
 * aborts from anybody. */
static void without_a_key_strictness_decides(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    (void)state;
    world_open(world);
    world_ready(world);
    world_answers(world, "GET", "/server_info", "", "", 200,
                  "\"hand_off\":false,");
    context_refused(world, NULL, NULL, 403, "hand-offs need an auth key");
    context_refused(world, OWN, "x", 403, "hand-offs need an auth key");
    world_answers(world, "POST", "/v1/disagg/abort", JSON,
                  "{\"disagg_request_id\":9}", 403, "need an auth key");
    world->config.strict_internal_auth = false;
    world_answers(world, "GET", "/server_info", "", "", 200,
                  "\"hand_off\":true,");
    context_taken(world, NULL, NULL);
    struct client *client =
        client_post(world, "/v1/disagg/abort", "{\"disagg_request_id\":9}");
    assert_int_equal(world_command(world).kind, ENGINE_ABORT_RID);
    client_close(client);
    world_close(world);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_SIGNED(a_context_leg_must_be_signed),
        TEST_SIGNED(a_lenient_worker_checks_what_is_there),
        TEST_SIGNED(an_abort_must_be_signed),
        TEST_SIGNED(an_unsigned_abort_is_refused_by_its_head),
        cmocka_unit_test(without_a_key_strictness_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
