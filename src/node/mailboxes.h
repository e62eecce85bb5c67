#pragma once
/* node/mailboxes: what connects the threads of a worker.
 *
 *   serve    -- commands ---------> engine     woken by engine_waker
 *   serve    <- events ------------ engine     event_waker
 *   transfer <- transfer_commands - engine     transfer_waker
 *   transfer -- reports ----------> engine     engine_waker
 *
 * Made and ended by one thread; each end belongs to the thread it names. */
#include "base/err.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "node/limits.h"

/* Open: the worker embeds it. */
struct node_mailboxes {
    struct io_waker *engine_waker, *transfer_waker, *event_waker;
    struct io_mailbox *commands, *events, *transfer_commands, *reports;
};
/* On failure those that were made are there; node_mailboxes_close ends them. */
MUST_USE enum err node_mailboxes_open(struct node_mailboxes *boxes,
                                      const struct node_limits *limits);
void node_mailboxes_close(struct node_mailboxes *boxes);
