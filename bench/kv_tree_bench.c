/* What the tree of cached prefixes and its event log cost: two life cycles (full
 * attention and a window of 4096), 32 tokens a block, 128 prompts of 2048 blocks
 * that share nothing, so that no look-up finds its memory warm. The
 * best of some runs.
 *
 * usage: kv_tree_bench */
#include "kv/events_tree.h"
#include "kv/tree.h"
#include "line.h"

enum {
    B = 32,
    PROMPTS = 128,
    BLOCKS = 2048,
    NODES = PROMPTS * BLOCKS,
    LIVES = 2,
    SIBLINGS = 10000,
    LONG = 32768,
    EVENTS = 65536,
    RUNS = 5
};

struct bench {
    struct prefix_scope scope;
    int32_t *tokens; /* (PROMPTS, BLOCKS, B) */
    struct prefix_key *keys; /* (PROMPTS, BLOCKS) */
    kv_ref *pages; /* (LIVES, NODES): of life 0, then of life 1 */
    kv_node *last; /* (PROMPTS) */
    struct kv_store *store;
    struct kv_tree *tree;
};

static void print_line(const char *name, double value, const char *unit,
                       double goal, double aim)
{
    line_print(&(struct line){.bench = "kv",
                              .name = name,
                              .value = value,
                              .unit = unit,
                              .goal = goal,
                              .aim = aim,
                              .runs = RUNS});
}

/* No page is ever lost for room here. */
static void on_lost(void *context, kv_ref page)
{
    (void)context;
    (void)page;
}

/* All of a life cycle, a prompt's worth at a time. */
static void take_pages(struct bench *bench, uint32_t life)
{
    uint32_t want[KV_LIFE_COUNT_MAX] = {0};
    want[life] = BLOCKS;
    for (size_t i = 0; i < NODES; i += BLOCKS) {
        kv_ref *pages = bench->pages + life * (size_t)NODES + i;
        if (kv_store_take(bench->store, want, pages) != OK) {
            fprintf(stderr, "kv_tree_bench: no page\n");
            exit(1);
        }
    }
}

static void create(struct bench *bench)
{
    struct kv_store_options store = {
        .life_count = LIVES,
        .group_of = {0, 1},
        .group_count = LIVES,
        .level_count = 1,
        .slot_counts = {{NODES, NODES}},
        .order_max = 16,
        .batch_max = BLOCKS,
        .watch = {.lost = on_lost},
    };
    bench->store = kv_store_create(&store);
    struct kv_tree_options tree = {
        .tokens_per_block = B,
        .life_count = LIVES,
        .lives = {{0}, {.window = 4096}},
        .node_max = NODES,
        .enable_partial = true,
        .store = bench->store,
    };
    bench->tree = kv_tree_create(&tree);
    if (bench->tree == NULL) {
        fprintf(stderr, "kv_tree_bench: no memory\n");
        exit(1);
    }
    for (uint32_t life = 0; life < LIVES; life++) {
        take_pages(bench, life);
    }
}

static void destroy(struct bench *bench)
{
    kv_tree_destroy(bench->tree);
    kv_store_destroy(bench->store);
}

static kv_node insert(struct bench *bench, kv_node parent,
                      const struct prefix_key *key, const int32_t *tokens)
{
    kv_node node;
    enum kv_insert answer =
        kv_tree_insert(bench->tree, &bench->scope.root, parent, key, tokens, B,
                       bench->store, &node);
    if (answer != KV_INSERT_NEW) {
        fprintf(stderr, "kv_tree_bench: insertion answered %d\n", answer);
        exit(1);
    }
    return node;
}

/* Node `number` gets pages `number` of both lives. */
static void set_pages(struct bench *bench, kv_node node, size_t number)
{
    for (uint32_t life = 0; life < LIVES; life++) {
        kv_tree_set_page(bench->tree, node, life,
                         bench->pages[life * (size_t)NODES + number]);
    }
}

static void commit_pages(struct bench *bench, kv_node node, size_t number)
{
    for (uint32_t life = 0; life < LIVES; life++) {
        kv_ref page = bench->pages[life * (size_t)NODES + number];
        kv_store_commit(bench->store, page, node, B);
    }
}

static double fill(struct bench *bench)
{
    uint64_t spent = 0;
    for (size_t prompt = 0; prompt < PROMPTS; prompt++) {
        size_t first = prompt * BLOCKS;
        kv_node node = KV_NODE_NONE;
        uint64_t begin = io_clock_now_ns();
        for (size_t i = first; i < first + BLOCKS; i++) {
            node = insert(bench, node, &bench->keys[i], bench->tokens + i * B);
            set_pages(bench, node, i);
        }
        spent += io_clock_now_ns() - begin;
        bench->last[prompt] = node;
        for (size_t i = BLOCKS; i-- > 0;) {
            commit_pages(bench, node, first + i);
            node = kv_tree_parent(bench->tree, node);
        }
    }
    return (double)spent / NODES;
}

/* Drops all; the pages are locked, so they stay, to be committed again. */
static void clear(struct bench *bench)
{
    kv_node first = kv_tree_first(bench->tree);
    while (first != KV_NODE_NONE) {
        kv_tree_lose_page(bench->tree, bench->store, first, 0, NULL, NULL);
        first = kv_tree_first(bench->tree);
    }
}

/* A probe of every prompt, its last token left out; ns each. */
static double match_all(const struct bench *bench, kv_node *nodes)
{
    uint64_t begin = io_clock_now_ns();
    for (size_t i = 0; i < PROMPTS; i++) {
        size_t prompt_at = (i * 37 % PROMPTS) * BLOCKS;
        struct kv_prompt prompt = {
            .root = &bench->scope.root,
            .keys = bench->keys + prompt_at,
            .key_count = BLOCKS,
            .tokens = bench->tokens + prompt_at * B,
            .token_count = BLOCKS * B - 1,
        };
        struct kv_match match = kv_tree_match(bench->tree, &prompt, nodes);
        if (match.usable != BLOCKS * B - 1) {
            fprintf(stderr, "kv_tree_bench: matched %u\n", match.usable);
            exit(1);
        }
    }
    return (double)(io_clock_now_ns() - begin) / PROMPTS;
}

/* Announces everything; ns an event. */
static double announce(struct bench *bench)
{
    struct kv_events *events = kv_events_create(EVENTS, B);
    uint64_t begin = io_clock_now_ns();
    for (kv_node at = kv_tree_first(bench->tree); at != KV_NODE_NONE;
         at = kv_tree_next(bench->tree, at)) {
        kv_events_tell_stored(events, bench->tree, bench->store, at, 0);
    }
    kv_events_flush(events);
    double ns = (double)(io_clock_now_ns() - begin) / NODES;
    kv_events_destroy(events);
    return ns;
}

static double best(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

static void bench_prompts(struct bench *bench)
{
    double insert_ns = 0, probe_ns = 0, again_ns = 0, claim_ns = 0;
    double event_ns = 0;
    kv_node *nodes = mem_new_array(BLOCKS, sizeof(*nodes));
    double bytes = 0, token_bytes = 0;
    create(bench);
    (void)fill(bench); /* memory is touched for the first time */
    for (int run = 0; run < RUNS; run++) {
        clear(bench);
        insert_ns = best(insert_ns, fill(bench));
        probe_ns = best(probe_ns, match_all(bench, NULL));
        again_ns = best(again_ns, match_all(bench, NULL));
        claim_ns = best(claim_ns, match_all(bench, nodes) / BLOCKS);
        event_ns = best(event_ns, announce(bench));
        token_bytes = (double)kv_tree_token_bytes(bench->tree) / NODES;
        bytes = (double)(kv_tree_bytes(bench->tree) +
                         kv_store_bytes(bench->store)) /
                NODES;
    }
    destroy(bench);
    print_line("tree: insert, a block", insert_ns, "ns", 0, 80);
    print_line("tree: first probe of 2048 blocks", probe_ns, "ns", 0, 5000);
    print_line("tree: repeat probe of 2048 blocks", again_ns, "ns", 500, 0);
    print_line("tree: match with its nodes, a block", claim_ns, "ns", 0, 40);
    print_line("event of a stored block", event_ns, "ns", 0, 40);
    print_line("tree: metadata of a block, two groups", bytes - token_bytes,
               "bytes", 0, 160);
    print_line("tree: metadata of a block with ids", bytes, "bytes", 0, 298);
    mem_free(nodes);
}

/* Children of one block that all begin alike, and who shares most of them. */
static void bench_siblings(struct bench *bench)
{
    create(bench);
    kv_node above = insert(bench, KV_NODE_NONE, &bench->keys[0], bench->tokens);
    set_pages(bench, above, 0);
    commit_pages(bench, above, 0);
    int32_t tokens[2 * B];
    for (int i = 0; i < B; i++) {
        tokens[i] = bench->tokens[i];
        tokens[B + i] = 7;
    }
    for (int32_t i = 0; i < SIBLINGS; i++) {
        tokens[2 * B - 1] = 2 * i;
        struct prefix_key key =
            prefix_key_next(&bench->scope, &bench->keys[0], tokens + B, B);
        kv_node node = insert(bench, above, &key, tokens + B);
        set_pages(bench, node, (size_t)i + 1);
        commit_pages(bench, node, (size_t)i + 1);
    }
    struct prefix_key keys[2] = {bench->keys[0]};
    struct kv_prompt prompt = {&bench->scope.root, keys, 2, tokens, 2 * B};
    uint64_t begin = io_clock_now_ns();
    uint64_t sum = 0;
    for (int32_t i = 0; i < SIBLINGS; i++) {
        tokens[2 * B - 1] = 2 * (i * 7 % SIBLINGS) + 1;
        keys[1].bytes[0] = (uint8_t)i;
        sum += kv_tree_match(bench->tree, &prompt, NULL).usable;
    }
    double ns = (double)(io_clock_now_ns() - begin) / SIBLINGS;
    print_line("tree: match among 10000 siblings", ns, "ns", 0, 5000);
    if (sum != (uint64_t)SIBLINGS * (2 * B - 1)) {
        fprintf(stderr, "kv_tree_bench: siblings matched wrongly\n");
        exit(1);
    }
    destroy(bench);
}

static kv_node fill_long(struct bench *bench)
{
    kv_node node = KV_NODE_NONE, first = KV_NODE_NONE;
    for (size_t i = 0; i < LONG; i++) {
        node = insert(bench, node, &bench->keys[i], bench->tokens + i * B);
        set_pages(bench, node, i);
        commit_pages(bench, node, i);
        first = i == 0 ? node : first;
    }
    for (size_t i = LONG; i-- > 0;) {
        for (uint32_t life = 0; life < LIVES; life++) {
            kv_store_unlock(bench->store,
                            bench->pages[life * (size_t)NODES + i]);
        }
    }
    return first;
}

static void bench_long_chain(struct bench *bench)
{
    double drop_ms = 0, leaf_ns = 0;
    for (int run = 0; run < 2 * RUNS; run++) {
        create(bench);
        kv_node first = fill_long(bench);
        uint64_t begin = io_clock_now_ns();
        if (run % 2 == 0) {
            kv_ref page = kv_tree_page(bench->tree, first, 0);
            kv_tree_lose_page(bench->tree, bench->store, first, 0, NULL, NULL);
            kv_store_discard(bench->store, page);
            drop_ms = best(drop_ms, (double)(io_clock_now_ns() - begin) / 1e6);
        } else {
            for (int i = 0; i < LONG; i++) {
                kv_node leaf = kv_tree_leaf_below(bench->tree, first, 0);
                kv_ref page = kv_tree_page(bench->tree, leaf, 0);
                kv_tree_lose_page(bench->tree, bench->store, leaf, 0, NULL,
                                  NULL);
                kv_store_discard(bench->store, page);
            }
            leaf_ns = best(leaf_ns, (double)(io_clock_now_ns() - begin) / LONG);
        }
        destroy(bench);
    }
    print_line("tree: drop of 32768 blocks", drop_ms, "ms", 5, 0);
    print_line("tree: drop leaf by leaf, a block", leaf_ns, "ns", 0, 300);
}

int main(void)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {3};
    struct bench bench = {
        .tokens = mem_new_array((size_t)NODES * B, sizeof(int32_t)),
        .keys = mem_new_array(NODES, sizeof(struct prefix_key)),
        .pages = mem_new_array((size_t)LIVES * NODES, sizeof(kv_ref)),
        .last = mem_new_array(PROMPTS, sizeof(kv_node)),
    };
    prefix_scope_init(&bench.scope, SECRET, 0);
    for (size_t i = 0; i < (size_t)NODES * B; i++) {
        bench.tokens[i] = (int32_t)(rng_at(5, 0, i) % 100000);
    }
    for (size_t i = 0; i < PROMPTS; i++) {
        size_t first = i * BLOCKS;
        prefix_keys(&bench.scope, bench.tokens + first * B, BLOCKS * B, B,
                    BLOCKS, bench.keys + first);
    }
    bench_prompts(&bench);
    bench_siblings(&bench);
    bench_long_chain(&bench);
    mem_free(bench.last);
    mem_free(bench.pages);
    mem_free(bench.keys);
    mem_free(bench.tokens);
    return 0;
}
