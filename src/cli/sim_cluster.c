#include "cli/sim_cluster.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/exit.h"
#include "sim/cluster.h"

/* What is printed of a seed, and summed up over all. */
static const struct {
    const char *name;
    size_t offset;
} NUMBERS[] = {
#define NUMBER(name)                                      \
    {                                                     \
#name, offsetof(struct sim_cluster_summary, name) \
    }
    NUMBER(virtual_ms),
    NUMBER(settle_ms),
    NUMBER(passes_aborted),
    NUMBER(requests),
    NUMBER(answered),
    NUMBER(refused),
    NUMBER(legs),
    NUMBER(tokens),
    NUMBER(sends),
    NUMBER(receives),
    NUMBER(receives_done),
    NUMBER(written_pages),
    NUMBER(pairs),
    NUMBER(offers),
    NUMBER(withdrawals),
    NUMBER(slices),
    NUMBER(auxes),
    NUMBER(faults),
    NUMBER(crashes),
    NUMBER(freezes),
    NUMBER(blocks),
    NUMBER(breaks),
    NUMBER(corruptions),
    NUMBER(delays),
    NUMBER(stops),
    NUMBER(doubts),
    NUMBER(hangs),
    NUMBER(flips),
    NUMBER(cancels),
    NUMBER(aborts),
    NUMBER(quarantines),
    NUMBER(strangers),
    NUMBER(integrity_failures),
    NUMBER(restarts),
    NUMBER(cancels_offered),
    NUMBER(cancels_between),
    NUMBER(cancels_moving),
    NUMBER(cancels_receiving),
    NUMBER(cancels_ending),
#undef NUMBER
};
enum { NUMBER_COUNT = sizeof(NUMBERS) / sizeof(NUMBERS[0]) };

static uint64_t *number(struct sim_cluster_summary *summary, int index)
{
    return (uint64_t *)((char *)summary + NUMBERS[index].offset);
}

static void print_line(void *context, const char *line)
{
    (void)context;
    printf("%s\n", line);
    fflush(stdout); /* a broken promise ends the process: this is the trace */
}

static void print_one(struct sim_cluster_summary *one)
{
    printf("seed %" PRIu64 ": %s", one->seed,
           one->failure[0] == 0 ? "ok" : one->failure);
    for (int i = 0; i < NUMBER_COUNT; i++) {
        printf(", %s %" PRIu64, NUMBERS[i].name, *number(one, i));
    }
    printf(", trace %016" PRIx64 "\n", one->trace_hash);
}

static void add(struct sim_cluster_summary *sum,
                struct sim_cluster_summary *one)
{
    for (int i = 0; i < NUMBER_COUNT; i++) {
        *number(sum, i) += *number(one, i);
    }
    sum->trace_hash ^= one->trace_hash;
}

/* The shape that scripts/swarm-cluster reads. */
static void print_sum(struct sim_cluster_summary *sum, uint64_t run,
                      uint64_t counted)
{
    printf("seeds %" PRIu64 "\ncounted %" PRIu64 "\n", run, counted);
    for (int i = 0; i < NUMBER_COUNT; i++) {
        printf("%s %" PRIu64 "\n", NUMBERS[i].name, *number(sum, i));
    }
    printf("traces %016" PRIx64 "\n", sum->trace_hash);
}

static bool run_one(const struct cli_sim_cluster *args, uint64_t seed,
                    struct sim_cluster_summary *one_out)
{
    struct sim_cluster_options options = {
        .seed = seed,
        .without_faults = args->is_calm,
        .on_line = args->is_traced ? print_line : NULL,
        .on_tail = args->is_traced ? NULL : print_line};
    return sim_cluster_run(&options, one_out);
}

int cli_sim_cluster(const struct cli_sim_cluster *args)
{
    struct sim_cluster_summary sum = {0};
    uint64_t counted = 0;
    uint64_t count = 0;
    while ((args->is_counted ? counted : count) < args->seed_count) {
        struct sim_cluster_summary one;
        /* Whoever finds a core dump wants to know which seed it was. */
        fprintf(stderr, "seed %" PRIu64 "\r", args->seed + count);
        bool is_good = run_one(args, args->seed + count, &one);
        if (args->seed_count == 1 || !is_good) {
            print_one(&one);
        }
        if (!is_good) {
            return CLI_FAILED;
        }
        counted += sim_cluster_counts(&one);
        count++;
        add(&sum, &one);
    }
    if (args->seed_count > 1) {
        print_sum(&sum, count, counted);
    }
    return CLI_OK;
}
