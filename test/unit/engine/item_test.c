#include "unit/engine/rig.h"

/* Cancelled while it waits, while its prompt is computed, and while it decodes:
 * one FINISHED a choice each time, and nothing is held afterwards. */
static void cancel_works_in_every_phase(void **state)
{
    (void)state;
    for (int turns = 0; turns <= 5; turns++) {
        struct engine_core_options options = rig_options();
        options.chunk_tokens = 16;
        struct rig *rig = rig_create(&options);
        struct engine_request *request = rig_request(1, 1, 40);
        request->choice_count = 2;
        request->max_new_tokens = 50;
        rig_submit(rig, request);
        for (int i = 0; i < turns; i++) {
            rig_turn(rig);
        }
        rig_command(rig, ENGINE_CANCEL, 1, 0);
        assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FINISHED), 2);
        assert_int_equal(rig_find(rig, 1, 1, ENGINE_EVENT_FINISHED)->finish,
                         ENGINE_FINISH_CANCELLED);
        rig_assert_idle(rig);
        rig_command(rig, ENGINE_CANCEL, 1, 0);
        assert_false(rig_turn(rig));
        assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FINISHED), 2);
        rig_destroy(rig);
    }
}

/* One of three choices goes, before and after the fork; the others end as if it
 * had never been. */
static void one_choice_of_several_can_be_cancelled(void **state)
{
    (void)state;
    for (int turns = 0; turns <= 3; turns++) {
        struct engine_core_options options = rig_options();
        struct rig *rig = rig_create(&options);
        struct engine_request *request = rig_request(1, 1, 10);
        int32_t expected[8];
        rig_expect(rig, 1, 10, 8, expected);
        request->choice_count = 3;
        request->max_new_tokens = 8;
        rig_submit(rig, request);
        for (int i = 0; i < turns; i++) {
            rig_turn(rig);
        }
        rig_command(rig, ENGINE_CANCEL_CHOICE, 1, 0);
        rig_command(rig, ENGINE_CANCEL_CHOICE, 1, 99);
        rig_run(rig);
        assert_int_equal(rig_find(rig, 1, 0, ENGINE_EVENT_FINISHED)->finish,
                         ENGINE_FINISH_CANCELLED);
        rig_assert_tokens(rig, 1, 1, expected, 8, ENGINE_FINISH_LENGTH);
        rig_assert_tokens(rig, 1, 2, expected, 8, ENGINE_FINISH_LENGTH);
        assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FINISHED), 3);
        rig_assert_idle(rig);
        rig_destroy(rig);
    }
}

/* The last open choice takes the request with it. */
static void cancelling_every_choice_ends_the_request(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 10);
    request->choice_count = 2;
    rig_submit(rig, request);
    rig_command(rig, ENGINE_CANCEL_CHOICE, 1, 1);
    rig_command(rig, ENGINE_CANCEL_CHOICE, 1, 0);
    assert_false(rig_turn(rig));
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The deadline is to the first token: who waits longer fails, who decodes does
 * not. Pages are too few for both. */
static void the_deadline_counts_to_the_first_token(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 2; id++) {
        struct engine_request *request = rig_request(id, (int)id, 20);
        request->max_new_tokens = 30;
        request->deadline_ns = 10000000;
        rig_submit(rig, request);
    }
    rig_turn(rig);
    assert_int_equal(engine_core_wake_ns(rig->core), 10000000);
    rig->now_ns = 10000000;
    rig_run(rig);
    rig_assert_failed(rig, 2, ERR_TIMEOUT, "deadline");
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_TOKEN), 30);
    assert_int_equal(rig_count(rig, 2, ENGINE_EVENT_FINISHED), 0);
    assert_true(engine_core_wake_ns(rig->core) == UINT64_MAX);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A prefill that is overtaken by its deadline gives everything back. */
static void a_late_prefill_is_dropped(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.chunk_tokens = 12;
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 100);
    request->deadline_ns = 5000000;
    rig_submit(rig, request);
    rig_run(rig);
    rig_assert_failed(rig, 1, ERR_TIMEOUT, "deadline");
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_TOKEN), 0);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

static uint32_t first_token_at(const struct rig *rig, uint64_t id)
{
    const struct engine_event *event = rig_find(rig, id, 0, ENGINE_EVENT_TOKEN);
    assert_non_null(event);
    return (uint32_t)(event - rig->events);
}

static void submit_small(struct rig *rig, uint64_t id, uint64_t place)
{
    struct engine_request *request = rig_request(id, (int)id, 30);
    request->max_new_tokens = 10;
    request->deadline_ns = id == 2 ? 1000000 : 0;
    request->place = place;
    rig_submit(rig, request);
}

/* Of three one runs and the queue is full. The second fails; what goes on in its
 * place is taken although others have come meanwhile and the worker drains, and
 * its turn is before theirs. Who comes anew is refused. */
static void who_comes_back_keeps_the_turn(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    options.queue_limit = 3;
    struct rig *rig = rig_create(&options);
    submit_small(rig, 1, 0);
    rig_turn(rig);
    for (uint64_t id = 2; id <= 4; id++) {
        submit_small(rig, id, 0);
    }
    rig->now_ns = 1000000;
    rig_turn(rig);
    rig_assert_failed(rig, 2, ERR_TIMEOUT, "deadline");
    uint64_t place = rig_find(rig, 2, 0, ENGINE_EVENT_FAILED)->place;
    submit_small(rig, 5, 0);
    rig_command(rig, ENGINE_DRAIN, 0, 0);
    submit_small(rig, 6, place);
    submit_small(rig, 7, 0);
    rig_run(rig);
    rig_assert_failed(rig, 7, ERR_FULL, "draining");
    assert_true(rig_find(rig, 7, 0, ENGINE_EVENT_FAILED)->place == 0);
    assert_true(first_token_at(rig, 6) < first_token_at(rig, 3));
    assert_true(first_token_at(rig, 3) < first_token_at(rig, 4));
    assert_true(first_token_at(rig, 4) < first_token_at(rig, 5));
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Where the time went: two turns of prompt, then three decodes of 1 ms. */
static void the_journey_adds_up(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.chunk_tokens = 20;
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 30);
    rig->now_ns = 7000000;
    request->arrival_ns = 5000000;
    rig_submit(rig, request);
    rig_run(rig);
    const struct engine_journey *journey =
        &rig_find(rig, 1, 0, ENGINE_EVENT_FINISHED)->journey;
    assert_int_equal(journey->prompt_tokens, 30);
    assert_int_equal(journey->chunk_count, 2);
    assert_int_equal(journey->queue_ns, 2000000);
    assert_int_equal(journey->prefill_ns, 2000000);
    assert_int_equal(journey->decode_ns, 3000000);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_works_in_every_phase),
        cmocka_unit_test(one_choice_of_several_can_be_cancelled),
        cmocka_unit_test(cancelling_every_choice_ends_the_request),
        cmocka_unit_test(the_deadline_counts_to_the_first_token),
        cmocka_unit_test(a_late_prefill_is_dropped),
        cmocka_unit_test(who_comes_back_keeps_the_turn),
        cmocka_unit_test(the_journey_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
