#pragma once
/* sim/cluster: a whole cluster on one thread from one seed. Context and
 * generation workers, each an engine core with the hash model and the transfer
 * layer as it is (sessions, control connections, hello, adverts, mourners), and
 * the front end's request and pool steps; below them the hosts of io/sim.h and
 * a backend that is late, works in pieces, fails, lies and writes on.
 *
 *   clients -> front (route steps) -- legs --> serve half -> engine core
 *                                                  | port.h
 *                                              transfer == pages ==> transfer
 *
 *   seed -> sizes, hostility -> load and faults -> faults end, all is healed
 *                                 -> every request ends, nothing is held
 *
 * Checked each turn: no page is used or handed out that somebody may write, no
 * page written that somebody reads (transfer.md I1); what was received is what
 * the model computes from the prompt, by ordinal, before anybody decodes (I2,
 * I3, I6); each token; sessions, leases and what the engine counts agree (I31);
 * words only grow and end once (I8, I14). At the end every request has ended
 * exactly once, and all counters are zero (I11, I21).
 *
 * Same seed, same trace, whatever compiler and machine. */
#include <stdbool.h>
#include <stdint.h>

#include "sim/trace.h"

struct sim_cluster_options {
    uint64_t seed;
    /* Nothing but work: no cancels, crashes, cuts or tight pools. */
    bool without_faults;
    /* Each may be NULL. */
    void (*on_line)(void *context, const char *line); /* of the trace */
    void (*on_tail)(void *context, const char *line); /* after a failure */
    void *context;
};

struct sim_cluster_summary {
    uint64_t seed;
    uint64_t trace_hash;
    uint64_t virtual_ms;
    uint64_t
        settle_ms; /* from the end of load and faults until all has ended */
    uint64_t requests, answered, refused; /* to clients, by how they ended */
    uint64_t legs, tokens;
    uint64_t sends, receives, receives_done; /* sessions */
    uint64_t written_pages;
    uint64_t faults; /* that happened to somebody; the sum of what follows */
    uint64_t crashes, freezes, blocks, breaks, corruptions, delays;
    uint64_t stops, doubts, hangs, flips; /* of the backend's writes */
    uint64_t strangers;
    uint64_t cancels, aborts; /* by clients; of rids */
    uint64_t passes_aborted;
    uint64_t integrity_failures, quarantines;
    char failure[256]; /* ""; else what was wrong, and when */
};

/* False: summary_out->failure says why. */
bool sim_cluster_run(const struct sim_cluster_options *options,
                     struct sim_cluster_summary *summary_out);
/* Only a seed with at least 20 requests and 5 faults says something. */
bool sim_cluster_counts(const struct sim_cluster_summary *summary);
