/* What a manager accepts and allocates. */
#include "unit/kv/manager_world.h"

#include "base/mem.h"

static void refused(const struct kv_manager_options *options, enum err err,
                    const char *field)
{
    struct kv_manager *manager = NULL;
    struct why why = {0};
    assert_int_equal(kv_manager_create(options, &why, &manager), err);
    assert_null(manager);
    assert_non_null(strstr(why.text, field));
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.tokens_per_block = 5;
    refused(&options, ERR_INVALID, "tokens_per_block: 5");
    options = small_options();
    options.life_count = 5;
    refused(&options, ERR_INVALID, "life_count: 5");
    options = small_options();
    options.group_of[0] = 1;
    refused(&options, ERR_INVALID, "group_of[0]");
    options = small_options();
    options.lives[0].sink_tokens = 1;
    refused(&options, ERR_INVALID, "sink_tokens");
    options = small_options();
    options.level_count = 0;
    refused(&options, ERR_INVALID, "level_count: 0");
    options = small_options();
    options.seq_count_max = 0;
    refused(&options, ERR_INVALID, "seq_count_max");
}

/* One sequence to its end must fit, or it would never get there; the sums say by
 * how much it does not. */
static void pool_too_small_for_one_sequence_is_refused(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 7;
    refused(&options, ERR_FULL,
            "slot_counts[0][0]: 7 pages, but one sequence of 32 tokens in "
            "steps of 32 takes 8");
    options.slot_counts[0][0] = 8;
    kv_manager_destroy(create(&options));
}

/* A life of requests, hits, suspends and evictions takes nothing from the heap. */
static void steady_state_allocates_nothing(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[1][0] = 8;
    struct kv_manager *manager = create(&options);
    static struct text texts[8];
    for (int32_t i = 0; i < 8; i++) {
        texts[i] = text_of(i / 2 * 100 + 1, i / 2 * 100 + 20 + i % 2 * 3);
    }
    uint64_t before = mem_allocation_count();
    for (uint32_t i = 0; i < 200; i++) {
        const struct text *text = &texts[i * 5 % 8];
        struct kv_seq *seq = start(manager, text);
        kv_seq_suspend(manager, seq);
        assert_int_equal(kv_seq_resume(manager, seq), OK);
        do_orders(manager);
        kv_seq_commit_to(manager, seq, text->count, text->keys, text->tokens,
                         true, text->count % BLOCK > 0 ? &text->tail : NULL);
        kv_seq_close(manager, seq);
        kv_manager_tick(manager, i);
    }
    assert_int_equal(mem_allocation_count(), before);
    valid(manager);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(pool_too_small_for_one_sequence_is_refused),
        cmocka_unit_test(steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
