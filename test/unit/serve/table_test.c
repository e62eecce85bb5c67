#include "world.h"

#define IDS "{\"model\":\"stem\",\"prompt\":[5]}"

/* Proof: config gives 4 + 4 + 64 slots; so many requests wait, the next is
 * refused with 429 and may go elsewhere; one that ends makes room. */
static void a_full_table_refuses(void **state)
{
    struct world *world = *state;
    enum { SLOTS = 4 + 4 + 64 };
    struct client *clients[SLOTS];
    struct engine_request *made[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        clients[i] = client_post(world, "/v1/completions", IDS);
        made[i] = world_submitted(world);
    }
    world_answers(world, "POST", "/v1/completions",
                  "Content-Type: application/json\r\n", IDS, 429,
                  "x-disagg-not-accepted: 1");
    world_answers(world, "POST", "/v1/completions",
                  "Content-Type: application/json\r\n", IDS, 429,
                  "Retry-After: 1");
    world_fail(world, made[7]->id, ERR_INTERNAL, "x");
    client_await(world, clients[7], NULL);
    struct client *late = client_post(world, "/v1/completions", IDS);
    engine_request_free(world_submitted(world));
    client_close(late);
    for (int i = 0; i < SLOTS; i++) {
        engine_request_free(made[i]);
        client_close(clients[i]);
    }
}

/* Proof: a client that leaves while the engine works means CANCEL with its
 * id; what the engine still says about it is dropped. */
static void a_client_that_leaves_cancels(void **state)
{
    struct world *world = *state;
    for (int stream = 0; stream < 2; stream++) {
        struct client *client = client_post(
            world, "/v1/completions",
            stream ? "{\"model\":\"stem\",\"prompt\":[5],\"stream\":true}"
                   : IDS);
        struct engine_request *made = world_submitted(world);
        world_say(world, made->id, 0, 0, "a");
        if (stream) {
            client_await(world, client, "\"text\":\"a\"");
        }
        client_close(client);
        struct engine_command command = world_command(world);
        assert_int_equal(command.kind, ENGINE_CANCEL);
        assert_false(command.is_shutdown);
        assert_int_equal(command.id, made->id);
        world_say(world, made->id, 0, 1, "late");
        world_finish(world, made->id, 0, ENGINE_FINISH_CANCELLED, 0);
        io_loop_turn(world->loop, 1000000);
        engine_request_free(made);
    }
    world_answers(world, "GET", "/metrics", "", "", 200,
                  "baton_requests_open 0");
}

/* Proof: with no room for the CANCEL it is posted as soon as there is. */
static void a_cancel_is_never_lost(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(world, "/v1/completions", IDS);
    struct engine_request *made = world_submitted(world);
    const struct engine_command filler = {.kind = ENGINE_DRAIN};
    struct engine_command command;
    while (io_mailbox_post(world->commands, &filler) == OK) {
    }
    client_close(client);
    for (int i = 0; i < 10; i++) {
        io_loop_turn(world->loop, 5000000);
    }
    do {
        command = world_command(world);
    } while (command.kind == ENGINE_DRAIN);
    assert_int_equal(command.kind, ENGINE_CANCEL);
    assert_int_equal(command.id, made->id);
    engine_request_free(made);
}

/* Asks for the metrics until they say that nothing is open. */
static void await_none_open(struct world *world)
{
    bool is_none = false;
    for (int i = 0; i < 1000 && !is_none; i++) {
        struct client *client = client_send(world, "GET", "/metrics", "", "");
        client_await(world, client, NULL);
        is_none = strstr(client->data, "\nbaton_requests_open 0\n") != NULL;
        client_close(client);
        usleep(is_none ? 0 : 10000);
    }
    assert_true(is_none);
}

/* Proof: a client that leaves before its text is ids never gets to the
 * engine, and its slot comes back. */
static void a_client_may_leave_before_the_engine_knows(void **state)
{
    struct world *world = *state;
    static char body[150000];
    struct engine_command command;
    strcpy(body, "{\"model\":\"stem\",\"prompt\":\"");
    memset(body + strlen(body), 'a', 140000);
    strcat(body, "\",\"truncate_prompt_tokens\":5}");
    struct client *client = client_post(world, "/v1/completions", body);
    client_close(client);
    await_none_open(world);
    if (io_mailbox_take(world->commands, &command)) {
        /* The text was done before the loop saw the client go. */
        assert_int_equal(command.kind, ENGINE_SUBMIT);
        engine_request_free(command.request);
        assert_int_equal(world_command(world).kind, ENGINE_CANCEL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_table_refuses),
        TEST(a_client_that_leaves_cancels),
        TEST(a_cancel_is_never_lost),
        TEST(a_client_may_leave_before_the_engine_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
