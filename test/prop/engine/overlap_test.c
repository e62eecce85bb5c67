/* The same random work with and without overlap: requests of every sort that
 * share beginnings, a pool so small that some are put away or paused, batches
 * given up, clients and choices that leave. Every choice says the same tokens in
 * both; one that was left says as many as it came to, of the same. Sampled, with
 * penalties, so that one token wrong makes all that follow wrong.
 * [engine I27] [engine I48] */
#include <stdlib.h>

#include "unit/engine/rig.h"

#include "base/log.h"
#include "base/rng.h"

enum { REQUEST_MAX = 40, OUTPUT_MAX = 24, TURNS = 400 };

struct asked {
    uint32_t prompt_count, choice_count, max_new, stop_count;
    uint64_t seed;
    float temperature, repetition;
    int prompt_kind;
    uint32_t left; /* bit a choice */
};

struct said {
    uint32_t counts[REQUEST_MAX][ENGINE_CHOICE_COUNT_MAX];
    int32_t tokens[REQUEST_MAX][ENGINE_CHOICE_COUNT_MAX][OUTPUT_MAX];
    enum engine_finish ends[REQUEST_MAX][ENGINE_CHOICE_COUNT_MAX];
    uint64_t given_way;
};

static void draw(struct rng *rng, struct asked *asked)
{
    for (int i = 0; i < REQUEST_MAX; i++) {
        asked[i].prompt_count = 1 + (uint32_t)rng_below(rng, 40);
        asked[i].choice_count =
            rng_below(rng, 4) == 0 ? 1 + (uint32_t)rng_below(rng, 3) : 1;
        asked[i].max_new = 1 + (uint32_t)rng_below(rng, OUTPUT_MAX);
        asked[i].stop_count = rng_below(rng, 3) == 0 ? 64 : 0;
        asked[i].seed = rng_next(rng);
        asked[i].temperature = rng_below(rng, 4) == 0 ? 0.0f : 0.9f;
        asked[i].repetition = rng_below(rng, 2) == 0 ? 1.0f : 1.2f;
        asked[i].prompt_kind = (int)rng_below(rng, 4);
        asked[i].left = 0;
    }
}

static struct engine_request *request_of(const struct asked *asked, uint64_t id)
{
    struct engine_request *request =
        rig_request(id, asked->prompt_kind, asked->prompt_count);
    request->choice_count = asked->choice_count;
    request->max_new_tokens = asked->max_new;
    request->sampling.seed = asked->seed;
    request->sampling.temperature = asked->temperature;
    request->sampling.repetition_penalty = asked->repetition;
    request->stop_token_count = asked->stop_count;
    for (uint32_t i = 0; i < asked->stop_count; i++) {
        request->stop_tokens[i] = (int32_t)(i * 15 + id % 15);
    }
    return request;
}

static void leave(struct rig *rig, struct rng *rng, struct asked *asked,
                  uint32_t count)
{
    uint64_t id = rng_below(rng, count);
    uint32_t choice = (uint32_t)rng_below(rng, asked[id].choice_count);
    bool is_whole = rng_below(rng, 2) == 0;
    asked[id].left |= is_whole ? UINT32_MAX : 1u << choice;
    if (engine_core_has_room(rig->core)) {
        rig_command(rig, is_whole ? ENGINE_CANCEL : ENGINE_CANCEL_CHOICE, id,
                    choice);
    }
}

static void hear(const struct rig *rig, struct said *said)
{
    for (uint32_t i = 0; i < rig->event_count; i++) {
        const struct engine_event *event = &rig->events[i];
        uint32_t *count = &said->counts[event->id][event->choice];
        if (event->kind == ENGINE_EVENT_TOKEN) {
            assert_int_equal(event->index, *count);
            said->tokens[event->id][event->choice][(*count)++] = event->token;
        } else {
            assert_int_equal(event->kind, ENGINE_EVENT_FINISHED);
            said->ends[event->id][event->choice] = event->finish;
        }
    }
}

/* What leaves, and when a pass gives up, is a matter of turns, and so not the same
 * in both. */
static void run(uint64_t seed, struct asked *asked, bool is_overlapped,
                struct said *said)
{
    struct engine_core_options options = rig_options();
    struct rng rng = rng_from_seed(seed * 2 + is_overlapped);
    options.is_overlapped = is_overlapped;
    options.policy = seed % 4 == 0   ? SCHED_GUARANTEED_NO_EVICT
                     : seed % 4 == 1 ? SCHED_BOUNDED_OVERCOMMIT
                                     : SCHED_MAX_UTILIZATION;
    options.page_counts[0] = 34;
    options.host_page_counts[0] = seed % 3 == 0 ? 30 : 0;
    options.max_seq = 64;
    options.max_batch = 5;
    options.queue_limit = REQUEST_MAX;
    options.chunk_tokens = 8 + (uint32_t)rng_below(&rng, 20);
    options.enable_partial_reuse = true;
    struct rig *rig = rig_create(&options);
    uint32_t count = 0;
    for (int i = 0; i < TURNS; i++) {
        if (count < REQUEST_MAX && rng_below(&rng, 3) == 0) {
            rig_submit(rig, request_of(&asked[count], count));
            count++;
        }
        if (count > 0 && rng_below(&rng, 20) == 0) {
            leave(rig, &rng, asked, count);
        }
        rig->gives_up = rng_below(&rng, 12) == 0;
        rig_turn(rig);
    }
    rig->gives_up = false;
    rig_run(rig);
    assert_int_equal(count, REQUEST_MAX);
    hear(rig, said);
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    said->given_way += stats.suspended_requests + stats.paused_requests;
    rig_assert_idle(rig);
    rig_destroy(rig);
}

static void compare(const struct asked *asked, const struct said *a,
                    const struct said *b)
{
    for (int i = 0; i < REQUEST_MAX; i++) {
        for (uint32_t c = 0; c < asked[i].choice_count; c++) {
            uint32_t both = a->counts[i][c] < b->counts[i][c] ? a->counts[i][c]
                                                              : b->counts[i][c];
            assert_memory_equal(a->tokens[i][c], b->tokens[i][c],
                                both * sizeof(int32_t));
            if (!(asked[i].left & 1u << c)) {
                assert_int_equal(a->counts[i][c], b->counts[i][c]);
                assert_int_equal(a->ends[i][c], b->ends[i][c]);
            }
        }
    }
}

/* BATON_SEED replays one seed. */
static void overlap_changes_no_token(void **state)
{
    (void)state;
    const char *text = getenv("BATON_SEED");
    uint64_t first = text == NULL ? 1 : strtoull(text, NULL, 10);
    uint64_t given_way = 0;
    for (uint64_t seed = first; seed < first + (text == NULL ? 16 : 1);
         seed++) {
        struct asked asked[REQUEST_MAX];
        struct said *with = mem_new(sizeof(*with));
        struct said *without = mem_new(sizeof(*without));
        struct rng rng = rng_from_seed(seed);
        print_message("seed %llu\n", (unsigned long long)seed);
        draw(&rng, asked);
        run(seed, asked, true, with);
        run(seed, asked, false, without);
        compare(asked, with, without);
        given_way += with->given_way;
        mem_free(with);
        mem_free(without);
    }
    assert_true(text != NULL || given_way > 0);
}

int main(void)
{
    log_setup(&(struct log_options){.level = LOG_ERROR});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_changes_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
