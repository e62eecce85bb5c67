#pragma once
/* wire/bounce: the messages of a write that goes through both sides' arenas
 * (transfer.md 5.3). Whose write it is stands in the frame's header: both
 * incarnations, rid and attempt, so that another life's has no effect.
 *
 *   sender                                     receiver
 *   BOUNCE_WANT   chunks that are gathered ->
 *                 <- BOUNCE_GRANT  where they may be put
 *   BOUNCE_DATA   one is there             ->  scatters it
 *                 <- BOUNCE_ACK    it is where it belongs
 *
 *   WANT   u32 write, chunk_count, first, count; (count) u32 size
 *          chunk_count 0: no more of it comes, nothing of it is under way
 *   GRANT  u32 write, count; (count) u32 chunk, u64 offset, u32 size,
 *          u64 handle
 *   DATA   u32 write, chunk, u64 handle, u32 payload_size, run_count,
 *          u32 CRC32C of the runs
 *   ACK    u32 write, count; (count) u32 chunk, u64 handle
 *
 * A chunk is its payload, then (run_count) runs: u64 offset in the receiver's
 * memory, u32 size; the payload's bytes go there one run after the other.
 * Pure, any thread. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum {
    WIRE_BOUNCE_CHUNKS_MAX = 65536, /* of a write */
    WIRE_BOUNCE_ENTRIES_MAX = 64, /* of a message */
    WIRE_BOUNCE_RUN_SIZE = 12
};

struct wire_bounce_want {
    uint32_t write; /* its number in the session */
    uint32_t chunk_count; /* of the write; 0: cancelled */
    uint32_t first, count; /* the chunks [first, first + count) */
    uint32_t sizes[WIRE_BOUNCE_ENTRIES_MAX]; /* (count) */
};
struct wire_bounce_credit {
    uint32_t chunk;
    uint64_t offset; /* in the receiver's memory */
    uint32_t size;
    uint64_t handle; /* the receiver's name for it, never used twice */
};
struct wire_bounce_grant {
    uint32_t write, count;
    struct wire_bounce_credit credits[WIRE_BOUNCE_ENTRIES_MAX];
};
struct wire_bounce_data {
    uint32_t write, chunk;
    uint64_t handle;
    uint32_t payload_size, run_count, run_crc32c;
};
struct wire_bounce_done {
    uint32_t chunk;
    uint64_t handle;
};
struct wire_bounce_ack {
    uint32_t write, count;
    struct wire_bounce_done chunks[WIRE_BOUNCE_ENTRIES_MAX];
};

/* ERR_CORRUPT: another length than it says, too many entries, chunks that
 * are not among chunk_count, or sizes of 0. */
void wire_bounce_want_encode(const struct wire_bounce_want *want,
                             struct buf *out);
MUST_USE enum err wire_bounce_want_decode(struct span body, struct why *why,
                                          struct wire_bounce_want *want_out);
void wire_bounce_grant_encode(const struct wire_bounce_grant *grant,
                              struct buf *out);
MUST_USE enum err wire_bounce_grant_decode(struct span body, struct why *why,
                                           struct wire_bounce_grant *grant_out);
void wire_bounce_data_encode(const struct wire_bounce_data *data,
                             struct buf *out);
MUST_USE enum err wire_bounce_data_decode(struct span body, struct why *why,
                                          struct wire_bounce_data *data_out);
void wire_bounce_ack_encode(const struct wire_bounce_ack *ack, struct buf *out);
MUST_USE enum err wire_bounce_ack_decode(struct span body, struct why *why,
                                         struct wire_bounce_ack *ack_out);

/* A run as it lies in a chunk: WIRE_BOUNCE_RUN_SIZE bytes, any alignment. */
struct wire_bounce_run {
    uint64_t offset;
    uint32_t size;
};
void wire_bounce_run_put(const struct wire_bounce_run *run, uint8_t *out);
struct wire_bounce_run wire_bounce_run_get(const uint8_t *bytes);
