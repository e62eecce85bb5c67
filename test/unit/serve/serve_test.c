#include "world.h"

static bool is_idle;

static void on_idle(void *context)
{
    (void)context;
    is_idle = true;
}

/* Proof: while draining, probes and new work are told; what runs is finished;
 * then, and only then, on_idle comes. */
static void draining_finishes_what_runs(void **state)
{
    struct world *world = *state;
    static const char body[] = "{\"model\":\"stem\",\"prompt\":[5]}";
    struct client *client = client_post(world, "/v1/completions", body);
    struct engine_request *made = world_submitted(world);
    is_idle = false;
    serve_drain(world->serve, on_idle, NULL);
    world_answers(world, "GET", "/health", "", "", 503,
                  "x-trtllm-server-state: draining");
    world_answers(world, "POST", "/v1/completions",
                  "Content-Type: application/json\r\n", body, 503,
                  "x-disagg-not-accepted: 1");
    assert_false(is_idle);
    world_say(world, made->id, 0, 0, "x");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 200);
    for (int i = 0; i < 1000 && !is_idle; i++) {
        io_loop_turn(world->loop, 5000000);
    }
    assert_true(is_idle);
    client_close(client);
    engine_request_free(made);
}

/* Proof: a port that is taken is said, and nothing is left behind. */
static void a_taken_port_is_an_error(void **state)
{
    struct world *world = *state;
    struct config_worker config = world->config;
    struct serve *second = NULL;
    struct why why = {{0}};
    config.port = serve_port(world->serve);
    assert_int_equal(serve_open(&(struct serve_options){.loop = world->loop,
                                                        .config = &config,
                                                        .version = "1"},
                                &why, &second),
                     ERR_IO);
    assert_null(second);
    assert_true(why.text[0] != 0);
}

/* Proof: closing with work in the engine, in the text thread and in a stream
 * leaks nothing (the leak check of the build) and ends the clients. */
static void closing_ends_everything(void **state)
{
    (void)state;
    struct world *world = calloc(1, sizeof(*world));
    world_open(world);
    world_ready(world);
    struct client *a = client_post(world, "/v1/completions",
                                   "{\"model\":\"stem\",\"prompt\":[5],"
                                   "\"stream\":true,\"n\":2,\"stop\":\"x\"}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "ab");
    client_await(world, a, "\"text\":\"ab\"");
    struct client *b = client_post(world, "/tokenize", "{\"prompt\":\"a\"}");
    io_loop_turn(world->loop, 5000000);
    world_close(world);
    client_take(a);
    client_lacks(a, "[DONE]");
    client_close(a);
    client_close(b);
    engine_request_free(made);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(draining_finishes_what_runs),
        TEST(a_taken_port_is_an_error),
        cmocka_unit_test(closing_ends_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
