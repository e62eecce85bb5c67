#pragma once
/* transfer/arena: one region of memory lent out in blocks of a power of two,
 * by buddies (transfer.md 5.3, I30).
 *
 *   0            capacity / 2             capacity
 *   | lower half | upper half            |  ... what is left of the region
 *
 *   FREE -- take --> LIVE -- give --> FREE
 *                     |-- quarantine --> QUARANTINED -- release --> FREE
 *
 * Somebody may still write into what is quarantined: it is lent to nobody. The
 * halves never join, so that what fills the one cannot keep a whole half of
 * the other apart. It holds numbers only, not the memory; each call is O(log)
 * and nothing is allocated after create. One owner, one thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { TRANSFER_ARENA_GRANULE_MIN = 64 };
enum transfer_arena_half { TRANSFER_ARENA_LOWER, TRANSFER_ARENA_UPPER };

struct transfer_arena_counts {
    uint64_t live, quarantined, free; /* bytes; together the capacity */
    uint32_t live_count, quarantined_count; /* blocks */
};

struct transfer_arena;

/* The largest granule * 2^k <= size, k >= 1; 0: it is too small. */
uint64_t transfer_arena_usable(uint64_t size, uint64_t granule);
/* `granule` is a power of two, TRANSFER_ARENA_GRANULE_MIN or more, and the
 * usable size not 0. */
struct transfer_arena *transfer_arena_create(uint64_t size, uint64_t granule);
void transfer_arena_destroy(struct transfer_arena *arena); /* NULL is fine */

uint64_t transfer_arena_capacity(const struct transfer_arena *arena);
struct transfer_arena_counts transfer_arena_counts(
    const struct transfer_arena *arena);

/* Lends a block of at least `size` bytes out of that half. ERR_FULL: there is
 * none now; ERR_INVALID: 0, or more than a half. */
MUST_USE enum err transfer_arena_take(struct transfer_arena *arena,
                                      enum transfer_arena_half half,
                                      uint64_t size, uint64_t *offset_out);
/* `offset` is that of a live block. */
void transfer_arena_give(struct transfer_arena *arena, uint64_t offset);
void transfer_arena_quarantine(struct transfer_arena *arena, uint64_t offset);
/* `offset` is that of a quarantined block: there is proof that it is quiet. */
void transfer_arena_release(struct transfer_arena *arena, uint64_t offset);
bool transfer_arena_is_valid(const struct transfer_arena *arena);
