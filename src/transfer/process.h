#pragma once
/* transfer/process: which process a peer is, and proof that it is gone.
 *
 * On shared memory the sender's own thread writes into our pages, so its
 * process proven gone is proof of quiet (ruling on consensus.md 4.1). Proof is
 * an exited pidfd, opened while the process that started at that tick was
 * there; a pid alone may be somebody else's by now. Peers inside our own
 * process are gone when their instance has said so. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct transfer_identity {
    char host[96]; /* boot, pid and ipc namespaces: equal texts share memory
                      and a process table */
    uint64_t pid;
    uint64_t started; /* clock ticks since boot */
};

/* ERR_IO when /proc does not tell. */
MUST_USE enum err transfer_identity_read(
    struct why *why, struct transfer_identity *identity_out);

/* Instances alive in this process, by incarnation. Any thread. ERR_FULL. */
MUST_USE enum err transfer_instance_begin(uint64_t incarnation);
void transfer_instance_end(uint64_t incarnation);

struct io_loop;
struct transfer_process;
/* Watches a peer's process on `loop`, whose thread owns it. */
struct transfer_process *transfer_process_open(
    struct io_loop *loop, const struct transfer_identity *ours,
    const struct transfer_identity *theirs, uint64_t incarnation);
void transfer_process_close(struct transfer_process *process); /* NULL: fine */
/* Proven gone; never true without proof. An exit shows after the next turn of
 * the loop. */
bool transfer_process_is_gone(struct transfer_process *process);
