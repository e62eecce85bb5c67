#include "world.h"

/* Proof: what a front end reads to prepare a server (serve.md 1.4). */
static void the_server_says_what_it_is(void **state)
{
    struct world *world = *state;
    world_answers(world, "GET", "/server_info", "", "", 200,
                  "\"tokens_per_block\":32,\"max_batch_size\":4,"
                  "\"max_seq_len\":200");
    world_answers(world, "GET", "/server_info", "", "", 200,
                  "\"disaggregated_params\":{\"ctx_info_endpoint\":"
                  "[\"tcp://127.0.0.1:7\"]}");
    world_answers(world, "GET", "/server_info", "", "", 200,
                  "\"incarnation\":\"18364758544493064720\"");
    world_answers(world, "GET", "/server_info", "", "", 200,
                  "\"served_model_names\":[\"stem\",\"General Name\"],"
                  "\"chat_template\":\"chatml\",");
    world_answers(world, "GET", "/version", "", "", 200,
                  "{\"version\":\"9.9\"}");
}

static void print_peers(void *context, struct buf *out)
{
    buf_add_string(out, context);
}

/* Proof: by what KV moves, and what the transfer says of its peers. */
static void the_peers_are_told(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    char list[] = "[{\"endpoint\":\"tcp://h:1\"}]";
    (void)state;
    world_open(world);
    strcpy(world->config.backend, "auto");
    world->parts.print_peers = print_peers;
    world->parts.transfer_context = list;
    world_ready(world);
    world_answers(world, "GET", "/server_info", "", "", 200,
                  ",\"transfer_backend\":\"auto\","
                  "\"peers\":[{\"endpoint\":\"tcp://h:1\"}]}");
    world_close(world);
    free(world);
}

/* Proof: what predicts hits: the hash, the salt's, and each pool, a windowed one
 * by its window. */
static void the_cache_says_what_it_is(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    (void)state;
    world_open(world);
    world->config.event_max = 64;
    world->config.hash_algo = CONFIG_HASH_V2_SHA256_64;
    world->parts.pool_count = 2;
    world->parts.pools[0] = (struct serve_pool){16, 9, 3};
    world->parts.pools[1] = (struct serve_pool){0, 50, 20};
    world_ready(world);
    world_answers(world, "GET", "/server_info", "", "", 200,
                  "\"kv_cache_hash_algo\":\"v2_sha256_64\","
                  "\"cache_salt_algo\":\"sha256\","
                  "\"event_buffer_max_size\":64,\"kv_pools\":["
                  "{\"layer_group_id\":0,\"window_size\":16,"
                  "\"num_blocks_per_cache_level\":[9,3]},"
                  "{\"layer_group_id\":1,\"window_size\":200,"
                  "\"num_blocks_per_cache_level\":[50,20]}],"
                  "\"hand_off\":false,");
    world_close(world);
    free(world);
}

/* Proof: both names of the file, or only the one given. */
static void models_are_listed(void **state)
{
    struct world *world = *state;
    world_answers(world, "GET", "/v1/models", "", "", 200, "\"id\":\"stem\"");
    world_answers(world, "GET", "/v1/models", "", "", 200,
                  "\"id\":\"General Name\"");
    struct world *named = calloc(1, sizeof(*named));
    world_open(named);
    strcpy(named->config.served_model_name, "mine");
    world_ready(named);
    struct client *client = client_send(named, "GET", "/v1/models", "", "");
    client_await(named, client, NULL);
    client_has(client, "\"id\":\"mine\"");
    client_lacks(client, "stem");
    client_close(client);
    world_close(named);
    free(named);
}

/* Proof: the clock's two times, and an offset that is kept. */
static void the_clock_can_be_compared(void **state)
{
    struct world *world = *state;
    world_answers(world, "GET", "/steady_clock_offset", "", "", 200,
                  "\"receive_ts\":");
    world_answers(world, "POST", "/steady_clock_offset",
                  "Content-Type: application/json\r\n", "{\"offset\":-1.5}",
                  200, "\"offset\":-1.5");
    world_answers(world, "POST", "/steady_clock_offset",
                  "Content-Type: application/json\r\n", "{\"offset\":\"x\"}",
                  400, "\"param\":\"offset\"");
}

/* Proof: the engine's counters show in the exposition, in base units. */
static void metrics_show_the_engine(void **state)
{
    struct world *world = *state;
    engine_stats_publish(world->stats, 1,
                         &(struct engine_stats){.turns = 7,
                                                .turn_ns_max = 1500000000,
                                                .pages_free = 3});
    world_answers(world, "GET", "/metrics", "", "", 200,
                  "baton_engine_turns_total 7");
    world_answers(world, "GET", "/metrics", "", "", 200,
                  "baton_engine_turn_max_seconds 1.5");
    world_answers(world, "GET", "/prometheus/metrics", "", "", 200,
                  "baton_kv_pages_free 3");
}

/* Proof: a name that is listed answers its object, escaped or not; another one
 * the error that a completion would get. */
static void one_model_can_be_asked_for(void **state)
{
    struct world *world = *state;
    world_answers(world, "GET", "/v1/models/stem", "", "", 200,
                  "{\"id\":\"stem\",\"object\":\"model\",\"created\":0,"
                  "\"owned_by\":\"baton\",\"max_model_len\":200}");
    world_answers(world, "GET", "/v1/models/General%20Name?x=1", "", "", 200,
                  "{\"id\":\"General Name\"");
    world_answers(world, "GET", "/v1/models/org%2Fother", "", "", 404,
                  "{\"error\":{\"message\":\"model: 'org/other' is not served "
                  "here, 'stem' is\",\"type\":\"");
    world_answers(world, "GET", "/v1/models/org/other", "", "", 404,
                  "\"param\":\"model\",\"code\":\"model_not_found\"");
    world_answers(world, "GET", "/v1/models/", "", "", 404, "model_not_found");
    world_answers(world, "GET", "/v1/modelsx", "", "", 404, "no such path");
    world_answers(world, "DELETE", "/v1/models/stem", "", "", 405,
                  "Allow: GET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_server_says_what_it_is),
        TEST(the_peers_are_told),
        TEST(models_are_listed),
        cmocka_unit_test(the_cache_says_what_it_is),
        TEST(the_clock_can_be_compared),
        TEST(metrics_show_the_engine),
        TEST(one_model_can_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
