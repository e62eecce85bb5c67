#include "world.h"

#define JSON "Content-Type: application/json\r\n"

static const int32_t TOKENS[4] = {1, 2, 3, 4};

static struct engine_event answer_of(uint64_t id, bool has_block)
{
    struct engine_cache_batch *batch = mem_new(sizeof(*batch));
    batch->told = mem_new_array(1, sizeof(batch->told[0]));
    batch->told_count = has_block;
    batch->id_last = 1;
    batch->tokens = mem_copy(TOKENS, sizeof(TOKENS));
    batch->told[0] = (struct kv_event){.id = 1,
                                       .kind = KV_EVENT_STORED,
                                       .key = {{1}},
                                       .priority = 35,
                                       .token_count = 4,
                                       .tokens = batch->tokens};
    return (struct engine_event){
        .kind = ENGINE_EVENT_CACHE, .id = id, .cache = batch};
}

/* Proof: the engine is asked, with or without a resync, and what it tells is
 * the answer; ids only for those who ask. */
static void a_poll_asks_the_engine(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *headers, *body, *text, *absent;
        bool is_resync;
    } cases[] = {
        {"", "", "\"block_hash\":924206229973855,", "resync", false},
        {JSON, "{}", "\"type\":\"stored\"", "token_id", false},
        {JSON, "{\"tokens\":true}", "\"token_id\":4", "resync", false},
        {JSON, "{\"resync\":true}", "\"type\":\"resync\"", "gap", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct client *client = client_send(world, "POST", "/kv_cache_events",
                                            cases[i].headers, cases[i].body);
        struct engine_command command = world_command(world);
        assert_int_equal(command.kind, ENGINE_CACHE_EVENTS);
        assert_int_equal(command.is_resync, cases[i].is_resync);
        struct engine_event event = answer_of(command.id, true);
        world_post(world, &event);
        client_await(world, client, NULL);
        assert_int_equal(client_status(client), 200);
        client_has(client, cases[i].text);
        client_lacks(client, cases[i].absent);
        client_close(client);
    }
}

/* Proof: a client that leaves loses its events, the next one is told how many. */
static void who_leaves_leaves_a_gap(void **state)
{
    struct world *world = *state;
    struct client *client =
        client_send(world, "POST", "/kv_cache_events", "", "");
    struct engine_command command = world_command(world);
    client_close(client);
    world_answers(world, "GET", "/health", "", "", 200, "ok");
    struct engine_event event = answer_of(command.id, true);
    world_post(world, &event);
    client = client_send(world, "POST", "/kv_cache_events", "", "");
    command = world_command(world);
    event = answer_of(command.id, false);
    world_post(world, &event);
    client_await(world, client, NULL);
    client_has(client, "\"type\":\"gap\",\"lost\":1");
    client_close(client);
}

/* Proof: faults are named, and a worker without events says why. */
static void faults_are_named(void **state)
{
    struct world *world = *state;
    static const char *const bodies[2][2] = {
        {"{\"resync\":1}", "resync: must be true or false"},
        {"{\"tokens\":\"x\"}", "tokens: must be true or false"},
    };
    for (size_t i = 0; i < 2; i++) {
        world_answers(world, "POST", "/kv_cache_events", JSON, bodies[i][0],
                      400, bodies[i][1]);
    }
    world_answers(world, "POST", "/kv_cache_events", JSON, "[", 400, "\"error");
    struct client *client =
        client_send(world, "POST", "/kv_cache_events", "", "");
    struct engine_command command = world_command(world);
    world_post(world, &(struct engine_event){.kind = ENGINE_EVENT_CACHE,
                                             .id = command.id,
                                             .error = ERR_NO_MEMORY});
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 503);
    client_close(client);
    world->config.event_max = 0;
    world_answers(world, "POST", "/kv_cache_events", "", "", 400,
                  "kv_cache_config.event_buffer_max_size is 0");
}

static int open_with_events(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    world_open(world);
    world->config.event_max = 100;
    world->parts.pool_count = 1;
    world->parts.pools[0].page_count = 8;
    world_ready(world);
    *state = world;
    return 0;
}

#undef TEST
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, open_with_events, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_poll_asks_the_engine),
        TEST(who_leaves_leaves_a_gap),
        TEST(faults_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
