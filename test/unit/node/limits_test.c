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
        .layout = {.layer_count = 2,
                   .kv_head_count = 1,
                   .head_dim = 16,
                   .tokens_per_block = 32,
                   .element_bytes = 2},
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
    assert_int_equal(limits.page_count, 250);
    assert_int_equal(limits.page_bytes, 2 * 2 * 32 * 16 * 2);
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
    assert_int_equal(two.page_count, one.page_count / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pool_holds_eight_contexts),
        cmocka_unit_test(a_sequence_is_never_longer_than_the_pool),
        cmocka_unit_test(limits_that_contradict_are_refused_by_name),
        cmocka_unit_test(a_quarter_of_memory_is_divided_among_the_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
