/* What is promised stays to be had, whoever else wants pages. */
#include "unit/kv/manager_world.h"

static struct kv_seq *promised(struct kv_manager *manager,
                               const struct text *text, uint32_t token_total)
{
    struct kv_seq *seq = open_seq(manager, text);
    struct kv_promise promise = {.token_total = token_total};
    assert_int_equal(kv_seq_promise(manager, seq, &promise), OK);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    do_orders(manager);
    return seq;
}

/* 16 pages, 8 promised of which none is taken: others get 8 and no more. */
static void others_take_only_what_is_left(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text a_text = text_of(1, 4);
    struct text b_text = text_of(101, 104);
    struct kv_seq *a = promised(manager, &a_text, 32);
    assert_int_equal(kv_manager_room(manager, 0), 8);
    struct kv_seq *b = start(manager, &b_text);
    struct kv_seq *c = start(manager, &b_text);
    assert_int_equal(kv_seq_resize(manager, b, 28, 0, NULL), OK);
    assert_int_equal(kv_seq_resize(manager, c, 8, 0, NULL), ERR_FULL);
    assert_int_equal(kv_manager_room(manager, 0), 0);
    for (uint32_t at = 4; at <= 32; at += 4) {
        assert_int_equal(kv_seq_resize(manager, a, at, 0, NULL), OK);
        valid(manager);
    }
    assert_int_equal(a->promised[0], 0);
    kv_seq_close(manager, c);
    kv_seq_close(manager, b);
    kv_seq_close(manager, a);
    kv_manager_destroy(manager);
}

/* Claims count: a cached block that is held is no room any more. */
static void claim_that_would_break_a_promise_is_refused(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 10;
    struct kv_manager *manager = create(&options);
    struct text cached = text_of(1, 12);
    struct text more = text_of(1, 13);
    publish(manager, &cached);
    struct text a_text = text_of(101, 104);
    struct kv_seq *a = promised(manager, &a_text, 32);
    assert_int_equal(kv_manager_room(manager, 0), 2);
    struct kv_prompt prompt = prompt_of(&more);
    struct kv_seq *b = NULL;
    assert_int_equal(kv_seq_open(manager, &prompt, 13, &b), ERR_FULL);
    assert_int_equal(kv_seq_open(manager, &prompt, 8, &b), OK);
    valid(manager);
    assert_int_equal(kv_seq_resize(manager, a, 32, 0, NULL), OK);
    kv_seq_close(manager, b);
    kv_seq_close(manager, a);
    kv_manager_destroy(manager);
}

/* A windowed life cycle asks for sinks, window and step, whatever the length, and
 * gets back what leaves the window. */
static void window_is_promised_once(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.lives[0].window = 8;
    options.step_max = 4;
    options.block_count_max = 32;
    struct kv_manager *manager = create(&options);
    struct kv_promise promise = {.token_total = 128};
    uint32_t need[KV_LIFE_COUNT_MAX];
    kv_manager_need(manager, &promise, 0, need);
    assert_true(need[0] <= 4);
    struct text text = text_of(1, 4);
    struct kv_seq *seq = promised(manager, &text, 128);
    struct text other_text = text_of(201, 204);
    struct kv_seq *other = start(manager, &other_text);
    uint32_t room = kv_manager_room(manager, 0);
    assert_int_equal(kv_seq_resize(manager, other, (room + 1) * BLOCK, 0, NULL),
                     OK);
    for (uint32_t at = 0; at < 128; at += 4) {
        assert_int_equal(kv_seq_resize(manager, seq, at + 4, at, NULL), OK);
        valid(manager);
    }
    kv_seq_close(manager, seq);
    kv_seq_close(manager, other);
    kv_manager_destroy(manager);
}

/* A page under a lease is promised again only when the lease ends. */
static void lease_holds_back_what_it_keeps(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.lives[0].window = 4;
    options.step_max = 4;
    options.slot_counts[0][0] = 3;
    options.enable_reuse = false;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct kv_seq *seq = promised(manager, &text, 32);
    assert_int_equal(kv_seq_resize(manager, seq, 8, 4, NULL), OK);
    kv_ref ref;
    kv_seq_lease(manager, seq, 0, 0, 1, &ref);
    assert_int_equal(kv_seq_resize(manager, seq, 12, 8, NULL), OK);
    assert_int_equal(kv_seq_resize(manager, seq, 13, 9, NULL), ERR_FULL);
    kv_manager_unlease(manager, &ref, 1);
    valid(manager);
    assert_int_equal(kv_seq_resize(manager, seq, 13, 9, NULL), OK);
    kv_seq_close(manager, seq);
    valid(manager);
    kv_manager_destroy(manager);
}

/* What a lease keeps is owed to who let go of it: a prompt that would claim the
 * page meanwhile, and keep it, needs room of its own. */
static void leased_page_is_not_claimed_from_who_is_owed_it(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.lives[0].window = 4;
    options.step_max = 4;
    options.slot_counts[0][0] = 3;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 16);
    struct text head = text_of(1, 5);
    struct kv_seq *seq = promised(manager, &text, 32);
    assert_int_equal(kv_seq_resize(manager, seq, 8, 0, NULL), OK);
    commit(manager, seq, &text, 4, false);
    kv_ref ref;
    kv_seq_lease(manager, seq, 0, 0, 1, &ref);
    assert_int_equal(kv_seq_resize(manager, seq, 12, 8, NULL), OK);
    struct kv_prompt prompt = prompt_of(&head);
    prompt.token_count--;
    struct kv_seq *other = NULL;
    assert_int_equal(kv_seq_open(manager, &prompt, UINT32_MAX, &other),
                     ERR_FULL);
    kv_manager_unlease(manager, &ref, 1);
    valid(manager);
    assert_int_equal(kv_seq_resize(manager, seq, 13, 9, NULL), OK);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* Closed under a lease: the promise is gone, the page comes free at the end. */
static void lease_after_close_withholds_its_pages_only(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 8);
    struct kv_seq *seq = promised(manager, &text, 32);
    assert_int_equal(kv_seq_resize(manager, seq, 8, 0, NULL), OK);
    kv_ref refs[2];
    kv_seq_lease(manager, seq, 0, 0, 2, refs);
    kv_seq_close(manager, seq);
    valid(manager);
    assert_int_equal(kv_manager_room(manager, 0), 14);
    kv_manager_unlease(manager, refs, 2);
    assert_int_equal(kv_manager_room(manager, 0), 16);
    kv_manager_destroy(manager);
}

/* Less is always granted, and goes to others. */
static void promise_is_replaced(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct kv_seq *seq = promised(manager, &text, 32);
    struct kv_promise less = {.token_total = 12};
    assert_int_equal(kv_seq_promise(manager, seq, &less), OK);
    assert_int_equal(kv_manager_room(manager, 0), 13);
    struct kv_promise more = {
        .token_total = 12, .fork_at = 10, .fork_count = 13};
    assert_int_equal(kv_seq_promise(manager, seq, &more), OK);
    assert_int_equal(kv_manager_room(manager, 0), 0);
    more.fork_count = 14;
    assert_int_equal(kv_seq_promise(manager, seq, &more), ERR_FULL);
    assert_int_equal(kv_manager_room(manager, 0), 0);
    valid(manager);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* The pool is just the prompt: the half used block is had without a copy. */
static void exact_fit_needs_no_copy(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = options.block_count_max = 3;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct text more = TEXT(1, 10, 50, 51);
    publish(manager, &text);
    struct kv_seq *seq = promised(manager, &more, 12);
    valid(manager);
    assert_int_equal(seq->history, 10);
    assert_int_equal(kv_seq_resize(manager, seq, 12, 10, NULL), OK);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_take_only_what_is_left),
        cmocka_unit_test(claim_that_would_break_a_promise_is_refused),
        cmocka_unit_test(window_is_promised_once),
        cmocka_unit_test(lease_holds_back_what_it_keeps),
        cmocka_unit_test(leased_page_is_not_claimed_from_who_is_owed_it),
        cmocka_unit_test(lease_after_close_withholds_its_pages_only),
        cmocka_unit_test(promise_is_replaced),
        cmocka_unit_test(exact_fit_needs_no_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
