/* Ranks of pages, and that none is below what stands on it. */
#include "unit/kv/manager_world.h"

#include "kv/manager_state.h"

static uint8_t priority_of(const struct kv_manager *manager,
                           const struct text *text, uint32_t block)
{
    kv_node node = kv_tree_find(manager->tree, &text->keys[block]);
    assert_int_not_equal(node, KV_NODE_NONE);
    return kv_manager_page(manager, kv_tree_page(manager->tree, node, 0))
        ->priority;
}

static void publish_with(struct kv_manager *manager, const struct text *text,
                         const struct kv_retention *rules, uint32_t count)
{
    struct kv_retention_plan plan = {.rule_count = count};
    memcpy(plan.rules, rules, count * sizeof(rules[0]));
    struct kv_seq *seq = start(manager, text);
    kv_seq_retain(seq, &plan, text->count);
    commit(manager, seq, text, text->count, true);
    kv_seq_close(manager, seq);
}

/* A child of 90 under a parent of 10. [engine T30] */
static void parent_ranks_as_high_as_its_child(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    struct kv_retention rules[] = {{0, 4, 10, UINT64_MAX},
                                   {4, 8, 90, UINT64_MAX},
                                   {8, UINT32_MAX, 20, UINT64_MAX}};
    publish_with(manager, &text, rules, 3);
    assert_int_equal(priority_of(manager, &text, 0), 90);
    assert_int_equal(priority_of(manager, &text, 1), 90);
    assert_int_equal(priority_of(manager, &text, 2), 20);
    valid(manager);
    kv_manager_destroy(manager);
}

/* And when the ranks end: the parent's would first, but lasts as long. */
static void parent_ranks_as_long_as_its_child(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    kv_manager_tick(manager, 1000);
    struct text text = text_of(1, 8);
    struct kv_retention rules[] = {{0, 4, 95, 2000}, {4, 8, 90, 9000}};
    publish_with(manager, &text, rules, 2);
    kv_manager_tick(manager, 4000);
    assert_true(priority_of(manager, &text, 0) >= 90);
    assert_int_equal(priority_of(manager, &text, 1), 90);
    valid(manager);
    kv_manager_tick(manager, 11000);
    assert_int_equal(priority_of(manager, &text, 0), KV_PRIORITY_DEFAULT);
    assert_int_equal(priority_of(manager, &text, 1), KV_PRIORITY_DEFAULT);
    valid(manager);
    kv_manager_destroy(manager);
}

/* A low rank that ends is the default, of which the parent must have it too. */
static void low_rank_that_ends_raises_the_parent(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 8);
    struct kv_retention rules[] = {{0, 4, 5, UINT64_MAX}, {4, 8, 5, 1000}};
    publish_with(manager, &text, rules, 2);
    kv_manager_tick(manager, 5000);
    assert_int_equal(priority_of(manager, &text, 1), KV_PRIORITY_DEFAULT);
    assert_int_equal(priority_of(manager, &text, 0), KV_PRIORITY_DEFAULT);
    valid(manager);
    kv_manager_destroy(manager);
}

/* Tokens behind the prompt have a rule of their own, and what ranks high is given
 * up last. */
static void generated_tokens_follow_their_rule(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    options.slot_counts[0][0] = 8;
    struct kv_manager *manager = create(&options);
    struct text prompt = text_of(1, 4);
    struct text whole = text_of(1, 12);
    struct kv_retention_plan plan = {
        .has_generated = true,
        .generated = {.priority = 3, .duration_ms = UINT64_MAX},
    };
    struct kv_seq *seq = start(manager, &prompt);
    kv_seq_retain(seq, &plan, prompt.count);
    assert_int_equal(kv_seq_resize(manager, seq, 12, 4, NULL), OK);
    commit(manager, seq, &whole, 12, true);
    kv_seq_close(manager, seq);
    assert_int_equal(priority_of(manager, &whole, 0), KV_PRIORITY_DEFAULT);
    assert_int_equal(priority_of(manager, &whole, 1), 3);
    struct text old = text_of(51, 58);
    publish(manager, &old);
    struct text other = text_of(101, 120);
    struct kv_seq *b = start(manager, &other); /* 3 free, so 2 go */
    assert_int_equal(kv_tree_find(manager->tree, &whole.keys[1]), KV_NODE_NONE);
    assert_int_not_equal(kv_tree_find(manager->tree, &old.keys[1]),
                         KV_NODE_NONE);
    kv_seq_close(manager, b);
    valid(manager);
    kv_manager_destroy(manager);
}

/* A prompt that is here already is asked to be kept: the blocks found rank anew,
 * at once, those behind them when committed; nobody's wish makes a page worth
 * less. */
static void what_is_found_is_kept_too(void **state)
{
    (void)state;
    struct kv_manager_options options = small_options();
    struct kv_manager *manager = create(&options);
    struct text text = text_of(1, 12);
    struct text more = text_of(1, 20);
    publish(manager, &text);
    struct kv_retention rules[] = {{0, 8, 80, UINT64_MAX},
                                   {8, 12, 5, UINT64_MAX},
                                   {12, 16, 70, UINT64_MAX}};
    struct kv_retention_plan plan = {.rule_count = 3};
    memcpy(plan.rules, rules, sizeof(rules));
    struct kv_seq *seq = start(manager, &more);
    assert_int_equal(seq->reused, 12);
    kv_seq_retain(seq, &plan, more.count);
    assert_int_equal(priority_of(manager, &text, 0), 80);
    assert_int_equal(priority_of(manager, &text, 1), 80);
    assert_int_equal(priority_of(manager, &text, 2), KV_PRIORITY_DEFAULT);
    commit(manager, seq, &more, more.count, true);
    kv_seq_close(manager, seq);
    assert_int_equal(priority_of(manager, &more, 2), 70);
    assert_int_equal(priority_of(manager, &more, 3), 70);
    assert_int_equal(priority_of(manager, &more, 4), KV_PRIORITY_DEFAULT);
    valid(manager);
    kv_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parent_ranks_as_high_as_its_child),
        cmocka_unit_test(parent_ranks_as_long_as_its_child),
        cmocka_unit_test(low_rank_that_ends_raises_the_parent),
        cmocka_unit_test(generated_tokens_follow_their_rule),
        cmocka_unit_test(what_is_found_is_kept_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
