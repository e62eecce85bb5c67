/* The front end's file: a good one, defaults, and the rules of serve.md 1.3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "config/route.h"

#define SERVERS                                             \
    "context_servers:\n  urls: [\"a:1\", \"http://b:2\"]\n" \
    "generation_servers:\n  urls:\n  - \"[::1]:3\"\n"

static struct config_route config;

static enum err load(const char *yaml, struct why *why)
{
    config_route_init(&config);
    enum err code =
        config_route_read_text(span_of_string(yaml), "f", why, &config);
    return code == OK ? config_route_check(&config, why) : code;
}

/* [serve T2] what a file that names only servers leaves as it is. */
static void defaults_are_the_documented_ones(void **state)
{
    (void)state;
    assert_int_equal(load(SERVERS, NULL), OK);
    assert_string_equal(config.hostname, "localhost");
    assert_int_equal(config.port, 8000);
    assert_int_equal(config.max_retries, 1);
    assert_int_equal(config.node_id, 0);
    assert_int_equal(config.schedule_style, CONFIG_ROUTE_CONTEXT_FIRST);
    assert_false(config.allow_request_chat_template);
    assert_false(config.gen_strip_message_history);
    assert_int_equal(config.max_body_bytes, 64u << 20);
    assert_int_equal(config.max_header_bytes, 65536);
    assert_true(config.connect_timeout_s == 5);
    assert_true(config.request_timeout_s == 180);
    assert_true(config.drain_timeout_s == 30);
    assert_int_equal(config.server_keep_alive_timeout_s, 10);
    assert_int_equal(config.context.count, 2);
    assert_string_equal(config.context.servers[1].host, "b");
    assert_string_equal(config.generation.servers[0].host, "::1");
    assert_int_equal(config.generation.servers[0].port, 3);
}

/* A file of the shape that the other system documents. */
static void a_known_shape_loads(void **state)
{
    struct why why = {""};
    (void)state;
    enum err code = load("hostname: 0.0.0.0\nport: 8001\nmax_retries: 3\n"
                         "num_workers: 1\nschedule_style: context_first\n"
                         "max_batch_size: 8\nserved_model_names: [m, n]\n"
                         "context_servers:\n  num_instances: 1\n"
                         "  tensor_parallel_size: 1\n  max_batch_size: 8\n"
                         "  kv_cache_config:\n"
                         "    free_gpu_memory_fraction: 0.2\n"
                         "  router:\n    type: Round_Robin\n"
                         "  urls: [\"localhost:8002\"]\n"
                         "generation_servers:\n  num_instances: 1\n"
                         "  urls: [\"localhost:8003\"]\n",
                         &why);
    assert_string_equal(why.text, "");
    assert_int_equal(code, OK);
    assert_int_equal(config.port, 8001);
    assert_int_equal(config.model_name_count, 2);
    assert_int_equal(load(SERVERS "schedule_style: generation_first\n", NULL),
                     OK);
    assert_int_equal(config.schedule_style, CONFIG_ROUTE_GENERATION_FIRST);
}

/* [serve T1] each bad file's message names the field. */
static void each_rule_names_its_field(void **state)
{
    static const char *const CASES[][2] = {
        {SERVERS "max_batch_size: 8\n", NULL}, /* fine */
        {"max_batch_size: 8\ncontext_servers:\n  urls: [\"a:1\"]\n"
         "  max_batch_size: 4\ngeneration_servers:\n  urls: [\"a:2\"]\n",
         "`context_servers.max_batch_size` differs"},
        {"context_servers:\n  num_instances: 2\n  urls: [\"a:1\"]\n",
         "`urls` has 1 entries but `num_instances` is 2"},
        {"context_servers:\n  urls: [\"a\"]\n", "urls"},
        {"context_servers:\n  urls: [\"a:1/x\"]\n", "urls"},
        {"context_servers:\n  urls: \"a:1\"\n", "`urls` must be a list"},
        {"context_servers:\n  urls:\n    - a:1\n    - a\n", "line 4: urls"},
        {"served_model_names: [a,\n  \"\"]\n", "line 2: a name must have"},
        {SERVERS "node_id: 256\n", "`node_id`: must be from 0 to 255"},
        {SERVERS "allow_request_chat_template: \"true\"\n",
         "`allow_request_chat_template`: must not be quoted"},
        {SERVERS "allow_request_chat_template: banana\n",
         "`allow_request_chat_template`: must be true or false"},
        {"context_servers:\n  urls: [\"a:1\", \"A:1\"]\n"
         "generation_servers:\n  urls: [\"a:1\"]\n",
         "`context_servers.urls` has A:1 twice"},
        {SERVERS "disagg_cluster:\n  cluster_uri: http://x\n",
         "`disagg_cluster`: is not supported yet"},
        {"context_servers:\n  router: {type: magic}\n  urls: [\"a:1\"]\n",
         "must be one of round_robin, load_balancing, kv_cache_aware, "
         "conversation"},
        {"context_servers:\n  router: {type: conversation}\n",
         "`router.type` conversation is not supported yet"},
        {SERVERS "conditional_disagg_config: {}\n",
         "`conditional_disagg_config`"},
        {SERVERS "schedule_style: generation_first\n", NULL}, /* fine */
        {SERVERS "schedule_style: neither\n",
         "`schedule_style`: must be one of"},
        {"context_servers:\n  urls: [\"a:1\"]\n",
         "`generation_servers.urls` names no server"},
        {SERVERS "max_retrys: 1\n", "did you mean `max_retries`?"},
        {"context_servers:\n  colour: red\n", "`colour` is not a known key"},
        {"context_servers:\n  urls: [a:1]\n  port: 5\n",
         "`context_servers`: `port` is in the wrong place (line 3): it belongs "
         "at the top level"},
        {"generation_servers: {disagg_cluster: {}}\n",
         "`disagg_cluster` is in the wrong place (line 1)"},
        {SERVERS "urls: [a:1]\n",
         "`urls`: is in the wrong place: it belongs under `context_servers`"},
        {SERVERS "num_instances: 1\n",
         "`num_instances`: is in the wrong place"},
        {SERVERS "router: {}\n", "`router`: is in the wrong place"},
        {SERVERS "cuda_magic: 1\n", "`cuda_magic` is not a known key"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct why why = {""};
        enum err code = load(CASES[i][0], &why);
        assert_int_equal(code, CASES[i][1] == NULL ? OK : ERR_INVALID);
        if (CASES[i][1] != NULL && strstr(why.text, CASES[i][1]) == NULL) {
            fail_msg("%s\nlacks %s", why.text, CASES[i][1]);
        }
    }
}

/* One worker may stand under both roles. */
static void a_mixed_server_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(load("context_servers: {urls: [\"a:1\"]}\n"
                          "generation_servers: {urls: [\"a:1\"]}\n",
                          NULL),
                     OK);
}

static void flags_set_lists_and_secrets_are_not_shown(void **state)
{
    struct buf out;
    struct why why;
    (void)state;
    config_route_init(&config);
    assert_int_equal(
        config_route_set(&config, "context-servers", "a:1,b:2", &why), OK);
    assert_int_equal(
        config_route_set(&config, "generation-servers", "c:3", &why), OK);
    assert_int_equal(config_route_set(&config, "api-key", "hush", &why), OK);
    assert_int_equal(config_route_check(&config, &why), OK);
    buf_init(&out, 65536);
    config_route_describe(&config, &out);
    assert_non_null(strstr(buf_string(&out), "context_servers = [a:1, b:2] "));
    assert_non_null(strstr(buf_string(&out), "api_key = (set) "));
    assert_null(strstr(buf_string(&out), "hush"));
    buf_finish(&out);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A file is a front end's by its server lists, right or wrong otherwise. */
static void a_front_ends_file_is_known_by_its_servers(void **state)
{
    char path[] = "/tmp/baton-test-XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "port: 1\ncontext_servers: 7\n");
    assert_true(config_route_is_one(path));
    write_file(path, "generation_servers: {urls: [\"a:1\"]}\n");
    assert_true(config_route_is_one(path));
    write_file(path, "model: context_servers\n");
    assert_false(config_route_is_one(path));
    write_file(path, "context_servers: [\n");
    assert_false(config_route_is_one(path));
    unlink(path);
    assert_false(config_route_is_one(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_documented_ones),
        cmocka_unit_test(a_known_shape_loads),
        cmocka_unit_test(each_rule_names_its_field),
        cmocka_unit_test(a_mixed_server_is_allowed),
        cmocka_unit_test(flags_set_lists_and_secrets_are_not_shown),
        cmocka_unit_test(a_front_ends_file_is_known_by_its_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
