/* The life of a sequence: claims, and in which order it lets go. */
#include "unit/kv/manager_world.h"

/* Four blocks close; two are evicted; the first two are still found.
 * [engine T27] */
static void deepest_block_goes_first(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 8;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 16);
    struct text probe = text_of(1, 17);
    struct text other = text_of(101, 124);
    publish(manager, &text);
    struct kv_seq *seq = start(manager, &other); /* 6 blocks of 8, 4 free */
    assert_int_equal(reuse_of(manager, &probe), 8);
    kv_seq_close(manager, seq);
    valid(manager);
    kv_manager_destroy(manager);
}

/* A holds 0..3; B shared 0 and 1 and is gone, its own two are queued. Three pages
 * are too many, and nothing is lost by asking; one takes the leaf. [engine T28] */
static void what_is_shared_outlives_its_leaves(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 8;
    struct kv_manager *manager = create(&options);
    struct text a_text = text_of(1, 16);
    struct text b_text = TEXT(1, 8, 50, 51, 52, 53, 54, 55, 56, 57);
    struct text b_probe = TEXT(1, 8, 50, 51, 52, 53, 54, 55, 56, 57, 58);
    struct text c_text = text_of(101, 112);
    struct kv_seq *a = prefill(manager, &a_text);
    publish(manager, &b_text);
    struct kv_seq *c = start(manager, &c_text); /* 3: 2 free, so one goes */
    assert_int_equal(reuse_of(manager, &b_probe), 12);
    struct kv_mark mark = {8, 8};
    kv_seq_close(manager, c);
    c = open_seq(manager, &c_text);
    assert_int_equal(kv_seq_resume(manager, c), OK);
    assert_int_equal(kv_seq_resize(manager, c, 20, 0, &mark), ERR_FULL);
    assert_int_equal(reuse_of(manager, &b_probe), 12);
    valid(manager);
    kv_seq_close(manager, c);
    kv_seq_close(manager, a);
    kv_manager_destroy(manager);
}

/* B holds the tail [9 10]; C extends it, so B's page is in no tree. When B closes
 * its slot is free at once, and nothing is told. [engine T33] */
static void orphan_is_freed_with_its_last_user(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text ten = text_of(1, 10);
    struct text twelve = text_of(1, 12);
    publish(manager, &ten);
    struct text more = TEXT(1, 10, 50);
    struct kv_seq *b = open_seq(manager, &more);
    publish(manager, &twelve);
    assert_int_equal(used_of(manager), 4);
    kv_manager_tick(manager, 0);
    const struct kv_event *events = NULL;
    uint32_t told = kv_events_peek(kv_manager_events(manager), 64, &events);
    kv_seq_close(manager, b);
    valid(manager);
    assert_int_equal(used_of(manager), 3);
    kv_manager_tick(manager, 1);
    assert_int_equal(kv_events_peek(kv_manager_events(manager), 64, &events),
                     told);
    kv_manager_destroy(manager);
}

/* An orphan's bytes are still right: its holder copies them and goes on. */
static void orphan_still_serves_who_holds_it(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text ten = text_of(1, 10);
    struct text twelve = text_of(1, 12);
    struct text more = TEXT(1, 10, 50);
    publish(manager, &ten);
    struct kv_seq *b = open_seq(manager, &more);
    publish(manager, &twelve);
    assert_int_equal(kv_seq_resume(manager, b), OK);
    assert_int_equal(do_orders(manager), 1);
    assert_true(kv_seq_is_ready(manager, b));
    valid(manager);
    kv_seq_close(manager, b);
    assert_int_equal(used_of(manager), 3);
    kv_manager_destroy(manager);
}

static void limit_and_scope_bound_a_claim(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    publish(manager, &text);
    struct kv_prompt prompt = prompt_of(&text);
    struct kv_seq *seq = NULL;
    assert_int_equal(kv_seq_open(manager, &prompt, 6, &seq), OK);
    assert_int_equal(seq->reused, 6);
    assert_int_equal(seq->block_count, 2);
    assert_int_equal(seq->status, KV_SEQ_SUSPENDED);
    assert_int_equal(seq->tables[0][0], KV_PAGE_NONE);
    valid(manager);
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

static void sequences_run_out(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.seq_count_max = 2;
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct kv_prompt prompt = prompt_of(&text);
    struct kv_seq *a = open_seq(manager, &text);
    struct kv_seq *b = open_seq(manager, &text);
    struct kv_seq *c = NULL;
    assert_int_equal(kv_seq_open(manager, &prompt, 4, &c), ERR_FULL);
    assert_null(c);
    kv_seq_close(manager, a);
    assert_int_equal(kv_seq_open(manager, &prompt, 4, &c), OK);
    kv_seq_close(manager, b);
    kv_seq_close(manager, c);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepest_block_goes_first),
        cmocka_unit_test(what_is_shared_outlives_its_leaves),
        cmocka_unit_test(orphan_is_freed_with_its_last_user),
        cmocka_unit_test(orphan_still_serves_who_holds_it),
        cmocka_unit_test(limit_and_scope_bound_a_claim),
        cmocka_unit_test(sequences_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
