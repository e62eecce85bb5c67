#include "unit/engine/rig.h"

static void refuse(const struct engine_core_options *options, const char *words)
{
    struct why why = {.text = ""};
    struct engine_core *core = NULL;
    assert_int_equal(engine_core_create(options, &why, &core), ERR_INVALID);
    assert_non_null(strstr(why.text, words));
    assert_null(core);
}

/* Each contradiction names its field. */
static void impossible_options_are_refused(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.max_batch = 0;
    refuse(&options, "max_batch");
    options = rig_options();
    options.row_count_max = 9;
    refuse(&options, "row_count_max");
    options = rig_options();
    options.tokens_per_block = 1000;
    refuse(&options, "tokens_per_block");
    options = rig_options();
    options.end_token_count = 99;
    refuse(&options, "end tokens");
    options = rig_options();
    options.session_max = 100000;
    refuse(&options, "session_max");
}

/* The forward pass gives up twice, and the one who caused it is cancelled: the
 * others' tokens are none the worse. */
static void an_aborted_batch_counts_for_nothing(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.chunk_tokens = 16;
    struct rig *rig = rig_create(&options);
    int32_t expected[8];
    rig_expect(rig, 1, 10, 8, expected);
    struct engine_request *request = rig_request(1, 1, 10);
    request->max_new_tokens = 8;
    rig_submit(rig, request);
    rig_turn(rig);
    rig_submit(rig, rig_request(2, 2, 100));
    for (int i = 0; i < 2; i++) {
        const struct engine_plan *plan = rig_plan(rig);
        assert_int_equal(plan->run_count, 2);
        memset(rig->pool.base +
                   rig->pool.page_bytes * plan->runs[1].pages[0][0],
               0xee, rig->pool.page_bytes); /* half done, of no use */
        engine_core_abort(rig->core);
        assert_true(engine_core_is_valid(rig->core));
    }
    rig_command(rig, ENGINE_CANCEL, 2, 0);
    rig_run(rig);
    rig_assert_tokens(rig, 1, 0, expected, 8, ENGINE_FINISH_LENGTH);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A model that fails ends the batch's requests, once each, and nobody else. */
static void a_failed_batch_fails_its_requests(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 10);
    request->choice_count = 3;
    request->max_new_tokens = 8;
    rig_submit(rig, request);
    rig_turn(rig);
    rig_submit(rig, rig_request(2, 2, 60));
    assert_int_equal(rig_plan(rig)->run_count, 3);
    engine_core_fail(rig->core, rig->now_ns, ERR_FULL);
    rig_drain(rig);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FAILED), 1);
    rig_assert_failed(rig, 1, ERR_INTERNAL, "model failed");
    rig_run(rig);
    assert_int_equal(rig_count(rig, 2, ENGINE_EVENT_FINISHED), 1);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Stop: what runs and what waits fails, once; then the core has stopped. */
static void stop_answers_everybody(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 3; id++) {
        rig_submit(rig, rig_request(id, (int)id, 40));
    }
    rig_turn(rig);
    assert_false(engine_core_is_stopped(rig->core));
    rig_command(rig, ENGINE_STOP, 0, 0);
    rig_submit(rig, rig_request(4, 1, 10));
    assert_false(rig_turn(rig));
    for (uint64_t id = 1; id <= 3; id++) {
        rig_assert_failed(rig, id, ERR_CLOSED, "stops");
        assert_int_equal(rig_count(rig, id, ENGINE_EVENT_FAILED), 1);
    }
    rig_assert_failed(rig, 4, ERR_FULL, "draining");
    assert_true(engine_core_is_stopped(rig->core));
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* What the counters say after a prompt computed once and reused once. */
static void stats_count_what_was_done(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    struct engine_stats stats;
    rig_submit(rig, rig_request(1, 1, 30));
    rig_run(rig);
    rig_submit(rig, rig_request(2, 1, 30));
    rig_run(rig);
    rig_submit(rig, rig_request(3, 1, 30));
    rig_command(rig, ENGINE_CANCEL, 3, 0);
    engine_core_stats(rig->core, &stats);
    assert_int_equal(stats.prefill_tokens, 30 + 2);
    assert_int_equal(stats.cached_tokens, 28);
    assert_int_equal(stats.decode_tokens, 6);
    assert_int_equal(stats.requests_started, 2);
    assert_int_equal(stats.requests_finished, 2);
    assert_int_equal(stats.requests_cancelled, 1);
    assert_int_equal(stats.requests_failed, 0);
    assert_int_equal(stats.turns, 8);
    assert_int_equal(stats.turn_ns_max, rig->step_ns);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(an_aborted_batch_counts_for_nothing),
        cmocka_unit_test(a_failed_batch_fails_its_requests),
        cmocka_unit_test(stop_answers_everybody),
        cmocka_unit_test(stats_count_what_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
