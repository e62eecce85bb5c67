/* A core whose pages are put away and brought back by real copies on another
 * thread, in pools with a level below: every token must be what the model gives
 * when nobody else is there, so no page is read before it has arrived or after
 * its slot went to somebody else. [engine T31] */
#include "unit/engine/rig.h"

#include "engine/copies.h"

enum { REQUESTS = 40, TOKENS = 14 };

static struct rig *create_rig(uint32_t host_pages)
{
    struct engine_core_options options = rig_options();
    options.policy = SCHED_MAX_UTILIZATION;
    options.page_counts[0] = 27;
    options.host_page_counts[0] = host_pages;
    options.queue_limit = REQUESTS;
    options.enable_partial_reuse = true;
    return rig_create(&options);
}

static struct engine_copies *create_copies(const struct rig *rig)
{
    bool has_host = rig->host.page_count > 0;
    struct engine_copies_options options = {
        .levels = {&rig->pool, has_host ? &rig->host : NULL}};
    struct engine_copies *copies = NULL;
    assert_int_equal(engine_copies_create(&options, &copies), OK);
    return copies;
}

static bool turn(struct rig *rig, struct engine_copies *copies)
{
    const struct engine_plan *plan = engine_core_plan(rig->core, rig->now_ns);
    engine_copies_run(copies, rig->core);
    while (engine_core_plan_state(rig->core) == ENGINE_PLAN_WAITS) {
        engine_copies_run(copies, rig->core);
    }
    assert_int_equal(engine_core_plan_state(rig->core), ENGINE_PLAN_READY);
    bool is_busy = plan->run_count > 0;
    if (is_busy) {
        struct model_batch batch = {.runs = plan->runs,
                                    .run_count = plan->run_count};
        assert_int_equal(
            rig->model->ops->forward(rig->model, &batch, rig->logits), OK);
        rig_sample(rig, plan, rig->results[0]);
        rig->now_ns += rig->step_ns;
        engine_core_result(rig->core, rig->now_ns, rig->results[0]);
        engine_copies_run(copies, rig->core);
        assert_true(engine_core_is_valid(rig->core));
    }
    rig_drain(rig);
    return is_busy;
}

static void run(uint32_t host_pages)
{
    struct rig *rig = create_rig(host_pages);
    struct engine_copies *copies = create_copies(rig);
    for (int i = 0; i < REQUESTS; i++) {
        struct engine_request *request =
            rig_request((uint64_t)i + 1, i, 10 + (uint32_t)i % 30);
        request->max_new_tokens = TOKENS;
        rig_submit(rig, request);
    }
    while (turn(rig, copies) || engine_core_wake_ns(rig->core) <= rig->now_ns) {
    }
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    assert_true(stats.suspended_requests + stats.paused_requests > 0);
    for (int i = 0; i < REQUESTS; i++) {
        int32_t tokens[TOKENS];
        rig_expect(rig, i, 10 + (uint32_t)i % 30, TOKENS, tokens);
        rig_assert_tokens(rig, (uint64_t)i + 1, 0, tokens, TOKENS,
                          ENGINE_FINISH_LENGTH);
    }
    engine_copies_destroy(copies);
    rig_destroy(rig);
}

static void pages_come_back_as_they_went(void **state)
{
    (void)state;
    run(40);
}

static void one_level_copies_at_once(void **state)
{
    (void)state;
    run(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_back_as_they_went),
        cmocka_unit_test(one_level_copies_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
