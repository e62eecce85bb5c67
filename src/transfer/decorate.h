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

/* A peer of a body that hands its writes on to another's. It lives until it is
 * closed and the last write came back. Also what `auto` is made of. */
struct transfer_inner_peer {
    struct transfer_backend_peer base;
    struct transfer_backend_peer *inner;
    uint32_t write_count;
    bool is_closed;
};
struct transfer_backend_peer *transfer_inner_peer_create(
    struct transfer_backend *backend, struct transfer_backend_peer *inner);
void transfer_inner_peer_close(struct transfer_backend_peer *peer);
const char *transfer_inner_peer_lane(const struct transfer_backend_peer *peer);
/* Hands a write on; the one that comes back from a poll of the inner backend is
 * taken back by the other. */
void transfer_inner_peer_pass(struct transfer_write *write);
void transfer_inner_peer_take_back(struct transfer_write *write);

/* Writes a table that asks `next` for everything it can. */
void transfer_decorator_init(struct transfer_decorator *decorator,
                             struct transfer_backend *next);
/* To be called once the body has set its own entries. */
void transfer_decorator_begin(struct transfer_decorator *decorator);
