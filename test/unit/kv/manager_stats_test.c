/* What a manager counts. */
#include "unit/kv/manager_world.h"

/* A hit, a partial hit and a miss, each counted once whatever is reverted. */
static void blocks_are_counted(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text ten = text_of(1, 10);
    struct text more = TEXT(1, 10, 50, 51, 52);
    publish(manager, &ten);
    struct kv_seq *seq = open_seq(manager, &more);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    struct kv_mark mark;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kv_seq_resize(manager, seq, 13, 10, &mark), OK);
        kv_seq_revert(manager, seq, &mark);
    }
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    assert_int_equal(stats.blocks_reused_full, 2);
    assert_int_equal(stats.blocks_reused_partial, 1);
    assert_int_equal(stats.blocks_missed, 3 + 1);
    assert_int_equal(stats.seqs, 1);
    assert_int_equal(stats.suspended, 0);
    assert_int_equal(stats.resumes, 2);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* What was cached and is only partly usable is counted as lost. */
static void tokens_lost_to_eviction_are_counted(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.commit = KV_COMMIT_PER_REQUEST;
    options.life_count = options.group_count = 2;
    options.lives[1].window = 8;
    options.group_of[1] = 1;
    options.slot_counts[0][1] = 16;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 24);
    struct text part = TEXT(1, 12, 50);
    publish(manager, &text);
    struct kv_seq *seq = open_seq(manager, &part);
    assert_int_equal(seq->reused, 0);
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    assert_int_equal(stats.tokens_lost_evicted, 12);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* Refused and done, seen from outside. */
static void suspends_and_refusals_are_counted(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 8;
    struct kv_manager *manager = create(&options);
    struct text a_text = text_of(1, 32);
    struct text b_text = text_of(101, 104);
    struct kv_seq *b = open_seq(manager, &b_text);
    struct kv_seq *a = start(manager, &a_text);
    assert_int_equal(kv_seq_resume(manager, b), ERR_BUSY);
    kv_seq_suspend(manager, a);
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    assert_int_equal(stats.resume_refusals, 1);
    assert_int_equal(stats.suspends, 1);
    assert_int_equal(stats.resumes, 1);
    assert_int_equal(stats.suspended, 2);
    assert_int_equal(stats.blocks_allocated, 8);
    assert_int_equal(stats.counts[0][0].held, 8);
    assert_true(stats.metadata_bytes > 0);
    kv_seq_close(manager, a);
    assert_int_equal(counts_of(manager, 0).free_min, 0);
    kv_manager_reset_peaks(manager);
    assert_int_equal(counts_of(manager, 0).free_min, 8);
    kv_seq_close(manager, b);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_counted),
        cmocka_unit_test(tokens_lost_to_eviction_are_counted),
        cmocka_unit_test(suspends_and_refusals_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
