/* What befalls pages, told to readers of events. */
#include "unit/kv/manager_world.h"

static struct kv_manager_options two_levels(void)
{
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[0][0] = options.slot_counts[1][0] = 8;
    return options;
}

static uint32_t peek(struct kv_manager *manager, const struct kv_event **events)
{
    kv_manager_tick(manager, 0);
    return kv_events_peek(kv_manager_events(manager), 256, events);
}

static void forget_events(struct kv_manager *manager)
{
    const struct kv_event *events = NULL;
    kv_events_taken(kv_manager_events(manager), peek(manager, &events));
}

/* The first block's page is lost on its way down: the five that stand on it are
 * taken back, children first. [engine T34] */
static void lost_root_takes_its_subtree(void **state)
{
    (void)state;
    struct kv_manager_options options = two_levels();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 20);
    struct text other = text_of(101, 132);
    publish(manager, &text);
    struct kv_seq *seq = start(manager, &other);
    assert_int_equal(do_orders(manager), 5);
    kv_seq_close(manager, seq);
    struct text more = text_of(1, 21);
    seq = open_seq(manager, &more);
    assert_int_equal(seq->reused, 20);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    uint32_t count = 0;
    const struct kv_order *orders = kv_manager_orders(manager, &count);
    assert_int_equal(count, 5);
    kv_ticket tickets[5];
    for (uint32_t i = 0; i < 5; i++) {
        tickets[i] = orders[i].ticket;
    }
    kv_manager_orders_taken(manager, 5);
    forget_events(manager);
    kv_manager_order_done(manager, tickets[0], false);
    for (uint32_t i = 1; i < 5; i++) {
        kv_manager_order_done(manager, tickets[i], true);
    }
    assert_true(kv_seq_is_lost(manager, seq));
    const struct kv_event *events = NULL;
    assert_int_equal(peek(manager, &events), 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(events[i].kind, KV_EVENT_REMOVED);
        assert_true(prefix_key_equals(&events[i].key, &text.keys[4 - i]));
    }
    kv_seq_close(manager, seq);
    valid(manager);
    assert_int_equal(reuse_of(manager, &more), 0);
    kv_manager_destroy(manager);
}

/* The windowed pool is small, so old windowed pages go: told for that life cycle
 * alone, the nodes stay, and behind the window all is found. [engine T35] */
static void windowed_page_goes_alone(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.life_count = options.group_count = 2;
    options.lives[1].window = 8;
    options.group_of[1] = 1;
    options.slot_counts[0][1] = 6;
    options.step_max = 8;
    options.block_count_max = 16;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 24);
    struct kv_seq *seq = open_seq(manager, &text);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    for (uint32_t at = 0; at < 24; at += 8) {
        assert_int_equal(kv_seq_resize(manager, seq, at + 8, at, NULL), OK);
        commit(manager, seq, &text, at + 8, at == 16);
    }
    kv_seq_close(manager, seq);
    forget_events(manager);
    struct text other = text_of(101, 108);
    seq = start(manager, &other);
    const struct kv_event *events = NULL;
    uint32_t count = peek(manager, &events);
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(events[i].kind, KV_EVENT_REMOVED);
        assert_int_equal(events[i].life, 1);
    }
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    assert_int_equal(stats.nodes, 6);
    struct text more = text_of(1, 25);
    assert_int_equal(reuse_of(manager, &more), 24);
    kv_seq_close(manager, seq);
    valid(manager);
    kv_manager_destroy(manager);
}

/* Six events in a log of four: a gap of two and the last four. [engine T37] */
static void full_log_says_what_it_lost(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.event_max = 4;
    struct kv_manager *manager = create(&options);
    kv_manager_tick(manager, 0);
    for (int32_t i = 0; i < 5; i++) {
        struct text text = text_of(10 * i + 1, 10 * i + 4);
        publish(manager, &text);
    }
    const struct kv_event *events = NULL;
    uint32_t count = peek(manager, &events);
    assert_int_equal(count, 5);
    assert_int_equal(events[0].kind, KV_EVENT_GAP);
    assert_int_equal(events[0].lost, 2);
    assert_int_equal(events[4].kind, KV_EVENT_STORED);
    kv_manager_destroy(manager);
}

/* Down and up again is told, a change of level a page. */
static void moves_are_told(void **state)
{
    (void)state;
    struct kv_manager_options options = two_levels();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct text other = text_of(101, 132);
    publish(manager, &text);
    forget_events(manager);
    struct kv_seq *seq = start(manager, &other);
    const struct kv_event *events = NULL;
    assert_int_equal(peek(manager, &events), 1);
    assert_int_equal(events[0].kind, KV_EVENT_UPDATED);
    assert_int_equal(events[0].level_before, 0);
    assert_int_equal(events[0].level, 1);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

static void count_event(void *context, const struct kv_event *event)
{
    assert_int_equal(event->kind, KV_EVENT_STORED);
    *(uint32_t *)context += 1;
}

/* What is listed anew is what was told and not taken back. */
static void resync_and_clear_agree(void **state)
{
    (void)state;
    struct kv_manager_options options = two_levels();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct text other = text_of(101, 112);
    publish(manager, &text);
    struct kv_seq *seq = prefill(manager, &other);
    uint32_t count = 0;
    kv_manager_resync(manager, count_event, &count);
    assert_int_equal(count, 5);
    kv_manager_clear(manager);
    valid(manager);
    count = 0;
    kv_manager_resync(manager, count_event, &count);
    assert_int_equal(count, 3);
    kv_seq_close(manager, seq);
    kv_manager_clear(manager);
    assert_int_equal(used_of(manager), 0);
    count = 0;
    kv_manager_resync(manager, count_event, &count);
    assert_int_equal(count, 0);
    kv_manager_destroy(manager);
}

/* On a middle level what nobody uses stands behind more held pages than a batch
 * has: it goes all the same. */
static void clear_looks_behind_held_pages(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.level_count = 3;
    options.slot_counts[0][0] = 8;
    options.slot_counts[1][0] = 40;
    options.slot_counts[2][0] = 8;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 32);
    struct kv_seq *seqs[3];
    for (int i = 0; i < 3; i++) {
        struct text other = text_of(100 * i + 101, 100 * i + 132);
        if (i == 2) {
            publish(manager, &text);
        }
        seqs[i] = start(manager, &other);
        kv_seq_suspend(manager, seqs[i]);
        do_orders(manager);
    }
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    assert_int_equal(stats.counts[1][0].held, 16);
    assert_int_equal(stats.counts[1][0].droppable, 8);
    kv_manager_clear(manager);
    valid(manager);
    kv_manager_stats(manager, &stats);
    assert_int_equal(stats.counts[1][0].droppable, 0);
    for (int i = 0; i < 3; i++) {
        kv_seq_close(manager, seqs[i]);
    }
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_root_takes_its_subtree),
        cmocka_unit_test(windowed_page_goes_alone),
        cmocka_unit_test(full_log_says_what_it_lost),
        cmocka_unit_test(moves_are_told),
        cmocka_unit_test(resync_and_clear_agree),
        cmocka_unit_test(clear_looks_behind_held_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
