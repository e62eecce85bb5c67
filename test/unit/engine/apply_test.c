#include "unit/engine/rig.h"

/* The third token of the expected four is a stop token: it is reported, ends the
 * choice and is named once more. */
static void a_stop_token_ends_its_choice(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    int32_t expected[4];
    rig_expect(rig, 1, 10, 4, expected);
    struct engine_request *request = rig_request(1, 1, 10);
    request->stop_token_count = 1;
    request->stop_tokens[0] = expected[2];
    rig_submit(rig, request);
    rig_run(rig);
    rig_assert_tokens(rig, 1, 0, expected, 3, ENGINE_FINISH_STOP);
    assert_int_equal(rig_find(rig, 1, 0, ENGINE_EVENT_FINISHED)->token,
                     expected[2]);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The model's own end token ends too, unless it is to be ignored. */
static void the_end_token_can_be_ignored(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *probe = rig_create(&options);
    int32_t expected[4];
    rig_expect(probe, 1, 10, 4, expected);
    rig_destroy(probe);
    options.end_tokens = &expected[1];
    options.end_token_count = 1;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 2; id++) {
        struct engine_request *request = rig_request(id, 1, 10);
        request->ignore_end = id == 2;
        rig_submit(rig, request);
    }
    rig_run(rig);
    rig_assert_tokens(rig, 1, 0, expected, 2, ENGINE_FINISH_STOP);
    rig_assert_tokens(rig, 2, 0, expected, 4, ENGINE_FINISH_LENGTH);
    rig_destroy(rig);
}

/* min_tokens 3: the stop token, which would be drawn second, cannot be; the
 * answer has at least three tokens and does not hold it before. */
static void min_tokens_forbids_early_ends(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    int32_t expected[4];
    rig_expect(rig, 1, 10, 4, expected);
    struct engine_request *request = rig_request(1, 1, 10);
    request->min_tokens = 3;
    request->stop_token_count = 1;
    request->stop_tokens[0] = expected[1];
    rig_submit(rig, request);
    rig_run(rig);
    assert_true(rig_count(rig, 1, ENGINE_EVENT_TOKEN) >= 3);
    for (uint32_t i = 0; i < rig->event_count; i++) {
        const struct engine_event *event = &rig->events[i];
        if (event->kind == ENGINE_EVENT_TOKEN && event->index < 3) {
            assert_int_not_equal(event->token, expected[1]);
        }
    }
    rig_destroy(rig);
}

/* 120 of at most 128 tokens are the prompt: eight more, then the context is
 * full, whatever was asked for. */
static void the_context_length_ends_a_choice(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    int32_t expected[8];
    rig_expect(rig, 1, 120, 8, expected);
    struct engine_request *request = rig_request(1, 1, 120);
    request->max_new_tokens = 1000;
    rig_submit(rig, request);
    rig_run(rig);
    rig_assert_tokens(rig, 1, 0, expected, 8, ENGINE_FINISH_LENGTH);
    rig_destroy(rig);
}

/* Four choices from a prompt with a partial last block: one prefill, four
 * sequences that write behind a copy of that block, each with the tokens of a
 * request of its own. */
static void choices_go_their_own_way(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    int32_t expected[4];
    rig_expect(rig, 1, 10, 4, expected);
    struct engine_request *request = rig_request(1, 1, 10);
    request->choice_count = 4;
    rig_submit(rig, request);
    rig_run(rig);
    for (uint32_t i = 0; i < 4; i++) {
        rig_assert_tokens(rig, 1, i, expected, 4, ENGINE_FINISH_LENGTH);
    }
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FINISHED), 4);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Echo: one score for each prompt token but the first, in order, before the
 * first token, though chunks are cut to 8 scored rows; nothing is taken from the
 * cache, since every row is needed. */
static void prompt_scores_come_in_order(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.score_row_max = 8;
    struct rig *rig = rig_create(&options);
    rig_submit(rig, rig_request(1, 1, 30));
    rig_run(rig);
    struct engine_request *request = rig_request(2, 1, 30);
    request->score_prompt = true;
    request->logprob_count = 2;
    uint32_t before = rig->event_count;
    rig_submit(rig, request);
    rig_run(rig);
    for (uint32_t i = 1; i < 30; i++) {
        const struct engine_event *event = &rig->events[before + i - 1];
        assert_int_equal(event->kind, ENGINE_EVENT_SCORE);
        assert_int_equal(event->index, i);
        assert_int_equal(event->token, rig_prompt_token(1, i));
        assert_int_equal(event->top_count, 2);
        assert_true(event->logprob <= 0);
    }
    assert_int_equal(rig->events[before + 29].kind, ENGINE_EVENT_TOKEN);
    assert_int_equal(rig->events[before + 29].top_count, 2);
    const struct engine_event *end = rig_find(rig, 2, 0, ENGINE_EVENT_FINISHED);
    assert_int_equal(end->journey.cached_tokens, 0);
    assert_int_equal(end->journey.chunk_count, 4);
    rig_destroy(rig);
}

/* Nothing to generate: scores and the end. */
static void no_new_tokens_gives_scores_only(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 10);
    request->score_prompt = true;
    request->logprob_count = 0;
    request->max_new_tokens = 0;
    request->choice_count = 2;
    rig_submit(rig, request);
    rig_run(rig);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_SCORE), 9);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_TOKEN), 0);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FINISHED), 2);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A second turn of a conversation holds the first one's answer: what was
 * generated is found like what was prompted. */
static void generated_blocks_are_reused(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    int32_t answer[20];
    rig_expect(rig, 1, 10, 20, answer);
    struct engine_request *request = rig_request(1, 1, 10);
    request->max_new_tokens = 20;
    rig_submit(rig, request);
    rig_run(rig);
    request = rig_request(2, 1, 31);
    memcpy(request->prompt + 10, answer, sizeof(answer));
    rig_submit(rig, request);
    rig_run(rig);
    assert_int_equal(
        rig_find(rig, 2, 0, ENGINE_EVENT_FINISHED)->journey.cached_tokens, 28);
    rig_destroy(rig);
}

/* 640 tokens for eight requests, admission to last page, and not one allocation in the core. */
static void steady_turns_allocate_nothing(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 300;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 8; id++) {
        struct engine_request *request = rig_request(id, (int)id % 3, 40);
        request->max_new_tokens = 80;
        rig_submit(rig, request);
    }
    uint64_t before = mem_allocation_count();
    bool is_busy = true;
    while (is_busy) {
        const struct engine_plan *plan =
            engine_core_plan(rig->core, rig->now_ns);
        is_busy = plan->run_count > 0;
        struct model_batch batch = {.runs = plan->runs,
                                    .run_count = plan->run_count};
        assert_int_equal(
            rig->model->ops->forward(rig->model, &batch, rig->logits), OK);
        rig_sample(rig, plan, rig->results[0]);
        if (is_busy) {
            engine_core_result(rig->core, rig->now_ns, rig->results[0]);
        }
        rig_copy(rig);
        rig_drain(rig);
    }
    assert_int_equal(mem_allocation_count(), before);
    assert_int_equal(rig_count(rig, 8, ENGINE_EVENT_TOKEN), 80);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_token_ends_its_choice),
        cmocka_unit_test(the_end_token_can_be_ignored),
        cmocka_unit_test(min_tokens_forbids_early_ends),
        cmocka_unit_test(the_context_length_ends_a_choice),
        cmocka_unit_test(choices_go_their_own_way),
        cmocka_unit_test(prompt_scores_come_in_order),
        cmocka_unit_test(no_new_tokens_gives_scores_only),
        cmocka_unit_test(generated_blocks_are_reused),
        cmocka_unit_test(steady_turns_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
