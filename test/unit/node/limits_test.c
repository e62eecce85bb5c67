/* What a worker derives from config, model and memory: sums by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/limits.h"

static const uint64_t MEMORY = (uint64_t)8 << 30;

static struct model_info info_of(uint32_t context)
{
    return (struct model_info){
        .vocab_size = 1000,
        .context_length = context,
        .shape = {.life_count = 1,
                  .layouts = {{.layer_count = 2,
                               .kv_head_count = 1,
                               .head_dim = 16,
                               .tokens_per_block = 32,
                               .element_bytes = 2}}},
    };
}

static struct config_worker config_of(uint64_t kv_tokens, uint32_t max_seq)
{
    struct config_worker config;
    config_worker_init(&config);
    config.kv_tokens = kv_tokens;
    config.max_seq = max_seq;
    return config;
}

/* Eight contexts of 1,000 tokens are 250 blocks of 32. */
static void the_pool_holds_eight_contexts(void **state)
{
    (void)state;
    struct model_info info = info_of(1000);
    struct config_worker config = config_of(0, 0);
    struct node_limits limits;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, NULL, &limits), OK);
    assert_int_equal(limits.life_count, 1);
    assert_int_equal(limits.pools[0].page_count, 250);
    assert_int_equal(limits.pools[0].host_page_count, 0);
    assert_int_equal(limits.pools[0].page_bytes, 2 * 2 * 32 * 16 * 2);
    assert_int_equal(limits.pool_bytes, 250 * limits.pools[0].page_bytes);
    assert_int_equal(limits.host_bytes, 0);
    assert_int_equal(limits.max_seq, 1000);
    assert_int_equal(limits.logit_bytes, 32 * 1000 * 4);
    assert_int_equal(limits.history_bytes, 32 * 1000 * 4);
}

/* A file that claims 16 million tokens must not cost tables of that size: the
 * longest sequence is what the pool holds. */
static void a_sequence_is_never_longer_than_the_pool(void **state)
{
    (void)state;
    struct model_info info = info_of(1 << 24);
    struct config_worker config = config_of(256, 0);
    struct node_limits limits;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, NULL, &limits), OK);
    assert_int_equal(limits.max_seq, 256);
}

/* What was asked for by name and cannot be is refused by name. */
static void limits_that_contradict_are_refused_by_name(void **state)
{
    (void)state;
    struct model_info info = info_of(1000);
    struct node_limits limits = {.max_seq = 7};
    struct why why = {{0}};
    struct config_worker config = config_of(256, 512);
    assert_int_equal(node_limits_of(&config, &info, MEMORY, &why, &limits),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "max_seq_len 512"));
    assert_non_null(strstr(why.text, "kv_cache_config.max_tokens"));
    config = config_of(0, 2000);
    assert_int_equal(node_limits_of(&config, &info, MEMORY, &why, &limits),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "context of 1000"));
    config = config_of((uint64_t)1 << 40, 0);
    assert_int_equal(node_limits_of(&config, &info, MEMORY, &why, &limits),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "kv_cache_config.max_tokens"));
    config = config_of(256, 0);
    config.bounce_bytes = (uint64_t)1 << 50;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, &why, &limits),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "cache_transceiver_config.bounce_size"));
    assert_int_equal(limits.max_seq, 7);
}

/* Workers that share a host share a quarter of its memory. */
static void a_quarter_of_memory_is_divided_among_the_workers(void **state)
{
    (void)state;
    struct model_info info = info_of(1 << 20);
    struct config_worker config = config_of(0, 0);
    struct node_limits one, two;
    uint64_t memory = (uint64_t)256 << 20;
    assert_int_equal(node_limits_of(&config, &info, memory, NULL, &one), OK);
    config.worker_count_on_host = 2;
    assert_int_equal(node_limits_of(&config, &info, memory, NULL, &two), OK);
    assert_true(one.pool_bytes <= memory / 4);
    assert_int_equal(two.pools[0].page_count, one.pools[0].page_count / 2);
}

/* Four layers with a window of 64, one without: pages of 4 and of 1. */
static struct model_info windowed_info(uint32_t context)
{
    struct model_info info = info_of(context);
    info.shape.life_count = 2;
    info.shape.lives[0].window = 64;
    info.shape.layouts[1] = info.shape.layouts[0];
    info.shape.layouts[0].layer_count = 4;
    info.shape.layouts[1].layer_count = 1;
    return info;
}

/* The pool that keeps all has the tokens asked for. A windowed sequence sees 64
 * tokens that may begin anywhere in a block, so 3 blocks; four of them, twice
 * over, and 16 for a turn of 512 are 40. */
static void a_windowed_pool_is_as_large_as_a_batch_sees(void **state)
{
    (void)state;
    struct model_info info = windowed_info(4096);
    struct config_worker config = config_of(32768, 0);
    struct node_limits limits;
    config.max_batch = 4;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, NULL, &limits), OK);
    assert_int_equal(limits.pools[1].page_count, 1024);
    assert_int_equal(limits.pools[0].page_count, 2 * 4 * 3 + 16);
    assert_int_equal(limits.pools[0].window, 64);
    assert_int_equal(limits.pools[1].window, 0);
    assert_int_equal(limits.pool_bytes, 40 * limits.pools[0].page_bytes +
                                            1024 * limits.pools[1].page_bytes);
    assert_int_equal(node_limits_measure(&config, &info.shape, NULL, &limits),
                     OK);
    assert_true(limits.metadata_bytes > 0);
}

/* However small the pool, one request of max_seq fits: the cache takes it, with
 * every window and every block size. */
static void one_request_of_max_seq_always_fits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        struct model_info info = windowed_info(4096);
        struct config_worker config = config_of(64 + i * 37, 0);
        struct node_limits limits;
        struct why why = {{0}};
        info.shape.lives[0].window = 1 + i * i;
        config.tokens_per_block = 1u << i % 6;
        config.max_batch = 1 + i % 5;
        info.shape.layouts[0].tokens_per_block = config.tokens_per_block;
        info.shape.layouts[1].tokens_per_block = config.tokens_per_block;
        assert_int_equal(node_limits_of(&config, &info, MEMORY, &why, &limits),
                         OK);
        assert_true(limits.pools[0].page_count <= limits.pools[1].page_count);
        if (node_limits_measure(&config, &info.shape, &why, &limits) != OK) {
            fail_msg("%u: %s", i, why.text);
        }
    }
}

/* The second level is divided as the first: half its size has half its pages.
 * What holds no page of each, or no memory has room for, is refused by name. */
static void the_second_level_is_divided_as_the_first(void **state)
{
    (void)state;
    struct model_info info = windowed_info(4096);
    struct config_worker config = config_of(32768, 0);
    struct node_limits limits;
    struct why why = {{0}};
    assert_int_equal(node_limits_of(&config, &info, MEMORY, NULL, &limits), OK);
    config.host_cache_bytes = limits.pool_bytes / 2;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, NULL, &limits), OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(limits.pools[i].host_page_count,
                         limits.pools[i].page_count / 2);
    }
    assert_true(limits.host_bytes <= config.host_cache_bytes);
    config.host_cache_bytes = limits.pools[0].page_bytes;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, &why, &limits),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "kv_cache_config.host_cache_size"));
    config.host_cache_bytes = MEMORY;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, &why, &limits),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "host_cache_size takes 8191 MiB"));
    assert_non_null(strstr(why.text, "the host has 8192"));
}

/* What `baton inspect` shows of a model with two life cycles. */
static void pools_are_described_one_by_one(void **state)
{
    (void)state;
    struct model_info info = windowed_info(4096);
    struct config_worker config = config_of(32768, 0);
    struct node_limits limits;
    struct buf text;
    config.host_cache_bytes = 1 << 20;
    assert_int_equal(node_limits_of(&config, &info, MEMORY, NULL, &limits), OK);
    buf_init(&text, 65536);
    node_limits_describe(&limits, &text);
    assert_non_null(strstr(buf_string(&text), "\nKV pool 0           "));
    assert_non_null(strstr(buf_string(&text), ", window of 64 tokens\n"));
    assert_non_null(strstr(buf_string(&text), "\nKV pool 1           1024 "));
    assert_non_null(strstr(buf_string(&text), "\n  second level      "));
    buf_finish(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pool_holds_eight_contexts),
        cmocka_unit_test(a_sequence_is_never_longer_than_the_pool),
        cmocka_unit_test(limits_that_contradict_are_refused_by_name),
        cmocka_unit_test(a_quarter_of_memory_is_divided_among_the_workers),
        cmocka_unit_test(a_windowed_pool_is_as_large_as_a_batch_sees),
        cmocka_unit_test(one_request_of_max_seq_always_fits),
        cmocka_unit_test(the_second_level_is_divided_as_the_first),
        cmocka_unit_test(pools_are_described_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
