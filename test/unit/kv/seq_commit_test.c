/* What of a sequence becomes findable, and under which node. */
#include "unit/kv/manager_world.h"

static struct kv_manager_options windowed_options(void)
{
    struct kv_manager_options options = small_options();
    options.life_count = options.group_count = 2;
    options.lives[1].window = 8;
    options.group_of[1] = 1;
    options.slot_counts[0][1] = 16;
    return options;
}

static uint32_t peek(struct kv_manager *manager, const struct kv_event **events)
{
    kv_manager_tick(manager, 0);
    return kv_events_peek(kv_manager_events(manager), 64, events);
}

static void forget_events(struct kv_manager *manager)
{
    const struct kv_event *events = NULL;
    kv_events_taken(kv_manager_events(manager), peek(manager, &events));
}

static struct kv_manager_stats stats_of(const struct kv_manager *manager)
{
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    return stats;
}

/* One stored event of two chained blocks; the tail is a node and is not told.
 * [engine T14] [engine T36] [engine T38] */
static void full_blocks_and_tail_are_published(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct kv_seq *seq = prefill(manager, &text);
    assert_int_equal(seq->committed, 10);
    const struct kv_event *events = NULL;
    assert_int_equal(peek(manager, &events), 3);
    assert_int_equal(events[0].kind, KV_EVENT_CREATED);
    assert_int_equal(events[1].kind, KV_EVENT_STORED);
    assert_false(events[1].has_parent);
    assert_int_equal(events[2].kind, KV_EVENT_STORED);
    assert_true(events[2].is_continued);
    assert_int_equal(events[2].ordinal, 1);
    assert_int_equal(stats_of(manager).nodes, 3);
    kv_seq_close(manager, seq);
    valid(manager);
    kv_manager_destroy(manager);
}

/* Every prompt of the table, the first as a whole life. [engine T15] */
static void lookups_find_the_longest_usable_prefix(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    publish(manager, &text);
    struct text a = TEXT(1, 8, 20, 21);
    struct text b = TEXT(1, 9, 30, 31);
    struct text c = text_of(1, 12);
    struct text d = TEXT(1, 3, 99, 5);
    struct text e = text_of(1, 1);
    struct text f = text_with(1, 10, NULL, 5);
    assert_int_equal(reuse_of(manager, &a), 8);
    assert_int_equal(reuse_of(manager, &b), 9);
    assert_int_equal(reuse_of(manager, &c), 10);
    assert_int_equal(reuse_of(manager, &d), 3);
    assert_int_equal(reuse_of(manager, &e), 0);
    assert_int_equal(reuse_of(manager, &f), 0);
    /* The tail becomes a page of its own, the tree's stays as it is. */
    struct kv_seq *seq = open_seq(manager, &b);
    assert_int_equal(seq->reused, 9);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(seq->committed, 8);
    assert_int_equal(seq->history, 9);
    assert_false(kv_seq_is_ready(manager, seq));
    assert_int_equal(do_orders(manager), 1);
    assert_true(kv_seq_is_ready(manager, seq));
    assert_int_equal(used_of(manager), 4);
    valid(manager);
    kv_seq_close(manager, seq);
    assert_int_equal(used_of(manager), 3);
    assert_int_equal(reuse_of(manager, &c), 10);
    kv_manager_destroy(manager);
}

/* The tree knows the beginning of the block that a sequence writes, and somebody
 * finds it: until that is copied the sequence may not write, although it was
 * ready before and nothing of it has changed. [engine I6] */
static void who_is_copied_from_waits_before_it_writes(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text ten = text_of(1, 10);
    struct text nine = TEXT(1, 9, 30, 31);
    struct kv_seq *writer = open_seq(manager, &ten);
    assert_int_equal(kv_seq_resume(manager, writer), OK);
    assert_int_equal(kv_seq_resize(manager, writer, 10, 0, NULL), OK);
    kv_seq_commit_to(manager, writer, 10, ten.keys, ten.tokens, true,
                     &ten.tail);
    assert_int_equal(kv_seq_resize(manager, writer, 11, 10, NULL), OK);
    assert_true(kv_seq_is_ready(manager, writer));
    struct kv_seq *reader = open_seq(manager, &nine);
    assert_int_equal(kv_seq_resume(manager, reader), OK);
    assert_int_equal(reader->reused, 9);
    assert_false(kv_seq_is_ready(manager, reader));
    assert_false(kv_seq_is_ready(manager, writer));
    kv_seq_close(manager, reader);
    assert_false(kv_seq_is_ready(manager, writer));
    assert_int_equal(do_orders(manager), 1);
    assert_true(kv_seq_is_ready(manager, writer));
    kv_seq_close(manager, writer);
    valid(manager);
    kv_manager_destroy(manager);
}

/* Commits 1..12 over 1..10, then 1..9: one block is told, none taken back, and the
 * last changes nothing. [engine T16] */
static void longer_block_takes_the_place_of_a_partial_one(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text ten = text_of(1, 10);
    struct text twelve = text_of(1, 12);
    struct text nine = text_of(1, 9);
    publish(manager, &ten);
    forget_events(manager);
    publish(manager, &twelve);
    const struct kv_event *events = NULL;
    assert_int_equal(peek(manager, &events), 1);
    assert_int_equal(events[0].kind, KV_EVENT_STORED);
    assert_int_equal(events[0].ordinal, 2);
    assert_int_equal(stats_of(manager).nodes, 3);
    assert_int_equal(used_of(manager), 3);
    uint64_t epoch = kv_manager_epoch(manager);
    struct kv_prompt prompt = prompt_of(&nine);
    struct kv_seq *seq = NULL;
    assert_int_equal(kv_seq_open(manager, &prompt, 8, &seq), OK);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(kv_seq_resize(manager, seq, 9, 8, NULL), OK);
    commit(manager, seq, &nine, 9, true);
    assert_int_equal(seq->committed, 8);
    assert_int_equal(kv_manager_epoch(manager), epoch);
    assert_int_equal(stats_of(manager).commits_stopped, 1);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* The one who extends received a long prompt and has no windowed page there: the
 * old one stays, good for two tokens. [engine T17] */
static void extended_block_keeps_the_windowed_page_it_had(void **state)
{
    (void)state;
    struct kv_manager_options options = windowed_options();
    struct kv_manager *manager = create(&options);
    struct text ten = text_of(1, 10);
    struct text long_text = text_of(1, 24);
    publish(manager, &ten);
    struct kv_prompt prompt = prompt_of(&long_text);
    struct kv_seq *seq = NULL;
    assert_int_equal(kv_seq_open(manager, &prompt, 0, &seq), OK);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(kv_seq_resize(manager, seq, 24, 24, NULL), OK);
    assert_int_equal(seq->tables[1][2], KV_PAGE_NONE);
    commit(manager, seq, &long_text, 24, true);
    struct text twelve = TEXT(1, 12, 77);
    struct text same = TEXT(1, 10, 77);
    assert_int_equal(reuse_of(manager, &twelve), 10);
    assert_int_equal(reuse_of(manager, &same), 10);
    struct text all = TEXT(1, 24, 77);
    assert_int_equal(reuse_of(manager, &all), 24);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* Two compute the same prompt; the second's pages come free and its table becomes
 * the first's. A partial block is not touched. [engine T22] */
static void second_to_commit_uses_the_pages_of_the_first(void **state)
{
    (void)state;
    struct kv_manager_options options = windowed_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct kv_seq *a = start(manager, &text);
    struct kv_seq *b = start(manager, &text);
    assert_int_equal(used_of(manager), 6);
    commit(manager, a, &text, 8, false);
    commit(manager, b, &text, 8, false);
    assert_int_equal(counts_of(manager, 0).free, 16 - 4);
    assert_int_equal(counts_of(manager, 1).free, 16 - 4);
    for (uint32_t life = 0; life < 2; life++) {
        assert_int_equal(a->tables[life][0], b->tables[life][0]);
        assert_int_equal(a->tables[life][1], b->tables[life][1]);
        assert_int_not_equal(a->tables[life][2], b->tables[life][2]);
    }
    commit(manager, a, &text, 10, true);
    commit(manager, b, &text, 10, true);
    assert_int_equal(a->committed, 10);
    assert_int_equal(b->committed, 8);
    assert_int_not_equal(a->tables[0][2], b->tables[0][2]);
    kv_seq_close(manager, a);
    kv_seq_close(manager, b);
    valid(manager);
    kv_manager_destroy(manager);
}

/* A page that a transfer reads stays in the table; commits of that sequence end
 * there. */
static void leased_page_is_not_exchanged(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 8);
    struct kv_seq *a = start(manager, &text);
    struct kv_seq *b = start(manager, &text);
    kv_ref refs[2];
    kv_seq_lease(manager, b, 0, 1, 1, refs);
    kv_page_id page = b->tables[0][1];
    commit(manager, a, &text, 8, true);
    commit(manager, b, &text, 8, true);
    assert_int_equal(b->committed, 4);
    assert_int_equal(b->tables[0][1], page);
    kv_seq_close(manager, b);
    valid(manager);
    assert_int_equal(used_of(manager), 3);
    kv_manager_unlease(manager, refs, 1);
    assert_int_equal(used_of(manager), 2);
    kv_seq_close(manager, a);
    kv_manager_destroy(manager);
}

/* At 10 tokens the tree gets a copy of the live page, one slot a life cycle; at the
 * end it gets the page itself. [engine T23] */
static void min_snapshot_copies_the_live_tail(void **state)
{
    (void)state;
    struct kv_manager_options options = windowed_options();
    options.commit = KV_COMMIT_PER_REQUEST;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct kv_seq *seq = start(manager, &text);
    kv_page_id live = seq->tables[0][2];
    commit(manager, seq, &text, 4, false);
    assert_int_equal(seq->committed, 0);
    commit(manager, seq, &text, 10, false);
    assert_int_equal(seq->committed, 10);
    assert_int_equal(do_orders(manager), 2);
    assert_int_equal(counts_of(manager, 0).free, 16 - 4);
    assert_int_equal(counts_of(manager, 1).free, 16 - 4);
    assert_int_equal(seq->tables[0][2], live);
    assert_int_equal(stats_of(manager).nodes, 3);
    struct text more = TEXT(1, 10, 50, 51);
    assert_int_equal(reuse_of(manager, &more), 10);
    kv_seq_close(manager, seq);
    kv_manager_clear(manager);
    struct kv_seq *last = prefill(manager, &text);
    assert_int_equal(last->committed, 10);
    assert_int_equal(counts_of(manager, 0).free, 16 - 3);
    assert_int_equal(reuse_of(manager, &more), 10);
    kv_seq_close(manager, last);
    valid(manager);
    kv_manager_destroy(manager);
}

/* History behind what is committed in one call: with one call for both there is
 * no wrong order. [engine T24] */
static void history_and_commit_move_together(void **state)
{
    (void)state;
    struct kv_manager_options options = windowed_options();
    options.commit = KV_COMMIT_PER_REQUEST;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 8);
    struct kv_seq *seq = start(manager, &text);
    assert_int_equal(kv_seq_resize(manager, seq, 8, 4, NULL), OK);
    commit(manager, seq, &text, 8, true);
    assert_int_equal(seq->committed, 8);
    assert_int_equal(seq->history, 8);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* A prompt of 24 leaves its full-attention pages and one window. */
static void min_snapshot_keeps_only_the_last_window(void **state)
{
    (void)state;
    struct kv_manager_options options = windowed_options();
    options.commit = KV_COMMIT_PER_REQUEST;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 24);
    struct kv_seq *seq = prefill(manager, &text);
    assert_int_equal(counts_of(manager, 0).free, 16 - 6);
    assert_int_equal(counts_of(manager, 1).free, 16 - 2);
    struct text more = TEXT(1, 24, 50);
    struct text part = TEXT(1, 12, 50);
    assert_int_equal(reuse_of(manager, &more), 24);
    assert_int_equal(reuse_of(manager, &part), 0);
    kv_seq_close(manager, seq);
    valid(manager);
    kv_manager_destroy(manager);
}

/* A stale page waits, held, for the commit that publishes it. */
static void stale_page_is_kept_for_its_commit(void **state)
{
    (void)state;
    struct kv_manager_options options = windowed_options();
    options.lives[1].window = 1;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    struct kv_seq *seq = start(manager, &text);
    assert_int_equal(kv_seq_resize(manager, seq, 12, 12, NULL), OK);
    assert_int_equal(seq->tables[1][0], KV_PAGE_NONE);
    assert_int_equal(counts_of(manager, 1).held, 3);
    valid(manager);
    commit(manager, seq, &text, 12, true);
    assert_int_equal(counts_of(manager, 1).droppable, 3);
    struct text part = TEXT(1, 5, 50);
    assert_int_equal(reuse_of(manager, &part), 5);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* The copy of a tail takes a slot, and all that can go for it are pages of the
 * chain that is being committed, which have left the window: they go first, and
 * the tail is hung below what is there then. [engine I11] */
static void copy_of_the_tail_evicts_before_it_looks(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.commit = KV_COMMIT_PER_REQUEST;
    options.lives[0].window = 8;
    options.block_count_max = 6;
    options.step_max = 4;
    options.slot_counts[0][0] = 4;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 22);
    struct text part = text_of(1, 10);
    struct text more = text_of(1, 23);
    struct kv_seq *seq = open_seq(manager, &text);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    uint64_t dropped = 0;
    for (uint32_t end = 2; end <= 22; end += 4) {
        struct text point = text_of(1, (int32_t)end);
        uint64_t before = stats_of(manager).totals.dropped;
        assert_int_equal(kv_seq_resize(manager, seq, end, seq->history, NULL),
                         OK);
        dropped += stats_of(manager).totals.dropped - before;
        commit(manager, seq, &point, end, false);
        assert_int_equal(seq->committed, end);
        valid(manager);
        do_orders(manager);
    }
    assert_true(stats_of(manager).totals.dropped > dropped);
    assert_int_equal(reuse_of(manager, &more), 22);
    assert_int_equal(reuse_of(manager, &part), 0);
    kv_seq_close(manager, seq);
    valid(manager);
    kv_manager_destroy(manager);
}

/* Without reuse nothing is found or published. */
static void reuse_can_be_switched_off(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.enable_reuse = false;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    publish(manager, &text);
    assert_int_equal(reuse_of(manager, &text), 0);
    assert_int_equal(used_of(manager), 0);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_blocks_and_tail_are_published),
        cmocka_unit_test(lookups_find_the_longest_usable_prefix),
        cmocka_unit_test(who_is_copied_from_waits_before_it_writes),
        cmocka_unit_test(longer_block_takes_the_place_of_a_partial_one),
        cmocka_unit_test(extended_block_keeps_the_windowed_page_it_had),
        cmocka_unit_test(second_to_commit_uses_the_pages_of_the_first),
        cmocka_unit_test(leased_page_is_not_exchanged),
        cmocka_unit_test(min_snapshot_copies_the_live_tail),
        cmocka_unit_test(history_and_commit_move_together),
        cmocka_unit_test(min_snapshot_keeps_only_the_last_window),
        cmocka_unit_test(stale_page_is_kept_for_its_commit),
        cmocka_unit_test(copy_of_the_tail_evicts_before_it_looks),
        cmocka_unit_test(reuse_can_be_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
