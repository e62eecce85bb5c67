/* Planned drops: a conversation's last window goes when the next turn has its own. */
#include "unit/kv/manager_world.h"

static struct kv_manager_options conversation_options(void)
{
    struct kv_manager_options options = small_options();
    options.commit = KV_COMMIT_PER_CONVERSATION;
    options.life_count = options.group_count = 2;
    options.lives[1].window = 8;
    options.group_of[1] = 1;
    options.slot_counts[0][1] = 16;
    return options;
}

/* Turn one ends at 12, turn two at 24; then the first one's windowed pages go and
 * the full-attention ones stay. */
static void last_turns_window_is_dropped(void **state)
{
    (void)state;
    struct kv_manager_options options = conversation_options();
    struct kv_manager *manager = create(&options);
    struct text one = text_of(1, 12);
    struct text two = text_of(1, 24);
    struct kv_seq *seq = prefill(manager, &one);
    kv_plan plan = kv_seq_plan_drop(manager, seq);
    assert_int_not_equal(plan, KV_PLAN_NONE);
    kv_seq_close(manager, seq);
    assert_int_equal(counts_of(manager, 1).droppable, 2);
    seq = prefill(manager, &two);
    kv_plan_apply(manager, plan);
    valid(manager);
    kv_seq_close(manager, seq);
    assert_int_equal(counts_of(manager, 1).droppable, 2);
    assert_int_equal(counts_of(manager, 0).droppable, 6);
    struct text more = text_of(1, 25);
    assert_int_equal(reuse_of(manager, &more), 24);
    kv_manager_destroy(manager);
}

/* Two conversations that begin alike plan the same pages: the second to go takes
 * them. */
static void shared_window_goes_with_the_last_plan(void **state)
{
    (void)state;
    struct kv_manager_options options = conversation_options();
    struct kv_manager *manager = create(&options);
    struct text one = text_of(1, 12);
    struct kv_seq *seq = prefill(manager, &one);
    kv_plan a = kv_seq_plan_drop(manager, seq);
    kv_plan b = kv_seq_plan_drop(manager, seq);
    kv_seq_close(manager, seq);
    kv_plan_apply(manager, a);
    assert_int_equal(counts_of(manager, 1).droppable, 2);
    kv_plan_apply(manager, b);
    assert_int_equal(counts_of(manager, 1).droppable, 0);
    valid(manager);
    kv_manager_destroy(manager);
}

/* What is in use is not dropped, what is gone is not dropped twice, and a page
 * that took a gone one's place is left alone. */
static void plan_touches_only_what_it_named(void **state)
{
    (void)state;
    struct kv_manager_options options = conversation_options();
    struct kv_manager *manager = create(&options);
    struct text one = text_of(1, 12);
    struct text other = text_of(101, 112);
    struct kv_seq *seq = prefill(manager, &one);
    kv_plan used = kv_seq_plan_drop(manager, seq);
    kv_plan_apply(manager, used);
    assert_int_equal(counts_of(manager, 1).locked, 2);
    kv_plan gone = kv_seq_plan_drop(manager, seq);
    kv_seq_close(manager, seq);
    kv_manager_clear(manager);
    publish(manager, &other);
    kv_plan_apply(manager, gone);
    assert_int_equal(counts_of(manager, 1).droppable, 2);
    valid(manager);
    kv_manager_destroy(manager);
}

/* No plan without all its pages, nor beyond the number there are. */
static void plan_may_be_none(void **state)
{
    (void)state;
    struct kv_manager_options options = conversation_options();
    options.plan_max = 1;
    struct kv_manager *manager = create(&options);
    struct text one = text_of(1, 12);
    struct kv_seq *seq = start(manager, &one);
    assert_int_equal(kv_seq_plan_drop(manager, seq), KV_PLAN_NONE);
    commit(manager, seq, &one, 12, true);
    kv_plan plan = kv_seq_plan_drop(manager, seq);
    assert_int_not_equal(plan, KV_PLAN_NONE);
    assert_int_equal(kv_seq_plan_drop(manager, seq), KV_PLAN_NONE);
    kv_plan_forget(manager, plan);
    assert_int_not_equal(kv_seq_plan_drop(manager, seq), KV_PLAN_NONE);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_turns_window_is_dropped),
        cmocka_unit_test(shared_window_goes_with_the_last_plan),
        cmocka_unit_test(plan_touches_only_what_it_named),
        cmocka_unit_test(plan_may_be_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
