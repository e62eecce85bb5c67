#pragma once
/* node/pools: the memory of a worker's KV pools.
 *
 *   memory   | pool of life cycle 0 | pool 1 | ... | arena |
 *                                                    from the transfer backend,
 *                                                    which alone lets peers in
 *   host     | pool of life cycle 0 | pool 1 | ...   the second level, heap
 *
 * Each pool begins at a page of the system. One thread takes and gives; the
 * engine and the transfer use the bytes meanwhile. */
#include "base/err.h"
#include "device/memory.h"
#include "kv/view.h"
#include "node/limits.h"

struct io_populate;
struct transfer_backend;

/* Open: the worker embeds it. */
struct node_pools {
    struct device_memory memory, host_memory;
    struct io_populate *populate; /* NULL: pages come by use */
};

/* `backend` NULL: no peer writes here, the heap will do. ERR_NO_MEMORY, ERR_IO:
 * nothing is held then but what node_pools_give ends. */
MUST_USE enum err node_pools_take(struct node_pools *pools,
                                  const struct node_limits *limits,
                                  struct transfer_backend *backend,
                                  struct why *why);
/* Stops making pages resident: before the memory's users end. */
void node_pools_quiet(struct node_pools *pools);
void node_pools_give(struct node_pools *pools); /* fine when nothing is held */

/* The arena of packed transfers in `memory`; size 0: there is none. */
void node_pools_bounce(const struct node_limits *limits, uint64_t *offset_out,
                       uint64_t *size_out);
/* Views of both levels, one a life cycle; page_count 0: not there. */
void node_pools_views(const struct node_pools *pools,
                      const struct node_limits *limits,
                      const struct kv_shape *shape,
                      struct kv_pool_view views_out[KV_LIFE_COUNT_MAX],
                      struct kv_pool_view host_views_out[KV_LIFE_COUNT_MAX]);
