#include "world.h"

#define JSON "Content-Type: application/json\r\n"

/* The head of what GET answers, and no body. */
static void head_is_answered(struct world *world, const char *path)
{
    struct client *client = client_send(world, "HEAD", path, "", "");
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 200);
    client_has(client, "Content-Length: ");
    assert_string_equal(client->data + client->size - 4, "\r\n\r\n");
    client_close(client);
}

/* [serve T13] Proof: each path with its own method, then with another: 405 and
 * the methods it takes. */
static void each_path_takes_its_methods(void **state)
{
    struct world *world = *state;
    world->config.strict_internal_auth = false; /* there is no key */
    static const char *const gets[] = {"/v1/models",
                                       "/v1/models/stem",
                                       "/health",
                                       "/version",
                                       "/metrics",
                                       "/transfers",
                                       "/prometheus/metrics",
                                       "/server_info"};
    static const char *const posts[] = {
        "/v1/completions", "/v1/chat/completions", "/tokenize",
        "/detokenize",     "/v1/disagg/abort",     "/kv_cache_events"};
    for (size_t i = 0; i < sizeof(gets) / sizeof(gets[0]); i++) {
        world_answers(world, "GET", gets[i], "", "", 200, "");
        head_is_answered(world, gets[i]);
        world_answers(world, "POST", gets[i], JSON, "{}", 405, "Allow: GET");
    }
    for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
        world_answers(world, "GET", posts[i], "", "", 405, "Allow: POST");
        world_answers(world, "POST", posts[i], JSON, "{}", 400,
                      "\"error\":{\"message\"");
        world_answers(world, "POST", posts[i], JSON, "{", 400, "\"detail\"");
    }
    world_answers(world, "HEAD", "/v1/completions", "", "", 405, "Allow: POST");
    world_answers(world, "DELETE", "/steady_clock_offset", "", "", 405,
                  "Allow: GET, POST");
    world_answers(world, "GET", "/nowhere", "", "", 404, "no such path");
}

/* Proof: whoever means another process is refused on each path, in a form that
 * says to ask somebody else; who means us, or anybody, is not. */
static void a_call_for_another_process_is_refused(void **state)
{
    static const char *const others[] = {"5", "18364758544493064721", "x", ""};
    struct world *world = *state;
    char header[128];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        snprintf(header, sizeof(header), "%sx-baton-incarnation: %s\r\n", JSON,
                 others[i]);
        world_answers(world, "GET", "/health", header, "", 503,
                      "x-trtllm-server-state: restarted");
        world_answers(world, "POST", "/v1/completions", header, "{}", 503,
                      "x-disagg-not-accepted: 1");
    }
    snprintf(header, sizeof(header),
             JSON "x-baton-incarnation: 18364758544493064720\r\n");
    world_answers(world, "GET", "/health", header, "", 200, "");
    world_answers(world, "POST", "/v1/completions", header, "{}", 400, "");
}

/* Proof: of a body too long to be read for nothing, the head alone is refused. */
static void a_long_body_is_refused_by_its_head(void **state)
{
    struct world *world = *state;
    static const char long_one[] = "Content-Type: text/plain\r\n"
                                   "Transfer-Encoding: chunked\r\n";
    struct client *client = client_begin(world, "POST", "/tokenize", long_one);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 415);
    client_close(client);
    client = client_begin(world, "POST", "/nowhere",
                          JSON "Content-Length: 1000000\r\n");
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 404);
    client_close(client);
}

/* [serve T13] Proof: a body that says it is something else is refused, by the
 * header's name; saying nothing, or what curl says unasked, is fine, but not
 * from a page. */
static void a_body_must_be_json(void **state)
{
    struct world *world = *state;
    static const char body[] = "{\"prompt\":\"a\"}";
    static const char good[] = "\"tokens\":[1,100]";
    static const char form[] =
        "Content-Type: application/x-www-form-urlencoded\r\n";
    world_answers(world, "POST", "/tokenize", "Content-Type: text/plain\r\n",
                  body, 415, "Content-Type: must be application/json");
    world_answers(world, "POST", "/tokenize", "", body, 200, good);
    world_answers(world, "POST", "/tokenize", form, body, 200, good);
    world_answers(world, "POST", "/tokenize", "Origin: http://x\r\n", body, 415,
                  "Content-Type");
    world_answers(world, "POST", "/tokenize",
                  "Content-Type: Application/JSON; charset=utf-8\r\n", body,
                  200, good);
    world_answers(world, "POST", "/tokenize", JSON "X-TRTLLM-Msgpack: 1\r\n",
                  body, 415, "application/json");
}

/* Proof: [serve T8 T20] before the model is loaded every path says so, with
 * the headers that a front end looks for. */
static void every_path_says_starting(void **state)
{
    struct world *world = *state;
    static const char *const paths[] = {"/health", "/server_info",
                                        "/v1/models/x"};
    for (size_t i = 0; i < 3; i++) {
        world_answers(world, "GET", paths[i], "", "", 503,
                      "x-trtllm-server-state: starting");
        world_answers(world, "GET", paths[i], "", "", 503, "Retry-After: 1");
    }
    world_answers(world, "POST", "/v1/completions", JSON, "{}", 503,
                  "\"type\":\"ServiceUnavailableError\",\"param\":null,"
                  "\"code\":\"starting\"");
    world_ready(world);
    world_answers(world, "GET", "/health", "", "", 200, "{\"status\":\"ok\"}");
    /* Only the completion was a request that failed. */
    world_answers(world, "GET", "/metrics", "", "", 200,
                  "baton_request_failures_total{status=\"5xx\"} 1\n");
}

static int open_loading(void **state)
{
    *state = calloc(1, sizeof(struct world));
    world_open(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_path_takes_its_methods),
        TEST(a_call_for_another_process_is_refused),
        TEST(a_body_must_be_json),
        TEST(a_long_body_is_refused_by_its_head),
        cmocka_unit_test_setup_teardown(every_path_says_starting, open_loading,
                                        close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
