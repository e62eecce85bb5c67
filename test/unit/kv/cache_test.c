#include "unit/base/test.h"

#include "kv/cache.h"

enum { BLOCK = 4, PAGE_COUNT = 12, KEY_MAX = 8 };

struct fixture {
    struct kv_cache *cache;
    struct prefix_key keys[KEY_MAX]; /* of tokens 1, 2, 3 ... */
};

static void make_keys(int32_t first, struct prefix_key *keys_out)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {42};
    struct prefix_scope scope;
    int32_t tokens[KEY_MAX * BLOCK];
    prefix_scope_init(&scope, SECRET, 0);
    for (int32_t i = 0; i < KEY_MAX * BLOCK; i++) {
        tokens[i] = first + i;
    }
    prefix_keys(&scope, tokens, KEY_MAX * BLOCK, BLOCK, KEY_MAX, keys_out);
}

static int create(void **state)
{
    static struct fixture fixture;
    make_keys(1, fixture.keys);
    fixture.cache =
        kv_cache_create(&(struct kv_cache_options){.page_count = PAGE_COUNT,
                                                   .tokens_per_block = BLOCK,
                                                   .seq_count_max = 4,
                                                   .block_count_max = KEY_MAX,
                                                   .enable_reuse = true});
    *state = &fixture;
    return 0;
}

static int destroy(void **state)
{
    struct fixture *fixture = *state;
    assert_true(kv_cache_is_valid(fixture->cache));
    kv_cache_destroy(fixture->cache);
    return 0;
}

static struct kv_seq *open_seq(struct kv_cache *cache,
                               const struct prefix_key *keys,
                               uint32_t key_count, uint32_t block_total)
{
    struct kv_seq *seq = NULL;
    assert_int_equal(kv_cache_open(cache, keys, key_count, block_total, &seq),
                     OK);
    return seq;
}

/* Computes up to `length` and tells the tree of all full blocks. */
static void compute(struct kv_cache *cache, struct kv_seq *seq,
                    const struct prefix_key *keys, uint32_t length)
{
    assert_int_equal(kv_cache_resize(cache, seq, length), OK);
    kv_cache_advance(seq, length);
    while (kv_cache_wants_key(cache, seq)) {
        kv_cache_commit(cache, seq, &keys[seq->committed]);
    }
    assert_true(kv_cache_is_valid(cache));
}

static void assert_counts(const struct kv_cache *cache, uint32_t free,
                          uint32_t used, uint32_t cached, uint32_t leased)
{
    struct kv_cache_counts counts = kv_cache_counts(cache);
    assert_int_equal(counts.free, free);
    assert_int_equal(counts.used, used);
    assert_int_equal(counts.cached, cached);
    assert_int_equal(counts.leased, leased);
    assert_int_equal(free + used + cached + leased, counts.all);
}

/* 10 tokens in blocks of 4: two full blocks are shared with the next sequence,
 * the partial third is not. */
static void full_blocks_are_reused(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 2, 4);
    assert_int_equal(a->length, 0);
    compute(cache, a, fixture->keys, 10);
    assert_int_equal(a->committed, 2);
    assert_int_equal(kv_cache_match(cache, fixture->keys, 3), 2);
    struct kv_seq *b = open_seq(cache, fixture->keys, 3, 4);
    assert_int_equal(b->length, 8);
    assert_int_equal(b->pages[0], a->pages[0]);
    assert_int_equal(b->pages[1], a->pages[1]);
    kv_cache_close(cache, a);
    kv_cache_close(cache, b);
    assert_counts(cache, 10, 0, 2, 0);
}

/* Four blocks, closed; two of them are needed by somebody else: the match on
 * the whole prompt is 8 tokens afterwards. [engine T27] */
static void closed_sequences_lose_their_deepest_blocks_first(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct prefix_key others[KEY_MAX];
    make_keys(1000, others);
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 4);
    compute(cache, a, fixture->keys, 16);
    kv_cache_close(cache, a);
    struct kv_seq *b = open_seq(cache, others, 0, 2);
    struct kv_seq *c = open_seq(cache, others, 0, 8);
    compute(cache, c, others, 32);
    assert_int_equal(kv_cache_resize(cache, b, 8), OK);
    assert_int_equal(kv_cache_counts(cache).evicted, 2);
    assert_int_equal(kv_cache_match(cache, fixture->keys, 4), 2);
    kv_cache_close(cache, b);
    kv_cache_close(cache, c);
}

/* 12 pages. 8 are promised to one sequence, though it has taken none: 4 are
 * left for others, and growing it to its end never fails. */
static void promises_are_kept(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct prefix_key others[KEY_MAX];
    struct kv_seq *c = NULL;
    make_keys(1000, others);
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 8);
    assert_int_equal(kv_cache_open(cache, others, 0, 5, &c), ERR_FULL);
    assert_null(c);
    struct kv_seq *b = open_seq(cache, others, 0, 4);
    compute(cache, b, others, 16);
    assert_int_equal(kv_cache_resize(cache, b, 17), ERR_FULL);
    assert_int_equal(b->block_count, 4);
    compute(cache, a, fixture->keys, 32);
    assert_counts(cache, 0, 12, 0, 0);
    kv_cache_close(cache, a);
    kv_cache_close(cache, b);
}

/* The cached blocks that a match would claim cannot be promised as well: 12
 * pages, 4 cached, 6 promised elsewhere. A prompt that reuses those 4 can have
 * 2 more, not 3. */
static void claimed_blocks_are_not_promised_twice(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 4);
    compute(cache, a, fixture->keys, 16);
    kv_cache_close(cache, a);
    struct kv_seq *b = open_seq(cache, fixture->keys, 0, 6);
    struct kv_seq *c = NULL;
    assert_int_equal(kv_cache_open(cache, fixture->keys, 4, 7, &c), ERR_FULL);
    c = open_seq(cache, fixture->keys, 4, 6);
    assert_int_equal(c->length, 16);
    kv_cache_close(cache, b);
    kv_cache_close(cache, c);
}

/* Two sequences compute the same 8 tokens side by side; the second to commit
 * gives its own pages back and shows those of the first. [engine T22] */
static void same_blocks_are_stored_once(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 2);
    struct kv_seq *b = open_seq(cache, fixture->keys, 0, 2);
    assert_int_equal(kv_cache_resize(cache, b, 8), OK);
    compute(cache, a, fixture->keys, 8);
    assert_counts(cache, 8, 4, 0, 0);
    compute(cache, b, fixture->keys, 8);
    assert_counts(cache, 10, 2, 0, 0);
    assert_memory_equal(a->pages, b->pages, 2 * sizeof(a->pages[0]));
    kv_cache_close(cache, a);
    kv_cache_close(cache, b);
}

/* A page under a transfer is not exchanged, the sequence stays private. */
static void leased_page_is_not_replaced_by_the_tree(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 2);
    struct kv_seq *b = open_seq(cache, fixture->keys, 0, 2);
    compute(cache, a, fixture->keys, 8);
    assert_int_equal(kv_cache_resize(cache, b, 8), OK);
    kv_cache_advance(b, 8);
    kv_page_id own = b->pages[0];
    kv_cache_lease(cache, b, 0, 2);
    assert_true(kv_cache_wants_key(cache, b));
    kv_cache_commit(cache, b, &fixture->keys[0]);
    assert_false(kv_cache_wants_key(cache, b));
    assert_int_equal(b->pages[0], own);
    kv_cache_unlease(cache, b, 0, 2);
    kv_cache_close(cache, a);
    kv_cache_close(cache, b);
}

/* 10 tokens, forked: two full blocks shared, the third copied to a page of the
 * child's own; both grow apart on their own promise. */
static void fork_shares_full_blocks_and_copies_the_partial_one(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 2 + 2 + 2);
    struct kv_seq *b = NULL;
    struct kv_copy copy;
    compute(cache, a, fixture->keys, 10);
    assert_int_equal(kv_cache_fork(cache, a, 2, &copy, &b), OK);
    assert_int_equal(copy.from, a->pages[2]);
    assert_int_equal(copy.to, b->pages[2]);
    assert_int_not_equal(copy.from, copy.to);
    assert_int_equal(b->length, 10);
    assert_int_equal(b->promised, 1);
    assert_int_equal(a->promised, 1);
    assert_memory_equal(a->pages, b->pages, 2 * sizeof(a->pages[0]));
    assert_counts(cache, 8, 4, 0, 0);
    compute(cache, a, fixture->keys, 11);
    assert_int_equal(kv_cache_resize(cache, b, 13), OK);
    kv_cache_close(cache, a);
    assert_true(kv_cache_is_valid(cache));
    kv_cache_close(cache, b);
    assert_counts(cache, 10, 0, 2, 0);
}

/* A prompt that ends with its block has nothing to copy. */
static void fork_of_full_blocks_copies_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 4);
    struct kv_seq *b = NULL;
    struct kv_copy copy;
    compute(cache, a, fixture->keys, 8);
    assert_int_equal(kv_cache_fork(cache, a, 1, &copy, &b), OK);
    assert_int_equal(copy.from, KV_PAGE_NONE);
    assert_int_equal(b->block_count, 2);
    kv_cache_close(cache, b);
    kv_cache_close(cache, a);
}

/* Closed under a lease: nothing moves until the lease ends, then all of it goes
 * at once, the full blocks to the tree. */
static void close_waits_for_leases(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 3);
    compute(cache, a, fixture->keys, 10);
    kv_cache_lease(cache, a, 0, 3);
    kv_cache_close(cache, a);
    assert_counts(cache, 9, 0, 0, 3);
    assert_true(kv_cache_is_valid(cache));
    struct kv_seq *b = open_seq(cache, fixture->keys, 2, 2);
    assert_int_equal(b->length, 8);
    kv_cache_close(cache, b);
    assert_counts(cache, 9, 0, 0, 3);
    kv_cache_unlease(cache, a, 0, 3);
    assert_counts(cache, 10, 0, 2, 0);
}

/* Six of ten promised, three leased at the close: the three that were never
 * taken can be had at once, the leased ones cannot. */
static void close_under_a_lease_ends_the_promise(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 6);
    compute(cache, a, fixture->keys, 10);
    kv_cache_lease(cache, a, 0, 3);
    uint32_t all = kv_cache_counts(cache).all;
    struct kv_seq *b = NULL;
    assert_int_equal(kv_cache_open(cache, NULL, 0, all - 3, &b), ERR_FULL);
    kv_cache_close(cache, a);
    assert_int_equal(kv_cache_counts(cache).promised, 0);
    assert_int_equal(kv_cache_open(cache, NULL, 0, all - 2, &b), ERR_FULL);
    b = open_seq(cache, NULL, 0, all - 3);
    assert_true(kv_cache_is_valid(cache));
    kv_cache_close(cache, b);
    kv_cache_unlease(cache, a, 0, 3);
    assert_true(kv_cache_is_valid(cache));
}

/* Shrinking gives blocks back to the promise; a resize that would need more than
 * there is changes nothing. */
static void resize_goes_both_ways_or_not_at_all(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache = fixture->cache;
    struct kv_seq *a = open_seq(cache, fixture->keys, 0, 4);
    struct kv_seq *b = open_seq(cache, fixture->keys, 0, 7);
    assert_int_equal(kv_cache_resize(cache, a, 16), OK);
    kv_cache_advance(a, 5);
    assert_int_equal(kv_cache_resize(cache, a, 24), ERR_FULL);
    assert_int_equal(a->block_count, 4);
    assert_int_equal(kv_cache_resize(cache, a, 5), OK);
    assert_int_equal(a->block_count, 2);
    assert_int_equal(a->promised, 2);
    assert_int_equal(kv_cache_resize(cache, a, 20), OK);
    assert_int_equal(a->promised, 0);
    assert_counts(cache, 7, 5, 0, 0);
    kv_cache_close(cache, a);
    kv_cache_close(cache, b);
}

/* 100 blocks of 32 tokens; prompts of 1000 with 600 to generate need 50 each.
 * Two fit; a third does not, not even with 16 of its blocks cached, since the
 * other 34 are not there. [engine T62] */
static void no_evict_admits_what_fits_to_completion(void **state)
{
    (void)state;
    struct prefix_key keys[KEY_MAX * 2];
    struct kv_cache *cache =
        kv_cache_create(&(struct kv_cache_options){.page_count = 100,
                                                   .tokens_per_block = 32,
                                                   .seq_count_max = 3,
                                                   .block_count_max = 50,
                                                   .enable_reuse = true});
    make_keys(1, keys);
    make_keys(500, keys + KEY_MAX);
    struct kv_seq *seqs[3] = {NULL};
    assert_int_equal(kv_cache_open(cache, keys, 0, 50, &seqs[0]), OK);
    compute(cache, seqs[0], keys, 16 * 32);
    assert_int_equal(kv_cache_open(cache, keys, 0, 50, &seqs[1]), OK);
    assert_int_equal(kv_cache_open(cache, keys, 0, 50, &seqs[2]), ERR_FULL);
    assert_int_equal(kv_cache_match(cache, keys, 16), 16);
    assert_int_equal(kv_cache_open(cache, keys, 16, 50, &seqs[2]), ERR_FULL);
    kv_cache_close(cache, seqs[1]);
    assert_int_equal(kv_cache_open(cache, keys, 16, 50, &seqs[2]), OK);
    assert_true(kv_cache_is_valid(cache));
    kv_cache_destroy(cache);
}

/* Reuse switched off: the same prompt twice finds nothing. */
static void without_reuse_nothing_is_shared(void **state)
{
    struct fixture *fixture = *state;
    struct kv_cache *cache =
        kv_cache_create(&(struct kv_cache_options){.page_count = 4,
                                                   .tokens_per_block = BLOCK,
                                                   .seq_count_max = 2,
                                                   .block_count_max = 4});
    struct kv_seq *a = open_seq(cache, fixture->keys, 2, 2);
    compute(cache, a, fixture->keys, 8);
    assert_int_equal(kv_cache_match(cache, fixture->keys, 2), 0);
    kv_cache_close(cache, a);
    assert_counts(cache, 4, 0, 0, 0);
    kv_cache_destroy(cache);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(full_blocks_are_reused),
        TEST(closed_sequences_lose_their_deepest_blocks_first),
        TEST(promises_are_kept),
        TEST(claimed_blocks_are_not_promised_twice),
        TEST(same_blocks_are_stored_once),
        TEST(leased_page_is_not_replaced_by_the_tree),
        TEST(fork_shares_full_blocks_and_copies_the_partial_one),
        TEST(fork_of_full_blocks_copies_nothing),
        TEST(close_waits_for_leases),
        TEST(close_under_a_lease_ends_the_promise),
        TEST(resize_goes_both_ways_or_not_at_all),
        TEST(no_evict_admits_what_fits_to_completion),
        TEST(without_reuse_nothing_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
