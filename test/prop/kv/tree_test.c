/* Random work on small trees against a slow reference that knows the rules of
 * engine.md 1.7 word by word and nothing of tables, treaps or windows: it scans
 * all blocks for every question. Prompts are drawn from three tokens, so that
 * most of them meet; scopes, holes in windows, partial leaves and a full node
 * table come up all the time.
 *
 * KV_TREE_OPS=N: operations a kind of tree, 4000 unless said. */
#include "unit/kv/tree_world.h"

#include <pthread.h>
#include <stdio.h>

#include "base/rng.h"

enum {
    B = 3,
    NODE_MAX = 60,
    LENGTH_MAX = 17, /* tokens of a sequence */
    ALPHABET = 3,
    SCOPES = 3,
    LIVES = 3,
    SLOW_MAX = NODE_MAX + 1
};

/* -- the reference -------------------------------------------------------- */

struct slow_node {
    bool is_here;
    int scope, parent; /* -1: none */
    uint32_t depth, count;
    int32_t tokens[B];
    uint32_t cover[LIVES]; /* 0: no page */
    kv_node node;
};

struct slow {
    struct world world;
    struct rng rng;
    struct prefix_scope scopes[SCOPES];
    struct slow_node nodes[SLOW_MAX];
    uint32_t gone; /* (node, life) that ceased in the last loss */
};

static uint32_t lives_of(const struct slow *slow)
{
    return slow->world.options.life_count;
}

static int slow_child(const struct slow *slow, int scope, int parent,
                      const int32_t *tokens, uint32_t count, uint32_t *common)
{
    int best = -1;
    *common = 0;
    for (int i = 0; i < SLOW_MAX; i++) {
        const struct slow_node *node = &slow->nodes[i];
        if (!node->is_here || node->scope != scope || node->parent != parent) {
            continue;
        }
        uint32_t run = 0;
        while (run < count && run < node->count &&
               node->tokens[run] == tokens[run]) {
            run++;
        }
        if (run > *common) {
            *common = run;
            best = i;
        }
    }
    return best;
}

static bool slow_stands_on(const struct slow *slow, int at, uint32_t life)
{
    const struct kv_life *rule = &slow->world.options.lives[life];
    return rule->window == 0 || slow->nodes[at].depth * B < rule->sink_tokens;
}

static uint32_t slow_count(const struct slow *slow)
{
    uint32_t count = 0;
    for (int i = 0; i < SLOW_MAX; i++) {
        count += slow->nodes[i].is_here;
    }
    return count;
}

/* Where among what was told (node, life) is; it is there once. */
static uint32_t slow_told(const struct slow *slow, int at, uint32_t life)
{
    uint32_t place = WORLD_REMOVED_MAX;
    for (uint32_t i = 0; i < slow->world.removed_count; i++) {
        if (slow->world.removed[i].node == slow->nodes[at].node &&
            slow->world.removed[i].life == life) {
            assert_int_equal(place, WORLD_REMOVED_MAX);
            place = i;
        }
    }
    assert_int_not_equal(place, WORLD_REMOVED_MAX);
    return place;
}

/* All that is told of the subtree is told before `end`; children come first. */
static void slow_remove(struct slow *slow, int at, uint32_t end)
{
    uint32_t first = end;
    for (uint32_t life = 0; life < lives_of(slow); life++) {
        if (slow->nodes[at].cover[life] > 0) {
            uint32_t place = slow_told(slow, at, life);
            assert_true(place < end);
            first = place < first ? place : first;
            slow->gone++;
        }
    }
    for (int i = 0; i < SLOW_MAX; i++) {
        if (slow->nodes[i].is_here && slow->nodes[i].parent == at) {
            slow_remove(slow, i, first);
        }
    }
    slow->nodes[at].is_here = false;
}

static bool slow_is_bare(const struct slow *slow, int at)
{
    for (int i = 0; i < SLOW_MAX; i++) {
        if (slow->nodes[i].is_here && slow->nodes[i].parent == at) {
            return false;
        }
    }
    for (uint32_t life = 0; life < lives_of(slow); life++) {
        if (slow->nodes[at].cover[life] > 0) {
            return false;
        }
    }
    return true;
}

static void slow_trim(struct slow *slow, int at)
{
    while (at >= 0 && slow_is_bare(slow, at)) {
        slow->nodes[at].is_here = false;
        at = slow->nodes[at].parent;
    }
}

/* Cuts a match of `n` tokens whose blocks are `chain` as 1.7.5 says. */
static uint32_t slow_usable(const struct slow *slow, const int *chain,
                            uint32_t n)
{
    for (;;) {
        uint32_t cut = n;
        for (uint32_t life = 0; life < lives_of(slow) && cut == n; life++) {
            const struct kv_life *rule = &slow->world.options.lives[life];
            struct kv_range stale = kv_life_stale(rule, B, n);
            for (uint32_t block = 0; block * B < n && cut == n; block++) {
                uint32_t need = n - block * B < B ? n - block * B : B;
                uint32_t cover = slow->nodes[chain[block]].cover[life];
                if (!kv_range_has(stale, block) && cover < need) {
                    cut = block * B + cover;
                }
            }
        }
        if (cut == n) {
            return n;
        }
        n = cut;
    }
}

/* The best over all children that share the longest run. */
static uint32_t slow_usable_of_equals(const struct slow *slow, int *chain,
                                      uint32_t blocks, int scope, int parent,
                                      const int32_t *tokens, uint32_t common)
{
    uint32_t best = 0;
    for (int i = 0; i < SLOW_MAX; i++) {
        const struct slow_node *node = &slow->nodes[i];
        if (node->is_here && node->scope == scope && node->parent == parent &&
            node->count >= common &&
            memcmp(node->tokens, tokens, common * sizeof(*tokens)) == 0) {
            chain[blocks] = i;
            uint32_t usable = slow_usable(slow, chain, blocks * B + common);
            best = usable > best ? usable : best;
        }
    }
    return best;
}

static struct kv_match slow_match(const struct slow *slow, int scope,
                                  const int32_t *tokens, uint32_t count)
{
    int chain[LENGTH_MAX];
    uint32_t blocks = 0, common = 0;
    int parent = -1;
    while ((blocks + 1) * B <= count) {
        int child =
            slow_child(slow, scope, parent, tokens + blocks * B, B, &common);
        if (child < 0 || common < B) {
            break;
        }
        chain[blocks++] = child;
        parent = child;
    }
    uint32_t raw = blocks * B;
    uint32_t usable = slow_usable(slow, chain, raw);
    uint32_t left = count - raw < B ? count - raw : B;
    if (!slow->world.options.is_whole_only &&
        slow_child(slow, scope, parent, tokens + raw, left, &common) >= 0) {
        usable = slow_usable_of_equals(slow, chain, blocks, scope, parent,
                                       tokens + raw, common);
        raw += common;
    }
    return (struct kv_match){.raw = raw, .attention = usable, .usable = usable};
}

/* -- moves ---------------------------------------------------------------- */

/* Often what somebody stored, to some length, and then something else. */
static uint32_t draw_tokens(struct slow *slow, int *scope_out, int32_t *tokens)
{
    uint32_t count = 1 + (uint32_t)rng_below(&slow->rng, LENGTH_MAX);
    *scope_out = (int)rng_below(&slow->rng, SCOPES);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)rng_below(&slow->rng, ALPHABET);
    }
    int at = (int)rng_below(&slow->rng, SLOW_MAX);
    if (slow->nodes[at].is_here && rng_below(&slow->rng, 4) > 0) {
        *scope_out = slow->nodes[at].scope;
        for (; at >= 0; at = slow->nodes[at].parent) {
            const struct slow_node *node = &slow->nodes[at];
            for (uint32_t i = 0; i < node->count; i++) {
                if (node->depth * B + i < count) {
                    tokens[node->depth * B + i] = node->tokens[i];
                }
            }
        }
    }
    return count;
}

/* Windowed pages are missing now and then, never one that a node stands on. */
static void give_pages(struct slow *slow, int at)
{
    struct slow_node *node = &slow->nodes[at];
    for (uint32_t life = 0; life < lives_of(slow); life++) {
        bool is_wanted =
            slow_stands_on(slow, at, life) || rng_below(&slow->rng, 4) > 0;
        if (is_wanted && node->cover[life] < node->count) {
            world_give_page(&slow->world, node->node, life);
            node->cover[life] = node->count;
        }
    }
}

/* What the rules say of this block; its place when it is kept. */
static enum kv_insert slow_insert(struct slow *slow, int scope, int parent,
                                  const int32_t *tokens, uint32_t count,
                                  int *at_out)
{
    uint32_t common;
    int near = slow_child(slow, scope, parent, tokens, count, &common);
    *at_out = near;
    if (count < B && slow->world.options.is_whole_only) {
        return KV_INSERT_USELESS;
    }
    if (near >= 0 && common == count) {
        return count < B ? KV_INSERT_USELESS : KV_INSERT_EXISTS;
    }
    bool is_extension = near >= 0 && common == slow->nodes[near].count;
    if (!is_extension) {
        if (slow_count(slow) == NODE_MAX) {
            return KV_INSERT_FULL;
        }
        for (near = 0; slow->nodes[near].is_here; near++) {
        }
        slow->nodes[near] = (struct slow_node){
            .is_here = true,
            .scope = scope,
            .parent = parent,
            .depth = parent < 0 ? 0 : slow->nodes[parent].depth + 1,
        };
    }
    slow->nodes[near].count = count;
    memcpy(slow->nodes[near].tokens, tokens, count * sizeof(*tokens));
    *at_out = near;
    return is_extension ? KV_INSERT_EXTENDS : KV_INSERT_NEW;
}

static void commit(struct slow *slow)
{
    int32_t tokens[LENGTH_MAX];
    int scope, at = -1;
    uint32_t count = draw_tokens(slow, &scope, tokens);
    const struct prefix_scope *names = &slow->scopes[scope];
    struct prefix_key key = names->root;
    kv_node node = KV_NODE_NONE;
    for (uint32_t done = 0; done < count; done += B) {
        uint32_t length = count - done < B ? count - done : B;
        key = prefix_key_next(names, done == 0 ? NULL : &key, tokens + done,
                              length);
        int parent = at;
        enum kv_insert expected =
            slow_insert(slow, scope, parent, tokens + done, length, &at);
        enum kv_insert answer =
            kv_tree_insert(slow->world.tree, &names->root, node, &key,
                           tokens + done, length, slow->world.store, &node);
        assert_int_equal(answer, expected);
        if (answer == KV_INSERT_USELESS || answer == KV_INSERT_FULL) {
            slow_trim(slow, parent);
            if (parent >= 0) {
                kv_tree_trim(slow->world.tree, slow->nodes[parent].node);
            }
            return;
        }
        slow->nodes[at].node = node;
        give_pages(slow, at);
    }
    slow_trim(slow, at);
    kv_tree_trim(slow->world.tree, node);
}

static void lose(struct slow *slow)
{
    int at = (int)rng_below(&slow->rng, SLOW_MAX);
    uint32_t life = (uint32_t)rng_below(&slow->rng, lives_of(slow));
    if (!slow->nodes[at].is_here || slow->nodes[at].cover[life] == 0) {
        return;
    }
    slow->world.removed_count = 0;
    slow->gone = 0;
    world_lose(&slow->world, slow->nodes[at].node, life);
    if (slow_stands_on(slow, at, life)) {
        slow_remove(slow, at, slow->world.removed_count);
        slow_trim(slow, slow->nodes[at].parent);
    } else {
        assert_int_equal(slow_told(slow, at, life), 0);
        slow->gone = 1;
        slow->nodes[at].cover[life] = 0;
        slow_trim(slow, at);
    }
    assert_int_equal(slow->world.removed_count, slow->gone);
}

static void look_up(struct slow *slow)
{
    int32_t tokens[LENGTH_MAX];
    int scope;
    uint32_t count = draw_tokens(slow, &scope, tokens);
    kv_node nodes[LENGTH_MAX];
    struct kv_match fast = world_match_as(&slow->world, &slow->scopes[scope],
                                          tokens, count, nodes);
    struct kv_match expected = slow_match(slow, scope, tokens, count);
    assert_int_equal(fast.raw, expected.raw);
    assert_int_equal(fast.usable, expected.usable);
    for (uint32_t i = 0; i * B < fast.usable; i++) {
        const int32_t *theirs;
        uint32_t have = kv_tree_tokens(slow->world.tree, nodes[i], &theirs);
        uint32_t need = fast.usable - i * B < B ? fast.usable - i * B : B;
        assert_true(have >= need);
        assert_memory_equal(theirs, tokens + i * B, need * sizeof(*tokens));
    }
}

/* All pages are queued here, so the answer has no child with such a page. */
static void ask_leaf(struct slow *slow)
{
    int top = (int)rng_below(&slow->rng, SLOW_MAX);
    uint32_t life = (uint32_t)rng_below(&slow->rng, lives_of(slow));
    if (!slow->nodes[top].is_here || slow->nodes[top].cover[life] == 0) {
        return;
    }
    kv_node leaf =
        kv_tree_leaf_below(slow->world.tree, slow->nodes[top].node, life);
    int at = 0;
    while (!slow->nodes[at].is_here || slow->nodes[at].node != leaf) {
        assert_true(++at < SLOW_MAX);
    }
    assert_true(slow->nodes[at].cover[life] > 0);
    for (int i = 0; i < SLOW_MAX; i++) {
        assert_false(slow->nodes[i].is_here && slow->nodes[i].parent == at &&
                     slow->nodes[i].cover[life] > 0);
    }
    while (at != top) {
        at = slow->nodes[at].parent;
        assert_true(at >= 0);
    }
}

static void work(const struct world_options *options, uint64_t seed)
{
    struct slow *slow = calloc(1, sizeof(*slow));
    const char *wish = getenv("KV_TREE_OPS");
    int ops = wish != NULL ? atoi(wish) : 4000;
    world_init(&slow->world, options);
    slow->rng = rng_from_seed(seed);
    for (int i = 0; i < SCOPES; i++) {
        slow->scopes[i] = world_scope((uint64_t)i);
    }
    for (int i = 0; i < ops; i++) {
        uint64_t draw = rng_below(&slow->rng, 10);
        if (draw < 4) {
            commit(slow);
        } else if (draw < 8) {
            lose(slow);
        } else {
            ask_leaf(slow);
        }
        look_up(slow);
        look_up(slow);
        assert_int_equal(kv_tree_count(slow->world.tree), slow_count(slow));
        world_prove(&slow->world);
    }
    world_finish(&slow->world);
    free(slow);
}

/* Every answer of match, insert, loss and leaf_below over trees of five kinds is
 * that of the reference, and the tree proves itself after each. [engine F9] */
static void test_tree_agrees_with_a_scan_of_all_blocks(void **state)
{
    (void)state;
    static const struct world_options KINDS[] = {
        {B, 1, {{0}}, NODE_MAX, 256, false},
        {B, 1, {{0}}, NODE_MAX, 256, true},
        {B, 2, {{0}, {.window = 5}}, NODE_MAX, 256, false},
        {B, 1, {{.window = 4}}, NODE_MAX, 256, false},
        {B,
         2,
         {{.window = 7}, {.window = 2, .sink_tokens = 4}},
         NODE_MAX,
         256,
         false},
        {B,
         3,
         {{0}, {.window = 3}, {.window = 8, .sink_tokens = 2}},
         NODE_MAX,
         256,
         false},
    };
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        work(&KINDS[i], 100 + i);
    }
}

/* -- long chains ---------------------------------------------------------- */

enum { LONG_BLOCKS = 32768, LONG_B = 32, SMALL_STACK = 128 * 1024 };

struct chain {
    struct world_options options;
    void (*act)(struct world *world, struct chain *chain);
    int32_t *tokens;
    struct prefix_key *keys;
    kv_node first, last;
    uint32_t removed, ordinal;
};

static void on_chain_removed(void *context, kv_node node, uint32_t life)
{
    struct chain *chain = context;
    (void)node;
    (void)life;
    chain->removed++;
}

static void insert_chain(struct world *world, struct chain *chain,
                         bool is_last_only)
{
    kv_node node = KV_NODE_NONE;
    for (uint32_t i = 0; i < LONG_BLOCKS; i++) {
        enum kv_insert answer = kv_tree_insert(
            world->tree, &world->scope.root, node, &chain->keys[i],
            chain->tokens + (size_t)i * LONG_B, LONG_B, world->store, &node);
        assert_int_equal(answer, KV_INSERT_NEW);
        if (!is_last_only || i == LONG_BLOCKS - 1) {
            world_give_page(world, node, 0);
        }
        chain->first = i == 0 ? node : chain->first;
    }
    chain->last = node;
}

static struct kv_match match_chain(struct world *world, struct chain *chain)
{
    struct kv_prompt prompt = {
        .root = &world->scope.root,
        .keys = chain->keys,
        .key_count = LONG_BLOCKS,
        .tokens = chain->tokens,
        .token_count = LONG_BLOCKS * LONG_B - 1,
    };
    return kv_tree_match(world->tree, &prompt, NULL);
}

static void lose_root(struct world *world, struct chain *chain)
{
    insert_chain(world, chain, false);
    assert_int_equal(match_chain(world, chain).usable,
                     LONG_BLOCKS * LONG_B - 1);
    kv_ref page = kv_tree_page(world->tree, chain->first, 0);
    kv_tree_lose_page(world->tree, world->store, chain->first, 0,
                      on_chain_removed, chain);
    kv_store_discard(world->store, page);
    assert_int_equal(chain->removed, LONG_BLOCKS);
}

static void lose_last(struct world *world, struct chain *chain)
{
    insert_chain(world, chain, true);
    assert_int_equal(match_chain(world, chain).usable, 0);
    kv_ref page = kv_tree_page(world->tree, chain->last, 0);
    kv_tree_lose_page(world->tree, world->store, chain->last, 0,
                      on_chain_removed, chain);
    kv_store_discard(world->store, page);
    assert_int_equal(chain->removed, 1);
}

static void drain(struct world *world, struct chain *chain)
{
    insert_chain(world, chain, false);
    for (uint32_t i = LONG_BLOCKS; i > 0; i--) {
        kv_node leaf = kv_tree_leaf_below(world->tree, chain->first, 0);
        assert_int_equal(kv_tree_ordinal(world->tree, leaf), i - 1);
        kv_ref page = kv_tree_page(world->tree, leaf, 0);
        kv_tree_lose_page(world->tree, world->store, leaf, 0, on_chain_removed,
                          chain);
        kv_store_discard(world->store, page);
    }
    assert_int_equal(chain->removed, LONG_BLOCKS);
}

static void *run_chain(void *context)
{
    struct chain *chain = context;
    static struct world world;
    world_init(&world, &chain->options);
    prefix_keys(&world.scope, chain->tokens, LONG_BLOCKS * LONG_B, LONG_B,
                LONG_BLOCKS, chain->keys);
    chain->act(&world, chain);
    assert_int_equal(kv_tree_count(world.tree), 0);
    assert_int_equal(world_free(&world, 0), LONG_BLOCKS);
    assert_true(kv_tree_is_valid(world.tree));
    world_finish(&world);
    return NULL;
}

static void run_on_a_small_stack(struct chain *chain)
{
    pthread_attr_t attributes;
    pthread_t thread;
    size_t count = (size_t)LONG_BLOCKS * LONG_B;
    chain->tokens = calloc(count, sizeof(*chain->tokens));
    chain->keys = calloc(LONG_BLOCKS, sizeof(*chain->keys));
    for (size_t i = 0; i < count; i++) {
        chain->tokens[i] = (int32_t)(i * 7 % 50000);
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, SMALL_STACK);
    assert_int_equal(pthread_create(&thread, &attributes, run_chain, chain), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    free(chain->keys);
    free(chain->tokens);
}

/* A million tokens in one chain come and go on a stack that would not hold one
 * frame a block, whichever way they go: with their root, from the last one up
 * where nobody has pages, and leaf by leaf. [engine F10] */
static void test_a_chain_of_a_million_tokens_needs_no_stack(void **state)
{
    (void)state;
    void (*const ACTS[])(struct world *, struct chain *) = {lose_root,
                                                            lose_last, drain};
    for (int i = 0; i < 3; i++) {
        struct chain chain = {
            .options =
                {
                    .tokens_per_block = LONG_B,
                    .life_count = 1,
                    .lives = {{.window = i == 1 ? 64 : 0}},
                    .node_max = LONG_BLOCKS,
                    .page_count = LONG_BLOCKS,
                },
            .act = ACTS[i],
        };
        run_on_a_small_stack(&chain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_agrees_with_a_scan_of_all_blocks),
        cmocka_unit_test(test_a_chain_of_a_million_tokens_needs_no_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
