/* What requests ask for their pages: of prompts through a pool that is far too
 * small for all of them, those come back from the cache that were to be kept. */
#include "unit/engine/rig.h"

enum { PROMPT = 40, SECOND_NS = 1000000000 };

static struct engine_request *keep(struct engine_request *request,
                                   uint8_t priority, uint64_t duration_ms)
{
    request->retention = (struct kv_retention_plan){
        .rule_count = 1,
        .rules = {{.first_token = 0,
                   .end_token = UINT32_MAX,
                   .priority = priority,
                   .duration_ms = duration_ms}},
    };
    return request;
}

/* Runs to its end; tokens of the prompt that the cache had. */
static uint32_t run(struct rig *rig, struct engine_request *request)
{
    uint64_t id = request->id;
    rig_submit(rig, request);
    rig_run(rig);
    const struct engine_event *end =
        rig_find(rig, id, 0, ENGINE_EVENT_FINISHED);
    assert_non_null(end);
    return end->journey.cached_tokens;
}

/* Eight prompts of eleven blocks each through 64 pages. */
static void press(struct rig *rig, uint64_t first_id)
{
    for (int i = 0; i < 8; i++) {
        uint64_t id = first_id + (uint64_t)i;
        assert_int_equal(run(rig, rig_request(id, 20 + (int)id, PROMPT)), 0);
    }
}

static struct rig *create(void)
{
    struct engine_core_options options = rig_options();
    return rig_create(&options);
}

/* Two prompts, as old as each other; one was to be kept. */
static void kept_prompt_outlives_others(void **state)
{
    (void)state;
    struct rig *rig = create();
    run(rig, keep(rig_request(1, 1, PROMPT), 90, UINT64_MAX));
    run(rig, rig_request(2, 2, PROMPT));
    press(rig, 10);
    assert_int_equal(run(rig, rig_request(3, 1, PROMPT)), PROMPT - 4);
    assert_int_equal(run(rig, rig_request(4, 2, PROMPT)), 0);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The same, kept for a second, after two; and one that is to go first does. */
static void kept_prompt_goes_when_its_time_is_over(void **state)
{
    (void)state;
    struct rig *rig = create();
    run(rig, keep(rig_request(1, 1, PROMPT), 90, 1000));
    rig->now_ns += 2 * (uint64_t)SECOND_NS;
    press(rig, 10);
    assert_int_equal(run(rig, rig_request(2, 1, PROMPT)), 0);
    run(rig, keep(rig_request(3, 3, PROMPT), 0, UINT64_MAX));
    run(rig, rig_request(4, 4, PROMPT));
    assert_int_equal(run(rig, rig_request(5, 3, PROMPT)), 0);
    rig_destroy(rig);
}

/* It is there already when somebody asks for it to be kept. */
static void found_prompt_is_kept(void **state)
{
    (void)state;
    struct rig *rig = create();
    run(rig, rig_request(1, 1, PROMPT));
    assert_int_equal(run(rig, keep(rig_request(2, 1, PROMPT), 90, UINT64_MAX)),
                     PROMPT - 4);
    press(rig, 10);
    assert_int_equal(run(rig, rig_request(3, 1, PROMPT)), PROMPT - 4);
    rig_destroy(rig);
}

/* A prompt and what came of it are the next prompt. Where only the end of a prompt
 * is worth keeping, what was generated is computed anew; else all of its full
 * blocks are found, but the last token's. */
static void what_is_kept_of_an_answer_is_the_policys(void **state)
{
    (void)state;
    for (int is_per_request = 0; is_per_request < 2; is_per_request++) {
        struct engine_core_options options = rig_options();
        options.is_reuse_per_request = is_per_request > 0;
        options.enable_prefix_waits = true;
        options.chunk_tokens = 16;
        struct rig *rig = rig_create(&options);
        struct engine_request *first = rig_request(1, 1, PROMPT);
        first->max_new_tokens = 8;
        run(rig, first);
        struct engine_request *next = rig_request(2, 1, PROMPT + 8);
        rig_expect(rig, 1, PROMPT, 8, next->prompt + PROMPT);
        assert_int_equal(run(rig, next), PROMPT + (is_per_request ? 0 : 4));
        rig_assert_idle(rig);
        rig_destroy(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_prompt_outlives_others),
        cmocka_unit_test(kept_prompt_goes_when_its_time_is_over),
        cmocka_unit_test(found_prompt_is_kept),
        cmocka_unit_test(what_is_kept_of_an_answer_is_the_policys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
