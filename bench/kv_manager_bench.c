/* How long the manager takes for what a server does all the time, in ns: a prompt of
 * 1024 blocks of 32 tokens on two life cycles of two groups, one of them windowed.
 * A line of JSON each; `aim` is what engine.md 6.4 asks. The median of several
 * rounds; each reads the clock only before and after.
 *
 * usage: kv_manager_bench [PAGES]      (65536, of each group) */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/clock.h"
#include "kv/manager.h"

enum { ROUNDS = 9, BLOCK = 32, BLOCKS = 1024, TOKENS = BLOCK * BLOCKS };

struct bench {
    struct kv_manager *manager;
    struct prefix_scope scope;
    int32_t *tokens; /* (TOKENS) */
    struct prefix_key *keys; /* (BLOCKS) */
    struct prefix_key nothing;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *name, double *ns, const char *unit, double aim)
{
    qsort(ns, ROUNDS, sizeof(*ns), compare);
    printf("{\"bench\":\"kv_manager\",\"name\":\"%s\",\"value\":%.2f,"
           "\"unit\":\"%s\",\"aim\":%.0f}\n",
           name, ns[ROUNDS / 2], unit, aim);
}

static double since(uint64_t begin, uint32_t count)
{
    return (double)(io_clock_now_ns() - begin) / count;
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

static void create(struct bench *bench, uint32_t pages)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {1};
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
    if (kv_manager_create(&options, &why, &bench->manager) != OK) {
        fprintf(stderr, "kv_manager_bench: %s\n", why.text);
        exit(2);
    }
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
        same[round] = since(begin, 30);
        kv_seq_close(bench->manager, seq);
        seq = open_prompt(bench);
        begin = io_clock_now_ns();
        for (uint32_t i = 0; i < BLOCKS; i++) {
            must_resize(bench, seq, (i + 1) * BLOCK, i * BLOCK);
        }
        grown[round] = since(begin, BLOCKS);
        kv_seq_close(bench->manager, seq);
    }
    report("resize_same_blocks", same, "ns", 30);
    report("resize_new_block_evicting", grown, "ns", 150);
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
        commit[round] = since(begin, BLOCKS);
        begin = io_clock_now_ns();
        kv_seq_commit_to(bench->manager, b, TOKENS, bench->keys, bench->tokens,
                         true, NULL);
        rebase[round] = since(begin, BLOCKS);
        kv_seq_close(bench->manager, a);
        kv_seq_close(bench->manager, b);
    }
    report("commit_block", commit, "ns", 80);
    report("rebase_block", rebase, "ns", 80);
}

static void measure_users(struct bench *bench)
{
    double suspend[ROUNDS], resume[ROUNDS], open[ROUNDS], close[ROUNDS];
    uint32_t pages = BLOCKS + 1024 / BLOCK;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        draw_prompt(bench, round);
        uint64_t begin = io_clock_now_ns();
        struct kv_seq *seq = open_prompt(bench);
        open[round] = since(begin, pages);
        CHECK(seq->reused > 0);
        begin = io_clock_now_ns();
        kv_seq_suspend(bench->manager, seq);
        suspend[round] = since(begin, pages);
        begin = io_clock_now_ns();
        CHECK(kv_seq_resume(bench->manager, seq) == OK);
        resume[round] = since(begin, pages);
        begin = io_clock_now_ns();
        kv_seq_close(bench->manager, seq);
        close[round] = since(begin, pages);
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
    report("open_and_resume_page", open, "ns", 80);
    report("suspend_page", suspend, "ns", 40);
    report("resume_page", resume, "ns", 40);
    report("close_page", close, "ns", 40);
}

/* Of a block with a page on each life cycle; tokens are kept apart. */
static void measure_bytes(struct bench *bench, uint32_t pages)
{
    struct kv_manager_stats stats;
    kv_manager_stats(bench->manager, &stats);
    double bytes[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bytes[round] = (double)stats.metadata_bytes / pages - BLOCK * 4.0;
    }
    report("metadata_block", bytes, "bytes", 160);
}

int main(int argc, char **argv)
{
    unsigned long pages = argc > 1 ? strtoul(argv[1], NULL, 10) : 65536;
    if (pages < 4 * BLOCKS || pages > 1ul << 22) {
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
