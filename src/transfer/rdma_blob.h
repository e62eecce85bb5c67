#pragma once
/* transfer/rdma_blob: what a peer is told to write into a pool with its NIC.
 *
 *   u32 magic, u16 version, u64 incarnation, u64 address, u64 pool_size,
 *   u16 size and UCX's address of a worker, u16 size and its key of the pool,
 *   32 bytes of HMAC-SHA256 of all that under the key of all instances
 *
 * UCX reads a worker's address and a key without being told where they end, and
 * does what they say. So nothing is given to it that was not sealed by somebody
 * who holds the instances' key, and a key of the pool must end where its own
 * counts say: u64 set of memory domains, u8 kind of memory, and for each of
 * them a u8 size and as many bytes. Pure, any thread. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum {
    RDMA_ADDRESS_SIZE_MAX = 6144,
    RDMA_KEY_SIZE_MAX = 2048,
    /* Behind what UCX reads there are so many zeros in all. */
    RDMA_PADDED_SIZE = 32768
};
#define RDMA_POOL_SIZE_MAX ((uint64_t)1 << 46)

struct rdma_blob {
    uint64_t incarnation;
    uint64_t address; /* of the pool's first byte, there */
    uint64_t pool_size;
    struct span worker, key; /* UCX's own */
};

/* Is it a key in UCX's form, of host memory, all of it? */
bool rdma_key_is_whole(struct span key);

/* ERR_UNSUPPORTED: larger than the form allows, or a key of another form. */
MUST_USE enum err rdma_blob_encode(const struct rdma_blob *blob,
                                   struct span secret, struct why *why,
                                   struct buf *out);
/* Its spans lie in `bytes`. ERR_INVALID: no such thing; ERR_DENIED: sealed by
 * somebody who does not hold `secret`, or spoilt. */
MUST_USE enum err rdma_blob_decode(struct span bytes, struct span secret,
                                   struct why *why, struct rdma_blob *blob_out);
