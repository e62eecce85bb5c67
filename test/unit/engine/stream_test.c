/* Batches in order, with and without a thread, over a model that tests hold. */
#include "unit/base/test.h"

#include "base/mem.h"
#include "engine/stream.h"

enum { VOCAB = 64 };

/* Gives token (first token + 1) of each run, unless it is told to fail. */
struct plus_one {
    struct model model;
    atomic_int calls;
    atomic_int fail_at; /* the call that fails; 0: none */
    enum err error;
};

static enum err forward(struct model *model, const struct model_batch *batch,
                        float *logits_out)
{
    struct plus_one *plus_one = (struct plus_one *)model;
    int call = atomic_fetch_add(&plus_one->calls, 1) + 1;
    if (call == atomic_load(&plus_one->fail_at)) {
        return plus_one->error;
    }
    if (batch->cancel != NULL && atomic_load(batch->cancel)) {
        return ERR_CANCELLED;
    }
    for (uint32_t i = 0; i < batch->run_count; i++) {
        for (int32_t token = 0; token < VOCAB; token++) {
            logits_out[i * VOCAB + (uint32_t)token] =
                token == batch->runs[i].tokens[0] + 1 ? 1.0f : 0.0f;
        }
    }
    return OK;
}

static const struct model_ops PLUS_ONE = {.name = "plus one",
                                          .forward = forward};

struct world {
    struct plus_one model;
    struct engine_stream *stream;
    struct sampler_options greedy;
    int32_t tokens[8];
    struct model_run runs[8];
    struct engine_job jobs[8];
    struct engine_feed feeds[8];
    struct engine_plan plans[8];
};

static void create(struct world *world, bool is_threaded)
{
    struct why why;
    *world = (struct world){.model = {.model = {.ops = &PLUS_ONE}},
                            .greedy = sampler_defaults()};
    world->greedy.temperature = 0;
    struct engine_stream_options options = {.model = &world->model.model,
                                            .vocab_size = VOCAB,
                                            .logit_row_max = 4,
                                            .job_max = 4,
                                            .is_threaded = is_threaded};
    assert_int_equal(engine_stream_create(&options, &why, &world->stream), OK);
    for (int i = 0; i < 8; i++) {
        world->runs[i] = (struct model_run){
            .tokens = &world->tokens[i], .token_count = 1, .logit_count = 1};
        world->jobs[i] = (struct engine_job){
            .options = &world->greedy,
            .input = {.vocab_size = VOCAB, .logprob_count = -1}};
        world->feeds[i] = (struct engine_feed){.token = &world->tokens[i]};
        world->plans[i] = (struct engine_plan){.runs = &world->runs[i],
                                               .run_count = 1,
                                               .row_count = 1,
                                               .logit_row_count = 1,
                                               .jobs = &world->jobs[i],
                                               .job_count = 1,
                                               .feeds = &world->feeds[i],
                                               .feed_count = i > 0};
    }
    world->tokens[0] = 10;
}

static void collect(struct world *world, int index, int32_t token)
{
    struct engine_computed computed = engine_stream_collect(world->stream);
    assert_int_equal(computed.err, OK);
    assert_ptr_equal(computed.plan, &world->plans[index]);
    assert_int_equal(computed.results[0].token, token);
}

/* Each batch begins with the token of the one before, launched before that one
 * was collected. */
static void each_is_fed_by_the_one_before(void **state)
{
    (void)state;
    struct world world;
    create(&world, true);
    engine_stream_launch(world.stream, &world.plans[0], NULL);
    for (int i = 1; i < 8; i++) {
        engine_stream_launch(world.stream, &world.plans[i], NULL);
        collect(&world, i - 1, 10 + i);
    }
    collect(&world, 7, 18);
    assert_int_equal(engine_stream_count(world.stream), 0);
    engine_stream_destroy(world.stream);
}

/* Also when it was collected first, and without a thread. */
static void one_at_a_time_is_fed_too(void **state)
{
    (void)state;
    for (int is_threaded = 0; is_threaded < 2; is_threaded++) {
        struct world world;
        create(&world, is_threaded);
        for (int i = 0; i < 4; i++) {
            engine_stream_launch(world.stream, &world.plans[i], NULL);
            collect(&world, i, 11 + i);
        }
        engine_stream_destroy(world.stream);
    }
}

/* What follows one that failed is skipped; what is launched after that runs. */
static void what_follows_a_failure_is_not_computed(void **state)
{
    (void)state;
    struct world world;
    create(&world, true);
    world.model.error = ERR_INTERNAL;
    atomic_store(&world.model.fail_at, 1);
    engine_stream_launch(world.stream, &world.plans[0], NULL);
    engine_stream_launch(world.stream, &world.plans[1], NULL);
    assert_int_equal(engine_stream_collect(world.stream).err, ERR_INTERNAL);
    assert_int_equal(engine_stream_collect(world.stream).err, ERR_CANCELLED);
    assert_int_equal(atomic_load(&world.model.calls), 1);
    engine_stream_launch(world.stream, &world.plans[0], NULL);
    collect(&world, 0, 11);
    engine_stream_destroy(world.stream);
}

/* The hint ends the batch it meets and the one behind; a batch without it runs. */
static void a_hint_ends_what_is_under_way(void **state)
{
    (void)state;
    struct world world;
    atomic_bool hint = true;
    create(&world, true);
    engine_stream_launch(world.stream, &world.plans[0], &hint);
    engine_stream_launch(world.stream, &world.plans[1], NULL);
    assert_int_equal(engine_stream_collect(world.stream).err, ERR_CANCELLED);
    assert_int_equal(engine_stream_collect(world.stream).err, ERR_CANCELLED);
    engine_stream_launch(world.stream, &world.plans[0], NULL);
    collect(&world, 0, 11);
    engine_stream_destroy(world.stream);
}

/* Its end waits for what was launched. */
static void it_ends_with_work_in_hand(void **state)
{
    (void)state;
    struct world world;
    create(&world, true);
    engine_stream_launch(world.stream, &world.plans[0], NULL);
    engine_stream_launch(world.stream, &world.plans[1], NULL);
    engine_stream_destroy(world.stream);
    assert_int_equal(atomic_load(&world.model.calls), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_fed_by_the_one_before),
        cmocka_unit_test(one_at_a_time_is_fed_too),
        cmocka_unit_test(what_follows_a_failure_is_not_computed),
        cmocka_unit_test(a_hint_ends_what_is_under_way),
        cmocka_unit_test(it_ends_with_work_in_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
