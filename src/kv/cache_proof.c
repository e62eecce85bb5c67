#include "base/mem.h"
#include "kv/cache_state.h"

/* What the sequences alone say about each page. */
struct tally {
    uint32_t refs; /* sequences that have the page */
    uint32_t users; /* of them, those that share it through the tree */
};

static bool seq_is_valid(const struct kv_cache *cache, const struct kv_seq *seq)
{
    uint32_t block = cache->options.tokens_per_block;
    if (!seq->is_open) {
        return seq->block_count == 0 && seq->promised == 0 && seq->leased == 0;
    }
    return seq->committed * block <= seq->length &&
           seq->length <= seq->block_count * block &&
           (!seq->is_closing || seq->leased > 0);
}

static bool count_seq(const struct kv_cache *cache, const struct kv_seq *seq,
                      struct tally *tallies)
{
    for (uint32_t i = 0; i < cache->options.block_count_max; i++) {
        kv_page_id page = seq->pages[i];
        if ((page != KV_PAGE_NONE) != (i < seq->block_count)) {
            return false;
        }
        if (page == KV_PAGE_NONE) {
            continue;
        }
        tallies[page].refs++;
        tallies[page].users += i < seq->committed;
        if (i < seq->committed && !kv_radix_has(cache->radix, page)) {
            return false;
        }
    }
    return true;
}

static bool page_is_valid(const struct kv_cache *cache, kv_page_id page,
                          const struct tally *tally)
{
    bool is_cached = kv_radix_has(cache->radix, page);
    uint32_t refs = tally->refs + is_cached;
    return kv_page_pool_refs(cache->pool, page) == refs &&
           (!is_cached || kv_radix_users(cache->radix, page) == tally->users) &&
           (kv_page_pool_leases(cache->pool, page) == 0 || tally->refs > 0);
}

static bool tallies_are_valid(const struct kv_cache *cache,
                              struct tally *tallies)
{
    uint32_t promised = 0;
    uint64_t leased = 0;
    for (uint32_t i = 0; i < cache->options.seq_count_max; i++) {
        const struct kv_seq *seq = &cache->seqs[i];
        if (!seq_is_valid(cache, seq) || !count_seq(cache, seq, tallies)) {
            return false;
        }
        promised += seq->promised;
        leased += seq->leased;
    }
    for (uint32_t i = 0; i < cache->options.page_count; i++) {
        kv_page_id page = (kv_page_id)i;
        if (!page_is_valid(cache, page, &tallies[i])) {
            return false;
        }
        leased -= kv_page_pool_leases(cache->pool, page);
    }
    return promised == cache->promised && leased == 0;
}

bool kv_cache_is_valid(const struct kv_cache *cache)
{
    if (!kv_page_pool_is_valid(cache->pool) ||
        !kv_radix_is_valid(cache->radix)) {
        return false;
    }
    struct kv_cache_counts counts = kv_cache_counts(cache);
    if (counts.promised > counts.free + counts.cached) {
        return false;
    }
    struct tally *tallies =
        mem_new_array(cache->options.page_count, sizeof(tallies[0]));
    bool is_valid = tallies_are_valid(cache, tallies);
    mem_free(tallies);
    return is_valid;
}
