/* Two hundred requests through a pool a few blocks above what one of them needs,
 * under each capacity policy, with and without a level below: all of them end,
 * with exactly the tokens that the model gives when nobody else is there, however
 * often they were put away, paused or computed anew. [engine I27] [engine I40] */
#include "unit/engine/rig.h"

enum { REQUESTS = 200 };

struct policy_case {
    enum sched_policy policy;
    uint32_t pages, host_pages;
    bool may_suspend;
};

static uint32_t prompt_count_of(int i)
{
    return 5 + (uint32_t)(i * 7) % 40;
}

static void submit(struct rig *rig, int i)
{
    /* Families of four share their prompts' beginning. */
    struct engine_request *request =
        rig_request((uint64_t)i + 1, i % 50, prompt_count_of(i));
    request->max_new_tokens = 6 + (uint32_t)i % 15;
    request->choice_count = i % 10 == 0 ? 2 : 1;
    rig_submit(rig, request);
}

static void expect(const struct rig *rig, int i)
{
    int32_t tokens[32];
    uint32_t count = 6 + (uint32_t)i % 15;
    rig_expect(rig, i % 50, prompt_count_of(i), count, tokens);
    for (uint32_t choice = 0; choice < (i % 10 == 0 ? 2u : 1u); choice++) {
        rig_assert_tokens(rig, (uint64_t)i + 1, choice, tokens, count,
                          ENGINE_FINISH_LENGTH);
    }
}

static void run(const struct policy_case *c)
{
    struct engine_core_options options = rig_options();
    options.policy = c->policy;
    options.page_counts[0] = c->pages;
    options.host_page_counts[0] = c->host_pages;
    options.queue_limit = REQUESTS;
    options.is_shortest_first = true;
    options.enable_prefix_waits = true;
    options.enable_partial_reuse = true;
    struct rig *rig = rig_create(&options);
    for (int i = 0; i < REQUESTS; i++) {
        submit(rig, i);
    }
    rig_run(rig);
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    for (int i = 0; i < REQUESTS; i++) {
        expect(rig, i);
    }
    bool has_given_way = stats.suspended_requests + stats.paused_requests > 0;
    assert_int_equal(has_given_way, c->may_suspend);
    assert_true(stats.evicted_pages > 0 || c->host_pages > 0);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A request takes up to 16 blocks, or 24 with two choices. */
static void everybody_gets_through_without_eviction(void **state)
{
    (void)state;
    run(&(struct policy_case){SCHED_GUARANTEED_NO_EVICT, 27, 0, false});
    run(&(struct policy_case){SCHED_GUARANTEED_NO_EVICT, 27, 20, false});
}

static void everybody_gets_through_at_the_highest_use(void **state)
{
    (void)state;
    run(&(struct policy_case){SCHED_MAX_UTILIZATION, 27, 0, true});
    run(&(struct policy_case){SCHED_MAX_UTILIZATION, 27, 40, true});
}

static void everybody_gets_through_with_bounded_overcommit(void **state)
{
    (void)state;
    run(&(struct policy_case){SCHED_BOUNDED_OVERCOMMIT, 27, 0, false});
    run(&(struct policy_case){SCHED_BOUNDED_OVERCOMMIT, 27, 40, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_through_without_eviction),
        cmocka_unit_test(everybody_gets_through_at_the_highest_use),
        cmocka_unit_test(everybody_gets_through_with_bounded_overcommit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
