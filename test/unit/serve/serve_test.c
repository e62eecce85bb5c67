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

static void turns(struct world *world)
{
    for (int i = 0; i < 100 && !is_idle; i++) {
        io_loop_turn(world->loop, 5000000);
    }
}

/* Proof: nothing is open, but the engine says that a hand-off waits for its
 * receiver, or that a peer may still write here: probes are answered on, and
 * on_idle comes when the engine says that this is over. */
static void draining_waits_for_hand_offs(void **state)
{
    struct world *world = *state;
    const struct engine_stats busy[] = {{.sending = 1}, {.receiving = 1}};
    is_idle = false;
    engine_stats_publish(world->stats, 1, &busy[0]);
    serve_drain(world->serve, on_idle, NULL);
    for (int i = 0; i < 2; i++) {
        engine_stats_publish(world->stats, 1, &busy[i]);
        turns(world);
        assert_false(is_idle);
        world_answers(world, "GET", "/health", "", "", 503,
                      "x-trtllm-server-state: draining");
    }
    engine_stats_publish(world->stats, 1, &(struct engine_stats){0});
    turns(world);
    assert_true(is_idle);
}

/* Proof: at the limit an open answer and an open stream hear 503, the engine is
 * told to end both, and hand-offs are not waited for. */
static void a_late_drain_tells_who_waits(void **state)
{
    struct world *world = *state;
    const struct engine_stats busy = {.sending = 1};
    struct client *whole = client_post(world, "/v1/completions",
                                       "{\"model\":\"stem\",\"prompt\":[5]}");
    struct engine_request *first = world_submitted(world);
    struct client *stream =
        client_post(world, "/v1/completions",
                    "{\"model\":\"stem\",\"prompt\":[5],\"stream\":true}");
    struct engine_request *second = world_submitted(world);
    world_say(world, second->id, 0, 0, "ab");
    client_await(world, stream, "\"text\":\"ab\"");
    is_idle = false;
    engine_stats_publish(world->stats, 1, &busy);
    serve_drain(world->serve, on_idle, NULL);
    turns(world);
    assert_false(is_idle);
    serve_drain_late(world->serve);
    client_await(world, whole, NULL);
    assert_int_equal(client_status(whole), 503);
    client_await(world, stream, NULL);
    client_has(stream, "shuts down");
    client_lacks(stream, "[DONE]");
    client_close(whole);
    client_close(stream);
    turns(world);
    assert_true(is_idle);
    for (int i = 0; i < 2; i++) {
        struct engine_command command;
        assert_true(io_mailbox_take(world->commands, &command));
        assert_int_equal(command.kind, ENGINE_CANCEL);
        assert_true(command.is_shutdown);
    }
    engine_request_free(first);
    engine_request_free(second);
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
        TEST(draining_waits_for_hand_offs),
        TEST(a_late_drain_tells_who_waits),
        TEST(a_taken_port_is_an_error),
        cmocka_unit_test(closing_ends_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
