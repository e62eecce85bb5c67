#pragma once
/* route/peer: what a context worker says of itself in `/server_info`, so that
 * a generation worker can meet it before it has answered anything: its
 * `disaggregated_params` (serve.md 1.4, 2.13). Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum { ROUTE_PEER_SIZE_MAX = 1024 };

/* Open: servers embed it; all zero says nothing. Changed by the calls below. */
struct route_peer {
    uint32_t size; /* 0: nothing is known */
    char params[ROUTE_PEER_SIZE_MAX]; /* JSON; the endpoint is one string */
};

/* ERR_NOT_FOUND: the worker says nothing of hand-offs. ERR_INVALID: what it
 * says cannot be used, `why` tells. */
MUST_USE enum err route_peer_read(struct span server_info, struct why *why,
                                  struct route_peer *peer_out);
bool route_peer_is_known(const struct route_peer *peer);
/* The raw text of `ctx_info_endpoint`, into `peer`; of a known one. */
struct span route_peer_endpoint(const struct route_peer *peer);
