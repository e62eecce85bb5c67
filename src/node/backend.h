#pragma once
/* node/backend: what moves a worker's KV, by its config: one body, faults over
 * it where a test or bench asked for them, and the recorder over all.
 *
 *   trace -> [ fault ] -> auto( ucx, tcp ) | auto( ucx, rdma ) | ucx | tcp
 *                         | inproc
 *
 * Opened by the load thread, then the transfer thread's; `print` by any. */
#include "base/buf.h"
#include "config/worker.h"
#include "transfer/backend.h"
#include "transfer/backend_fault.h"

struct transfer_inproc_hub;
struct transfer_trace;

/* Open: the worker embeds it. */
struct node_backend {
    struct transfer_backend *backend; /* NULL: none */
    /* private */
    struct transfer_inproc_hub *hub;
    struct transfer_trace *trace;
    struct transfer_fault fault;
};

/* Before anything is loaded: what this host cannot give, named as by open. */
MUST_USE enum err node_backend_check(const struct config_worker *config,
                                     struct why *why);
/* `key`: of all instances; may be empty. Names the key of the config that
 * cannot be. */
MUST_USE enum err node_backend_open(const struct config_worker *config,
                                    uint64_t incarnation, struct span key,
                                    struct why *why,
                                    struct node_backend *backend_out);
/* No peers, no pool; one that never opened is fine. */
void node_backend_close(struct node_backend *backend);
/* The last writes as a JSON list, the newest first. */
void node_backend_print(const struct node_backend *backend, struct buf *out);
