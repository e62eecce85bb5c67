/* Lengths: windows move in one step with growth, and a failed step is none. */
#include "unit/kv/manager_world.h"

static struct kv_manager_options window_only(void)
{
    struct kv_manager_options options = small_options();
    options.lives[0].window = 8;
    options.slot_counts[0][0] = 4;
    options.step_max = 4;
    options.enable_reuse = false;
    return options;
}

/* A step that needs no block and frees none moves lengths only. */
static void lengths_move_within_a_block(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct kv_seq *seq = start(manager, &text);
    uint32_t free = counts_of(manager, 0).free;
    for (uint32_t at = 1; at <= 4; at++) {
        assert_int_equal(kv_seq_resize(manager, seq, 4, at, NULL), OK);
    }
    assert_int_equal(counts_of(manager, 0).free, free);
    assert_int_equal(seq->history, 4);
    valid(manager);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* Four pages hold a window of 8 and a step of 4; to pass on, each step needs the
 * page that it lets go of. */
static void window_moves_on_in_a_full_pool(void **state)
{
    (void)state;
    struct kv_manager_options options = window_only();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct kv_seq *seq = open_seq(manager, &text);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    for (uint32_t at = 0; at < 32; at += 4) {
        assert_int_equal(kv_seq_resize(manager, seq, at + 4, at, NULL), OK);
        valid(manager);
    }
    assert_int_equal(seq->block_count, 8);
    assert_int_equal(seq->tables[0][4], KV_PAGE_NONE);
    assert_int_not_equal(seq->tables[0][7], KV_PAGE_NONE);
    kv_seq_close(manager, seq);
    assert_int_equal(used_of(manager), 0);
    kv_manager_destroy(manager);
}

/* A windowed life cycle goes on, but there is no full-attention page: the window
 * stays where it was. */
static void failed_step_leaves_the_window(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.life_count = options.group_count = 2;
    options.lives[1].window = 8;
    options.group_of[1] = 1;
    options.slot_counts[0][0] = options.slot_counts[0][1] = 8;
    options.step_max = 4;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 20);
    struct text other = text_of(101, 112);
    struct kv_seq *a = start(manager, &text);
    struct kv_seq *b = start(manager, &other);
    uint32_t locked = counts_of(manager, 1).locked;
    assert_int_equal(kv_seq_resize(manager, a, 24, 20, NULL), ERR_FULL);
    assert_int_equal(a->history, 0);
    assert_int_equal(a->capacity, 20);
    assert_int_equal(counts_of(manager, 1).locked, locked);
    assert_int_not_equal(a->tables[1][0], KV_PAGE_NONE);
    valid(manager);
    kv_seq_close(manager, b);
    assert_int_equal(kv_seq_resize(manager, a, 24, 20, NULL), OK);
    assert_int_equal(a->tables[1][0], KV_PAGE_NONE);
    valid(manager);
    kv_seq_close(manager, a);
    kv_manager_destroy(manager);
}

static void veto_gives_new_blocks_back(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 6);
    struct kv_seq *seq = start(manager, &text);
    commit(manager, seq, &text, 6, true);
    uint32_t free = counts_of(manager, 0).free;
    struct kv_mark mark = {0};
    assert_int_equal(kv_seq_resize(manager, seq, 20, 6, &mark), OK);
    assert_int_equal(counts_of(manager, 0).free, free - 3);
    kv_seq_revert(manager, seq, &mark);
    assert_int_equal(seq->capacity, 6);
    assert_int_equal(counts_of(manager, 0).free, free);
    assert_int_equal(seq->tables[0][2], KV_PAGE_NONE);
    valid(manager);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* Sinks stay while the window behind them moves. */
static void sinks_stay(void **state)
{
    (void)state;
    struct kv_manager_options options = window_only();
    options.lives[0].sink_tokens = 5;
    options.slot_counts[0][0] = 6;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct kv_seq *seq = open_seq(manager, &text);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    for (uint32_t at = 0; at < 32; at += 4) {
        assert_int_equal(kv_seq_resize(manager, seq, at + 4, at, NULL), OK);
    }
    assert_int_not_equal(seq->tables[0][0], KV_PAGE_NONE);
    assert_int_not_equal(seq->tables[0][1], KV_PAGE_NONE);
    assert_int_equal(seq->tables[0][2], KV_PAGE_NONE);
    valid(manager);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_move_within_a_block),
        cmocka_unit_test(window_moves_on_in_a_full_pool),
        cmocka_unit_test(failed_step_leaves_the_window),
        cmocka_unit_test(veto_gives_new_blocks_back),
        cmocka_unit_test(sinks_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
