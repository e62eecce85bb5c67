#include "unit/engine/rig.h"

/* Two requests decode while a long prompt comes in: every turn has both decodes
 * first and then a chunk, within 16 tokens. [engine T56] */
static void a_batch_mixes_decodes_and_a_chunk(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.chunk_tokens = 16;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 3; id++) {
        struct engine_request *request =
            rig_request(id, (int)id, id == 3 ? 50 : 6);
        request->max_new_tokens = 12;
        rig_submit(rig, request);
        if (id == 2) {
            rig_turn(rig);
        }
    }
    for (int i = 0; i < 4; i++) {
        rig_turn(rig);
        assert_int_equal(rig->run_count, 3);
        assert_int_equal(rig->run_tokens[0], 1);
        assert_int_equal(rig->run_tokens[1], 1);
        assert_int_equal(rig->run_tokens[2], i < 3 ? 12 : 14);
    }
    rig_run(rig);
    for (uint64_t id = 1; id <= 3; id++) {
        int32_t expected[12];
        rig_expect(rig, (int)id, id == 3 ? 50 : 6, 12, expected);
        rig_assert_tokens(rig, id, 0, expected, 12, ENGINE_FINISH_LENGTH);
    }
    assert_int_equal(
        rig_find(rig, 3, 0, ENGINE_EVENT_FINISHED)->journey.chunk_count, 4);
    rig_destroy(rig);
}

/* Eight decode with three tokens a turn: nobody starves, all end within the
 * turns that the sums ask for. [engine T53] */
static void decodes_take_turns_when_tokens_are_short(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.chunk_tokens = 3;
    options.chunk_unit = 1;
    struct rig *rig = rig_create(&options);
    int turns = 0;
    for (uint64_t id = 1; id <= 5; id++) {
        struct engine_request *request = rig_request(id, (int)id, 3);
        request->max_new_tokens = 7;
        rig_submit(rig, request);
    }
    while (rig_turn(rig)) {
        assert_true(rig->row_count <= 3);
        turns++;
    }
    /* 5 x (3 prompt + 6 decodes) tokens at 3 a turn, and ragged ends. */
    assert_in_range(turns, 15, 18);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(rig_count(rig, id, ENGINE_EVENT_TOKEN), 7);
    }
    rig_destroy(rig);
}

/* The same prompt in chunks of 4, of 20, whole, alone, beside others and from
 * the cache: the same tokens. [engine T54 T55] */
static void chunking_and_company_change_no_token(void **state)
{
    (void)state;
    for (uint32_t chunk = 4; chunk <= 64; chunk *= 4) {
        struct engine_core_options options = rig_options();
        options.chunk_tokens = chunk + 4;
        struct rig *rig = rig_create(&options);
        int32_t expected[9];
        rig_expect(rig, 1, 45, 9, expected);
        for (uint64_t id = 1; id <= 6; id++) {
            struct engine_request *request =
                rig_request(id, id % 2 == 1 ? 1 : 2, 45);
            request->max_new_tokens = 9;
            rig_submit(rig, request);
            rig_turn(rig);
        }
        rig_run(rig);
        for (uint64_t id = 1; id <= 5; id += 2) {
            rig_assert_tokens(rig, id, 0, expected, 9, ENGINE_FINISH_LENGTH);
        }
        rig_assert_idle(rig);
        rig_destroy(rig);
    }
}

/* A turn that takes too long halves the next chunk, and decodes can never eat
 * up an adaptive budget: prompts go on with a unit at least. */
static void an_adaptive_budget_shrinks_but_never_starves_prompts(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.max_seq = 256;
    options.page_counts[0] = 400;
    options.row_count_max = 256;
    options.chunk_tokens = 0;
    struct rig *rig = rig_create(&options);
    struct engine_stats stats;
    for (uint64_t id = 1; id <= 4; id++) {
        rig_submit(rig, rig_request(id, (int)id, 200));
    }
    rig_turn(rig);
    uint32_t start = rig->row_count;
    rig_turn(rig);
    rig->step_ns = 300000000;
    rig_turn(rig);
    uint32_t first = rig->row_count;
    assert_true(first > start);
    rig_turn(rig);
    assert_in_range(rig->row_count, 16, first / 2);
    rig->step_ns = 30000000000;
    rig_turn(rig);
    rig_turn(rig);
    engine_core_stats(rig->core, &stats);
    assert_true(stats.chunk_budget <= 16);
    rig_run(rig);
    assert_int_equal(rig_count(rig, 4, ENGINE_EVENT_TOKEN), 4);
    rig_destroy(rig);
}

/* Nobody takes the events: after a while nothing more is computed, and nothing
 * is lost when somebody does. */
static void no_room_for_events_holds_back_work(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.max_batch = 1;
    options.max_seq = 500;
    options.page_counts[0] = 200;
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 10);
    request->max_new_tokens = 300;
    rig_submit(rig, request);
    uint32_t waiting = 0;
    int turns = 0;
    for (;; turns++) {
        const struct engine_plan *plan = rig_plan(rig);
        if (plan->run_count == 0) {
            break;
        }
        struct model_batch batch = {.runs = plan->runs,
                                    .run_count = plan->run_count};
        assert_int_equal(
            rig->model->ops->forward(rig->model, &batch, rig->logits), OK);
        rig_sample(rig, plan, rig->results[0]);
        engine_core_result(rig->core, rig->now_ns, rig->results[0]);
    }
    engine_core_events(rig->core, &waiting);
    assert_true(turns < 300);
    assert_int_equal(waiting, turns);
    rig_drain(rig);
    rig_run(rig);
    int32_t expected[300];
    rig_expect(rig, 1, 10, 300, expected);
    rig_assert_tokens(rig, 1, 0, expected, 300, ENGINE_FINISH_LENGTH);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_mixes_decodes_and_a_chunk),
        cmocka_unit_test(decodes_take_turns_when_tokens_are_short),
        cmocka_unit_test(chunking_and_company_change_no_token),
        cmocka_unit_test(an_adaptive_budget_shrinks_but_never_starves_prompts),
        cmocka_unit_test(no_room_for_events_holds_back_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
