#include "rig.h"

static struct engine_core_options options_of(uint32_t event_max)
{
    struct engine_core_options options = rig_options();
    options.cache_event_max = event_max;
    return options;
}

static void serve_prompt(struct rig *rig, uint64_t id, int kind, uint64_t salt)
{
    struct engine_request *request = rig_request(id, kind, 13);
    request->scope.has_salt = salt != 0;
    request->scope.salt = salt;
    rig_submit(rig, request);
    rig_run(rig);
}

/* The answer, the test's to finish. */
static struct engine_event ask(struct rig *rig, bool is_resync)
{
    engine_core_command(rig->core, rig->now_ns,
                        &(struct engine_command){.kind = ENGINE_CACHE_EVENTS,
                                                 .id = 900,
                                                 .is_resync = is_resync});
    assert_true(engine_core_is_valid(rig->core));
    rig_drain(rig);
    struct engine_event *event = &rig->events[--rig->event_count];
    assert_int_equal(event->kind, ENGINE_EVENT_CACHE);
    assert_int_equal(event->id, 900);
    return *event;
}

/* Records of a kind among `count`. */
static uint32_t count_of(const struct kv_event *events, uint32_t count,
                         enum kv_event_kind kind)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        found += events[i].kind == kind;
    }
    return found;
}

static const struct kv_event *first_stored(const struct kv_event *events,
                                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].kind == KV_EVENT_STORED) {
            return &events[i];
        }
    }
    fail_msg("nothing is stored");
    return NULL;
}

/* Proof: the blocks of a prompt and its answer come once, with their ids; then
 * nothing. */
static void each_block_is_told_once(void **state)
{
    (void)state;
    struct engine_core_options options = options_of(100);
    struct rig *rig = rig_create(&options);
    serve_prompt(rig, 1, 1, 0);
    struct engine_event event = ask(rig, false);
    const struct engine_cache_batch *batch = event.cache;
    assert_int_equal(count_of(batch->told, batch->told_count, KV_EVENT_CREATED),
                     1);
    assert_true(count_of(batch->told, batch->told_count, KV_EVENT_STORED) >= 3);
    const struct kv_event *first = first_stored(batch->told, batch->told_count);
    assert_false(first->has_parent);
    assert_false(first->has_salt);
    assert_int_equal(first->token_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(first->tokens[i], rig_prompt_token(1, i));
    }
    assert_false(batch->has_listing);
    assert_true(batch->id_last >= 2);
    engine_event_finish(&event);
    event = ask(rig, false);
    assert_int_equal(event.cache->told_count, 0);
    engine_event_finish(&event);
    rig_destroy(rig);
}

/* Proof: the first block of a salted prompt carries the salt that it was asked
 * with, which the cache itself does not know. */
static void a_first_block_has_the_salt_of_its_scope(void **state)
{
    (void)state;
    struct engine_core_options options = options_of(100);
    struct rig *rig = rig_create(&options);
    serve_prompt(rig, 1, 1, 77);
    struct engine_event event = ask(rig, false);
    const struct kv_event *first =
        first_stored(event.cache->told, event.cache->told_count);
    assert_true(first->has_salt);
    assert_int_equal(first->salt, 77);
    engine_event_finish(&event);
    event = ask(rig, true);
    assert_int_equal(event.cache->told_count, 0);
    assert_true(event.cache->has_listing);
    first = first_stored(event.cache->listed, event.cache->listed_count);
    assert_int_equal(first->salt, 77);
    assert_int_equal(first->tokens[0], rig_prompt_token(1, 0));
    engine_event_finish(&event);
    rig_destroy(rig);
}

/* Proof: more than the log holds leaves a gap at the front, and with it comes
 * all that is announced; the next answer has neither. */
static void a_gap_brings_a_listing_along(void **state)
{
    (void)state;
    struct engine_core_options options = options_of(4);
    struct rig *rig = rig_create(&options);
    for (int kind = 1; kind < 6; kind++) {
        serve_prompt(rig, (uint64_t)kind, kind, 0);
    }
    struct engine_event event = ask(rig, false);
    assert_true(event.cache->told_count > 0);
    assert_int_equal(event.cache->told[0].kind, KV_EVENT_GAP);
    assert_true(event.cache->told[0].lost > 0);
    assert_true(event.cache->has_listing);
    assert_true(event.cache->listed_count >= 15);
    engine_event_finish(&event);
    serve_prompt(rig, 9, 9, 0);
    event = ask(rig, false);
    assert_false(event.cache->has_listing);
    assert_int_equal(event.cache->listed_count, 0);
    engine_event_finish(&event);
    rig_destroy(rig);
}

/* Proof: a core that keeps none answers so, and one that ends with an answer
 * still unread frees it. */
static void no_log_is_an_answer_too(void **state)
{
    (void)state;
    struct engine_core_options options = options_of(0);
    struct rig *rig = rig_create(&options);
    serve_prompt(rig, 1, 1, 5);
    struct engine_event event = ask(rig, false);
    assert_null(event.cache);
    assert_int_equal(event.error, OK);
    rig_destroy(rig);
    options = options_of(10);
    rig = rig_create(&options);
    engine_core_command(rig->core, rig->now_ns,
                        &(struct engine_command){.kind = ENGINE_CACHE_EVENTS});
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_is_told_once),
        cmocka_unit_test(a_first_block_has_the_salt_of_its_scope),
        cmocka_unit_test(a_gap_brings_a_listing_along),
        cmocka_unit_test(no_log_is_an_answer_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
