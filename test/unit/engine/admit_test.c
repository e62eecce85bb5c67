#include "unit/engine/rig.h"

#include "agree/word.h"

/* 16 blocks of 4. Each request needs ceil((30 + 10) / 4) = 10 to its end, though
 * only 8 at first: one runs, the next waits for its pages, and one behind it
 * that would fit waits too. */
static void admission_reserves_to_completion_in_order(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    struct engine_stats stats;
    for (uint64_t id = 1; id <= 3; id++) {
        struct engine_request *request =
            rig_request(id, (int)id, id == 3 ? 4 : 30);
        request->max_new_tokens = 10;
        rig_submit(rig, request);
    }
    rig_turn(rig);
    engine_core_stats(rig->core, &stats);
    assert_int_equal(stats.running, 1);
    assert_int_equal(stats.waiting, 2);
    rig_run(rig);
    for (uint64_t id = 1; id <= 3; id++) {
        int32_t expected[10];
        rig_expect(rig, (int)id, id == 3 ? 4 : 30, 10, expected);
        rig_assert_tokens(rig, id, 0, expected, 10, ENGINE_FINISH_LENGTH);
    }
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Blocks that the running request shares cost the next one nothing: with 7 full
 * blocks in common it needs 3 of the 6 that are left. */
static void reusable_blocks_are_not_charged(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    struct engine_stats stats;
    for (uint64_t id = 1; id <= 2; id++) {
        struct engine_request *request = rig_request(id, 1, 30);
        request->max_new_tokens = 10;
        rig_submit(rig, request);
        rig_turn(rig);
    }
    rig_turn(rig);
    engine_core_stats(rig->core, &stats);
    assert_int_equal(stats.running, 2);
    rig_run(rig);
    assert_int_equal(
        rig_find(rig, 2, 0, ENGINE_EVENT_FINISHED)->journey.cached_tokens, 28);
    rig_destroy(rig);
}

/* n choices: 7 shared blocks and 3 of its own for each of 3 is 16, which fits;
 * a fourth choice can only have less: its length is cut to what the pool can
 * ever hold. */
static void every_choice_is_reserved_for(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 2; id++) {
        struct engine_request *request = rig_request(id, 1, 30);
        request->max_new_tokens = 10;
        request->choice_count = 2 + (uint32_t)id;
        rig_submit(rig, request);
        rig_run(rig);
    }
    int32_t expected[10];
    rig_expect(rig, 1, 30, 10, expected);
    for (uint32_t i = 0; i < 3; i++) {
        rig_assert_tokens(rig, 1, i, expected, 10, ENGINE_FINISH_LENGTH);
    }
    /* 7 + 4 x 2 blocks: 36 tokens a choice. */
    for (uint32_t i = 0; i < 4; i++) {
        rig_assert_tokens(rig, 2, i, expected, 6, ENGINE_FINISH_LENGTH);
    }
    rig_assert_idle(rig);
    rig_destroy(rig);
}

static void refuse(struct rig *rig, struct engine_request *request,
                   enum err error, const char *words)
{
    uint64_t id = request->id;
    rig_submit(rig, request);
    rig_drain(rig);
    rig_assert_failed(rig, id, error, words);
}

/* The same four choices: a length that the client asked for is not cut behind
 * its back, nor the least length; what fits is said, and fits. */
static void a_length_asked_for_is_refused_when_it_does_not_fit(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 30);
    request->choice_count = 4;
    request->max_new_tokens = 10;
    request->is_length_asked = true;
    refuse(rig, request, ERR_INVALID,
           "max_tokens: 10 for each of n = 4 choices do not fit into the KV "
           "cache, 6 do");
    request = rig_request(2, 1, 30);
    request->choice_count = 4;
    request->max_new_tokens = 90;
    request->min_tokens = 7;
    refuse(rig, request, ERR_INVALID, "min_tokens: 7 for each of n = 4");
    request = rig_request(3, 1, 60);
    request->choice_count = 4;
    refuse(rig, request, ERR_INVALID,
           "n: 4 choices after a prompt of 60 tokens do not fit");
    request = rig_request(4, 1, 30);
    request->choice_count = 4;
    request->max_new_tokens = 6;
    request->is_length_asked = true;
    rig_submit(rig, request);
    rig_run(rig);
    int32_t expected[6];
    rig_expect(rig, 1, 30, 6, expected);
    rig_assert_tokens(rig, 4, 3, expected, 6, ENGINE_FINISH_LENGTH);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Each limit names its numbers. */
static void impossible_requests_are_refused_with_the_sums(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 8;
    struct rig *rig = rig_create(&options);
    refuse(rig, rig_request(1, 1, 128), ERR_INVALID,
           "128 tokens; with 1 to generate that is more than max_seq 128");
    refuse(rig, rig_request(2, 1, 40), ERR_INVALID, "8 blocks of 4");
    struct engine_request *request = rig_request(3, 1, 10);
    request->prompt[7] = 1000;
    refuse(rig, request, ERR_INVALID, "prompt token 7 is 1000");
    request = rig_request(4, 1, 10);
    request->choice_count = 9;
    refuse(rig, request, ERR_INVALID, "n: is 9");
    request = rig_request(5, 1, 10);
    request->choice_count = 0;
    refuse(rig, request, ERR_INVALID, "n: is 0");
    request = rig_request(6, 1, 0);
    refuse(rig, request, ERR_INVALID, "no tokens");
    request = rig_request(7, 1, 10);
    request->stop_token_count = 65;
    refuse(rig, request, ERR_INVALID, "stop tokens: 65");
    request = rig_request(8, 1, 10);
    request->sampling.top_p = 7;
    refuse(rig, request, ERR_INVALID, "top_p");
    assert_false(rig_turn(rig));
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The 17th waiting request is told to come back later. */
static void a_full_queue_says_so(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 17; id++) {
        rig_submit(rig, rig_request(id, 1, 10));
    }
    rig_drain(rig);
    rig_assert_failed(rig, 17, ERR_FULL, "16 requests wait");
    rig_run(rig);
    assert_int_equal(rig_count(rig, 16, ENGINE_EVENT_TOKEN), 4);
    rig_destroy(rig);
}

/* 8 lanes: two requests of 4 choices run, the third waits for one to end. */
static void lanes_are_limited(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    struct engine_stats stats;
    for (uint64_t id = 1; id <= 3; id++) {
        struct engine_request *request = rig_request(id, (int)id, 6);
        request->choice_count = 4;
        rig_submit(rig, request);
    }
    rig_turn(rig);
    engine_core_stats(rig->core, &stats);
    assert_int_equal(stats.running, 2);
    assert_int_equal(stats.waiting, 1);
    rig_run(rig);
    assert_int_equal(rig_count(rig, 3, ENGINE_EVENT_FINISHED), 4);
    rig_destroy(rig);
}

/* Draining: what is here ends well, what comes is turned away. */
static void draining_refuses_new_work_only(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    rig_submit(rig, rig_request(1, 1, 10));
    rig_command(rig, ENGINE_DRAIN, 0, 0);
    refuse(rig, rig_request(2, 1, 10), ERR_FULL, "draining");
    rig_run(rig);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FINISHED), 1);
    rig_destroy(rig);
}

/* A prompt of another scope finds nothing, though the tokens are the same. */
static void scopes_share_no_blocks(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    for (uint64_t id = 1; id <= 3; id++) {
        struct engine_request *request = rig_request(id, 1, 30);
        request->scope =
            (struct prefix_scope_id){.has_salt = id == 2, .salt = 9};
        rig_submit(rig, request);
        rig_run(rig);
        assert_int_equal(
            rig_find(rig, id, 0, ENGINE_EVENT_FINISHED)->journey.cached_tokens,
            id == 3 ? 28 : 0);
    }
    rig_destroy(rig);
}

static void submit_kind(struct rig *rig, enum engine_kind kind, uint64_t id,
                        uint32_t prompt_count)
{
    struct engine_request *request = rig_request(id, (int)id, prompt_count);
    request->kind = kind;
    rig_submit(rig, request);
}

static struct engine_stats stats_of(const struct rig *rig)
{
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    return stats;
}

/* Ends the oldest transfer that was ordered; its pages are quiet. */
static void end_transfer(struct rig *rig)
{
    struct transfer_command order = {0};
    assert_true(rig_take_order(rig, &order));
    rig_report(rig, &order, AGREE_TERMINAL | AGREE_QUIET, 0, "");
    rig_run(rig);
}

/* 10 of 16 blocks are taken: 10 more for a context-only request are not there,
 * and an aggregated one that would fit waits behind it. The receive at the end
 * starts. Later the two start in their order: the small one did not pass. */
static void receives_pass_prompts_that_lack_pages(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    submit_kind(rig, ENGINE_AGGREGATED, 1, 36);
    rig_turn(rig);
    submit_kind(rig, ENGINE_CONTEXT_ONLY, 2, 40);
    submit_kind(rig, ENGINE_AGGREGATED, 3, 4);
    submit_kind(rig, ENGINE_GENERATION_ONLY, 4, 8);
    rig_turn(rig);
    assert_int_equal(stats_of(rig).receiving, 1);
    assert_int_equal(stats_of(rig).waiting, 2);
    rig_run(rig);
    uint64_t first_queue_ns =
        rig_find(rig, 2, 0, ENGINE_EVENT_FINISHED)->journey.queue_ns;
    assert_true(rig_find(rig, 3, 0, ENGINE_EVENT_FINISHED)->journey.queue_ns >=
                first_queue_ns);
    end_transfer(rig);
    end_transfer(rig);
    assert_int_equal(rig_count(rig, 4, ENGINE_EVENT_FINISHED), 1);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Receives do not pass each other: of 16 blocks 12 receive, the next wants 8,
 * and the small one behind it waits too. */
static void receives_keep_their_order(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    struct rig *rig = rig_create(&options);
    submit_kind(rig, ENGINE_GENERATION_ONLY, 1, 44);
    submit_kind(rig, ENGINE_GENERATION_ONLY, 2, 28);
    submit_kind(rig, ENGINE_GENERATION_ONLY, 3, 4);
    rig_turn(rig);
    assert_int_equal(stats_of(rig).receiving, 1);
    end_transfer(rig);
    assert_int_equal(stats_of(rig).receiving, 2);
    rig_destroy(rig);
}

/* Four hand-offs of 4 blocks fill a pool of 16 while nothing else was ever asked
 * for. After one receive they take 8, and the next starts when one has ended. */
static void hand_offs_take_half_of_a_pool_that_receives_too(void **state)
{
    (void)state;
    for (int receives = 0; receives < 2; receives++) {
        struct engine_core_options options = rig_options();
        options.page_counts[0] = 16;
        options.session_max = 16;
        struct rig *rig = rig_create(&options);
        if (receives == 1) {
            submit_kind(rig, ENGINE_GENERATION_ONLY, 9, 4);
            rig_run(rig);
            end_transfer(rig);
        }
        for (uint64_t id = 1; id <= 4; id++) {
            submit_kind(rig, ENGINE_CONTEXT_ONLY, id, 16);
        }
        rig_run(rig);
        assert_int_equal(stats_of(rig).sending, receives == 1 ? 2 : 4);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(
                rig_count(rig, 3 + (uint64_t)(i > 1), ENGINE_EVENT_FINISHED),
                receives == 0 || i > 0);
            end_transfer(rig);
        }
        rig_assert_idle(rig);
        rig_destroy(rig);
    }
}

/* 10 of 16 blocks are more than half: alone such a hand-off runs, beside another
 * it waits, and an aggregated request does not wait with it. */
static void one_large_hand_off_always_may(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    options.is_mixed = true;
    struct rig *rig = rig_create(&options);
    submit_kind(rig, ENGINE_CONTEXT_ONLY, 1, 4);
    submit_kind(rig, ENGINE_CONTEXT_ONLY, 2, 40);
    submit_kind(rig, ENGINE_AGGREGATED, 3, 4);
    rig_run(rig);
    assert_int_equal(stats_of(rig).sending, 1);
    assert_int_equal(rig_count(rig, 3, ENGINE_EVENT_FINISHED), 1);
    end_transfer(rig);
    assert_int_equal(stats_of(rig).sending, 1);
    assert_int_equal(rig_count(rig, 2, ENGINE_EVENT_FINISHED), 1);
    end_transfer(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Of 4 sessions hand-offs take 3; the last is for the receive that comes after
 * all of them. Without any receive they take all 4. */
static void hand_offs_leave_sessions_to_receives(void **state)
{
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        struct engine_core_options options = rig_options();
        options.is_mixed = mixed == 1;
        struct rig *rig = rig_create(&options);
        for (uint64_t id = 1; id <= 5; id++) {
            submit_kind(rig, ENGINE_CONTEXT_ONLY, id, 8);
        }
        rig_run(rig);
        assert_int_equal(stats_of(rig).sending, mixed == 1 ? 3 : 4);
        submit_kind(rig, ENGINE_GENERATION_ONLY, 6, 8);
        rig_run(rig);
        assert_int_equal(stats_of(rig).receiving, mixed);
        rig_destroy(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admission_reserves_to_completion_in_order),
        cmocka_unit_test(reusable_blocks_are_not_charged),
        cmocka_unit_test(every_choice_is_reserved_for),
        cmocka_unit_test(a_length_asked_for_is_refused_when_it_does_not_fit),
        cmocka_unit_test(impossible_requests_are_refused_with_the_sums),
        cmocka_unit_test(a_full_queue_says_so),
        cmocka_unit_test(lanes_are_limited),
        cmocka_unit_test(draining_refuses_new_work_only),
        cmocka_unit_test(scopes_share_no_blocks),
        cmocka_unit_test(receives_pass_prompts_that_lack_pages),
        cmocka_unit_test(receives_keep_their_order),
        cmocka_unit_test(hand_offs_take_half_of_a_pool_that_receives_too),
        cmocka_unit_test(one_large_hand_off_always_may),
        cmocka_unit_test(hand_offs_leave_sessions_to_receives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
