#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "cli/sim_cluster.h"
#include "sim/engine.h"

enum { SEEDS_MAX = 10000000, PASSES_MAX = 100000 };

struct sim_args {
    const char *what;
    uint64_t seed;
    uint32_t seeds;
    uint32_t passes;
    bool is_traced, is_calm;
    bool is_counted; /* seeds that do not count are made up for */
};

static enum err set(void *target, const char *name, const char *value,
                    struct why *why)
{
    struct sim_args *args = target;
    if (strcmp(name, "seed") == 0) {
        return cli_read_u64(value, why, &args->seed);
    }
    if (strcmp(name, "seeds") == 0) {
        return cli_read_u32(value, 1, SEEDS_MAX, why, &args->seeds);
    }
    if (strcmp(name, "passes") == 0) {
        return cli_read_u32(value, 1, PASSES_MAX, why, &args->passes);
    }
    if (strcmp(name, "trace") == 0) {
        args->is_traced = true;
    } else if (strcmp(name, "calm") == 0) {
        args->is_calm = true;
    } else {
        args->is_counted = true;
    }
    return OK;
}

static enum err set_what(void *target, const char *value, struct why *why)
{
    struct sim_args *args = target;
    if (strcmp(value, "engine") != 0 && strcmp(value, "cluster") != 0) {
        return why_say(why, ERR_INVALID,
                       "'%s' cannot be simulated: engine and cluster can",
                       value);
    }
    args->what = value;
    return OK;
}

static const struct cli_option OPTIONS[] = {
    {"seed", 's', "N", "the first seed (1)", set},
    {"seeds", 'n', "COUNT", "so many, one after the other (1)", set},
    {"passes", 'p', "COUNT", "engine: passes with load (160)", set},
    {"trace", 't', NULL, "print each decision", set},
    {"calm", 0, NULL, "nothing goes wrong", set},
    {"counted", 0, NULL,
     "until COUNT seeds say something: an engine's evicted, put away and "
     "cancelled; a cluster's had 20 requests and 5 faults",
     set},
    {0},
};

const struct cli_syntax cli_sim_syntax = {
    .command = "baton sim",
    .arguments = "engine|cluster",
    .about = "Runs production code in a world made from a seed: virtual time, "
             "a hash model whose answers are known, and faults. engine: the "
             "scheduler, the planner and the paged cache, copies that end out "
             "of order. cluster: context and generation workers with their "
             "transfers and a front end, hosts that crash, stop and fall "
             "silent, writes that are late or wrong. The same seed gives the "
             "same trace hash everywhere.",
    .options = OPTIONS,
    .set_argument = set_what,
};

static void print_line(void *context, const char *line)
{
    (void)context;
    printf("%s\n", line);
    fflush(stdout); /* a broken promise ends the process: this is the trace */
}

static void print_one(const struct sim_engine_summary *one)
{
    printf("seed %" PRIu64 ": %s, passes %" PRIu64 ", requests %" PRIu64
           ", tokens %" PRIu64 ", evictions %" PRIu64 ", suspensions %" PRIu64
           ", pauses %" PRIu64 ", cancels %" PRIu64 ", waits %" PRIu64
           ", copies %" PRIu64 ", transfers %" PRIu64 ", faults %" PRIu64
           ", trace %016" PRIx64 "\n",
           one->seed, one->failure[0] == 0 ? "ok" : one->failure, one->passes,
           one->requests, one->tokens, one->evictions, one->suspensions,
           one->pauses, one->cancels, one->waits, one->copies, one->transfers,
           one->faults, one->trace_hash);
}

static void add(struct sim_engine_summary *sum,
                const struct sim_engine_summary *one)
{
    sum->passes += one->passes;
    sum->requests += one->requests;
    sum->tokens += one->tokens;
    sum->evictions += one->evictions;
    sum->suspensions += one->suspensions;
    sum->pauses += one->pauses;
    sum->cancels += one->cancels;
    sum->waits += one->waits;
    sum->copies += one->copies;
    sum->transfers += one->transfers;
    sum->faults += one->faults;
    sum->trace_hash ^= one->trace_hash;
}

/* The shape that scripts/swarm reads. */
static void print_sum(const struct sim_engine_summary *sum, uint64_t run,
                      uint64_t counted)
{
    printf("seeds %" PRIu64 "\ncounted %" PRIu64 "\npasses %" PRIu64
           "\nrequests %" PRIu64 "\ntokens %" PRIu64 "\nevictions %" PRIu64
           "\nsuspensions %" PRIu64 "\npauses %" PRIu64 "\ncancels %" PRIu64
           "\nwaits %" PRIu64 "\ncopies %" PRIu64 "\ntransfers %" PRIu64
           "\nfaults %" PRIu64 "\ntraces %016" PRIx64 "\n",
           run, counted, sum->passes, sum->requests, sum->tokens,
           sum->evictions, sum->suspensions, sum->pauses, sum->cancels,
           sum->waits, sum->copies, sum->transfers, sum->faults,
           sum->trace_hash);
}

static bool run_one(const struct sim_args *args, uint64_t seed,
                    struct sim_engine_summary *one_out)
{
    struct sim_engine_options options = {
        .seed = seed,
        .pass_count = args->passes,
        .without_faults = args->is_calm,
        .on_line = args->is_traced ? print_line : NULL,
        .on_tail = args->is_traced ? NULL : print_line};
    return sim_engine_run(&options, one_out);
}

static int run(const struct sim_args *args)
{
    struct sim_engine_summary sum = {0};
    uint64_t counted = 0;
    uint64_t count = 0;
    while ((args->is_counted ? counted : count) < args->seeds) {
        struct sim_engine_summary one;
        /* Whoever finds a core dump wants to know which seed it was. */
        fprintf(stderr, "seed %" PRIu64 "\r", args->seed + count);
        bool is_good = run_one(args, args->seed + count, &one);
        if (args->seeds == 1 || !is_good) {
            print_one(&one);
        }
        if (!is_good) {
            return CLI_FAILED;
        }
        counted += sim_engine_counts(&one);
        count++;
        add(&sum, &one);
    }
    if (args->seeds > 1) {
        print_sum(&sum, count, counted);
    }
    return CLI_OK;
}

int cli_sim(int argc, char **argv)
{
    struct sim_args args = {.seed = 1, .seeds = 1};
    cli_parse(&cli_sim_syntax, argc, argv, &args);
    if (args.what == NULL) {
        fprintf(stderr, "baton sim: say what: engine or cluster\n");
        return CLI_USAGE;
    }
    bool is_cluster = strcmp(args.what, "cluster") == 0;
    /* What goes wrong there is meant to. */
    enum log_level level = is_cluster ? LOG_ERROR + 1 : LOG_ERROR;
    log_setup(&(struct log_options){.level = level, .process = "sim"});
    if (is_cluster) {
        struct cli_sim_cluster cluster = {.seed = args.seed,
                                          .seed_count = args.seeds,
                                          .is_traced = args.is_traced,
                                          .is_calm = args.is_calm,
                                          .is_counted = args.is_counted};
        return cli_sim_cluster(&cluster);
    }
    return run(&args);
}
