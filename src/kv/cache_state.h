#pragma once
/* kv/cache_state: the insides of a cache, for its own files only: cache.c (the
 * acts) and cache_proof.c (the invariants). */
#include "kv/cache.h"
#include "kv/page_pool.h"
#include "kv/radix.h"

struct kv_cache {
    struct kv_cache_options options;
    struct kv_page_pool *pool;
    struct kv_radix *radix;
    struct kv_seq *seqs; /* (seq_count_max) */
    kv_page_id *tables; /* (seq_count_max, block_count_max) */
    struct kv_seq **free_seqs; /* the first free_seq_count count */
    uint32_t free_seq_count;
    uint32_t promised; /* sum over the sequences */
    uint64_t evicted;
    kv_page_id *matched; /* (block_count_max) scratch */
};
