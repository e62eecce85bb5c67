#pragma once
/* transfer/backend_inproc: peers of one process copy into each other's pools.
 *
 * A hub is the set of backends that can see each other; tests, the simulator
 * and a cluster inside one process make one. The hub may be shared by
 * backends of several threads. Copies happen in the sender's poll, never in
 * write, so callers meet the same asynchrony as with real links. */
#include <stdint.h>

#include "transfer/backend.h"

struct transfer_inproc_hub;
struct transfer_inproc_hub *transfer_inproc_hub_create(void);
/* All its backends must be gone. NULL is fine. */
void transfer_inproc_hub_destroy(struct transfer_inproc_hub *hub);

/* `incarnation` names it in the hub; ERR_EXISTS when taken, ERR_FULL. */
MUST_USE enum err transfer_backend_inproc_create(
    struct transfer_inproc_hub *hub, uint64_t incarnation,
    struct transfer_backend **backend_out);
