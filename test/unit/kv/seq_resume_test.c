/* Suspend and resume: the gate, all or nothing, and pages that went down. */
#include "unit/kv/manager_world.h"

static struct kv_seq *grown(struct kv_manager *manager, int32_t first,
                            uint32_t blocks)
{
    struct text text = text_of(first, first);
    struct kv_seq *seq = open_seq(manager, &text);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(kv_seq_resize(manager, seq, blocks * BLOCK, 0, NULL), OK);
    return seq;
}

/* Of 100 pages 97 are used: let in. 98: not. One that was promised its pages is
 * always let in, and so is anyone when nobody is active. [engine T25] */
static void gate_is_closed_above_97_of_100(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = options.block_count_max = 100;
    struct kv_manager *manager = create(&options);
    struct text cached = text_of(1, 4);
    publish(manager, &cached);
    struct kv_seq *a = grown(manager, 1000, 97);
    assert_int_equal(counts_of(manager, 0).free, 2);
    assert_int_equal(counts_of(manager, 0).droppable, 1);
    struct text text = text_of(2000, 2000);
    struct kv_seq *b = open_seq(manager, &text);
    assert_int_equal(kv_seq_resume(manager, b), OK);
    kv_seq_suspend(manager, b);
    assert_int_equal(kv_seq_resize(manager, a, 98 * BLOCK, 0, NULL), OK);
    assert_int_equal(kv_seq_resume(manager, b), ERR_BUSY);
    struct kv_promise promise = {.token_total = 4};
    assert_int_equal(kv_seq_promise(manager, b, &promise), OK);
    assert_int_equal(kv_seq_resume(manager, b), OK);
    kv_seq_close(manager, b);
    kv_seq_suspend(manager, a);
    assert_int_equal(kv_seq_resume(manager, a), OK);
    kv_seq_close(manager, a);
    valid(manager);
    kv_manager_destroy(manager);
}

/* Three pages to bring up and one to copy into, three free: nothing happens.
 * [engine T26] */
static void what_does_not_fit_is_not_begun(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[0][0] = 8;
    options.slot_counts[1][0] = 3;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct text more = TEXT(1, 10, 50);
    publish(manager, &text);
    struct kv_seq *a = grown(manager, 1000, 8);
    assert_int_equal(do_orders(manager), 3);
    struct kv_seq *b = open_seq(manager, &more);
    assert_int_equal(b->reused, 10);
    assert_int_equal(kv_seq_resize(manager, a, 20, 0, NULL), OK);
    assert_int_equal(counts_of(manager, 0).free, 3);
    assert_int_equal(kv_seq_resume(manager, b), ERR_FULL);
    assert_int_equal(counts_of(manager, 0).free, 3);
    assert_int_equal(counts_of(manager, 0).locked, 5);
    assert_int_equal(do_orders(manager), 0);
    assert_int_equal(b->committed, 10);
    valid(manager);
    assert_int_equal(kv_seq_resize(manager, a, 16, 0, NULL), OK);
    assert_int_equal(kv_seq_resume(manager, b), OK);
    assert_int_equal(do_orders(manager), 4);
    assert_true(kv_seq_is_ready(manager, b));
    valid(manager);
    kv_seq_close(manager, a);
    kv_seq_close(manager, b);
    kv_manager_destroy(manager);
}

/* With nobody active nothing would ever change, so the tree gives up the block
 * instead of being copied from. */
static void lone_sequence_takes_the_tail_it_cannot_copy(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = options.block_count_max = 3;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct text more = TEXT(1, 10, 50, 51);
    publish(manager, &text);
    struct kv_seq *seq = open_seq(manager, &more);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(seq->history, 10);
    assert_int_equal(seq->committed, 8);
    assert_int_equal(do_orders(manager), 0);
    assert_int_equal(kv_seq_resize(manager, seq, 12, 10, NULL), OK);
    commit(manager, seq, &more, 12, true);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* Two of four blocks fill level 0; the second is suspended and the first grows by
 * two: blocks 3 and 2 go down, held, and come back when there is room.
 * [engine T31] */
static void suspended_blocks_go_down_deepest_first(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[0][0] = options.slot_counts[1][0] = 8;
    struct kv_manager *manager = create(&options);
    struct kv_seq *a = grown(manager, 1, 4);
    struct kv_seq *b = grown(manager, 100, 4);
    kv_page_id before[4];
    memcpy(before, b->tables[0], sizeof(before));
    kv_seq_suspend(manager, b);
    assert_int_equal(b->tables[0][0], KV_PAGE_NONE);
    assert_int_equal(kv_seq_resize(manager, a, 24, 0, NULL), OK);
    uint32_t count = 0;
    const struct kv_order *orders = kv_manager_orders(manager, &count);
    assert_int_equal(count, 2);
    assert_int_equal(orders[0].from_slot, before[3]);
    assert_int_equal(orders[1].from_slot, before[2]);
    assert_int_equal(do_orders(manager), 2);
    valid(manager);
    kv_seq_close(manager, a);
    assert_int_equal(kv_seq_resume(manager, b), OK);
    assert_int_equal(do_orders(manager), 2);
    assert_int_equal(b->tables[0][0], before[0]);
    assert_int_equal(b->tables[0][1], before[1]);
    assert_true(kv_seq_is_ready(manager, b));
    kv_seq_close(manager, b);
    valid(manager);
    assert_int_equal(used_of(manager), 0);
    kv_manager_destroy(manager);
}

/* The same without a level below: held pages cannot go, so growth fails until the
 * second gives up what it has. [engine T32] */
static void without_lower_level_held_pages_stay(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 8;
    struct kv_manager *manager = create(&options);
    struct kv_seq *a = grown(manager, 1, 4);
    struct kv_seq *b = grown(manager, 100, 4);
    kv_seq_suspend(manager, b);
    assert_int_equal(kv_seq_resize(manager, a, 24, 0, NULL), ERR_FULL);
    assert_int_equal(a->capacity, 16);
    assert_int_equal(a->block_count, 4);
    kv_seq_close(manager, b);
    assert_int_equal(kv_seq_resize(manager, a, 24, 0, NULL), OK);
    kv_seq_close(manager, a);
    valid(manager);
    kv_manager_destroy(manager);
}

/* A copy that fails loses the page and nobody else's; its user is told. */
static void failed_copy_loses_the_sequence(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct text more = TEXT(1, 10, 50);
    publish(manager, &text);
    struct kv_seq *seq = open_seq(manager, &more);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    uint32_t count = 0;
    kv_ticket ticket = kv_manager_orders(manager, &count)->ticket;
    kv_manager_orders_taken(manager, 1);
    kv_manager_order_done(manager, ticket, false);
    assert_false(kv_seq_is_ready(manager, seq));
    assert_true(kv_seq_is_lost(manager, seq));
    kv_seq_suspend(manager, seq);
    assert_int_equal(kv_seq_resume(manager, seq), ERR_CORRUPT);
    kv_seq_close(manager, seq);
    valid(manager);
    assert_int_equal(reuse_of(manager, &more), 10);
    kv_manager_destroy(manager);
}

/* Pages wait on level 1 and are brought up before anyone is resumed. */
static void prefetch_brings_pages_up(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[0][0] = 8;
    options.slot_counts[1][0] = 8;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    struct text more = text_of(1, 13);
    publish(manager, &text);
    struct kv_seq *a = grown(manager, 1000, 8);
    do_orders(manager);
    struct kv_seq *b = open_seq(manager, &more);
    kv_seq_close(manager, a);
    kv_seq_prefetch(manager, b, 0);
    assert_int_equal(do_orders(manager), 3);
    assert_int_equal(counts_of(manager, 0).held, 3);
    assert_int_equal(b->status, KV_SEQ_SUSPENDED);
    assert_int_equal(kv_seq_resume(manager, b), OK);
    assert_int_equal(do_orders(manager), 0);
    kv_seq_close(manager, b);
    valid(manager);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_is_closed_above_97_of_100),
        cmocka_unit_test(what_does_not_fit_is_not_begun),
        cmocka_unit_test(lone_sequence_takes_the_tail_it_cannot_copy),
        cmocka_unit_test(suspended_blocks_go_down_deepest_first),
        cmocka_unit_test(without_lower_level_held_pages_stay),
        cmocka_unit_test(failed_copy_loses_the_sequence),
        cmocka_unit_test(prefetch_brings_pages_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
