#pragma once
/* transfer/decorate: what a decorator of one backend passes on as it is.
 * Embedded first; the body fills `write`, `poll`, peers and what else it
 * changes in its copy of the table. Private to transfer. */
#include "transfer/backend.h"

struct transfer_decorator {
    struct transfer_backend base;
    struct transfer_backend *next; /* owned */
    struct transfer_backend_ops ops; /* of this one; name and powers of next */
};

/* Writes a table that asks `next` for everything it can. */
void transfer_decorator_init(struct transfer_decorator *decorator,
                             struct transfer_backend *next);
/* To be called once the body has set its own entries. */
void transfer_decorator_begin(struct transfer_decorator *decorator);
