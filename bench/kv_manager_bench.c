/* How long the manager takes for what a server does all the time, in ns: a prompt of
 * 1024 blocks of 32 tokens on two life cycles of two groups, one of them windowed.
 * `goal` is what engine.md 6.4 asks. The median of several rounds; each reads the
 * clock only before and after.
 *
 * usage: kv_manager_bench [PAGES]      (65536, of each group) */
#include "base/check.h"
#include "kv/manager.h"
#include "line.h"

enum { ROUNDS = 9, BLOCK = 32, BLOCKS = 1024, TOKENS = BLOCK * BLOCKS };

struct bench {
    struct kv_manager *manager;
    struct prefix_scope scope;
    int32_t *tokens; /* (TOKENS) */
    struct prefix_key *keys; /* (BLOCKS) */
    struct prefix_key nothing;
};

static void report(const char *name, double *ns, double goal, double aim)
{
    line_print(&(struct line){.bench = "kv",
                              .name = name,
                              .value = line_median(ns, ROUNDS),
                              .unit = "ns",
                              .goal = goal,
                              .aim = aim,
                              .runs = ROUNDS});
}

/* A prompt nobody had before. */
static void draw_prompt(struct bench *bench, uint32_t seed)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        bench->tokens[i] = (int32_t)((i * 2654435761u + seed) & 0xffff);
    }
    prefix_keys(&bench->scope, bench->tokens, TOKENS, BLOCK, BLOCKS,
                bench->keys);
}

static struct kv_seq *open_prompt(struct bench *bench)
{
    struct kv_prompt prompt = {
        .root = &bench->scope.root,
        .keys = bench->keys,
        .key_count = BLOCKS,
        .tokens = bench->tokens,
        .token_count = TOKENS - 1,
    };
    struct kv_seq *seq = NULL;
    CHECK(kv_seq_open(bench->manager, &prompt, UINT32_MAX, &seq) == OK);
    CHECK(kv_seq_resume(bench->manager, seq) == OK);
    return seq;
}

static void must_resize(struct bench *bench, struct kv_seq *seq,
                        uint32_t capacity, uint32_t history)
{
    CHECK(kv_seq_resize(bench->manager, seq, capacity, history, NULL) == OK);
}

static struct kv_manager *create_manager(uint32_t pages)
{
    struct kv_manager_options options = {
        .tokens_per_block = BLOCK,
        .life_count = 2,
        .lives = {{0}, {.window = 1024}},
        .group_of = {0, 1},
        .group_count = 2,
        .level_count = 1,
        .slot_counts = {{pages, pages}},
        .seq_count_max = 16,
        .block_count_max = BLOCKS + 1,
        .step_max = 2048,
        .enable_reuse = true,
        .enable_partial = true,
    };
    struct why why = {0};
    struct kv_manager *manager = NULL;
    if (kv_manager_create(&options, &why, &manager) != OK) {
        fprintf(stderr, "kv_manager_bench: %s\n", why.text);
        exit(2);
    }
    return manager;
}

static void create(struct bench *bench, uint32_t pages)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {1};
    bench->manager = create_manager(pages);
    prefix_scope_init(&bench->scope, SECRET, 0);
    bench->tokens = mem_new_array(TOKENS, sizeof(bench->tokens[0]));
    bench->keys = mem_new_array(BLOCKS, sizeof(bench->keys[0]));
}

/* Every page and node has been used before: what is measured is a cache that is
 * full, not memory that is touched for the first time. */
static void fill(struct bench *bench, uint32_t pages)
{
    for (uint32_t i = 0; i <= pages / BLOCKS; i++) {
        draw_prompt(bench, 1000 + i);
        struct kv_seq *seq = open_prompt(bench);
        must_resize(bench, seq, TOKENS, 0);
        kv_seq_commit_to(bench->manager, seq, TOKENS, bench->keys,
                         bench->tokens, true, NULL);
        kv_seq_close(bench->manager, seq);
    }
}

/* Steps of one token: 31 of 32 need no block. */
static void measure_resize(struct bench *bench)
{
    double same[ROUNDS], grown[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        draw_prompt(bench, 100 + round);
        struct kv_seq *seq = open_prompt(bench);
        must_resize(bench, seq, TOKENS, TOKENS - BLOCK);
        uint64_t begin = io_clock_now_ns();
        for (uint32_t i = 0; i < 30; i++) {
            must_resize(bench, seq, TOKENS - 30 + i, TOKENS - 31 + i);
        }
        same[round] = line_ns_since(begin, 30);
        kv_seq_close(bench->manager, seq);
        seq = open_prompt(bench);
        begin = io_clock_now_ns();
        for (uint32_t i = 0; i < BLOCKS; i++) {
            must_resize(bench, seq, (i + 1) * BLOCK, i * BLOCK);
        }
        grown[round] = line_ns_since(begin, BLOCKS);
        kv_seq_close(bench->manager, seq);
    }
    report("resize without a new block", same, 30, 0);
    report("resize with a new block, evicting one", grown, 150, 0);
}

static void measure_commit(struct bench *bench)
{
    double commit[ROUNDS], rebase[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        draw_prompt(bench, round);
        struct kv_seq *a = open_prompt(bench);
        struct kv_seq *b = open_prompt(bench);
        must_resize(bench, a, TOKENS, 0);
        must_resize(bench, b, TOKENS, 0);
        uint64_t begin = io_clock_now_ns();
        kv_seq_commit_to(bench->manager, a, TOKENS, bench->keys, bench->tokens,
                         true, NULL);
        commit[round] = line_ns_since(begin, BLOCKS);
        begin = io_clock_now_ns();
        kv_seq_commit_to(bench->manager, b, TOKENS, bench->keys, bench->tokens,
                         true, NULL);
        rebase[round] = line_ns_since(begin, BLOCKS);
        kv_seq_close(bench->manager, a);
        kv_seq_close(bench->manager, b);
    }
    report("commit, a block", commit, 80, 0);
    report("commit of what is there already, a block", rebase, 0, 80);
}

static void measure_users(struct bench *bench)
{
    double suspend[ROUNDS], resume[ROUNDS], open[ROUNDS], close[ROUNDS];
    uint32_t pages = BLOCKS + 1024 / BLOCK;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        draw_prompt(bench, round);
        uint64_t begin = io_clock_now_ns();
        struct kv_seq *seq = open_prompt(bench);
        open[round] = line_ns_since(begin, pages);
        CHECK(seq->reused > 0);
        begin = io_clock_now_ns();
        kv_seq_suspend(bench->manager, seq);
        suspend[round] = line_ns_since(begin, pages);
        begin = io_clock_now_ns();
        CHECK(kv_seq_resume(bench->manager, seq) == OK);
        resume[round] = line_ns_since(begin, pages);
        begin = io_clock_now_ns();
        kv_seq_close(bench->manager, seq);
        close[round] = line_ns_since(begin, pages);
        uint32_t count = 0;
        const struct kv_order *orders =
            kv_manager_orders(bench->manager, &count);
        while (count > 0) {
            kv_ticket ticket = orders[0].ticket;
            kv_manager_orders_taken(bench->manager, 1);
            kv_manager_order_done(bench->manager, ticket, true);
            orders = kv_manager_orders(bench->manager, &count);
        }
    }
    report("open and resume, a page", open, 0, 80);
    report("suspend, a page", suspend, 0, 40);
    report("resume, a page", resume, 0, 40);
    report("close, a page", close, 0, 40);
}

static double metadata_of(const struct kv_manager *manager)
{
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    return (double)stats.metadata_bytes;
}

/* What a block more costs, with a page in each group; its ids are kept apart, and
 * what a sequence has of its own does not grow with the cache. */
static void measure_bytes(struct bench *bench, uint32_t pages)
{
    struct kv_manager *twice = create_manager(2 * pages);
    double grown = metadata_of(twice) - metadata_of(bench->manager);
    kv_manager_destroy(twice);
    line_print(
        &(struct line){.bench = "kv",
                       .name = "metadata of a block, two groups, without ids",
                       .value = grown / pages - BLOCK * sizeof(int32_t),
                       .unit = "bytes",
                       .goal = 160,
                       .runs = 1});
}

int main(int argc, char **argv)
{
    unsigned long pages = argc > 1 ? strtoul(argv[1], NULL, 10) : 65536;
    if (pages < 16 * BLOCKS || pages > 1ul << 22) {
        fprintf(stderr, "usage: kv_manager_bench [PAGES]\n");
        return 2;
    }
    struct bench bench = {0};
    create(&bench, (uint32_t)pages);
    fill(&bench, (uint32_t)pages);
    measure_resize(&bench);
    measure_commit(&bench);
    measure_users(&bench);
    measure_bytes(&bench, (uint32_t)pages);
    kv_manager_destroy(bench.manager);
    mem_free(bench.tokens);
    mem_free(bench.keys);
    return 0;
}
