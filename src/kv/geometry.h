#pragma once
/* kv/geometry: how buffers of layers become pools of equal slots, how large they
 * must be and how memory is divided among them (engine.md 1.3, 1.4). Pure.
 *
 *   buffers of layers -- by (life cycle, size) --> coalesced buffers
 *   a life cycle's coalesced buffers, largest first = its slot-size list
 *   life cycles of equal lists share a pool group; pool i holds list[i]      */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/life.h"

enum {
    KV_BUFFER_COUNT_MAX = 1024,
    KV_POOL_COUNT_MAX = 4, /* of a group */
};

struct kv_buffer {
    uint32_t layer;
    uint8_t role; /* key, value, ...: any number, unique within a layer */
    uint8_t life; /* index into the lives given */
    size_t bytes; /* a block of tokens_per_block tokens, all its pages */
    uint32_t expansion; /* tokens_per_block / own block size; 1 if unset */
};

/* Where one buffer lies: address of its page = pool base of (group, pool) +
 * slot * slot_bytes + offset; page index = slot * scale + offset_pages. */
struct kv_place {
    uint8_t group, pool;
    size_t offset;
    uint32_t scale, offset_pages;
};

struct kv_geometry {
    uint32_t group_count;
    uint8_t group_of[KV_LIFE_COUNT_MAX];
    uint32_t pool_counts[KV_LIFE_COUNT_MAX]; /* by group */
    size_t slot_bytes[KV_LIFE_COUNT_MAX][KV_POOL_COUNT_MAX];
};

/* ERR_INVALID: two buffers of one layer with one role, sizes that are no
 * multiple of 16, too many. `places_out`: (buffer_count). */
MUST_USE enum err kv_geometry_plan(const struct kv_buffer *buffers,
                                   uint32_t buffer_count, uint32_t life_count,
                                   struct why *why,
                                   struct kv_geometry *geometry_out,
                                   struct kv_place *places_out);

/* A request that must always fit. */
struct kv_constraint {
    uint32_t capacity, history; /* tokens */
};
struct kv_division_options {
    const struct kv_life *lives;
    uint32_t life_count;
    uint32_t tokens_per_block;
    size_t budget_bytes;
    const struct kv_constraint *constraints; /* one batch that must fit */
    uint32_t constraint_count;
    uint32_t shared_tokens; /* a system prompt that they share, counted once */
    struct kv_constraint typical; /* capacity 0: from constraints, else
                                   * 2049/2048 */
    uint32_t max_batch;
    uint32_t step_max; /* tokens of a prefill step */
    uint32_t draft; /* look-ahead D */
};
/* Slots a group for `budget_bytes`. A group gets at least what the constraints
 * need together, one slot a full-attention life, and for a windowed one
 *
 *   max_batch * (ceil((window + draft + 1) / B) + 1 + sinks) + ceil(step_max / B)
 *
 * The rest goes by the typical request. ERR_FULL: the least does not fit; the
 * message has the sums by group. Group slots are fewer than 2^31. */
MUST_USE enum err kv_geometry_divide(const struct kv_geometry *geometry,
                                     const struct kv_division_options *options,
                                     struct why *why,
                                     uint32_t slots_out[KV_LIFE_COUNT_MAX]);
/* Physical chunk a slab grows by. */
size_t kv_geometry_chunk_bytes(size_t quota_bytes);
