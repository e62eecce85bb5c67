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
 * Requests are context-first or generation-first, prompts leave in slices, a model
 * has one to three life cycles. What is checked, and which promise of transfer.md
 * 8.1 that proves, stands in the README; in short: no page is touched under a
 * transfer, what arrives is what the model computes from the prompt, each token
 * is, sessions and leases agree slice by slice. At the end every request has
 * ended exactly once, all counters are zero, and new requests are served.
 *
 * Same seed, same trace, whatever compiler and machine. */
#include <stdbool.h>
#include <stdint.h>

#include "sim/trace.h"

struct sim_cluster_options {
    uint64_t seed;
    /* Nothing but work: no cancels, crashes, cuts or tight pools. */
    bool without_faults;
    /* Not 0: the hosts' clocks differ by days, drawn from it. Nothing else
     * changes by that: the trace is the same. */
    uint64_t skew_seed;
    /* What happens instead of what the seed draws (cluster_story.c); NULL. */
    const char *story;
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
    uint64_t pairs; /* legs posted two at once */
    uint64_t offers, withdrawals, slices; /* ordered */
    uint64_t auxes; /* first tokens that arrived */
    uint64_t written_pages;
    uint64_t faults; /* that happened to somebody; the sum of what follows */
    uint64_t crashes, freezes, blocks, breaks, corruptions, delays;
    uint64_t stops, doubts, hangs, flips; /* of the backend's writes */
    uint64_t
        restarts; /* of the crashes: at once, in the middle of a transfer */
    uint64_t strangers;
    uint64_t cancels, aborts; /* by clients; of rids */
    /* Clients that left while KV was under way, by where it stood. */
    uint64_t cancels_offered, cancels_between, cancels_moving,
        cancels_receiving, cancels_ending;
    uint64_t passes_aborted;
    uint64_t integrity_failures, quarantines;
    char failure[256]; /* ""; else what was wrong, and when */
};

/* False: summary_out->failure says why. */
bool sim_cluster_run(const struct sim_cluster_options *options,
                     struct sim_cluster_summary *summary_out);
/* Only a seed with at least 20 requests and 5 faults says something. */
bool sim_cluster_counts(const struct sim_cluster_summary *summary);
