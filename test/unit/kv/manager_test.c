/* What a manager allocates. */
#include "unit/kv/manager_world.h"

#include "base/mem.h"

/* A life of requests, hits, suspends and evictions takes nothing from the heap. */
static void steady_state_allocates_nothing(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.level_count = 2;
    options.slot_counts[1][0] = 8;
    struct kv_manager *manager = create(&options);
    static struct text texts[8];
    for (int32_t i = 0; i < 8; i++) {
        texts[i] = text_of(i / 2 * 100 + 1, i / 2 * 100 + 20 + i % 2 * 3);
    }
    uint64_t before = mem_allocation_count();
    for (uint32_t i = 0; i < 200; i++) {
        const struct text *text = &texts[i * 5 % 8];
        struct kv_seq *seq = start(manager, text);
        kv_seq_suspend(manager, seq);
        assert_int_equal(kv_seq_resume(manager, seq), OK);
        do_orders(manager);
        kv_seq_commit_to(manager, seq, text->count, text->keys, text->tokens,
                         true, text->count % BLOCK > 0 ? &text->tail : NULL);
        kv_seq_close(manager, seq);
        kv_manager_tick(manager, i);
    }
    assert_int_equal(mem_allocation_count(), before);
    valid(manager);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
