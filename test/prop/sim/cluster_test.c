/* Properties of a whole cluster over many worlds. How many: the first argument,
 * else few. What is checked inside stands in sim/cluster.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "unit/base/test.h"

#include "base/log.h"
#include "sim/cluster.h"

static uint64_t seed_count = 40;

static struct sim_cluster_summary run_one(uint64_t seed, bool is_calm)
{
    struct sim_cluster_options options = {.seed = seed,
                                          .without_faults = is_calm};
    struct sim_cluster_summary summary;
    if (!sim_cluster_run(&options, &summary)) {
        fail_msg("seed %" PRIu64 ": %s", seed, summary.failure);
    }
    return summary;
}

/* Crashes, restarts in the middle of a transfer, stopped processes, silent and
 * broken links, wrong bytes on the wire and in pages, frames cut short, writes
 * that stop, hang, or go on after they were called in doubt, clients that leave
 * in every phase, deadlines, small pools; pairs and slices: no wrong token, no
 * page touched under a transfer, every request ends once, nothing is held in the
 * end, and the cluster serves again. All these must have happened.
 * [transfer T53 T55 T56 T57 T58 T60 T70 T72 T77 T78 T80 T84 T104 T110]
 * [transfer I1 I2 I3 I4 I5 I6 I7 I8 I9 I11 I14 I15 I16 I20 I21 I23 I25 I26]
 * [transfer I27 I28 I31 I32] */
static void a_hostile_cluster_keeps_its_promises(void **state)
{
    (void)state;
    struct sim_cluster_summary sum = {0};
    for (uint64_t seed = 5001; seed <= 5000 + seed_count; seed++) {
        struct sim_cluster_summary one = run_one(seed, false);
        assert_int_equal(one.answered + one.refused, one.requests);
        sum.receives_done += one.receives_done;
        sum.sends += one.sends;
        sum.slices += one.slices;
        sum.withdrawals += one.withdrawals;
        sum.auxes += one.auxes;
        sum.restarts += one.restarts;
        sum.strangers += one.strangers;
        sum.cancels_offered += one.cancels_offered;
        sum.cancels_moving += one.cancels_moving;
        sum.cancels_receiving += one.cancels_receiving;
        sum.crashes += one.crashes;
        sum.freezes += one.freezes;
        sum.blocks += one.blocks;
        sum.breaks += one.breaks;
        sum.corruptions += one.corruptions;
        sum.stops += one.stops;
        sum.hangs += one.hangs;
        sum.flips += one.flips;
        sum.cancels += one.cancels;
        sum.integrity_failures += one.integrity_failures;
        sum.quarantines += one.quarantines;
    }
    assert_true(sum.receives_done > 0);
    assert_true(sum.slices > sum.sends - sum.withdrawals);
    assert_true(sum.withdrawals > 0);
    assert_true(sum.auxes > 0);
    assert_true(sum.restarts > 0);
    assert_true(sum.strangers > 0);
    assert_true(sum.cancels_offered > 0);
    assert_true(sum.cancels_moving > 0);
    assert_true(sum.cancels_receiving > 0);
    assert_true(sum.crashes > 0);
    assert_true(sum.freezes > 0);
    assert_true(sum.blocks > 0);
    assert_true(sum.breaks > 0);
    assert_true(sum.corruptions > 0);
    assert_true(sum.stops > 0);
    assert_true(sum.hangs > 0);
    assert_true(sum.flips > 0);
    assert_true(sum.cancels > 0);
    assert_true(sum.integrity_failures > 0);
    assert_true(sum.quarantines > 0);
}

/* Where nothing goes wrong and nobody lacks room, all is answered and every
 * hand-off that was ordered is complete. [transfer T51 I27] */
static void a_calm_cluster_loses_nothing(void **state)
{
    (void)state;
    uint64_t answered = 0;
    for (uint64_t seed = 6001; seed <= 6000 + seed_count / 2; seed++) {
        struct sim_cluster_summary one = run_one(seed, true);
        assert_int_equal(one.faults, 0);
        assert_int_equal(one.receives, one.receives_done);
        assert_int_equal(one.integrity_failures, 0);
        assert_int_equal(one.answered, one.requests);
        answered += one.answered;
    }
    assert_true(answered > 0);
}

static void a_seed_is_the_same_world_again(void **state)
{
    (void)state;
    uint64_t hashes = 0;
    for (uint64_t seed = 7001; seed <= 7003; seed++) {
        struct sim_cluster_summary one = run_one(seed, false);
        struct sim_cluster_summary again = run_one(seed, false);
        assert_memory_equal(&one, &again, sizeof(one));
        assert_true(one.trace_hash != hashes);
        hashes = one.trace_hash;
    }
}

/* Hosts whose clocks are days apart, in hostile worlds and in calm ones: what
 * happens is the same to the last event. [transfer T90] */
static void clocks_that_differ_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 8001; seed <= 8000 + seed_count / 4; seed++) {
        struct sim_cluster_options options = {.seed = seed,
                                              .without_faults = seed % 4 == 0};
        struct sim_cluster_summary one, other;
        assert_true(sim_cluster_run(&options, &one));
        options.skew_seed = seed;
        if (!sim_cluster_run(&options, &other)) {
            fail_msg("seed %" PRIu64 ": %s", seed, other.failure);
        }
        assert_memory_equal(&one, &other, sizeof(one));
    }
}

static void only_a_full_and_hostile_world_counts(void **state)
{
    (void)state;
    struct sim_cluster_summary summary = {.requests = 20, .faults = 5};
    assert_true(sim_cluster_counts(&summary));
    summary.faults = 4;
    assert_false(sim_cluster_counts(&summary));
    summary = (struct sim_cluster_summary){.requests = 19, .faults = 5};
    assert_false(sim_cluster_counts(&summary));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hostile_cluster_keeps_its_promises),
        cmocka_unit_test(a_calm_cluster_loses_nothing),
        cmocka_unit_test(a_seed_is_the_same_world_again),
        cmocka_unit_test(clocks_that_differ_change_nothing),
        cmocka_unit_test(only_a_full_and_hostile_world_counts),
    };
    if (argc > 1) {
        seed_count = strtoull(argv[1], NULL, 10);
    }
    log_setup(&(struct log_options){.level = LOG_ERROR + 1});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
