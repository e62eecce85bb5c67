#pragma once
/* node/worker: puts one worker together and runs it.
 *
 *   main thread      serve loop: HTTP, streams, signals
 *   "load" thread    opens the model, then ends
 *   "populate"       makes the KV pool resident, then ends
 *   "transfer"       control connections and KV bytes
 *   "engine"         the turn; its compute team forks and joins inside
 *
 * The HTTP port answers 503 `starting` from the first moment. On standard
 * output, for a supervisor: `listening http://host:port`, `loading WHAT`, then
 * `ready http://host:port`. SIGTERM and SIGINT drain. */
#include "base/err.h"
#include "config/worker.h"

/* Runs until told to stop. OK: a clean end. */
MUST_USE enum err node_worker_run(const struct config_worker *config,
                                  struct why *why);
/* What would end such a run before its model is read: key, peers, backend. What
 * only warns it does here too, and so does a port that is in use, perhaps by this
 * very worker. */
MUST_USE enum err node_worker_check(const struct config_worker *config,
                                    struct why *why);
