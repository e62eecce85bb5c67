#pragma once
/* transfer/backend_rdma: RDMA adapters of two hosts, through UCX. The sender's
 * NIC writes into the receiver's registered pool; nobody's thread at the
 * receiver takes part.
 *
 *   write: put, put, put -> flush of the endpoint -> DONE
 *
 * What proves quiet (toucher TRANSFER_NIC, consensus.md 4.1):
 * - A flush that ended well: all puts before it are in the target's memory and
 *   the source is no longer read. DONE is that and nothing less; a write that
 *   its peer's close cut short is flushed too, and then is STOPPED.
 * - No put of the write was ever handed to UCX: STOPPED.
 * What does not: an error, a closed endpoint (UCX does not say whether a forced
 * close got as far as to flush the queue, so it is no E6), the end of the peer's
 * process or of ours, time. A put that may be on its way then may land; such a
 * write comes back IN_DOUBT, and both ends keep its pages.
 *
 * A peer's puts in flight are bounded, by number and bytes; those of another
 * peer do not count, so one that hangs holds nobody else up. The first write to
 * a peer opens an endpoint, and the first one three seconds after a failure
 * another. Of several adapters UCX chooses, or its variable UCX_NET_DEVICES. */
#include <stdint.h>

#include "transfer/backend.h"

struct transfer_backend_rdma_options {
    uint64_t incarnation;
    /* That all instances hold, not empty: addresses are sealed with it. Copied.
     */
    struct span key;
    /* For tests alone: a UCX transport that a host without an adapter has, in
     * place of all RDMA ones. It is no lane of the product: whoever reaches its
     * port may write into the pool. NULL: RDMA. */
    const char *test_transport;
    uint64_t connect_ns; /* 0: 5 s; then waiting writes come back STOPPED */
    uint64_t drain_ns; /* 0: 2 s for puts under way when their peer is closed;
                          then they come back IN_DOUBT */
};
/* Without opening one: ERR_UNSUPPORTED, "no RDMA device". */
MUST_USE enum err transfer_backend_rdma_look(struct why *why);

/* After fork, never before; of signals see ucx_open.h. ERR_UNSUPPORTED: "no RDMA
 * device"; ERR_INVALID: no key; ERR_IO. */
MUST_USE enum err transfer_backend_rdma_create(
    const struct transfer_backend_rdma_options *options, struct why *why,
    struct transfer_backend **backend_out);
