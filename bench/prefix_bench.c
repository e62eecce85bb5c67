/* What names of blocks cost: private keys beside a chain of SHA-256 over the
 * same tokens, the longest cached prefix among 8192 cached blocks, and the whole
 * first look-up of a prompt of 65536 tokens, of which a part is cached. The best
 * of many runs.
 *
 * usage: prefix_bench */
#include <string.h>

#include "base/digest.h"
#include "line.h"
#include "prefix/digests.h"
#include "prefix/keys.h"
#include "prefix/table.h"

enum {
    BLOCK = 32,
    PROMPT_TOKENS = 65536,
    PROMPT_BLOCKS = PROMPT_TOKENS / BLOCK,
    LONG_BLOCKS = 8192,
    TABLE_BLOCKS = 1 << 20, /* of the big table, which no cache holds */
    RUNS = 200
};

struct world {
    struct prefix_scope scope;
    int32_t *tokens; /* (LONG_BLOCKS * BLOCK) */
    struct prefix_key *keys; /* (LONG_BLOCKS) of `tokens` */
    struct prefix_key
        *cached; /* (TABLE_BLOCKS), what the table's owner keeps */
    struct prefix_table *table;
};

/* Nothing that was computed may be thought unread. */
static void use(const void *result)
{
    __asm__ volatile("" : : "r"(result) : "memory");
}

/* `against` NULL: no ratio; `goal` 0: none. */
static void print_line(const char *name, double value, const char *unit,
                       const char *against, double ratio, double goal)
{
    line_print(&(struct line){.bench = "prefix",
                              .name = name,
                              .value = value,
                              .unit = unit,
                              .against = against,
                              .ratio = ratio,
                              .goal = goal,
                              .runs = RUNS});
}

/* Least nanoseconds of `call` over the runs. */
#define BEST(best, call)                                         \
    do {                                                         \
        (best) = 1e18;                                           \
        for (int run_ = 0; run_ < RUNS; run_++) {                \
            uint64_t begin_ = io_clock_now_ns();                 \
            call;                                                \
            double took_ = (double)(io_clock_now_ns() - begin_); \
            (best) = took_ < (best) ? took_ : (best);            \
        }                                                        \
    } while (0)

static double keys_ns(struct world *world, const struct prefix_pmac_body *body)
{
    struct prefix_scope scope = world->scope;
    prefix_pmac_init_with(&scope.pmac, body, scope.pmac.key);
    double best;
    BEST(best, prefix_keys(&scope, world->tokens, PROMPT_TOKENS, BLOCK,
                           PROMPT_BLOCKS, world->keys);
         use(world->keys));
    return best / PROMPT_BLOCKS;
}

/* The shape of engine.md 6.2: 32 bytes of parent and 4 bytes an id. */
static void sha256_chain(const struct world *world)
{
    uint8_t bytes[DIGEST_SHA256_SIZE + 4 * BLOCK] = {0};
    for (int i = 0; i < PROMPT_BLOCKS; i++) {
        memcpy(bytes + DIGEST_SHA256_SIZE, world->tokens + (size_t)i * BLOCK,
               4 * BLOCK);
        digest_sha256(span_of(bytes, sizeof(bytes)), bytes);
    }
    use(bytes);
}

static double sha256_ns(const struct world *world)
{
    double best;
    BEST(best, sha256_chain(world));
    return best / PROMPT_BLOCKS;
}

static double public_ns(const struct world *world, enum prefix_hash_algo algo)
{
    struct prefix_digest *digests =
        mem_new_array(PROMPT_BLOCKS, sizeof(digests[0]));
    double best;
    BEST(best, prefix_digests(algo, NULL, world->tokens, PROMPT_TOKENS + 1,
                              BLOCK, PROMPT_BLOCKS, digests);
         use(digests));
    mem_free(digests);
    return best / PROMPT_BLOCKS;
}

/* A table with the prompt's first `present` blocks among `count` in all. */
static void fill_table(struct world *world, uint32_t count, uint32_t present)
{
    struct rng rng = rng_from_seed(3);
    struct prefix_table_options options = {.capacity = TABLE_BLOCKS,
                                           .keys = world->cached,
                                           .key_stride =
                                               sizeof(world->cached[0])};
    prefix_table_destroy(world->table);
    world->table = prefix_table_create(&options);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t random[2] = {rng_next(&rng), rng_next(&rng)};
        memcpy(&world->cached[i], random, sizeof(random));
        if (i < present) {
            world->cached[i] = world->keys[i];
        }
        IGNORE(prefix_table_insert(world->table, i)); /* there is room */
    }
}

static double longest_ns(struct world *world, uint32_t guess, uint32_t expected)
{
    enum { CALLS = 16 };
    uint32_t length = 0;
    double best;
    BEST(
        best, for (int i = 0; i < CALLS; i++) {
            length = prefix_table_find_longest(world->table, world->keys,
                                               LONG_BLOCKS, guess, NULL);
            use(&length);
        });
    if (length != expected) {
        fprintf(stderr, "prefix_bench: %u blocks found, %u are there\n", length,
                expected);
    }
    return best / CALLS;
}

static double first_look_up_ns(struct world *world)
{
    double best;
    BEST(best, prefix_keys(&world->scope, world->tokens, PROMPT_TOKENS, BLOCK,
                           PROMPT_BLOCKS, world->keys);
         uint32_t length = prefix_table_find_longest(world->table, world->keys,
                                                     PROMPT_BLOCKS, 0, NULL);
         use(&length));
    return best / PROMPT_BLOCKS;
}

static double sha256_look_up_ns(struct world *world)
{
    double best;
    BEST(best, sha256_chain(world);
         uint32_t length = prefix_table_find_longest(world->table, world->keys,
                                                     PROMPT_BLOCKS, 0, NULL);
         use(&length));
    return best / PROMPT_BLOCKS;
}

static void bench_keys(struct world *world)
{
    double sha256 = sha256_ns(world);
    for (int i = 0; prefix_pmac_bodies()[i] != NULL; i++) {
        char name[64];
        snprintf(name, sizeof(name), "tag, %s", prefix_pmac_bodies()[i]->name);
        double ns = keys_ns(world, prefix_pmac_bodies()[i]);
        bool is_best = i == 0; /* the others are only reported */
        print_line(name, ns, "ns a block", NULL, 0, is_best ? 25 : 0);
        snprintf(name, sizeof(name), "tags, rate, %s",
                 prefix_pmac_bodies()[i]->name);
        print_line(name, 1e3 / ns, "M blocks/s", "SHA-256 chain", sha256 / ns,
                   is_best ? 8 : 0);
    }
    print_line("SHA-256 chain", sha256, "ns a block", NULL, 0, 0);
    for (int algo = 0; algo < PREFIX_HASH_ALGO_COUNT; algo++) {
        print_line(prefix_hash_algo_name(algo), public_ns(world, algo),
                   "ns a block", NULL, 0, 0);
    }
}

static void bench_table(struct world *world)
{
    fill_table(world, LONG_BLOCKS, LONG_BLOCKS);
    print_line("look-up of 8192 blocks, all cached",
               longest_ns(world, 0, LONG_BLOCKS), "ns", NULL, 0, 500);
    fill_table(world, LONG_BLOCKS, 5000);
    print_line("look-up of 8192 blocks, 5000 cached",
               longest_ns(world, 0, 5000), "ns", NULL, 0, 500);
    print_line("the same again, its answer as a guess",
               longest_ns(world, 5000, 5000), "ns", NULL, 0, 500);
    fill_table(world, TABLE_BLOCKS, 5000);
    print_line("look-up of 8192 blocks, 1048576 cached",
               longest_ns(world, 0, 5000), "ns", NULL, 0, 500);
    fill_table(world, TABLE_BLOCKS, 1500);
    double ns = first_look_up_ns(world);
    double sha256 = sha256_look_up_ns(world);
    print_line("first look-up of 65536 tokens, tags and all", ns, "ns a block",
               NULL, 0, 40);
    print_line("first look-up of 65536 tokens, rate", 1e3 / ns, "M blocks/s",
               "SHA-256 look-up", sha256 / ns, 8);
}

int main(void)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {1, 2, 3};
    struct world world = {
        .tokens = mem_new_array((size_t)LONG_BLOCKS * BLOCK, sizeof(int32_t)),
        .keys = mem_new_array(LONG_BLOCKS, sizeof(struct prefix_key)),
        .cached = mem_new_array(TABLE_BLOCKS, sizeof(struct prefix_key)),
    };
    prefix_scope_init(&world.scope, SECRET, 0);
    struct rng rng = rng_from_seed(1);
    for (int i = 0; i < LONG_BLOCKS * BLOCK; i++) {
        world.tokens[i] = (int32_t)rng_below(&rng, 128000);
    }
    bench_keys(&world);
    prefix_keys(&world.scope, world.tokens, LONG_BLOCKS * BLOCK, BLOCK,
                LONG_BLOCKS, world.keys);
    bench_table(&world);
    prefix_table_destroy(world.table);
    mem_free(world.cached);
    mem_free(world.keys);
    mem_free(world.tokens);
    return 0;
}
