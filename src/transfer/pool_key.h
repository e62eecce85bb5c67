#pragma once
/* transfer/pool_key: what a peer is told to map a pool, and the comparison that
 * must come before anyone tries.
 *
 *   blob: u32 magic, u64 incarnation, u64 address, u64 pool_size, key bytes
 *   key:  bytes of the library; in them the segment's number and right behind
 *         it the address. All other bytes are alike for equal settings.
 *
 * Pure, any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum { POOL_KEY_SIZE_MAX = 4096 };

/* Open: callers embed it; size 0: none. */
struct pool_key {
    uint8_t bytes[POOL_KEY_SIZE_MAX];
    size_t size;
    size_t segment_at; /* i32; the address, u64, follows */
};

/* Learns where the varying parts are. ERR_UNSUPPORTED: a key of another form. */
MUST_USE enum err pool_key_learn(struct pool_key *key, struct span bytes,
                                 int32_t segment, uint64_t address,
                                 struct why *why);

struct pool_blob {
    uint64_t incarnation, address, pool_size;
    int32_t segment;
    struct span key;
};
void pool_blob_encode(const struct pool_blob *blob, struct buf *out);
/* ERR_INVALID: no blob. ERR_UNSUPPORTED: its key is not like `ours`. */
MUST_USE enum err pool_blob_decode(struct span bytes,
                                   const struct pool_key *ours, struct why *why,
                                   struct pool_blob *blob_out);
