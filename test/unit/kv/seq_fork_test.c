/* Forks and leases: pages of more than one user. */
#include "unit/kv/manager_world.h"

static struct kv_seq *prefilled(struct kv_manager *manager,
                                const struct text *text,
                                const struct kv_promise *promise)
{
    struct kv_seq *seq = open_seq(manager, text);
    assert_int_equal(kv_seq_promise(manager, seq, promise), OK);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    assert_int_equal(kv_seq_resize(manager, seq, text->count, 0, NULL), OK);
    commit(manager, seq, text, text->count, true);
    return seq;
}

/* Full blocks are the same pages, the tail is a copy; each goes on alone. */
static void fork_shares_full_blocks_and_copies_the_tail(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct kv_seq *parent = prefill(manager, &text);
    struct kv_seq *child = NULL;
    assert_int_equal(kv_seq_fork(manager, parent, &child), OK);
    assert_int_equal(do_orders(manager), 1);
    assert_int_equal(child->status, KV_SEQ_ACTIVE);
    assert_int_equal(child->history, 10);
    assert_int_equal(child->committed, 8);
    assert_int_equal(child->tables[0][1], parent->tables[0][1]);
    assert_int_not_equal(child->tables[0][2], parent->tables[0][2]);
    struct text other = TEXT(1, 10, 50, 51);
    assert_int_equal(kv_seq_resize(manager, child, 12, 10, NULL), OK);
    commit(manager, child, &other, 12, false);
    assert_int_equal(child->committed, 12);
    kv_seq_close(manager, parent);
    valid(manager);
    kv_seq_close(manager, child);
    valid(manager);
    kv_manager_destroy(manager);
}

/* The pool has room for just what three forks promised; all get to their end. */
static void forks_take_what_was_set_aside_for_them(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 2 + 4 * 3;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct kv_promise promise = {
        .token_total = 20, .fork_at = 10, .fork_count = 3};
    struct kv_seq *seqs[4];
    seqs[0] = prefilled(manager, &text, &promise);
    assert_int_equal(kv_manager_room(manager, 0), 0);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(kv_seq_fork(manager, seqs[0], &seqs[i]), OK);
        do_orders(manager);
        valid(manager);
    }
    for (int i = 3; i >= 0; i--) {
        assert_int_equal(kv_seq_resize(manager, seqs[i], 20, 10, NULL), OK);
        valid(manager);
    }
    struct kv_seq *fifth = NULL;
    assert_int_equal(kv_seq_fork(manager, seqs[0], &fifth), ERR_FULL);
    for (int i = 0; i < 4; i++) {
        kv_seq_close(manager, seqs[i]);
    }
    valid(manager);
    kv_manager_destroy(manager);
}

/* The parent has grown past what it was promised, and others have all that is left
 * over: the copy of the last block was promised with the fork. */
static void fork_past_the_promised_end_has_its_copy(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct text other = text_of(101, 101);
    struct kv_promise promise = {
        .token_total = 8, .fork_at = 10, .fork_count = 1};
    struct kv_seq *parent = prefilled(manager, &text, &promise);
    uint32_t room = kv_manager_room(manager, 0);
    struct kv_seq *others[2];
    for (int i = 0; i < 2; i++) {
        uint32_t blocks = i == 0 ? room / 2 : room - room / 2;
        others[i] = open_seq(manager, &other);
        assert_int_equal(kv_seq_resume(manager, others[i]), OK);
        assert_int_equal(
            kv_seq_resize(manager, others[i], blocks * BLOCK, 0, NULL), OK);
    }
    assert_int_equal(kv_manager_room(manager, 0), 0);
    struct kv_seq *child = NULL;
    assert_int_equal(kv_seq_fork(manager, parent, &child), OK);
    valid(manager);
    kv_seq_close(manager, child);
    kv_seq_close(manager, parent);
    kv_seq_close(manager, others[0]);
    kv_seq_close(manager, others[1]);
    kv_manager_destroy(manager);
}

/* A window that is shared is paid for by each who shares it: both may move on. */
static void shared_window_is_promised_to_both(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.lives[0].window = 8;
    options.step_max = 4;
    options.slot_counts[0][0] = 10;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    struct kv_promise promise = {
        .token_total = 32, .fork_at = 12, .fork_count = 1};
    struct kv_seq *a = open_seq(manager, &text);
    assert_int_equal(kv_seq_promise(manager, a, &promise), OK);
    assert_int_equal(kv_seq_resume(manager, a), OK);
    for (uint32_t at = 0; at < 12; at += 4) {
        assert_int_equal(kv_seq_resize(manager, a, at + 4, at, NULL), OK);
        commit(manager, a, &text, at + 4, false);
    }
    /* Others have all that is left over. */
    struct text other = text_of(101, 101);
    struct kv_seq *c = open_seq(manager, &other);
    assert_int_equal(kv_seq_resume(manager, c), OK);
    uint32_t room = kv_manager_room(manager, 0);
    assert_int_equal(kv_seq_resize(manager, c, room * BLOCK, 0, NULL), OK);
    assert_int_equal(kv_manager_room(manager, 0), 0);
    struct kv_seq *b = NULL;
    assert_int_equal(kv_seq_fork(manager, a, &b), OK);
    valid(manager);
    for (uint32_t at = 12; at < 32; at += 4) {
        assert_int_equal(kv_seq_resize(manager, a, at + 4, at, NULL), OK);
        assert_int_equal(kv_seq_resize(manager, b, at + 4, at, NULL), OK);
        valid(manager);
    }
    kv_seq_close(manager, a);
    kv_seq_close(manager, b);
    kv_seq_close(manager, c);
    kv_manager_destroy(manager);
}

/* What the tree does not know when it is shared, it never learns. */
static void uncommitted_blocks_stay_private_after_a_fork(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 8);
    struct kv_seq *parent = start(manager, &text);
    assert_int_equal(kv_seq_resize(manager, parent, 8, 8, NULL), OK);
    struct kv_seq *child = NULL;
    assert_int_equal(kv_seq_fork(manager, parent, &child), OK);
    commit(manager, parent, &text, 8, true);
    commit(manager, child, &text, 8, true);
    assert_int_equal(parent->committed, 0);
    assert_int_equal(child->committed, 0);
    kv_seq_close(manager, parent);
    kv_seq_close(manager, child);
    assert_int_equal(used_of(manager), 0);
    kv_manager_destroy(manager);
}

/* Suspended, closed or reverted: a leased page stays locked in its slot. */
static void lease_outlives_its_sequence(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[0][0] = options.slot_counts[1][0] = 8;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    struct kv_seq *seq = start(manager, &text);
    kv_ref refs[3];
    kv_seq_lease(manager, seq, 0, 0, 3, refs);
    kv_seq_suspend(manager, seq);
    assert_int_equal(counts_of(manager, 0).locked, 3);
    struct text other = text_of(101, 120);
    struct kv_seq *b = start(manager, &other);
    assert_int_equal(do_orders(manager), 0);
    kv_seq_close(manager, seq);
    valid(manager);
    assert_int_equal(counts_of(manager, 0).free, 0);
    kv_manager_unlease(manager, refs, 3);
    assert_int_equal(counts_of(manager, 0).free, 3);
    valid(manager);
    kv_seq_close(manager, b);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_shares_full_blocks_and_copies_the_tail),
        cmocka_unit_test(forks_take_what_was_set_aside_for_them),
        cmocka_unit_test(fork_past_the_promised_end_has_its_copy),
        cmocka_unit_test(shared_window_is_promised_to_both),
        cmocka_unit_test(uncommitted_blocks_stay_private_after_a_fork),
        cmocka_unit_test(lease_outlives_its_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
