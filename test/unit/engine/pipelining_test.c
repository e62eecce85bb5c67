/* No setting keeps a prompt from leaving while it is computed (transfer.md
 * 3.10), and a worker that is to end lets what is under way end first. */
#include "unit/engine/stream.h"

enum { CHUNK = 8, RID = 5 };

static void submit(struct stream_pair *pair, int64_t rid, int kind,
                   uint32_t tokens, uint32_t choices)
{
    for (int half = 0; half < 2; half++) {
        struct engine_request *request = stream_half(
            half == 0 ? ENGINE_GENERATION_ONLY : ENGINE_CONTEXT_ONLY, rid, kind,
            tokens);
        request->choice_count = choices;
        rig_submit(half == 0 ? pair->generation : pair->context, request);
    }
}

static void assert_answered(struct stream_pair *pair, int64_t rid, int kind,
                            uint32_t tokens)
{
    int32_t expected[4];
    rig_expect(pair->context, kind, tokens, 4, expected);
    rig_assert_tokens(pair->generation, (uint64_t)rid + STREAM_NEXT, 0,
                      expected, 4, ENGINE_FINISH_LENGTH);
}

/* Twice the same prompt, the second with what is cached of the first. Windows
 * streams as slices are: short ones not, the others with the last slice. */
static void run_setting(const struct engine_core_options *options,
                        uint32_t choices)
{
    struct stream_pair pair;
    stream_pair_open(&pair, options);
    for (int64_t rid = RID; rid < RID + 2; rid++) {
        submit(&pair, rid, 1, 37, choices);
        stream_pair_run(&pair, 60);
        assert_answered(&pair, rid, 1, 37);
    }
    stream_pair_close(&pair);
}

/* The capacity policies (G12), reuse of any kind (G7), prompts in chunks or
 * whole (G8), several choices (G9): each with each. [transfer T27] */
static void every_setting_streams(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 3 * 2 * 2 * 2 * 2 * 2; bits++) {
        struct engine_core_options options = rig_options();
        uint32_t rest = bits / 3;
        options.policy = (enum sched_policy)(bits % 3);
        options.enable_block_reuse = rest & 1;
        options.enable_partial_reuse = rest >> 1 & 1;
        options.is_reuse_per_request = rest >> 2 & 1;
        options.chunk_tokens = rest >> 3 & 1 ? CHUNK : 0;
        run_setting(&options, rest >> 4 & 1 ? 3 : 1);
    }
}

/* Told to end between two chunks: the session is neither complete nor failed by
 * that, its slices go on, and nothing new begins. [transfer T21] */
static void a_drain_in_the_middle_ends_nothing(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.chunk_tokens = CHUNK;
    struct stream_pair pair;
    stream_pair_open(&pair, &options);
    submit(&pair, RID, 1, 37, 1);
    while (pair.streams.of[RID].slice_count < 2) {
        stream_pair_run(&pair, 1);
    }
    rig_command(pair.context, ENGINE_DRAIN, 0, 0);
    rig_command(pair.generation, ENGINE_DRAIN, 0, 0);
    stream_pair_run(&pair, 1);
    assert_null(rig_find(pair.context, RID, 0, ENGINE_EVENT_FAILED));
    assert_null(rig_find(pair.context, RID, 0, ENGINE_EVENT_FINISHED));
    assert_null(
        rig_find(pair.generation, RID + STREAM_NEXT, 0, ENGINE_EVENT_FAILED));
    submit(&pair, RID + 1, 2, 20, 1);
    stream_pair_run(&pair, 60);
    assert_answered(&pair, RID, 1, 37);
    assert_non_null(rig_find(pair.context, RID + 1, 0, ENGINE_EVENT_FAILED));
    stream_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_streams),
        cmocka_unit_test(a_drain_in_the_middle_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
