#include "kv/cache.h"

#include "base/check.h"
#include "base/mem.h"
#include "kv/cache_state.h"

struct kv_cache *kv_cache_create(const struct kv_cache_options *options)
{
    CHECK(options->tokens_per_block > 0);
    struct kv_cache *cache = mem_new(sizeof(*cache));
    size_t seq_count = options->seq_count_max;
    size_t block_count = options->block_count_max;
    cache->options = *options;
    cache->pool = kv_page_pool_create(options->page_count);
    cache->radix = kv_radix_create(options->page_count);
    cache->seqs = mem_new_array(seq_count, sizeof(cache->seqs[0]));
    cache->tables =
        mem_new_array(seq_count * block_count, sizeof(cache->tables[0]));
    cache->free_seqs = mem_new_array(seq_count, sizeof(cache->free_seqs[0]));
    cache->matched = mem_new_array(block_count, sizeof(cache->matched[0]));
    for (size_t i = 0; i < seq_count * block_count; i++) {
        cache->tables[i] = KV_PAGE_NONE;
    }
    for (size_t i = 0; i < seq_count; i++) {
        cache->seqs[i].pages = cache->tables + i * block_count;
        cache->free_seqs[cache->free_seq_count++] = &cache->seqs[i];
    }
    return cache;
}

void kv_cache_destroy(struct kv_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    mem_free(cache->matched);
    mem_free(cache->free_seqs);
    mem_free(cache->tables);
    mem_free(cache->seqs);
    kv_radix_destroy(cache->radix);
    kv_page_pool_destroy(cache->pool);
    mem_free(cache);
}

static uint32_t capacity_of(const struct kv_cache *cache,
                            const struct kv_seq *seq)
{
    return seq->block_count * cache->options.tokens_per_block;
}

/* Pages that nobody uses and nobody was promised. */
static uint32_t unpromised(const struct kv_cache *cache)
{
    uint32_t idle = kv_page_pool_free_count(cache->pool) +
                    kv_radix_idle_count(cache->radix);
    CHECK(cache->promised <= idle);
    return idle - cache->promised;
}

static void promise(struct kv_cache *cache, struct kv_seq *seq, uint32_t count)
{
    seq->promised += count;
    cache->promised += count;
}

static void unpromise(struct kv_cache *cache, struct kv_seq *seq,
                      uint32_t count)
{
    CHECK(seq->promised >= count);
    seq->promised -= count;
    cache->promised -= count;
}

/* A page for an own block, evicting if need be. The caller has made sure that
 * there is one. */
static kv_page_id take_page(struct kv_cache *cache)
{
    if (kv_page_pool_free_count(cache->pool) == 0) {
        kv_page_id victim = kv_radix_evict(cache->radix);
        CHECK(victim != KV_PAGE_NONE);
        kv_page_pool_unref(cache->pool, victim);
        cache->evicted++;
    }
    kv_page_id page = KV_PAGE_NONE;
    CHECK(kv_page_pool_take(cache->pool, &page) == OK);
    return page;
}

static struct kv_seq *take_seq(struct kv_cache *cache)
{
    struct kv_seq *seq = cache->free_seqs[--cache->free_seq_count];
    *seq = (struct kv_seq){.pages = seq->pages, .is_open = true};
    return seq;
}

uint32_t kv_cache_match(struct kv_cache *cache, const struct prefix_key *keys,
                        uint32_t key_count)
{
    CHECK(key_count <= cache->options.block_count_max);
    if (!cache->options.enable_reuse) {
        return 0;
    }
    return kv_radix_match(cache->radix, keys, key_count, cache->matched);
}

/* Shares the first `count` blocks of `cache->matched`. */
static void claim(struct kv_cache *cache, struct kv_seq *seq, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        kv_page_pool_ref(cache->pool, cache->matched[i]);
        kv_radix_hold(cache->radix, cache->matched[i]);
        seq->pages[i] = cache->matched[i];
    }
    seq->block_count = count;
    seq->committed = count;
    seq->length = count * cache->options.tokens_per_block;
}

enum err kv_cache_open(struct kv_cache *cache, const struct prefix_key *keys,
                       uint32_t key_count, uint32_t block_total,
                       struct kv_seq **seq_out)
{
    uint32_t matched = kv_cache_match(cache, keys, key_count);
    uint32_t woken = 0; /* cached pages that a claim makes used */
    for (uint32_t i = 0; i < matched; i++) {
        woken += kv_radix_users(cache->radix, cache->matched[i]) == 0;
    }
    uint32_t missing = block_total > matched ? block_total - matched : 0;
    if (cache->free_seq_count == 0 || missing + woken > unpromised(cache)) {
        return ERR_FULL;
    }
    struct kv_seq *seq = take_seq(cache);
    claim(cache, seq, matched);
    if (matched > 0) {
        seq->key = keys[matched - 1];
    }
    promise(cache, seq, missing);
    *seq_out = seq;
    return OK;
}

enum err kv_cache_fork(struct kv_cache *cache, struct kv_seq *parent,
                       uint32_t promised, struct kv_copy *copy_out,
                       struct kv_seq **child_out)
{
    uint32_t full = parent->length / cache->options.tokens_per_block;
    bool is_partial = parent->length % cache->options.tokens_per_block > 0;
    CHECK(parent->is_open);
    CHECK(promised >= is_partial);
    if (cache->free_seq_count == 0) {
        return ERR_FULL;
    }
    struct kv_seq *child = take_seq(cache);
    unpromise(cache, parent, promised);
    for (uint32_t i = 0; i < full; i++) {
        kv_page_pool_ref(cache->pool, parent->pages[i]);
        if (i < parent->committed) {
            kv_radix_hold(cache->radix, parent->pages[i]);
        }
        child->pages[i] = parent->pages[i];
    }
    *copy_out = (struct kv_copy){KV_PAGE_NONE, KV_PAGE_NONE};
    if (is_partial) {
        child->pages[full] = take_page(cache);
        *copy_out = (struct kv_copy){parent->pages[full], child->pages[full]};
    }
    child->block_count = full + is_partial;
    child->length = parent->length;
    child->committed = parent->committed;
    child->key = parent->key;
    child->is_commit_over = child->committed < full;
    parent->is_commit_over |= child->is_commit_over;
    promise(cache, child, promised - is_partial);
    *child_out = child;
    return OK;
}

static enum err grow(struct kv_cache *cache, struct kv_seq *seq, uint32_t count)
{
    uint32_t kept = count < seq->promised ? count : seq->promised;
    if (count - kept > unpromised(cache)) {
        return ERR_FULL;
    }
    unpromise(cache, seq, kept);
    for (uint32_t i = 0; i < count; i++) {
        seq->pages[seq->block_count++] = take_page(cache);
    }
    return OK;
}

static void shrink(struct kv_cache *cache, struct kv_seq *seq, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        kv_page_id *page = &seq->pages[--seq->block_count];
        kv_page_pool_unref(cache->pool, *page);
        *page = KV_PAGE_NONE;
        promise(cache, seq, 1);
    }
}

enum err kv_cache_resize(struct kv_cache *cache, struct kv_seq *seq,
                         uint32_t token_capacity)
{
    uint32_t block = cache->options.tokens_per_block;
    uint32_t wanted = token_capacity / block + (token_capacity % block > 0);
    CHECK(seq->is_open);
    CHECK(seq->leased == 0);
    CHECK(token_capacity >= seq->length);
    CHECK(wanted <= cache->options.block_count_max);
    if (wanted > seq->block_count) {
        return grow(cache, seq, wanted - seq->block_count);
    }
    shrink(cache, seq, seq->block_count - wanted);
    return OK;
}

void kv_cache_advance(struct kv_seq *seq, uint32_t length)
{
    CHECK(length >= seq->length);
    seq->length = length;
}

/* The tree has this block already: use its page instead of ours. A page that a
 * transfer may still touch stays where it is, and the sequence stays private
 * from there on. */
static void rebase(struct kv_cache *cache, struct kv_seq *seq, uint32_t block,
                   kv_page_id cached)
{
    kv_page_id own = seq->pages[block];
    if (kv_page_pool_leases(cache->pool, own) > 0) {
        seq->is_commit_over = true;
        return;
    }
    kv_page_pool_ref(cache->pool, cached);
    kv_radix_hold(cache->radix, cached);
    kv_page_pool_unref(cache->pool, own);
    seq->pages[block] = cached;
    seq->committed++;
}

bool kv_cache_wants_key(const struct kv_cache *cache, const struct kv_seq *seq)
{
    uint32_t full = seq->length / cache->options.tokens_per_block;
    return cache->options.enable_reuse && !seq->is_commit_over &&
           seq->committed < full;
}

void kv_cache_commit(struct kv_cache *cache, struct kv_seq *seq,
                     const struct prefix_key *key)
{
    CHECK(seq->is_open);
    CHECK(seq->length <= capacity_of(cache, seq));
    CHECK(kv_cache_wants_key(cache, seq));
    uint32_t block = seq->committed;
    seq->key = *key;
    kv_page_id cached = kv_radix_find(cache->radix, key);
    if (cached != KV_PAGE_NONE) {
        rebase(cache, seq, block, cached);
        return;
    }
    kv_page_id parent = block == 0 ? KV_PAGE_NONE : seq->pages[block - 1];
    kv_radix_insert(cache->radix, key, parent, seq->pages[block]);
    kv_page_pool_ref(cache->pool, seq->pages[block]);
    seq->committed++;
}

void kv_cache_forgo(struct kv_cache *cache, struct kv_seq *seq, uint32_t count)
{
    unpromise(cache, seq, count);
}

/* The tree keeps its own reference to a committed page. */
static void release(struct kv_cache *cache, struct kv_seq *seq)
{
    CHECK(seq->promised == 0);
    while (seq->block_count > 0) {
        uint32_t block = --seq->block_count;
        if (block < seq->committed) {
            kv_radix_drop(cache->radix, seq->pages[block]);
        }
        kv_page_pool_unref(cache->pool, seq->pages[block]);
        seq->pages[block] = KV_PAGE_NONE;
    }
    *seq = (struct kv_seq){.pages = seq->pages};
    cache->free_seqs[cache->free_seq_count++] = seq;
}

void kv_cache_close(struct kv_cache *cache, struct kv_seq *seq)
{
    CHECK(seq->is_open);
    CHECK(!seq->is_closing);
    seq->is_closing = true;
    /* A lease keeps pages, not a promise: others need not wait for what a
     * transfer without proof would withhold for ever. */
    unpromise(cache, seq, seq->promised);
    if (seq->leased == 0) {
        release(cache, seq);
    }
}

void kv_cache_lease(struct kv_cache *cache, struct kv_seq *seq,
                    uint32_t first_block, uint32_t block_count)
{
    CHECK(first_block + block_count <= seq->block_count);
    for (uint32_t i = 0; i < block_count; i++) {
        kv_page_pool_lease(cache->pool, seq->pages[first_block + i]);
    }
    seq->leased += block_count;
}

void kv_cache_unlease(struct kv_cache *cache, struct kv_seq *seq,
                      uint32_t first_block, uint32_t block_count)
{
    CHECK(first_block + block_count <= seq->block_count);
    CHECK(seq->leased >= block_count);
    for (uint32_t i = 0; i < block_count; i++) {
        kv_page_pool_unlease(cache->pool, seq->pages[first_block + i]);
    }
    seq->leased -= block_count;
    if (seq->leased == 0 && seq->is_closing) {
        release(cache, seq);
    }
}

struct kv_cache_counts kv_cache_counts(const struct kv_cache *cache)
{
    struct kv_cache_counts counts = {
        .all = cache->options.page_count,
        .free = kv_page_pool_free_count(cache->pool),
        .cached = kv_radix_idle_count(cache->radix),
        .leased = kv_page_pool_leased_count(cache->pool),
        .promised = cache->promised,
        .seqs = cache->options.seq_count_max - cache->free_seq_count,
        .evicted = cache->evicted,
    };
    counts.used = counts.all - counts.free - counts.cached - counts.leased;
    return counts;
}
