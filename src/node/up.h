#pragma once
/* node/up: a whole cluster on this host, as processes under one supervisor.
 *
 *   baton up --- starts, watches, restarts ---> context-0 .. generation-0 ..
 *            \------------------------------->  front end (all addresses)
 *
 * A child says on its standard output where it listens and when it is ready;
 * the front end starts once every worker listens. A worker that dies comes
 * back on the same port after 0.5 to 8 s. SIGINT and SIGTERM drain the front
 * end, then the workers. No file is written: config and key go to the children
 * as unnamed memory files. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { NODE_UP_WORKER_COUNT_MAX = 32, NODE_UP_EXTRA_MAX = 32 };

struct node_up_options {
    const char *model;
    uint32_t context_count; /* 1 */
    uint32_t generation_count; /* 1 */
    const char *host;
    uint16_t port;
    uint32_t threads; /* total of compute threads; 0: all CPUs */
    const char *log_level; /* passed on */
    const char *log_format; /* passed on */
    const char *prompt; /* one prompt, then stop; NULL: serve */
    uint32_t max_tokens; /* for the prompt */
    const char *api_key; /* NULL: none */
    const char *cors; /* NULL: none */
    const char *schedule_style; /* NULL: the front end's default */
    /* More options for each worker, as given: "--kv-tokens", "4096". */
    uint32_t extra_count;
    const char *extra[NODE_UP_EXTRA_MAX];
    bool show_progress; /* standard error is a terminal */
};
/* Runs until told to stop. OK: a clean end. */
MUST_USE enum err node_up_run(const struct node_up_options *options,
                              struct why *why);
