#pragma once
/* kv/cache: the paged cache of one model: pages (kv/page_pool), the tree of
 * cached prefixes (kv/radix) and the sequences that use both.
 *
 *   sequence   block table: | 7 | 2 | 9 | 3 | 5 | -  - |
 *                           '--committed--' '-own-'
 *
 *   committed * B <= length <= capacity = block_count * B
 *
 * Leading blocks are shared: the tree knows them, nobody writes them any more.
 * The rest is the sequence's own. `length` tokens have their KV in place.
 *
 * Admission is guaranteed (engine.md 3.5): a sequence is opened with all blocks
 * that it may need until its end. Those it has not taken yet are promised:
 *
 *   free + used + cached + leased = all           sum(promised) <= free + cached
 *
 * so growth within the promise never fails, and nothing is ever suspended. A
 * cached page is one that only the tree knows; it is given up, least recently
 * used first, when a page is needed and none is free.
 *
 * Pure: page bytes are never touched; a copy is an order in the answer, to be
 * done before either page is written. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/ids.h"
#include "prefix/keys.h"

struct kv_cache;

struct kv_cache_options {
    uint32_t page_count;
    uint32_t tokens_per_block;
    uint32_t seq_count_max;
    uint32_t block_count_max; /* of one sequence */
    bool enable_reuse; /* false: nothing matches, nothing is committed */
};
struct kv_cache *kv_cache_create(const struct kv_cache_options *options);
void kv_cache_destroy(struct kv_cache *cache); /* NULL is fine */

/* Open for reading; written by the calls below. */
struct kv_seq {
    kv_page_id *pages; /* (block_count_max), KV_PAGE_NONE from block_count on */
    uint32_t block_count;
    uint32_t length; /* tokens */
    uint32_t committed; /* blocks */
    uint32_t promised; /* blocks */
    struct prefix_key
        key; /* of block committed - 1; unset when there is none */
    /* private */
    uint32_t leased; /* blocks, a block counts once a lease */
    bool is_open;
    bool is_closing;
    bool is_commit_over;
};

/* Bytes of page `from` go to page `to`. */
struct kv_copy {
    kv_page_id from;
    kv_page_id to;
};

/* How many leading blocks of a prompt are here now. `keys`: of the blocks in
 * prompt[0 : len-1], since the last token is computed anew for its logits. A
 * probe, it claims nothing. */
uint32_t kv_cache_match(struct kv_cache *cache, const struct prefix_key *keys,
                        uint32_t key_count);

/* Opens a sequence: claims the blocks that match and promises the rest of
 * `block_total` (which counts the claimed ones, and what forks will take).
 * length = committed * B afterwards. ERR_FULL: nothing changed; try again when
 * a sequence has closed. */
MUST_USE enum err kv_cache_open(struct kv_cache *cache,
                                const struct prefix_key *keys,
                                uint32_t key_count, uint32_t block_total,
                                struct kv_seq **seq_out);
/* A second sequence with the same tokens: full blocks are shared, a partial
 * last one is copied (`copy_out`; from == KV_PAGE_NONE: nothing to copy). Moves
 * `promised` blocks of the parent's promise to the child, the copy's page is
 * taken from them. Commit first: full blocks that the parent has not committed
 * are shared as they are, and from then on neither of the two commits.
 * ERR_FULL: no sequence left. */
MUST_USE enum err kv_cache_fork(struct kv_cache *cache, struct kv_seq *parent,
                                uint32_t promised, struct kv_copy *copy_out,
                                struct kv_seq **child_out);
/* Makes capacity the least multiple of B that holds `token_capacity`. Growing
 * takes promised blocks first, then unpromised ones; ERR_FULL then changes
 * nothing. Shrinking gives own blocks beyond `length` back to the promise. */
MUST_USE enum err kv_cache_resize(struct kv_cache *cache, struct kv_seq *seq,
                                  uint32_t token_capacity);
/* The KV of the first `length` tokens is in place; never goes back. */
void kv_cache_advance(struct kv_seq *seq, uint32_t length);
/* Is there a full block that the tree could be told of? */
bool kv_cache_wants_key(const struct kv_cache *cache, const struct kv_seq *seq);
/* Makes block `committed` findable under `key`, which follows seq->key. When
 * the tree has that block already its page replaces ours, which comes free
 * (engine.md 1.8, rebase): read the block table anew afterwards. */
void kv_cache_commit(struct kv_cache *cache, struct kv_seq *seq,
                     const struct prefix_key *key);
/* Gives up `count` blocks of the promise that will not be needed. */
void kv_cache_forgo(struct kv_cache *cache, struct kv_seq *seq, uint32_t count);
/* Lets go of everything, deepest block first. With leases outstanding only the
 * promise ends; the blocks stay as they are until the last lease ends, then the
 * sequence closes by itself. */
void kv_cache_close(struct kv_cache *cache, struct kv_seq *seq);

/* While leased, the pages of these blocks stay in place and are lent to nobody
 * else, and the block table does not change. Each lease ends by an unlease of
 * the same range. */
void kv_cache_lease(struct kv_cache *cache, struct kv_seq *seq,
                    uint32_t first_block, uint32_t block_count);
void kv_cache_unlease(struct kv_cache *cache, struct kv_seq *seq,
                      uint32_t first_block, uint32_t block_count);

struct kv_cache_counts {
    uint32_t all, free, used, cached, leased; /* pages */
    uint32_t promised;
    uint32_t seqs;
    uint64_t evicted; /* pages, since creation */
};
struct kv_cache_counts kv_cache_counts(const struct kv_cache *cache);
/* Every invariant above, page by page. Slow: for tests and checkers. */
bool kv_cache_is_valid(const struct kv_cache *cache);
