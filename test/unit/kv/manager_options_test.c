/* What a manager accepts, and how it says what it does not. */
#include "unit/kv/manager_world.h"

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
    options.seq_count_max = 40000;
    refused(&options, ERR_INVALID, "seq_count_max: 40000");
    options = small_options();
    options.slot_counts[0][0] = 1u << 30;
    refused(&options, ERR_INVALID, "slot_counts");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(pool_too_small_for_one_sequence_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
