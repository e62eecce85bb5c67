#include "world.h"

#define IDS "{\"model\":\"stem\",\"prompt\":[5]}"

/* Proof: events of ids that were never given, or whose request is over, are
 * dropped, and what they carry is freed (the leak check of the build). */
static void events_of_nobody_are_dropped(void **state)
{
    struct world *world = *state;
    for (uint64_t id = 0; id < 3; id++) {
        world_post(world, &(struct engine_event){.kind = ENGINE_EVENT_TOKEN,
                                                 .id = id << 24 | 5,
                                                 .choice = 12345,
                                                 .top = mem_new(16),
                                                 .top_count = 1});
        world_finish(world, id, 99, ENGINE_FINISH_STOP, 0);
        world_fail(world, id, ERR_FULL, "x");
    }
    struct client *client = client_post(world, "/v1/completions", IDS);
    struct engine_request *made = world_submitted(world);
    world_fail(world, made->id, ERR_INTERNAL, "first");
    world_fail(world, made->id, ERR_FULL, "second");
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 500);
    client_close(client);
    engine_request_free(made);
}

/* Proof: when the engine ends, what waits for it is answered with 503. */
static void a_stopped_engine_answers_all(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(world, "/v1/completions", IDS);
    struct engine_request *made = world_submitted(world);
    world_post(world, &(struct engine_event){.kind = ENGINE_EVENT_STOPPED});
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 503);
    client_close(client);
    engine_request_free(made);
}

/* Proof: a choice cancelled by nobody here (an abort by rid) is a failure,
 * not half an answer. */
static void an_aborted_request_is_no_answer(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(world, "/v1/completions", IDS);
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "a");
    world_finish(world, made->id, 0, ENGINE_FINISH_CANCELLED, 0);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 503);
    client_has(client, "aborted");
    client_close(client);
    engine_request_free(made);
}

/* Proof: a stop token given by the client is the reason; the model's own end
 * is not named. Both count and neither shows. */
static void the_reason_is_the_clients_token(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(
        world, "/v1/completions",
        "{\"model\":\"stem\",\"prompt\":[5],\"stop_token_ids\":[100]}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "x");
    world_finish(world, made->id, 0, ENGINE_FINISH_STOP, 100);
    client_await(world, client, NULL);
    client_has(client, "\"text\":\"x\"");
    client_has(client, "\"stop_reason\":100");
    client_has(client, "\"completion_tokens\":2");
    client_close(client);
    engine_request_free(made);
}

/* Proof: 5,000 events are more than one wake takes (4,096); all arrive. */
static void many_events_take_several_wakes(void **state)
{
    struct world *world = *state;
    struct client *client =
        client_post(world, "/v1/completions",
                    "{\"model\":\"stem\",\"prompt\":[5],\"max_tokens\":190}");
    struct engine_request *made = world_submitted(world);
    for (uint32_t i = 0; i < 5000; i++) {
        world_token(world, made->id, 0, i, TOKEN_OF('a'));
    }
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "\"completion_tokens\":5000");
    client_close(client);
    engine_request_free(made);
}

/* Proof: what the engine refuses about a field has its name as `param`, and the
 * prompt the name it came under. */
static void a_refusal_of_the_engine_names_the_field(void **state)
{
    static const char *const CASES[][3] = {
        {IDS, "max_tokens: 9 for each", "\"param\":\"max_tokens\""},
        {IDS, "n: 4 choices", "\"param\":\"n\""},
        {"{\"model\":\"stem\",\"prompt_token_ids\":[5],\"prompt\":\"a\"}",
         "prompt: its 9 tokens",
         "\"message\":\"prompt_token_ids: its 9 tokens\""},
        {IDS, "nothing: here", "\"param\":null"},
    };
    struct world *world = *state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct client *client =
            client_post(world, "/v1/completions", CASES[i][0]);
        struct engine_request *made = world_submitted(world);
        world_fail(world, made->id, ERR_INVALID, CASES[i][1]);
        client_await(world, client, NULL);
        assert_int_equal(client_status(client), 400);
        client_has(client, CASES[i][2]);
        client_close(client);
        engine_request_free(made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_of_nobody_are_dropped),
        TEST(a_stopped_engine_answers_all),
        TEST(an_aborted_request_is_no_answer),
        TEST(the_reason_is_the_clients_token),
        TEST(many_events_take_several_wakes),
        TEST(a_refusal_of_the_engine_names_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
