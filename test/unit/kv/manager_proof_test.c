/* The proof sees what is wrong: each kind of lie is told once. */
#include "unit/kv/manager_world.h"

#include "kv/manager_state.h"

static struct kv_manager_options windowed(void)
{
    struct kv_manager_options options = small_options();
    options.lives[0].window = 8;
    return options;
}

#define FINDS(lie, truth)                           \
    do {                                            \
        lie;                                        \
        assert_false(kv_manager_is_valid(manager)); \
        truth;                                      \
        assert_true(kv_manager_is_valid(manager));  \
    } while (0)

static void lies_are_found(void **state)
{
    (void)state;
    struct kv_manager_options options = windowed();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 10);
    struct kv_seq *seq = prefill(manager, &text);
    struct kv_promise promise = {.token_total = 12};
    assert_int_equal(kv_seq_promise(manager, seq, &promise), OK);
    FINDS(seq->tables[0][1]++, seq->tables[0][1]--);
    FINDS(seq->tables[0][7] = 3, seq->tables[0][7] = KV_PAGE_NONE);
    FINDS(seq->committed = 11, seq->committed = 10);
    FINDS(seq->block_count = 2, seq->block_count = 3);
    FINDS(seq->promised[0]++, seq->promised[0]--);
    FINDS(seq->inside->own[0]++, seq->inside->own[0]--);
    FINDS(manager->shadow[0]++, manager->shadow[0]--);
    FINDS(manager->promised[0]++, manager->promised[0]--);
    FINDS(manager->seq_count++, manager->seq_count--);
    FINDS(manager->active_count++, manager->active_count--);
    FINDS(manager->owed++, manager->owed--);
    kv_ref page = seq->inside->refs[0][0];
    FINDS(manager->sides[page].leases++, manager->sides[page].leases--);
    FINDS(kv_store_relock(manager->store, page),
          kv_store_unlock(manager->store, page));
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* A promise that nothing backs. */
static void broken_promise_is_found(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 4);
    struct kv_seq *seq = open_seq(manager, &text);
    struct kv_promise promise = {.token_total = 32};
    assert_int_equal(kv_seq_promise(manager, seq, &promise), OK);
    kv_ref refs[9];
    const uint32_t want[KV_LIFE_COUNT_MAX] = {9};
    assert_int_equal(kv_store_take(manager->store, want, refs), OK);
    assert_false(kv_manager_is_valid(manager));
    for (int i = 0; i < 9; i++) {
        kv_store_unlock(manager->store, refs[i]);
    }
    assert_true(kv_manager_is_valid(manager));
    kv_seq_close(manager, seq);
    kv_manager_destroy(manager);
}

/* A page that others stand on ranks lower than they. */
static void wrong_rank_is_found(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 8);
    publish(manager, &text);
    kv_node node = kv_tree_find(manager->tree, &text.keys[0]);
    kv_ref page = kv_tree_page(manager->tree, node, 0);
    FINDS(kv_store_retain(manager->store, page, 10, UINT64_MAX),
          kv_store_retain(manager->store, page, 35, UINT64_MAX));
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_found),
        cmocka_unit_test(broken_promise_is_found),
        cmocka_unit_test(wrong_rank_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
