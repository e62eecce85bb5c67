/* A worker's config: defaults, file, flags, contradictions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config/worker.h"

static void defaults_are_the_documented_ones(void **state)
{
    struct config_worker c;
    (void)state;
    config_worker_init(&c);
    assert_string_equal(c.host, "127.0.0.1");
    assert_int_equal(c.role, CONFIG_ROLE_MIXED);
    assert_int_equal(c.tokens_per_block, 32);
    assert_true(c.enable_block_reuse);
    assert_true(c.enable_partial_reuse);
    assert_int_equal(c.host_cache_bytes, 0);
    assert_int_equal(c.offload_priority_min, 0);
    assert_int_equal(c.event_max, 0);
    assert_int_equal(c.hash_algo, CONFIG_HASH_V1_BLOCK_KEY);
    assert_int_equal(c.policy, CONFIG_POLICY_OVERCOMMIT);
    assert_true(c.shortest_first);
    assert_true(c.prefix_wait);
    assert_true(c.disable_overlap_scheduler);
    assert_int_equal(c.max_batch, 32);
    assert_int_equal(c.queue_limit, 1024);
    assert_int_equal(c.turn_ms_max, 100);
    assert_string_equal(c.backend, "auto");
    assert_int_equal(c.bounce_bytes, 0);
    assert_false(c.bounce_forced);
    assert_int_equal(c.kv_transfer_timeout_ms, 60000);
    assert_int_equal(c.request_timeout_ms, 180000);
    assert_int_equal(c.max_body_bytes, 64u << 20);
    assert_true(c.strict_internal_auth);
    assert_int_equal(c.worker_count_on_host, 1);
}

static enum err read_text(const char *yaml, struct why *why,
                          struct config_worker *c)
{
    config_worker_init(c);
    return config_worker_read_text(span_of_string(yaml), "f.yaml", why, c);
}

static void a_file_is_read(void **state)
{
    struct config_worker c;
    struct why why = {""};
    (void)state;
    assert_int_equal(read_text("model: /m.gguf\nrole: generation\n"
                               "max_batch_size: 8\nmax_body_bytes: 2MiB\n"
                               "tensor_parallel_size: 1\n"
                               "kv_cache_config:\n  tokens_per_block: 16\n"
                               "  enable_block_reuse: false\n"
                               "  enable_partial_reuse: false\n"
                               "  block_reuse_policy: per_request\n"
                               "  host_cache_size: 3GiB\n"
                               "  secondary_offload_min_priority: 40\n"
                               "  event_buffer_max_size: 1024\n"
                               "  kv_cache_hash_algo: v2_sha256\n"
                               "scheduler_config:\n"
                               "  capacity_scheduler_policy: MAX_UTILIZATION\n"
                               "  shortest_first: false\n"
                               "  prefix_wait: false\n"
                               "disable_overlap_scheduler: false\n"
                               "cache_transceiver_config:\n  backend: UCX\n",
                               &why, &c),
                     OK);
    assert_string_equal(c.model, "/m.gguf");
    assert_int_equal(c.role, CONFIG_ROLE_GENERATION);
    assert_int_equal(c.max_batch, 8);
    assert_int_equal(c.max_body_bytes, 2u << 20);
    assert_int_equal(c.tokens_per_block, 16);
    assert_false(c.enable_block_reuse);
    assert_false(c.enable_partial_reuse);
    assert_int_equal(c.reuse_policy, CONFIG_REUSE_PER_REQUEST);
    assert_int_equal(c.host_cache_bytes, (uint64_t)3 << 30);
    assert_int_equal(c.offload_priority_min, 40);
    assert_int_equal(c.event_max, 1024);
    assert_int_equal(c.hash_algo, CONFIG_HASH_V2_SHA256);
    assert_int_equal(c.policy, CONFIG_POLICY_MAX_UTILIZATION);
    assert_false(c.shortest_first);
    assert_false(c.prefix_wait);
    assert_false(c.disable_overlap_scheduler);
    assert_string_equal(c.backend, "ucx");
}

/* Every message names file, line and key; the config stays as it was. */
static void faults_name_file_line_and_key(void **state)
{
    static const char *const CASES[][2] = {
        {"\nmax_batch: 8\n", "f.yaml:2: `max_batch` is not a known key; did "
                             "you mean `max_batch_size`?"},
        {"kv_cache_config:\n  tokens_per_blok: 3\n",
         "f.yaml:2: `kv_cache_config.tokens_per_blok` is not a known key; did "
         "you mean `kv_cache_config.tokens_per_block`?"},
        {"tokens_per_block: 32\n",
         "f.yaml:1: `tokens_per_block` is in the wrong place: "
         "`tokens_per_block` belongs under `kv_cache_config`"},
        {"kv_cache_config:\n  port: 5\n",
         "f.yaml:2: `kv_cache_config.port` is in the wrong place: `port` "
         "belongs at the top level or under `cache_transceiver_config`"},
        {"scheduler_config:\n  kv_cache_config: {}\n",
         "f.yaml:2: `scheduler_config.kv_cache_config` is in the wrong place: "
         "`kv_cache_config` belongs at the top level"},
        {"zzzzqqqq: 1\n", "f.yaml:1: `zzzzqqqq` is not a known key"},
        {"reference_ops: banana\n",
         "f.yaml:1: `reference_ops`: must be true or false"},
        {"reference_ops: \"true\"\n",
         "f.yaml:1: `reference_ops`: must not be quoted: it is no text"},
        {"port: 70000\n", "f.yaml:1: `port`: must be from 0 to 65535"},
        {"port: 1.5\n", "f.yaml:1: `port`: must be an integer"},
        {"port: [1]\n", "f.yaml:1: `port`: must be one value"},
        {"role: boss\n", "f.yaml:1: `role`: must be one of "
                         "mixed|context|generation"},
        {"kv_cache_config: 7\n",
         "f.yaml:1: `kv_cache_config` must be a map of keys"},
        {"kv_cache_config:\n  max_attention_window: [512]\n",
         "f.yaml:2: `kv_cache_config.max_attention_window`: is not supported: "
         "windows are those of the model file"},
        {"kv_cache_config:\n  secondary_offload_min_priority: 101\n",
         "f.yaml:2: `kv_cache_config.secondary_offload_min_priority`: must be "
         "from 0 to 100"},
        {"kv_cache_config:\n  block_reuse_policy: per_conversation\n",
         "f.yaml:2: `kv_cache_config.block_reuse_policy`: must be one of "
         "all_reusable|per_request"},
        {"kv_cache_config:\n  kv_cache_hash_algo: md5\n",
         "f.yaml:2: `kv_cache_config.kv_cache_hash_algo`: must be one of "
         "v1_block_key|v2_sha256|v2_sha256_64"},
        {"scheduler_config:\n  capacity_scheduler_policy: STATIC_BATCH\n",
         "f.yaml:2: `scheduler_config.capacity_scheduler_policy`: must be one "
         "of GUARANTEED_NO_EVICT|MAX_UTILIZATION|BOUNDED_OVERCOMMIT"},
        {"tensor_parallel_size: 2\n",
         "f.yaml:1: `tensor_parallel_size`: only 1 is supported in the file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct config_worker c, before;
        struct why why = {""};
        config_worker_init(&before);
        assert_int_equal(read_text(CASES[i][0], &why, &c), ERR_INVALID);
        assert_string_equal(why.text, CASES[i][1]);
        assert_memory_equal(&c, &before, sizeof(c));
    }
}

static void flags_take_three_spellings(void **state)
{
    static const char *const KEYS[] = {"max_batch_size", "max-batch",
                                       "max_batch"};
    struct config_worker c;
    struct why why;
    (void)state;
    config_worker_init(&c);
    for (int i = 0; i < 3; i++) {
        char value[8];
        sprintf(value, "%d", i + 1);
        assert_int_equal(config_worker_set(&c, KEYS[i], value, &why), OK);
        assert_int_equal(c.max_batch, i + 1);
    }
    assert_int_equal(config_worker_set(&c, "kv-tokens", "640", &why), OK);
    assert_int_equal(config_worker_set(&c, "tokens_per_block", "64", &why), OK);
    assert_int_equal(c.tokens_per_block, 64);
    assert_int_equal(config_worker_set(&c, "max_batch", "x", &why),
                     ERR_INVALID);
    assert_string_equal(why.text, "must be an integer");
    assert_int_equal(config_worker_set(&c, "nonsense", "x", &why), ERR_INVALID);
}

static void contradictions_are_refused(void **state)
{
    static const char *const SETS[][2] = {
        {"tokens_per_block", "24"}, {"kv_tokens", "32"}, {"max_seq", "9000"}};
    struct config_worker c;
    struct why why;
    (void)state;
    config_worker_init(&c);
    assert_int_equal(config_worker_check(&c, &why), ERR_INVALID);
    for (int i = 0; i < 3; i++) {
        config_worker_init(&c);
        strcpy(c.model, "m");
        c.kv_tokens = 4096;
        assert_int_equal(config_worker_check(&c, &why), OK);
        assert_int_equal(config_worker_set(&c, SETS[i][0], SETS[i][1], &why),
                         OK);
        assert_int_equal(config_worker_check(&c, &why), ERR_INVALID);
    }
}

/* What would never be used is refused by the name of what makes it so. */
static void what_would_stay_empty_is_refused(void **state)
{
    struct config_worker c;
    struct why why;
    (void)state;
    config_worker_init(&c);
    strcpy(c.model, "m");
    c.enable_block_reuse = false;
    assert_int_equal(config_worker_check(&c, &why), OK);
    c.event_max = 7;
    assert_int_equal(config_worker_check(&c, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "event_buffer_max_size` is 7"));
    c.event_max = 0;
    c.host_cache_bytes = 1 << 20;
    c.policy = CONFIG_POLICY_NO_EVICT;
    assert_int_equal(config_worker_check(&c, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "host_cache_size"));
    c.policy = CONFIG_POLICY_OVERCOMMIT;
    assert_int_equal(config_worker_check(&c, &why), OK);
}

/* Less than two portions, of which each direction needs one. */
static void an_arena_that_is_too_small_is_refused(void **state)
{
    struct config_worker c;
    struct why why;
    (void)state;
    config_worker_init(&c);
    strcpy(c.model, "m");
    assert_int_equal(config_worker_set(&c, "bounce_size", "1MiB", &why), OK);
    assert_int_equal(config_worker_check(&c, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "bounce_size` is 1048576"));
    assert_int_equal(config_worker_set(&c, "bounce_size", "2MiB", &why), OK);
    assert_int_equal(config_worker_check(&c, &why), OK);
}

/* What no host is, and what is nothing, is refused and is never "all"; only the
 * empty text is. Whether names are known is not asked here. The flag's name is its
 * user's to say. */
static void a_list_of_hosts_that_cannot_be_read_is_refused(void **state)
{
    static const char *const BAD[] = {"10.0.0.1/8", " ", ",", "a.b,,localhost"};
    struct config_worker c;
    struct why why;
    (void)state;
    config_worker_init(&c);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        assert_int_equal(
            config_worker_set(&c, "allowed_peer_hosts", BAD[i], &why),
            ERR_INVALID);
    }
    assert_int_equal(config_worker_set(&c, "allowed_peer_hosts",
                                       "10.0.0.0/8 , no-such-host.invalid",
                                       &why),
                     OK);
    assert_string_equal(c.allowed_peer_hosts,
                        "10.0.0.0/8, no-such-host.invalid");
    assert_int_equal(config_worker_set(&c, "allowed_peer_hosts", "", &why), OK);
    assert_string_equal(c.allowed_peer_hosts, "");
}

#define HOSTS "cache_transceiver_config:\n  allowed_peer_hosts:"

/* A list of either spelling is the text with commas; a fault has the line of its
 * entry. */
static void hosts_may_be_a_yaml_list(void **state)
{
    static const struct {
        const char *yaml, *hosts, *fault;
    } CASES[] = {
        {HOSTS " [10.0.0.0/8, localhost]\n", "10.0.0.0/8, localhost", NULL},
        {HOSTS "\n    - 10.0.0.0/8\n    - \"[fd00::7]\"\n",
         "10.0.0.0/8, [fd00::7]", NULL},
        {HOSTS " 10.0.0.0/8, localhost\n", "10.0.0.0/8, localhost", NULL},
        {HOSTS " \"\"\n", "", NULL},
        {HOSTS "\n    - 10.0.0.0/8\n    - 10.0.0.1/8\n", NULL,
         "w:3: `cache_transceiver_config.allowed_peer_hosts`: line 4: "
         "\"10.0.0.1/8\""},
        {HOSTS " 10.0.0.1/8\n", NULL,
         "w:2: `cache_transceiver_config."
         "allowed_peer_hosts`: \"10.0.0.1/8\""},
        {HOSTS "\n    - [10.0.0.1]\n", NULL, "must be a list of hosts"},
        {HOSTS " {a: b}\n", NULL, "must be a list of hosts"},
        {HOSTS " [\"\"]\n", NULL, "an entry is empty"},
        {HOSTS " []\n", NULL, "leave the key out to allow all"},
        {HOSTS "\n", NULL, "leave the key out to allow all"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct config_worker c;
        struct why why = {""};
        config_worker_init(&c);
        enum err code = config_worker_read_text(span_of_string(CASES[i].yaml),
                                                "w", &why, &c);
        assert_int_equal(code, CASES[i].fault == NULL ? OK : ERR_INVALID);
        if (CASES[i].fault == NULL) {
            assert_string_equal(c.allowed_peer_hosts, CASES[i].hosts);
        } else if (strstr(why.text, CASES[i].fault) == NULL) {
            fail_msg("%s\nlacks %s", why.text, CASES[i].fault);
        }
    }
}

/* [transfer T27] */
static void all_that_is_wrong_is_said_at_once(void **state)
{
    static const char *const SETTINGS[][2] = {{"tokens_per_block", "24"},
                                              {"bounce_size", "1MiB"},
                                              {"port", "8000"},
                                              {"transfer_port", "8000"},
                                              {"event_buffer_max_size", "8"},
                                              {"enable_block_reuse", "false"}};
    static const char *const SAID[] = {
        "`model` is missing; ", "tokens_per_block` is 24",
        "event_buffer_max_size` is 8", "bounce_size` is 1048576",
        "`port` and `transfer_port` must differ"};
    struct config_worker c;
    struct why why;
    (void)state;
    config_worker_init(&c);
    for (size_t i = 0; i < sizeof(SETTINGS) / sizeof(SETTINGS[0]); i++) {
        assert_int_equal(
            config_worker_set(&c, SETTINGS[i][0], SETTINGS[i][1], &why), OK);
    }
    assert_int_equal(config_worker_check(&c, &why), ERR_INVALID);
    for (size_t i = 0; i < sizeof(SAID) / sizeof(SAID[0]); i++) {
        if (strstr(why.text, SAID[i]) == NULL) {
            fail_msg("%s: %s", SAID[i], why.text);
        }
    }
}

static void every_key_is_described(void **state)
{
    struct config_worker c;
    struct buf out;
    (void)state;
    config_worker_init(&c);
    buf_init(&out, 65536);
    config_worker_describe(&c, &out);
    assert_non_null(strstr(buf_string(&out), "\nmax_batch_size = 32 "));
    assert_non_null(strstr(buf_string(&out), "\nrole = mixed "));
    assert_non_null(strstr(buf_string(&out), "# default 64MiB bytes; "));
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_documented_ones),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(faults_name_file_line_and_key),
        cmocka_unit_test(flags_take_three_spellings),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(what_would_stay_empty_is_refused),
        cmocka_unit_test(an_arena_that_is_too_small_is_refused),
        cmocka_unit_test(a_list_of_hosts_that_cannot_be_read_is_refused),
        cmocka_unit_test(hosts_may_be_a_yaml_list),
        cmocka_unit_test(all_that_is_wrong_is_said_at_once),
        cmocka_unit_test(every_key_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
