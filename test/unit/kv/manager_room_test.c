/* What backs a promise: pages that lie low count, and droppable ones are dropped
 * when they cannot be moved. */
#include "unit/kv/manager_world.h"

static struct kv_manager_options two_levels(void)
{
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[0][0] = options.slot_counts[1][0] = 8;
    return options;
}

/* Three of its pages lie on level 1, so it needs three more than it will grow by;
 * others may not have them, and it comes back whatever they do. */
static void pages_that_lie_low_are_counted(void **state)
{
    (void)state;
    struct kv_manager_options options = two_levels();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    struct text more = text_of(1, 20);
    struct text other = text_of(101, 132);
    publish(manager, &text);
    struct kv_seq *seq = start(manager, &other);
    do_orders(manager);
    kv_seq_close(manager, seq);
    assert_int_equal(kv_manager_room(manager, 0), 8);
    seq = open_seq(manager, &more);
    assert_int_equal(seq->reused, 12);
    struct kv_promise promise = {.token_total = 20};
    assert_int_equal(kv_seq_promise(manager, seq, &promise), OK);
    assert_int_equal(seq->promised[0], 2);
    assert_int_equal(kv_manager_room(manager, 0), 3);
    struct text third = text_of(201, 212);
    struct kv_seq *b = start(manager, &third);
    assert_int_equal(kv_seq_resize(manager, b, 16, 0, NULL), ERR_FULL);
    valid(manager);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(do_orders(manager), 3);
    assert_int_equal(kv_seq_resize(manager, seq, 20, 12, NULL), OK);
    valid(manager);
    kv_seq_close(manager, b);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* One copy may be under way, two pages would have to be moved: they are dropped
 * rather than the growth refused. */
static void what_cannot_be_moved_is_dropped(void **state)
{
    (void)state;
    struct kv_manager_options options = two_levels();
    options.order_max = 1;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 8);
    struct text other = text_of(101, 104);
    publish(manager, &text);
    struct kv_seq *seq = open_seq(manager, &other);
    struct kv_promise promise = {.token_total = 32};
    assert_int_equal(kv_seq_promise(manager, seq, &promise), OK);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(kv_seq_resize(manager, seq, 32, 0, NULL), OK);
    valid(manager);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_that_lie_low_are_counted),
        cmocka_unit_test(what_cannot_be_moved_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
