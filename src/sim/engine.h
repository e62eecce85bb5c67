#pragma once
/* sim/engine: the engine core, its scheduler, its planner and the paged cache in
 * a world made from one seed (engine.md 7.3, F2 to F6). Production code decides;
 * the world gives it virtual time, a load, a hash model, copies that end out of
 * order or fail, transfers that answer late, fail or never, forward passes that
 * are given up. All answers are known beforehand, so that one wrong page, copy,
 * reuse or resume is a wrong token.
 *
 *   seed -> limits, policy, hostility -> load, pass by pass -> quiet passes
 *                                                         until all has ended
 *
 * Checked after each step: engine_core_is_valid, the budget of each batch, that
 * no page is written by one and seen by another, that pages under a transfer keep
 * what they hold, each event against the known answer. At the end: every choice
 * ended exactly once, within a bound of passes; nothing is held.
 *
 * Same seed, same options: same trace, whatever compiler and machine. A broken
 * promise (CHECK) ends the process, as it does in production. */
#include <stdbool.h>
#include <stdint.h>

#include "sim/trace.h"

struct engine_core;

enum { SIM_ENGINE_PASSES = 160 }; /* the default */

/* Batches under way while the next is planned: as the seed has it, or as asked. */
enum sim_overlap { SIM_OVERLAP_DRAWN, SIM_OVERLAP_ON, SIM_OVERLAP_OFF };

struct sim_engine_options {
    uint64_t seed;
    uint32_t pass_count; /* with load; 0: SIM_ENGINE_PASSES */
    /* For comparisons: the same world, but nobody waits for a prefix. */
    bool without_waits;
    /* Nothing but work: no cancels, deadlines, failures or tight pools. */
    bool without_faults;
    enum sim_overlap overlap;
    /* Each may be NULL. */
    void (*on_line)(void *context, const char *line); /* of the trace */
    void (*on_tail)(void *context, const char *line); /* after a failure */
    void (*on_step)(void *context, const struct engine_core *core);
    void *context;
};

struct sim_engine_summary {
    uint64_t seed;
    uint64_t trace_hash;
    uint64_t passes;
    uint64_t requests, tokens, prefill_tokens, cached_tokens;
    uint64_t evictions, suspensions, pauses, cancels, waits, waits_max;
    uint64_t vetoes;
    bool is_overlapped;
    uint64_t copies, copies_failed, transfers, transfers_failed, slices;
    uint64_t withdrawals; /* of offers that nobody awaited */
    uint64_t
        faults; /* passes given up or failed, copies and transfers failed */
    char failure[256]; /* ""; else what was wrong, and in which pass */
};

/* False: summary_out->failure says why. */
bool sim_engine_run(const struct sim_engine_options *options,
                    struct sim_engine_summary *summary_out);
/* Only a seed that made the engine evict, put somebody away (suspended or
 * paused) and cancel says something about all of it. */
bool sim_engine_counts(const struct sim_engine_summary *summary);
