/* Batches under way. Whatever is done to a request meanwhile, clients hear what
 * they would have heard without overlap. */
#include "unit/engine/rig.h"

#include "agree/word.h"
#include "engine/state.h"

static struct engine_core_options overlapped(void)
{
    struct engine_core_options options = rig_options();
    options.is_overlapped = true;
    return options;
}

static void expect_event(const struct engine_event *a,
                         const struct engine_event *b)
{
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->finish, b->finish);
    assert_memory_equal(&a->logprob, &b->logprob, sizeof(a->logprob));
    assert_int_equal(a->top_count, b->top_count);
    if (a->top_count > 0) {
        assert_memory_equal(a->top, b->top, a->top_count * sizeof(a->top[0]));
    }
}

static const struct engine_event *find_index(const struct rig *rig,
                                             const struct engine_event *like)
{
    for (uint32_t i = 0; i < rig->event_count; i++) {
        const struct engine_event *event = &rig->events[i];
        if (event->id == like->id && event->choice == like->choice &&
            event->kind == like->kind && event->index == like->index) {
            return event;
        }
    }
    fail_msg("request %d choice %u says nothing at %u", (int)like->id,
             like->choice, like->index);
    return NULL;
}

/* All that a request can ask of the sampler, each in its own way. */
static struct engine_request *fancy(uint64_t id)
{
    struct engine_request *request = rig_request(id, (int)id, 9 + (uint32_t)id);
    request->max_new_tokens = 12;
    request->sampling.temperature = 0.7f + (float)id / 8;
    request->sampling.seed = id * 31;
    request->sampling.top_p = id % 2 == 0 ? 0.9f : 1.0f;
    request->sampling.repetition_penalty = id % 3 == 0 ? 1.3f : 1.0f;
    request->sampling.presence_penalty = id % 3 == 1 ? 0.5f : 0.0f;
    request->sampling.frequency_penalty = id % 4 == 1 ? 0.25f : 0.0f;
    request->logprob_count = (int32_t)(id % 4) - 1;
    request->choice_count = id % 5 == 0 ? 3 : 1;
    request->min_tokens = id % 2 == 0 ? 6 : 0;
    request->score_prompt = id == 4;
    request->stop_token_count = 60;
    for (uint32_t i = 0; i < 60; i++) {
        request->stop_tokens[i] = (int32_t)(i * 16 + id);
    }
    if (id % 2 == 1) {
        request->sampling.bias_count = 2;
        request->biases = mem_new_array(2, sizeof(request->biases[0]));
        request->biases[0] = (struct sampler_bias){.token = 5, .bias = 3};
        request->biases[1] = (struct sampler_bias){.token = 7, .bias = -3};
        request->sampling.biases = request->biases;
    }
    return request;
}

static struct rig *run_fancy(bool is_overlapped)
{
    struct engine_core_options options = rig_options();
    options.is_overlapped = is_overlapped;
    options.page_counts[0] = 128;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 10; id++) {
        rig_submit(rig, fancy(id));
    }
    rig_run(rig);
    rig_assert_idle(rig);
    return rig;
}

/* Penalties look at a token that is not known yet when its batch is planned;
 * choices, log probabilities, scores, biases, least lengths and stop tokens beside
 * them: the same events bit for bit, in either mode. */
static void all_that_can_be_asked_is_answered_alike(void **state)
{
    (void)state;
    struct rig *with = run_fancy(true);
    struct rig *without = run_fancy(false);
    assert_int_equal(with->event_count, without->event_count);
    for (uint32_t i = 0; i < with->event_count; i++) {
        expect_event(&with->events[i], find_index(without, &with->events[i]));
    }
    rig_destroy(with);
    rig_destroy(without);
}

static const struct lane *lane_of(const struct rig *rig, uint64_t id)
{
    for (uint32_t i = 0; i < rig->core->options.max_batch; i++) {
        const struct lane *lane = &rig->core->lanes[i];
        if (lane->item != NULL && lane->item->id == id) {
            return lane;
        }
    }
    return NULL;
}

static void ask(struct rig *rig, uint64_t id, uint32_t prompt_count,
                uint32_t max_new)
{
    struct engine_request *request = rig_request(id, (int)id, prompt_count);
    request->max_new_tokens = max_new;
    rig_submit(rig, request);
}

static void expect_answer(const struct rig *rig, uint64_t id,
                          uint32_t prompt_count, uint32_t count)
{
    int32_t expected[128];
    rig_expect(rig, (int)id, prompt_count, count, expected);
    rig_assert_tokens(rig, id, 0, expected, count, ENGINE_FINISH_LENGTH);
}

/* The pass puts a request away whose batch is computed just then: its token is
 * said, its lengths are not touched, and once it is back it goes on where it was,
 * with pages that hold what was written after it had been put away.
 * [engine T87] [engine I27] */
static void who_is_put_away_in_flight_goes_on_rightly(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    options.policy = SCHED_MAX_UTILIZATION;
    options.max_seq = 64;
    options.page_counts[0] = 17;
    options.host_page_counts[0] = 24;
    options.max_batch = 3;
    struct rig *rig = rig_create(&options);
    ask(rig, 1, 20, 30);
    ask(rig, 2, 22, 36);
    uint32_t seen = 0;
    uint32_t resumed = 0;
    for (int i = 0; i < 300; i++) {
        const struct lane *lane = lane_of(rig, 2);
        bool was_suspended = lane != NULL && lane->unit.is_suspended;
        uint32_t history = lane != NULL ? lane->history_count : 0;
        rig_turn(rig);
        lane = lane_of(rig, 2);
        bool is_suspended = lane != NULL && lane->unit.is_suspended;
        if (!was_suspended && is_suspended) {
            /* Put away by this turn's pass; then its token came. */
            assert_int_equal(lane->history_count, history + 1);
            assert_int_equal(lane->computed, history);
            assert_int_equal(lane->seq->history, history - 1);
            seen++;
        }
        resumed += was_suspended && lane != NULL && !is_suspended;
    }
    assert_true(seen > 0);
    assert_true(resumed > 0);
    expect_answer(rig, 1, 20, 30);
    expect_answer(rig, 2, 22, 36);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The last token by length is known to be the last when it is planned: nothing
 * is computed after it. (state 14 of engine.md 5.1) */
static void who_ends_by_length_is_not_planned_again(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    struct rig *rig = rig_create(&options);
    ask(rig, 1, 10, 3);
    rig_turn(rig); /* its prompt */
    rig_turn(rig); /* nothing while that is under way; then its first token */
    rig_turn(rig);
    assert_int_equal(rig->run_count, 1);
    rig_turn(rig);
    assert_int_equal(rig->run_count, 1);
    assert_true(lane_of(rig, 1)->unit.is_finishing);
    rig_turn(rig);
    assert_int_equal(rig->run_count, 0);
    expect_answer(rig, 1, 10, 3);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* An end token is noticed one batch late. What was computed beyond it is said to
 * nobody, its pages come free, and the lane serves the next. */
static void what_is_computed_beyond_an_end_token_is_lost(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    options.max_batch = 1;
    struct rig *rig = rig_create(&options);
    int32_t expected[8];
    rig_expect(rig, 1, 10, 8, expected);
    struct engine_request *request = rig_request(1, 1, 10);
    request->max_new_tokens = 8;
    request->stop_token_count = 1;
    request->stop_tokens[0] = expected[2];
    rig_submit(rig, request);
    rig_run(rig);
    ask(rig, 2, 12, 5);
    rig_run(rig);
    rig_assert_tokens(rig, 1, 0, expected, 3, ENGINE_FINISH_STOP);
    expect_answer(rig, 2, 12, 5);
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    assert_int_equal(stats.decode_tokens, 2 + 4);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

static void cancel(struct rig *rig, enum engine_command_kind kind, uint64_t id,
                   uint32_t choice)
{
    rig_command(rig, kind, id, choice);
}

/* A client leaves while its prompt's last chunk, and one while its decode is
 * under way; a choice leaves before its first token: the rest goes on. */
static void who_leaves_in_flight_is_not_heard_again(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    struct rig *rig = rig_create(&options);
    ask(rig, 1, 10, 20);
    struct engine_request *request = rig_request(2, 2, 10);
    request->choice_count = 3;
    request->max_new_tokens = 6;
    rig_submit(rig, request);
    ask(rig, 3, 10, 6);
    rig_turn(rig); /* three prompts are under way */
    cancel(rig, ENGINE_CANCEL, 3, 0);
    cancel(rig, ENGINE_CANCEL_CHOICE, 2, 1);
    rig_turn(rig);
    rig_turn(rig);
    rig_turn(rig);
    cancel(rig, ENGINE_CANCEL, 1, 0);
    uint32_t said = rig_count(rig, 1, ENGINE_EVENT_TOKEN);
    rig_run(rig);
    int32_t expected[8];
    rig_expect(rig, 2, 10, 6, expected);
    rig_assert_tokens(rig, 2, 0, expected, 6, ENGINE_FINISH_LENGTH);
    rig_assert_tokens(rig, 2, 1, expected, 0, ENGINE_FINISH_CANCELLED);
    rig_assert_tokens(rig, 2, 2, expected, 6, ENGINE_FINISH_LENGTH);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_TOKEN), said);
    assert_int_equal(rig_count(rig, 3, ENGINE_EVENT_TOKEN), 0);
    assert_int_equal(rig_count(rig, 3, ENGINE_EVENT_FINISHED), 1);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Both batches under way are given up: what was applied before stays, the rest
 * is planned anew, and says the same. */
static void giving_up_loses_nothing_that_was_applied(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    options.chunk_tokens = 12;
    struct rig *rig = rig_create(&options);
    ask(rig, 1, 10, 12);
    for (int i = 0; i < 5; i++) {
        rig_turn(rig);
    }
    ask(rig, 2, 60, 6); /* chunks beside decodes */
    for (int i = 0; i < 30; i++) {
        rig->gives_up = i % 3 == 1;
        rig_turn(rig);
    }
    rig->gives_up = false;
    rig_run(rig);
    expect_answer(rig, 1, 10, 12);
    expect_answer(rig, 2, 60, 6);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The older batch fails, and with it those in it; who was planned only after it
 * begins again. */
static void a_failed_batch_takes_only_its_own_with_it(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    struct rig *rig = rig_create(&options);
    ask(rig, 1, 10, 9);
    rig_turn(rig);
    ask(rig, 2, 12, 5);
    rig_turn(rig); /* 1's prompt is applied, 2's under way */
    ask(rig, 3, 14, 5);
    assert_int_equal(rig_plan(rig)->run_count, 2); /* 1's decode, 3's prompt */
    assert_int_equal(engine_core_flight(rig->core), 2);
    engine_core_fail(rig->core, rig->now_ns, ERR_INTERNAL);
    rig->launched = rig->settled;
    assert_true(engine_core_is_valid(rig->core));
    rig_run(rig);
    rig_assert_failed(rig, 2, ERR_INTERNAL, "model failed");
    expect_answer(rig, 1, 10, 9);
    expect_answer(rig, 3, 14, 5);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Who stops with a batch under way has stopped when that is over. */
static void stopping_waits_for_what_is_under_way(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    struct rig *rig = rig_create(&options);
    ask(rig, 1, 10, 9);
    rig_turn(rig);
    rig_command(rig, ENGINE_STOP, 0, 0);
    assert_int_equal(rig_plan(rig)->run_count, 0);
    rig_drain(rig);
    rig_assert_failed(rig, 1, ERR_CLOSED, "stops");
    assert_false(engine_core_is_stopped(rig->core));
    rig_settle(rig);
    assert_true(engine_core_is_stopped(rig->core));
    rig_assert_idle(rig);
    rig_destroy(rig);
}

static uint32_t free_pages(const struct rig *rig)
{
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    return stats.pages_free;
}

/* Three choices would grow into new pages, a prompt would begin and a receive be
 * asked for, with a batch under way; another rank says no. All of it is given
 * back, what is under way is not, and later all goes on. (There are no dummies to
 * free: ranks are padded elsewhere.) [engine T86] [engine I39] */
static void a_veto_gives_back_what_the_plan_took(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    options.has_vote = true;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 3; id++) {
        ask(rig, id, 7, 9); /* position 8 begins a block */
    }
    for (int i = 0; i < 3; i++) {
        const struct engine_plan *plan = rig_plan(rig);
        engine_core_vote(rig->core, rig->now_ns, true);
        if (plan->run_count > 0) {
            assert_true(rig_launch(rig, plan));
        }
        while (rig_flight_count(rig) > (plan->run_count > 0)) {
            rig_settle(rig);
        }
    }
    assert_int_equal(rig_flight_count(rig), 1); /* position 7 of each */
    ask(rig, 4, 20, 2);
    struct engine_request *receive = rig_request(5, 5, 9);
    receive->kind = ENGINE_GENERATION_ONLY;
    rig_submit(rig, receive);
    uint32_t before = free_pages(rig);
    assert_int_equal(rig_plan(rig)->run_count, 4);
    assert_true(free_pages(rig) < before);
    engine_core_vote(rig->core, rig->now_ns, false);
    assert_true(engine_core_is_valid(rig->core));
    assert_int_equal(free_pages(rig), before);
    uint32_t orders = 0;
    engine_core_orders(rig->core, &orders);
    assert_int_equal(orders, 0);
    assert_int_equal(engine_core_flight(rig->core), 1);
    cancel(rig, ENGINE_CANCEL, 5, 0);
    while (rig_flight_count(rig) > 0 || !engine_core_is_stopped(rig->core)) {
        const struct engine_plan *plan = rig_plan(rig);
        engine_core_vote(rig->core, rig->now_ns, true);
        bool is_launched = plan->run_count > 0 && rig_launch(rig, plan);
        while (rig_flight_count(rig) > is_launched) {
            rig_settle(rig);
        }
        rig_drain(rig);
        if (plan->run_count == 0 && rig_flight_count(rig) == 0) {
            break;
        }
    }
    for (uint64_t id = 1; id <= 3; id++) {
        expect_answer(rig, id, 7, 9);
    }
    expect_answer(rig, 4, 20, 2);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Events of what is under way have their room, however many commands come: they
 * wait in their mailbox then. */
static void results_under_way_have_room_for_their_events(void **state)
{
    (void)state;
    struct engine_core_options options = overlapped();
    struct rig *rig = rig_create(&options);
    rig->holds_events = true;
    uint64_t id = 1;
    for (int i = 0; i < 400; i++) {
        while (engine_core_has_room(rig->core) && id < 400) {
            ask(rig, id, 3 + (uint32_t)id % 9, 3);
            id++;
        }
        rig_turn(rig);
    }
    rig->holds_events = false;
    rig_run(rig);
    rig_run(rig);
    assert_true(id > 50);
    for (uint64_t i = 1; i < id; i++) {
        uint32_t failed = rig_count(rig, i, ENGINE_EVENT_FAILED);
        assert_int_equal(rig_count(rig, i, ENGINE_EVENT_FINISHED) + failed, 1);
    }
    rig_assert_idle(rig);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_can_be_asked_is_answered_alike),
        cmocka_unit_test(who_is_put_away_in_flight_goes_on_rightly),
        cmocka_unit_test(who_ends_by_length_is_not_planned_again),
        cmocka_unit_test(what_is_computed_beyond_an_end_token_is_lost),
        cmocka_unit_test(who_leaves_in_flight_is_not_heard_again),
        cmocka_unit_test(giving_up_loses_nothing_that_was_applied),
        cmocka_unit_test(a_failed_batch_takes_only_its_own_with_it),
        cmocka_unit_test(stopping_waits_for_what_is_under_way),
        cmocka_unit_test(a_veto_gives_back_what_the_plan_took),
        cmocka_unit_test(results_under_way_have_room_for_their_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
