/* The engine in a world made from a seed. Each run checks itself: a wrong token,
 * a page used too early, a choice that ends twice or never, anything held at the
 * end makes it fail. What is sent is there.
 * [engine F2 F3 F4 I36 I48] [transfer I29] */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "unit/base/test.h"

#include "base/log.h"
#include "engine/state.h"
#include "sim/engine.h"

enum { SEED_COUNT = 50, SHORT_PASSES = 60 };

static void print_line(void *context, const char *line)
{
    (void)context;
    print_message("%s\n", line);
}

static struct sim_engine_summary run(uint64_t seed, uint32_t passes)
{
    struct sim_engine_options options = {
        .seed = seed, .pass_count = passes, .on_tail = print_line};
    struct sim_engine_summary summary;
    if (!sim_engine_run(&options, &summary)) {
        fail_msg("seed %" PRIu64 ": %s", seed, summary.failure);
    }
    return summary;
}

static void add(struct sim_engine_summary *sum,
                const struct sim_engine_summary *one)
{
    sum->requests += one->requests;
    sum->tokens += one->tokens;
    sum->cached_tokens += one->cached_tokens;
    sum->evictions += one->evictions;
    sum->suspensions += one->suspensions;
    sum->pauses += one->pauses;
    sum->cancels += one->cancels;
    sum->copies += one->copies;
    sum->copies_failed += one->copies_failed;
    sum->transfers += one->transfers;
    sum->slices += one->slices;
    sum->transfers_failed += one->transfers_failed;
    sum->withdrawals += one->withdrawals;
    sum->faults += one->faults;
    sum->vetoes += one->vetoes;
}

/* Some seeds, few passes each; together they have met everything. */
static void seeds_pass_and_meet_all_there_is(void **state)
{
    (void)state;
    struct sim_engine_summary sum = {0};
    for (uint64_t seed = 1; seed <= SEED_COUNT; seed++) {
        struct sim_engine_summary one = run(seed, SHORT_PASSES);
        add(&sum, &one);
    }
    assert_true(sum.requests > SEED_COUNT);
    assert_true(sum.tokens > 0);
    assert_true(sum.cached_tokens > 0);
    assert_true(sum.evictions > 0);
    assert_true(sum.suspensions > 0);
    assert_true(sum.pauses > 0);
    assert_true(sum.cancels > 0);
    assert_true(sum.copies > sum.copies_failed);
    assert_true(sum.copies_failed > 0);
    assert_true(sum.transfers > sum.transfers_failed);
    assert_true(sum.slices > 0);
    assert_true(sum.transfers_failed > 0);
    assert_true(sum.withdrawals > 0);
    assert_true(sum.faults > 0);
    assert_true(sum.vetoes > 0);
}

/* The same seed twice: the same decisions. Another one: others. [engine F5] */
static void a_seed_replays(void **state)
{
    (void)state;
    for (uint64_t seed = 3; seed <= 6; seed++) {
        struct sim_engine_summary one = run(seed, 0);
        struct sim_engine_summary two = run(seed, 0);
        assert_int_equal(one.trace_hash, two.trace_hash);
        assert_int_equal(one.passes, two.passes);
        assert_true(one.trace_hash != run(seed + 100, 20).trace_hash);
    }
}

/* One world with and without overlap: both draw the same load and say nothing but
 * the known answers; which of the two a seed is by itself, its trace says. */
static void overlap_is_drawn_or_asked_for(void **state)
{
    (void)state;
    uint32_t drawn = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct sim_engine_options options = {.seed = seed, .pass_count = 40};
        struct sim_engine_summary as_drawn, on, off;
        assert_true(sim_engine_run(&options, &as_drawn));
        options.overlap = SIM_OVERLAP_ON;
        assert_true(sim_engine_run(&options, &on));
        options.overlap = SIM_OVERLAP_OFF;
        assert_true(sim_engine_run(&options, &off));
        assert_true(on.is_overlapped);
        assert_false(off.is_overlapped);
        assert_int_equal(as_drawn.trace_hash, as_drawn.is_overlapped
                                                  ? on.trace_hash
                                                  : off.trace_hash);
        drawn += as_drawn.is_overlapped;
    }
    assert_in_range(drawn, 1, 7);
}

/* Swaps two pages of the first choice that decodes with two blocks. */
static void swap_pages(void *context, const struct engine_core *core)
{
    bool *is_done = context;
    for (uint32_t i = 0; i < core->options.max_batch && !*is_done; i++) {
        const struct kv_seq *seq = core->lanes[i].seq;
        if (core->lanes[i].item != NULL && seq != NULL &&
            seq->status == KV_SEQ_ACTIVE && seq->history > 2 * 8 &&
            seq->tables[0][0] != KV_PAGE_NONE &&
            seq->tables[0][1] != KV_PAGE_NONE) {
            kv_page_id page = seq->tables[0][0];
            seq->tables[0][0] = seq->tables[0][1];
            seq->tables[0][1] = page;
            *is_done = true;
        }
    }
}

/* The judge judges: a core that was tampered with is found out, whichever of the
 * checks comes first, and the trace's tail is told. */
static void a_wrong_page_is_found_out(void **state)
{
    (void)state;
    bool is_done = false;
    struct sim_engine_options options = {
        .seed = 4, .on_step = swap_pages, .context = &is_done};
    struct sim_engine_summary summary;
    assert_false(sim_engine_run(&options, &summary));
    assert_true(is_done);
    assert_memory_equal(summary.failure, "pass ", 5);
}

/* Seeds that once failed, kept: `test/sim/seeds/engine` has one a line, and what
 * it was about. */
static void old_failures_stay_mended(void **state)
{
    (void)state;
    char line[400];
    uint32_t count = 0;
    FILE *file = fopen("test/sim/seeds/engine", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t seed = 0;
        if (sscanf(line, "%" SCNu64, &seed) == 1) {
            run(seed, 0);
            count++;
        }
    }
    fclose(file);
    assert_true(count > 0);
}

/* Only who evicted, put away and cancelled counts. */
static void a_seed_counts_when_it_met_all_three(void **state)
{
    (void)state;
    struct sim_engine_summary summary = {.evictions = 1, .cancels = 1};
    assert_false(sim_engine_counts(&summary));
    summary.suspensions = 1;
    assert_true(sim_engine_counts(&summary));
    summary.suspensions = 0;
    summary.pauses = 1;
    assert_true(sim_engine_counts(&summary));
    summary.evictions = 0;
    assert_false(sim_engine_counts(&summary));
    summary.evictions = 1;
    summary.cancels = 0;
    assert_false(sim_engine_counts(&summary));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_pass_and_meet_all_there_is),
        cmocka_unit_test(a_seed_replays),
        cmocka_unit_test(overlap_is_drawn_or_asked_for),
        cmocka_unit_test(old_failures_stay_mended),
        cmocka_unit_test(a_wrong_page_is_found_out),
        cmocka_unit_test(a_seed_counts_when_it_met_all_three),
    };
    log_setup(&(struct log_options){.level = LOG_ERROR});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
