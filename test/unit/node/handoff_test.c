/* Two small workers under a random workload: every kind of request, one to four
 * choices, prompts that share beginnings, cancels at any moment on either side,
 * hand-offs that nobody picks up. Pools hold about two requests, so that pages
 * change hands all the time; each token is held against the hash of all tokens
 * before it, which one wrong byte in a page would change. */
#include "pair.h"

#include "base/rng.h"

enum {
    PAGES = 40,
    JOB_COUNT = 200,
    JOB_ALIVE_MAX = 8,
    PROMPT_MAX = 60,
    ANSWER_MAX = 12
};
static const uint64_t LONG_NS = UINT64_C(60000000000);

enum job_kind { JOB_CONTEXT_ALONE, JOB_GENERATION_ALONE, JOB_HAND_OFF };
enum leave {
    LEAVE_NEVER,
    LEAVE_CONTEXT, /* cancels the first leg */
    LEAVE_BETWEEN, /* the second leg never comes; the first is aborted */
    LEAVE_GENERATION /* cancels the second leg */
};

struct job {
    bool is_used;
    enum job_kind kind;
    enum leave leave;
    uint32_t leave_after; /* rounds */
    struct side *side; /* of the leg under way */
    uint64_t id;
    int64_t rid;
    uint32_t choice_count, max_new, prompt_count;
    int32_t prompt[PAIR_MAX_SEQ];
    bool has_left;
};

struct work {
    struct pair *pair;
    struct rng rng;
    struct job jobs[JOB_ALIVE_MAX];
    uint32_t started, ended;
    uint32_t whole, cancelled, handed_over;
    uint64_t steady_allocations;
};

static uint32_t below(struct work *work, uint32_t bound)
{
    return (uint32_t)rng_below(&work->rng, bound);
}

static void submit_leg(struct work *work, struct job *job,
                       enum engine_kind kind, const int32_t *first_tokens)
{
    struct ask ask = {.kind = kind,
                      .prompt = job->prompt,
                      .prompt_count = job->prompt_count,
                      .choice_count = job->choice_count,
                      .max_new = job->max_new,
                      .rid = job->rid,
                      .sender = work->pair->context,
                      .first_tokens = first_tokens};
    job->id = side_submit(job->side, &ask);
}

static void start_job(struct work *work, struct job *job)
{
    struct pair *pair = work->pair;
    *job = (struct job){
        .is_used = true,
        .kind = below(work, 4) == 0 ? below(work, 2) : JOB_HAND_OFF,
        .leave = below(work, 3) == 0 ? below(work, 4) : 0,
        .leave_after = below(work, 6),
        .rid = ++pair->last_rid,
        .choice_count = below(work, 3) == 0 ? 1 + below(work, 4) : 1,
        .max_new = 2 + below(work, ANSWER_MAX - 1),
        .prompt_count = 1 + below(work, PROMPT_MAX)};
    job->side =
        job->kind == JOB_GENERATION_ALONE ? pair->generation : pair->context;
    pair_prompt(below(work, 6), job->prompt_count, job->prompt);
    submit_leg(work, job,
               job->kind == JOB_HAND_OFF ? ENGINE_CONTEXT_ONLY
                                         : ENGINE_AGGREGATED,
               NULL);
    work->started++;
}

static bool is_generation_leg(const struct work *work, const struct job *job)
{
    return job->kind == JOB_HAND_OFF && job->side == work->pair->generation;
}

/* The second leg, or nobody comes for the first. */
static void hand_over(struct work *work, struct job *job)
{
    const struct answer *answer = &job->side->answers[job->id];
    int32_t first_tokens[PAIR_CHOICE_MAX];
    if (job->leave == LEAVE_BETWEEN) {
        side_abort(job->side, job->rid);
        job->has_left = true;
        job->is_used = false;
        work->cancelled++;
        work->ended++;
        return;
    }
    for (uint32_t c = 0; c < job->choice_count; c++) {
        first_tokens[c] = answer->tokens[c][0];
    }
    work->handed_over++;
    job->side = work->pair->generation;
    submit_leg(work, job, ENGINE_GENERATION_ONLY, first_tokens);
}

/* What came is right up to where it ended, and only who left gets less. */
static void end_leg(struct work *work, struct job *job)
{
    const struct answer *answer = &job->side->answers[job->id];
    bool is_first_leg =
        job->kind == JOB_HAND_OFF && !is_generation_leg(work, job);
    if (answer->error != OK) {
        fail_msg("request %llu of %s: %s", (unsigned long long)job->id,
                 job->side == work->pair->context ? "context" : "generation",
                 answer->reason);
    }
    side_check_tokens(job->side, job->id);
    bool is_cut = false;
    for (uint32_t c = 0; c < answer->choice_count; c++) {
        is_cut |= answer->finishes[c] == ENGINE_FINISH_CANCELLED;
    }
    if (is_cut) {
        assert_true(job->has_left);
        work->cancelled++;
    } else {
        side_check_whole(job->side, job->id,
                         is_first_leg ? ENGINE_FINISH_HANDOFF
                                      : ENGINE_FINISH_LENGTH);
    }
    if (is_first_leg && !is_cut && !job->has_left) {
        hand_over(work, job);
        return;
    }
    if (is_first_leg && !is_cut) {
        /* The cancel crossed with the end: nobody will come for it. */
        side_abort(job->side, job->rid);
    }
    if (is_generation_leg(work, job) && is_cut) {
        /* It may never have asked for the KV: as a front end does, tell who
         * has it. */
        side_abort(work->pair->context, job->rid);
    }
    work->whole += !is_cut;
    work->ended++;
    job->is_used = false;
}

static void maybe_leave(struct work *work, struct job *job)
{
    bool is_second = is_generation_leg(work, job);
    bool is_due = job->leave == LEAVE_CONTEXT
                      ? !is_second
                      : job->leave == LEAVE_GENERATION && is_second;
    if (!is_due || job->has_left || job->leave_after-- > 0) {
        return;
    }
    job->has_left = true;
    side_cancel(job->side, job->id);
}

static void run_round(struct work *work)
{
    for (int i = 0; i < JOB_ALIVE_MAX; i++) {
        struct job *job = &work->jobs[i];
        if (!job->is_used && work->started < JOB_COUNT) {
            start_job(work, job);
        }
        if (job->is_used && job->side->answers[job->id].is_over) {
            end_leg(work, job);
        } else if (job->is_used) {
            maybe_leave(work, job);
        }
    }
}

static void check_end(struct work *work)
{
    struct pair *pair = work->pair;
    pair_await_empty(pair);
    struct transfer_stats sent, received;
    transfer_stats_read(pair->context->transfer, &sent);
    transfer_stats_read(pair->generation->transfer, &received);
    assert_int_equal(sent.sends_done + sent.sends_failed, sent.sends_started);
    assert_int_equal(received.receives_done + received.receives_failed,
                     received.receives_started);
    assert_int_equal(received.integrity_failures, 0);
    assert_true(work->whole > JOB_COUNT / 2);
    assert_true(work->cancelled > 0);
    assert_true(work->handed_over > JOB_COUNT / 3);
}

/* All that arrived went packed, or nothing did. */
static void check_packed(const struct pair *pair)
{
    struct transfer_stats received;
    transfer_stats_read(pair->generation->transfer, &received);
    assert_true(pair_bounce.size == 0 ? received.received_bounced_bytes == 0
                                      : received.received_bounced_bytes >=
                                            received.received_bytes);
    assert_int_equal(received.bounce_quarantined_bytes, 0);
}

static void run_seed(uint64_t seed, const struct side_setup *context,
                     const struct side_setup *generation)
{
    struct work *work = mem_new(sizeof(*work));
    print_message("seed %llu\n", (unsigned long long)seed);
    work->pair = pair_open_as(context, generation);
    work->rng = rng_from_seed(seed);
    uint64_t give_up_ns = io_clock_now_ns() + 4 * PAIR_PATIENCE_NS;
    while (work->ended < JOB_COUNT) {
        pair_take(work->pair);
        run_round(work);
        if (io_clock_now_ns() > give_up_ns) {
            pair_say(work->pair);
            fail_msg("%u of %u have ended", work->ended, work->started);
        }
        io_waker_wait(work->pair->event_waker, 1000000);
    }
    check_end(work);
    check_packed(work->pair);
    pair_close(work->pair);
    mem_free(work);
}

/* Proof: each token of each choice is what the hash says, everybody who did not
 * leave gets a whole answer, and at the end no page is used or leased and no
 * session lives. [transfer T80 I21 I31] */
static void every_token_is_right_and_everything_is_given_back(void **state)
{
    (void)state;
    struct side_setup setup = {.page_count = PAGES, .timeout_ns = LONG_NS};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run_seed(seed, &setup, &setup);
    }
}

/* Pages for as many tokens as the others have, and one a sequence more for what
 * larger blocks leave empty. */
static struct side_setup setup_of(uint32_t tokens_per_block, uint32_t window)
{
    return (struct side_setup){.page_count =
                                   PAGES * PAIR_BLOCK / tokens_per_block + 8,
                               .timeout_ns = LONG_NS,
                               .tokens_per_block = tokens_per_block,
                               .life_count = window == 0 ? 1 : 2,
                               .lives = {{0}, {.window = window}},
                               .enable_partial_reuse = window == 21};
}

/* Proof: the same where the two workers' blocks hold different numbers of
 * tokens, in either direction, for a model that sees all and for ones with
 * windows that end within a block. [transfer T42 T44 T52 I2 I28] */
static void mixed_blocks_give_the_same_tokens(void **state)
{
    (void)state;
    const uint32_t cases[][3] = {
        {16, 32, 0}, {32, 8, 0}, {4, 16, 13}, {16, 4, 21}, {2, 8, 21}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct side_setup context = setup_of(cases[i][0], cases[i][2]);
        struct side_setup generation = setup_of(cases[i][1], cases[i][2]);
        run_seed(10 + i, &context, &generation);
    }
}

/* The same work with pages that go packed through arenas which hold a few of
 * them: the same tokens, cancels at any moment included. [transfer T36 T50] */
static void packed_pages_give_the_same_tokens(void **state)
{
    (void)state;
    pair_bounce = (struct transfer_bounce_options){.size = 16384,
                                                   .granule = 512,
                                                   .chunk_max = 4096,
                                                   .patience_ns = LONG_NS,
                                                   .is_forced = true};
    struct side_setup setup = {.page_count = PAGES, .timeout_ns = LONG_NS};
    for (uint64_t seed = 1; seed <= 2; seed++) {
        run_seed(seed, &setup, &setup);
    }
    pair_bounce = (struct transfer_bounce_options){0};
}

/* ---- growth ---- */

static void hand_over_one(struct pair *pair, uint32_t kind)
{
    int32_t prompt[PAIR_MAX_SEQ];
    pair_prompt(kind, PROMPT_MAX, prompt);
    struct ask ask = {.kind = ENGINE_CONTEXT_ONLY,
                      .prompt = prompt,
                      .prompt_count = PROMPT_MAX,
                      .max_new = ANSWER_MAX,
                      .rid = ++pair->last_rid};
    uint64_t id = side_submit(pair->context, &ask);
    const struct answer *answer = &pair->context->answers[id];
    PAIR_AWAIT(pair, answer->is_over);
    ask.kind = ENGINE_GENERATION_ONLY;
    ask.sender = pair->context;
    ask.first_tokens = &answer->tokens[0][0];
    id = side_submit(pair->generation, &ask);
    PAIR_AWAIT(pair, pair->generation->answers[id].is_over);
    side_check_whole(pair->generation, id, ENGINE_FINISH_LENGTH);
    pair_await_empty(pair);
}

static uint64_t allocations_of(struct pair *pair, uint32_t count)
{
    uint64_t before = mem_allocation_count();
    for (uint32_t i = 0; i < count; i++) {
        hand_over_one(pair, 100 + i);
    }
    return mem_allocation_count() - before;
}

/* Proof: a hand-off makes no allocation but those of this test (request, prompt
 * and its copy on either side, and one in the decorator that could hold its
 * write), and one a request for the keys of its prompt. A table that is used for the first time (a second session while the
 * first one is not quite over) may come on top, but not with each hand-off. */
static void a_steady_flow_of_handoffs_allocates_nothing(void **state)
{
    enum { COUNT = 200, OURS = 4 + 4 + 1, FIRST_USES = 16 };
    (void)state;
    struct pair *pair = pair_open(PAGES, PAGES, LONG_NS);
    allocations_of(pair, 20);
    uint64_t count = allocations_of(pair, COUNT);
    assert_in_range(count, COUNT * OURS, COUNT * OURS + FIRST_USES);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_right_and_everything_is_given_back),
        cmocka_unit_test(mixed_blocks_give_the_same_tokens),
        cmocka_unit_test(packed_pages_give_the_same_tokens),
        cmocka_unit_test(a_steady_flow_of_handoffs_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
