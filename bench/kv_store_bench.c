/* How long the store takes for what a server does all the time, in ns; `goal` is
 * what engine.md 6.4 asks. The median of several rounds; each reads the clock only
 * before and after. Beside it what the machine asks for one line of memory of
 * that size: nothing that touches a page at random can be quicker.
 *
 * usage: kv_store_bench [PAGES]      (65536) */
#include "kv/store_state.h"
#include "line.h"

enum { ROUNDS = 9, PAGES_MAX = 1 << 22 };

struct bench {
    struct kv_store *store;
    kv_ref *refs; /* (page_count) */
    uint32_t *shuffled; /* (page_count) */
    uint32_t page_count;
    uint64_t lost;
};

static void on_lost(void *context, kv_ref page)
{
    struct bench *bench = context;
    bench->lost += page != KV_REF_NONE;
}

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

static void open_store(struct bench *bench, uint32_t level_count)
{
    struct kv_store_options options = {
        .life_count = 1,
        .group_count = 1,
        .level_count = level_count,
        .order_max = 1024,
        .watch = {.lost = on_lost, .context = bench},
    };
    for (uint32_t level = 0; level < level_count; level++) {
        options.slot_counts[level][0] = bench->page_count;
    }
    bench->store = kv_store_create(&options);
}

/* All of level 0 in steps of `batch` pages. */
static void take_all(struct bench *bench, uint32_t batch)
{
    uint32_t want[KV_LIFE_COUNT_MAX] = {batch};
    for (uint32_t i = 0; i + batch <= bench->page_count; i += batch) {
        if (kv_store_take(bench->store, want, bench->refs + i) != OK) {
            fprintf(stderr, "kv_store_bench: no room\n");
            exit(1);
        }
    }
}

static void unlock_all(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->page_count; i++) {
        kv_store_unlock(bench->store, bench->refs[i]);
    }
}

static void commit_all(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->page_count; i++) {
        kv_store_commit(bench->store, bench->refs[i], i, 32);
    }
}

/* Slots alone, then whole pages, none of which are kept. */
static void bench_slots(struct bench *bench)
{
    double slot_ns[ROUNDS];
    double page_ns[ROUNDS];
    struct kv_slots *slots = &bench->store->shelves[0][0].slots;
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t begin = io_clock_now_ns();
        for (uint32_t i = 0; i < bench->page_count; i++) {
            bench->refs[i] = kv_slots_take(slots);
        }
        for (uint32_t i = 0; i < bench->page_count; i++) {
            kv_slots_give(slots, bench->refs[i]);
        }
        slot_ns[r] = line_ns_since(begin, bench->page_count);
        begin = io_clock_now_ns();
        take_all(bench, 1);
        unlock_all(bench);
        page_ns[r] = line_ns_since(begin, bench->page_count);
    }
    report("slot take and give", slot_ns, 10, 0);
    report("page take and free", page_ns, 0, 30);
}

/* Cached pages held and let go of, to the queue's tail: runs of `run` pages that
 * belong together, deepest first, runs in random order. */
static void bench_touch(struct bench *bench, const char *name, uint32_t run)
{
    double ns[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t begin = io_clock_now_ns();
        for (uint32_t i = 0; i < bench->page_count; i++) {
            uint32_t first = bench->shuffled[i / run];
            uint32_t at = first % (bench->page_count / run) * run;
            kv_ref ref = bench->refs[at + run - 1 - i % run];
            kv_store_hold(bench->store, ref);
            kv_store_unhold(bench->store, ref);
        }
        ns[r] = line_ns_since(begin, bench->page_count);
    }
    report(name, ns, 30, 0);
}

/* New pages for old ones, which are dropped, `batch` at a time. */
static void bench_evict(struct bench *bench, const char *name, uint32_t batch)
{
    double ns[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t begin = io_clock_now_ns();
        take_all(bench, batch);
        ns[r] = line_ns_since(begin, bench->page_count);
        commit_all(bench);
        unlock_all(bench);
    }
    report(name, ns, 60, 0);
}

static void finish_orders(struct bench *bench)
{
    uint32_t count;
    const struct kv_order *orders = kv_store_orders(bench->store, &count);
    kv_ticket ticket = count > 0 ? orders[0].ticket : 0;
    kv_store_orders_taken(bench->store, count);
    for (uint32_t i = 0; i < count; i++) {
        kv_store_order_done(bench->store, ticket + i, true);
    }
}

/* New pages for old ones, which move down, with the orders and their end. */
static void bench_offload(struct bench *bench)
{
    double ns[ROUNDS];
    uint32_t want[KV_LIFE_COUNT_MAX] = {1};
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t begin = io_clock_now_ns();
        for (uint32_t i = 0; i < bench->page_count; i++) {
            if (kv_store_take(bench->store, want, bench->refs + i) != OK) {
                fprintf(stderr, "kv_store_bench: no room\n");
                exit(1);
            }
            finish_orders(bench);
        }
        ns[r] = line_ns_since(begin, bench->page_count);
        commit_all(bench);
        unlock_all(bench);
    }
    report("page moved down, its order and end", ns, 0, 150);
}

/* Sequences of 64 pages, suspended and resumed in place. */
static void bench_resume(struct bench *bench)
{
    enum { PAGES = 64 };
    static const uint32_t NONE[KV_LIFE_COUNT_MAX];
    double ns[ROUNDS];
    take_all(bench, 1);
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t begin = io_clock_now_ns();
        for (uint32_t i = 0; i + PAGES <= bench->page_count; i += PAGES) {
            for (uint32_t j = PAGES; j > 0; j--) {
                kv_store_unlock_to_hold(bench->store, bench->refs[i + j - 1]);
            }
            IGNORE(kv_store_lock(bench->store, bench->refs + i, PAGES, NONE,
                                 NULL)); /* nothing moves */
        }
        ns[r] = line_ns_since(begin, bench->page_count);
    }
    report("page suspended and resumed", ns, 0, 40);
    unlock_all(bench);
}

static void print_machine(const struct bench *bench)
{
    size_t bytes = kv_store_bytes(bench->store);
    line_print(&(struct line){.bench = "kv",
                              .name = "bytes of a page's record",
                              .value = (double)bytes / bench->page_count,
                              .unit = "bytes",
                              .runs = 1});
    line_print(&(struct line){.bench = "kv",
                              .name = "machine: a random load from as much",
                              .value = line_random_load_ns(bytes),
                              .unit = "ns",
                              .runs = 1});
}

static void shuffle(struct bench *bench)
{
    struct rng rng = rng_from_seed(1);
    for (uint32_t i = 0; i < bench->page_count; i++) {
        uint32_t at = (uint32_t)rng_below(&rng, i + 1);
        bench->shuffled[i] = bench->shuffled[at];
        bench->shuffled[at] = i;
    }
}

int main(int argc, char **argv)
{
    unsigned long pages = argc > 1 ? strtoul(argv[1], NULL, 10) : 65536;
    if (pages < 64 || pages > PAGES_MAX) {
        fprintf(stderr, "usage: kv_store_bench [PAGES]\n");
        return 2;
    }
    struct bench bench = {.page_count = (uint32_t)pages & ~63u};
    bench.refs = mem_new_array(bench.page_count, sizeof(*bench.refs));
    bench.shuffled = mem_new_array(bench.page_count, sizeof(*bench.shuffled));
    shuffle(&bench);
    open_store(&bench, 1);
    print_machine(&bench);
    bench_slots(&bench);
    bench_resume(&bench);
    take_all(&bench, 1);
    commit_all(&bench);
    unlock_all(&bench);
    bench_evict(&bench, "page evicted", 1);
    bench_evict(&bench, "page evicted, 64 at once", 64);
    bench_touch(&bench, "page touched, runs of 64", 64);
    bench_touch(&bench, "page touched, at random", 1);
    kv_store_destroy(bench.store);
    open_store(&bench, 2);
    take_all(&bench, 1);
    commit_all(&bench);
    unlock_all(&bench);
    bench_offload(&bench);
    kv_store_destroy(bench.store);
    mem_free(bench.shuffled);
    mem_free(bench.refs);
    return 0;
}
