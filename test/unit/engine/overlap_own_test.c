/* What the model reads of a batch is the batch's own. */
#include "unit/engine/rig.h"

#include "agree/word.h"

static struct rig *create(void)
{
    struct engine_core_options options = rig_options();
    options.is_overlapped = true;
    return rig_create(&options);
}

static struct engine_request *with_penalty(uint64_t id, uint32_t prompt_count)
{
    struct engine_request *request = rig_request(id, (int)id, prompt_count);
    request->sampling.repetition_penalty = 1.5f;
    request->sampling.bias_count = 1;
    request->biases = mem_new_array(1, sizeof(request->biases[0]));
    request->biases[0] = (struct sampler_bias){.token = 3, .bias = 1};
    request->sampling.biases = request->biases;
    request->stop_token_count = 1;
    request->stop_tokens[0] = 998;
    return request;
}

/* A prompt is under way; its request is cancelled and freed, another takes its
 * place in the core. The plan still says all of it (the sanitizer looks too). */
static void a_plan_outlives_its_requests(void **state)
{
    (void)state;
    struct rig *rig = create();
    rig_submit(rig, with_penalty(1, 10));
    const struct engine_plan *plan = rig_plan(rig);
    kv_page_id pages[3];
    memcpy(pages, plan->runs[0].pages[0], sizeof(pages));
    rig_command(rig, ENGINE_CANCEL, 1, 0);
    rig_submit(rig, rig_request(2, 2, 10));
    assert_int_equal(plan->runs[0].token_count, 10);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(plan->runs[0].tokens[i], rig_prompt_token(1, i));
        assert_int_equal(plan->jobs[0].input.history[i],
                         rig_prompt_token(1, i));
    }
    assert_memory_equal(plan->runs[0].pages[0], pages, sizeof(pages));
    assert_int_equal(plan->jobs[0].options->biases[0].token, 3);
    assert_int_equal(plan->jobs[0].input.end_tokens[0], 998);
    rig->flights[rig->launched++ % 2] = plan;
    rig_settle(rig);
    rig_run(rig);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_TOKEN), 0);
    assert_int_equal(rig_count(rig, 2, ENGINE_EVENT_FINISHED), 1);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A decode whose token is not known yet: no model would take what stands there,
 * until it is fed; with penalties it ends the history as well. */
static void a_token_under_way_is_fed(void **state)
{
    (void)state;
    struct rig *rig = create();
    rig_submit(rig, with_penalty(1, 10));
    rig_submit(rig, rig_request(2, 2, 10));
    rig_turn(rig);
    rig_turn(rig); /* both have their first token; nothing is under way */
    assert_int_equal(rig_flight_count(rig), 0);
    const struct engine_plan *plan = rig_plan(rig);
    assert_int_equal(plan->feed_count, 0);
    rig->flights[rig->launched++ % 2] = plan;
    plan = rig_plan(rig);
    assert_int_equal(plan->run_count, 2);
    assert_int_equal(plan->feed_count, 2);
    assert_int_equal(plan->runs[0].position, 11);
    assert_int_equal(plan->runs[0].tokens[0], -1);
    assert_int_equal(plan->jobs[0].input.history_count, 12);
    assert_null(plan->jobs[1].input.history); /* nobody looks at it */
    struct sampler_result before[2] = {{.token = 77}, {.token = 78}};
    engine_plan_feed(plan, before);
    assert_int_equal(plan->runs[0].tokens[0], 77);
    assert_int_equal(plan->runs[1].tokens[0], 78);
    assert_int_equal(plan->jobs[0].input.history[11], 77);
    engine_core_abort(rig->core);
    rig->launched = rig->settled;
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Who has just been received goes before those whose token is under way.
 * [engine T90] */
static void known_tokens_go_first(void **state)
{
    (void)state;
    struct rig *rig = create();
    struct engine_request *request = rig_request(1, 1, 10);
    request->max_new_tokens = 20;
    rig_submit(rig, request);
    struct engine_request *receive = rig_request(2, 2, 9);
    receive->kind = ENGINE_GENERATION_ONLY;
    rig_expect(rig, 2, 9, 1, receive->first_tokens);
    int32_t first = receive->first_tokens[0];
    rig_submit(rig, receive);
    rig_turn(rig);
    struct transfer_command order = {0};
    assert_true(rig_take_order(rig, &order));
    rig_turn(rig);
    rig_turn(rig);
    rig_report(rig, &order, AGREE_TERMINAL | AGREE_QUIET, 0, "");
    const struct engine_plan *plan = rig_plan(rig);
    assert_int_equal(plan->run_count, 2);
    assert_int_equal(plan->runs[0].position, 9);
    assert_int_equal(plan->runs[0].tokens[0], first);
    assert_int_equal(plan->runs[1].tokens[0], -1);
    assert_int_equal(plan->feed_count, 1);
    engine_core_abort(rig->core);
    rig->launched = rig->settled;
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_outlives_its_requests),
        cmocka_unit_test(a_token_under_way_is_fed),
        cmocka_unit_test(known_tokens_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
