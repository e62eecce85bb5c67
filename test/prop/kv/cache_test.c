/* Random work on a small cache against a slow reference that knows nothing of
 * pages, buckets or links: it keeps the set of cached prefixes, who uses each,
 * and when each fell idle. After every operation the cache proves itself valid,
 * both agree on what is free, cached and found, and every page that a sequence
 * shows holds the tokens that the sequence thinks it holds. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/base/test.h"

#include "base/rng.h"
#include "kv/cache.h"

enum {
    BLOCK = 2,
    PAGE_COUNT = 20,
    SEQ_COUNT = 6,
    DEPTH_MAX = 5, /* blocks of a prompt */
    FANOUT = 3, /* kinds of block */
    BLOCK_MAX = 9,
    NODE_COUNT = 364, /* 1 + 3 + 9 + 27 + 81 + 243: prefixes, 0 is the empty */
    OP_COUNT = 100000
};

/* A prefix is a number: child k of p is p * FANOUT + k + 1. */
struct slow_seq {
    struct kv_seq *seq; /* NULL: none */
    int path[DEPTH_MAX]; /* prefix after each block */
    uint32_t depth;
    uint32_t committed;
    uint32_t blocks;
    uint32_t length;
    uint32_t total; /* blocks promised in all */
    bool is_over, is_leased, is_closed;
    uint64_t name; /* of its private content */
};

struct world {
    struct rng rng;
    struct kv_cache *cache;
    struct prefix_key keys[NODE_COUNT];
    bool is_cached[NODE_COUNT];
    int users[NODE_COUNT];
    uint64_t idle_since[NODE_COUNT];
    uint64_t now;
    uint64_t content[PAGE_COUNT]; /* what was last written into the page */
    struct slow_seq seqs[SEQ_COUNT];
};

static int parent_of(int prefix)
{
    return (prefix - 1) / FANOUT;
}

static void make_keys(struct world *world)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {9};
    struct prefix_scope scope;
    prefix_scope_init(&scope, SECRET, 3);
    for (int i = 1; i < NODE_COUNT; i++) {
        int32_t tokens[BLOCK] = {(i - 1) % FANOUT, 0};
        int parent = parent_of(i);
        world->keys[i] = prefix_key_next(
            &scope, parent == 0 ? NULL : &world->keys[parent], tokens, BLOCK);
    }
}

static uint32_t slow_cached(const struct world *world)
{
    uint32_t count = 0;
    for (int i = 1; i < NODE_COUNT; i++) {
        count += world->is_cached[i] && world->users[i] == 0;
    }
    return count;
}

static uint32_t slow_free(const struct world *world)
{
    uint32_t taken = 0;
    for (int i = 1; i < NODE_COUNT; i++) {
        taken += world->is_cached[i];
    }
    for (int i = 0; i < SEQ_COUNT; i++) {
        const struct slow_seq *slow = &world->seqs[i];
        taken += slow->seq == NULL ? 0 : slow->blocks - slow->committed;
    }
    return PAGE_COUNT - taken;
}

static uint32_t slow_promised(const struct world *world)
{
    uint32_t count = 0;
    for (int i = 0; i < SEQ_COUNT; i++) {
        const struct slow_seq *slow = &world->seqs[i];
        count += slow->seq == NULL ? 0 : slow->total - slow->blocks;
    }
    return count;
}

/* Gives up what has been idle longest until `count` pages are free. */
static void slow_make_room(struct world *world, uint32_t count)
{
    while (slow_free(world) < count) {
        int oldest = 0;
        for (int i = 1; i < NODE_COUNT; i++) {
            bool is_idle = world->is_cached[i] && world->users[i] == 0;
            if (is_idle && (oldest == 0 ||
                            world->idle_since[i] < world->idle_since[oldest])) {
                oldest = i;
            }
        }
        assert_int_not_equal(oldest, 0);
        world->is_cached[oldest] = false;
    }
}

static uint32_t slow_match(const struct world *world, const int *path,
                           uint32_t depth)
{
    uint32_t count = 0;
    while (count < depth && world->is_cached[path[count]]) {
        count++;
    }
    return count;
}

static void random_path(struct world *world, int *path, uint32_t depth)
{
    int prefix = 0;
    for (uint32_t i = 0; i < depth; i++) {
        /* The first kind is common: prompts often share their beginning. */
        int kind = rng_below(&world->rng, 4) < 2
                       ? 0
                       : (int)rng_below(&world->rng, FANOUT);
        prefix = prefix * FANOUT + kind + 1;
        path[i] = prefix;
    }
}

static void path_keys(const struct world *world, const int *path,
                      uint32_t depth, struct prefix_key *keys_out)
{
    for (uint32_t i = 0; i < depth; i++) {
        keys_out[i] = world->keys[path[i]];
    }
}

static uint64_t content_of(const struct slow_seq *slow, uint32_t block)
{
    return block < slow->depth ? (uint64_t)slow->path[block]
                               : slow->name << 8 | block;
}

static struct slow_seq *pick(struct world *world, bool is_open)
{
    uint32_t start = (uint32_t)rng_below(&world->rng, SEQ_COUNT);
    for (uint32_t i = 0; i < SEQ_COUNT; i++) {
        struct slow_seq *slow = &world->seqs[(start + i) % SEQ_COUNT];
        bool is_match =
            is_open ? slow->seq != NULL && !slow->is_closed : slow->seq == NULL;
        if (is_match) {
            return slow;
        }
    }
    return NULL;
}

static void do_open(struct world *world)
{
    struct slow_seq *slow = pick(world, false);
    if (slow == NULL) {
        return;
    }
    struct slow_seq next = {
        .depth = 1 + (uint32_t)rng_below(&world->rng, DEPTH_MAX)};
    struct prefix_key keys[DEPTH_MAX];
    random_path(world, next.path, next.depth);
    path_keys(world, next.path, next.depth, keys);
    uint32_t matched = slow_match(world, next.path, next.depth);
    next.total = next.depth + (uint32_t)rng_below(&world->rng, 5);
    next.name = ++world->now + NODE_COUNT;
    uint32_t woken = 0;
    for (uint32_t i = 0; i < matched; i++) {
        woken += world->users[next.path[i]] == 0;
    }
    bool fits = next.total - matched + woken + slow_promised(world) <=
                slow_free(world) + slow_cached(world);
    enum err err =
        kv_cache_open(world->cache, keys, next.depth, next.total, &next.seq);
    assert_int_equal(err, fits ? OK : ERR_FULL);
    if (!fits) {
        return;
    }
    for (uint32_t i = 0; i < matched; i++) {
        world->users[next.path[i]]++;
    }
    next.committed = next.blocks = matched;
    next.length = matched * BLOCK;
    *slow = next;
}

/* Writes `tokens` more, block by block, and tells the tree. */
static void do_compute(struct world *world)
{
    struct slow_seq *slow = pick(world, true);
    if (slow == NULL || slow->is_leased) {
        return;
    }
    uint32_t length =
        slow->length + 1 + (uint32_t)rng_below(&world->rng, 2 * BLOCK);
    uint32_t most = slow->total * BLOCK;
    length = length < most ? length : most;
    uint32_t blocks = (length + BLOCK - 1) / BLOCK;
    blocks = blocks > slow->blocks ? blocks : slow->blocks;
    slow_make_room(world, blocks - slow->blocks);
    assert_int_equal(kv_cache_resize(world->cache, slow->seq, blocks * BLOCK),
                     OK);
    for (uint32_t i = slow->length / BLOCK; i * BLOCK < length; i++) {
        world->content[slow->seq->pages[i]] = content_of(slow, i);
    }
    slow->blocks = blocks;
    slow->length = length;
    kv_cache_advance(slow->seq, length);
}

static void do_commit(struct world *world)
{
    struct slow_seq *slow = pick(world, true);
    if (slow == NULL) {
        return;
    }
    while (slow->committed < slow->depth && !slow->is_over &&
           (slow->committed + 1) * BLOCK <= slow->length) {
        int prefix = slow->path[slow->committed];
        assert_true(kv_cache_wants_key(world->cache, slow->seq));
        kv_cache_commit(world->cache, slow->seq, &world->keys[prefix]);
        if (world->is_cached[prefix] && slow->is_leased) {
            slow->is_over = true;
            return;
        }
        world->is_cached[prefix] = true;
        world->users[prefix]++;
        slow->committed++;
    }
}

static void do_fork(struct world *world)
{
    struct slow_seq *slow = pick(world, true);
    struct slow_seq *child = pick(world, false);
    if (slow == NULL || child == NULL || slow->is_leased ||
        slow->committed < slow->length / BLOCK) {
        return;
    }
    uint32_t is_partial = slow->length % BLOCK > 0;
    uint32_t full = slow->length / BLOCK;
    uint32_t promised = slow->total - slow->blocks;
    if (promised < is_partial) {
        return;
    }
    struct kv_copy copy;
    struct slow_seq next = *slow;
    slow_make_room(world, is_partial);
    assert_int_equal(
        kv_cache_fork(world->cache, slow->seq, promised, &copy, &next.seq), OK);
    next.name = ++world->now + NODE_COUNT;
    next.blocks = full + is_partial;
    next.total = full + promised;
    slow->total -= promised;
    for (uint32_t i = 0; i < next.committed; i++) {
        world->users[next.path[i]]++;
    }
    assert_int_equal(copy.from != KV_PAGE_NONE, is_partial);
    if (is_partial) {
        next.name = slow->name; /* the copy holds what the original does */
        world->content[copy.to] = world->content[copy.from];
    }
    *child = next;
}

static void slow_release(struct world *world, struct slow_seq *slow)
{
    for (uint32_t i = slow->committed; i > 0; i--) {
        int prefix = slow->path[i - 1];
        if (--world->users[prefix] == 0) {
            world->idle_since[prefix] = ++world->now;
        }
    }
    slow->seq = NULL;
}

static void do_close(struct world *world)
{
    struct slow_seq *slow = pick(world, true);
    if (slow == NULL) {
        return;
    }
    kv_cache_close(world->cache, slow->seq);
    slow->is_closed = true;
    slow->total = slow->blocks; /* the promise ends with or without leases */
    if (!slow->is_leased) {
        slow_release(world, slow);
    }
}

static void do_lease(struct world *world)
{
    struct slow_seq *slow = &world->seqs[rng_below(&world->rng, SEQ_COUNT)];
    if (slow->seq == NULL || slow->blocks == 0) {
        return;
    }
    if (!slow->is_leased && !slow->is_closed) {
        kv_cache_lease(world->cache, slow->seq, 0, slow->blocks);
        slow->is_leased = true;
    } else if (slow->is_leased) {
        kv_cache_unlease(world->cache, slow->seq, 0, slow->blocks);
        slow->is_leased = false;
        if (slow->is_closed) {
            slow_release(world, slow);
        }
    }
}

static void check_seq(const struct world *world, const struct slow_seq *slow)
{
    if (slow->seq == NULL) {
        return;
    }
    assert_int_equal(slow->seq->block_count, slow->blocks);
    assert_int_equal(slow->seq->committed, slow->committed);
    assert_int_equal(slow->seq->promised, slow->total - slow->blocks);
    for (uint32_t i = 0; i * BLOCK < slow->length; i++) {
        assert_int_equal(world->content[slow->seq->pages[i]],
                         content_of(slow, i));
    }
}

static void check(struct world *world)
{
    struct kv_cache_counts counts = kv_cache_counts(world->cache);
    assert_true(kv_cache_is_valid(world->cache));
    assert_int_equal(counts.free, slow_free(world));
    assert_int_equal(counts.cached, slow_cached(world));
    assert_int_equal(counts.promised, slow_promised(world));
    assert_int_equal(counts.free + counts.used + counts.cached + counts.leased,
                     PAGE_COUNT);
    for (int i = 0; i < SEQ_COUNT; i++) {
        check_seq(world, &world->seqs[i]);
    }
    int path[DEPTH_MAX];
    struct prefix_key keys[DEPTH_MAX];
    random_path(world, path, DEPTH_MAX);
    path_keys(world, path, DEPTH_MAX, keys);
    assert_int_equal(kv_cache_match(world->cache, keys, DEPTH_MAX),
                     slow_match(world, path, DEPTH_MAX));
}

static void step(struct world *world)
{
    switch (rng_below(&world->rng, 10)) {
    case 0:
    case 1:
        do_open(world);
        break;
    case 2:
    case 3:
    case 4:
        do_compute(world);
        break;
    case 5:
    case 6:
        do_commit(world);
        break;
    case 7:
        do_fork(world);
        break;
    case 8:
        do_close(world);
        break;
    default:
        do_lease(world);
    }
}

static void run_seed(uint64_t seed, int op_count)
{
    struct world *world = test_calloc(1, sizeof(*world));
    world->rng = rng_from_seed(seed);
    world->cache =
        kv_cache_create(&(struct kv_cache_options){.page_count = PAGE_COUNT,
                                                   .tokens_per_block = BLOCK,
                                                   .seq_count_max = SEQ_COUNT,
                                                   .block_count_max = BLOCK_MAX,
                                                   .enable_reuse = true});
    make_keys(world);
    for (int i = 0; i < op_count; i++) {
        step(world);
        check(world);
    }
    kv_cache_destroy(world->cache);
    test_free(world);
}

/* BATON_SEED replays one seed. */
static void cache_agrees_with_the_slow_reference(void **state)
{
    (void)state;
    const char *text = getenv("BATON_SEED");
    uint64_t first = text == NULL ? 1 : strtoull(text, NULL, 10);
    int seeds = text == NULL ? 10 : 1;
    for (int i = 0; i < seeds; i++) {
        print_message("seed %llu\n", (unsigned long long)first + i);
        run_seed(first + (uint64_t)i, OP_COUNT / 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_agrees_with_the_slow_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
