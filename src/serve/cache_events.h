#pragma once
/* serve/cache_events: what the cache tells, as the JSON list of
 * `POST /kv_cache_events` (serve.md 3.3, engine.md 1.12). Pure; the exchange is
 * in serve/cache_poll.c.
 *
 *   [{"event_id":7,"hash_algo":"v1_block_key","layer_group_id":0,
 *     "window_size":4096,"attention_dp_rank":0,
 *     "data":{"type":"stored","parent_hash":null,"blocks":[
 *       {"type":"stored_block","block_hash":12,"cache_level":0,"priority":35}]}},
 *    {...,"data":{"type":"removed","block_hashes":[12]}},
 *    {...,"data":{"type":"updated","block_hash":12,
 *       "cache_level":{"type":"event_diff","new_value":1,"old_value":0}}},
 *    {...,"data":{"type":"created","num_blocks_per_cache_level":[512,0]}},
 *    {...,"data":{"type":"gap","lost":3}},
 *    {...,"data":{"type":"resync"}}, ...]
 *
 * "gap": that many events are missing before this place; who keeps books asks
 * for a resync. "resync": forget all, the stored ones that follow are all there
 * is. Blocks whose name is underivable (serve/block_names.h) are left out. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "serve/block_names.h"

struct serve_cache_events {
    struct serve_block_names *names;
    enum prefix_hash_algo algo;
    /* By life cycle; of one that sees all, the longest sequence. */
    uint32_t windows[KV_LIFE_COUNT_MAX];
    uint32_t level_count;
    bool with_tokens; /* ids of stored blocks: they are the prompts' text */
    uint64_t lost; /* events nobody was there to read, since the last answer */
    /* private */
    bool has_written;
};

/* Adds the whole list. */
void serve_cache_events_print(struct serve_cache_events *events,
                              const struct engine_cache_batch *batch,
                              bool is_resync, struct buf *out);
/* Nobody reads the batch: names are kept up, and the next list begins with a
 * gap. */
void serve_cache_events_skip(struct serve_cache_events *events,
                             const struct engine_cache_batch *batch);
