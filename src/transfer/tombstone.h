#pragma once
/* transfer/tombstone: rids whose session ended here, or that a receiver gave
 * up before there was one (transfer.md 2.8, 6.7). A bounded ring: the oldest
 * makes room, and each ends by itself after its time. */
#include <stdbool.h>
#include <stdint.h>

struct transfer_tombstones;

enum transfer_tombstone {
    TRANSFER_TOMBSTONE_NONE,
    TRANSFER_TOMBSTONE_ENDED, /* no session will come any more */
    TRANSFER_TOMBSTONE_CANCELLED /* a session that comes starts cancelled */
};

struct transfer_tombstones *transfer_tombstones_create(uint32_t capacity,
                                                       uint64_t life_ns);
void transfer_tombstones_destroy(struct transfer_tombstones *tombstones);
/* ENDED replaces CANCELLED, never the other way round. */
void transfer_tombstones_add(struct transfer_tombstones *tombstones,
                             int64_t rid, enum transfer_tombstone kind,
                             uint64_t now);
enum transfer_tombstone transfer_tombstones_find(
    const struct transfer_tombstones *tombstones, int64_t rid, uint64_t now);
