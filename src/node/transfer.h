#pragma once
/* node/transfer: a worker's transfer by its config, on a loop and a thread of its
 * own. Opened by the load thread; its loop is the transfer thread's until the
 * stop, `transfer` says what other threads may ask. */
#include "config/worker.h"
#include "node/mailboxes.h"
#include "node/model_file.h"
#include "node/pools.h"
#include "transfer/transfer.h"

struct io_allow;
struct io_thread;
struct transfer_peers;

/* Open: the worker embeds it. */
struct node_transfer {
    struct transfer *transfer; /* NULL: none */
    struct transfer_peers *peers; /* what any thread may ask of them */
    /* private */
    struct io_loop *loop;
    struct io_thread *thread;
    struct io_allow *allow; /* whom it meets; NULL: all */
};

/* Whom it may meet, before it is opened. Looks names up, which may block: for
 * the start of the process, while nothing turns. Names the setting. */
MUST_USE enum err node_transfer_allow(const struct config_worker *config,
                                      struct why *why,
                                      struct node_transfer *transfer_out);

/* `key`: the internal one, may be empty. What it uses outlives it. Names the
 * setting that cannot be. On failure what was made is there; stop and close end
 * it. */
MUST_USE enum err node_transfer_open(
    const struct config_worker *config, uint64_t incarnation, struct span key,
    struct transfer_backend *backend, const struct node_pools *pools,
    const struct node_model_file *file, const struct node_mailboxes *boxes,
    struct why *why, struct node_transfer *transfer_out);
/* Joins the thread. False: peers may still touch the pools, which must stay as
 * they are until the process ends (transfer.md I32). */
bool node_transfer_stop(struct node_transfer *transfer);
/* Stopped with true; the mailboxes are gone. One that never opened is fine, with
 * an allow list or without. */
void node_transfer_close(struct node_transfer *transfer);
