/* How fast device/copy_host moves pages of a size, from submit to the poll of a
 * sleeping owner, beside a memcpy of the same pages by the owner itself. Runs of
 * 256 MiB, more than the caches hold; 4 KiB alone shows what one hand-over
 * costs.
 *
 * usage: copy_bench [THREADS]      (default: the CPUs) */
#include <string.h>

#include "device/copy_host.h"
#include "io/mailbox.h"
#include "io/thread.h"
#include "line.h"

enum {
    RUNS = 9,
    PAGES_MAX = 1024,
    SUBMISSIONS = 64,
    SPAN = 256 << 20,
    SMALLEST_AIM = 65536, /* no page of KV is much smaller */
};

struct bench {
    struct io_waker *waker;
    struct device_copier *copier;
    uint8_t *from, *to; /* (SPAN) */
    uint32_t thread_count;
};

static void stop_on(enum err err, const char *what)
{
    if (err) {
        fprintf(stderr, "copy_bench: %s: %s\n", what, err_name(err));
        exit(1);
    }
}

/* Pages lie apart in opposite orders, as a pool that was in use lends them. */
static struct device_copy page_copy(const struct bench *b, size_t page,
                                    size_t count, size_t bytes)
{
    return (struct device_copy){
        device_address_host(b->to + (count - 1 - page) * bytes),
        device_address_host(b->from + page * bytes), bytes};
}

static void submit_pages(struct bench *b, size_t first, size_t count,
                         size_t all, size_t bytes)
{
    static struct device_copy copies[PAGES_MAX];
    for (size_t i = 0; i < count; i++) {
        copies[i] = page_copy(b, first + i, all, bytes);
    }
    struct device_copy_order order = {.copies = copies,
                                      .copy_count = (uint32_t)count};
    device_ticket ticket;
    stop_on(device_copier_submit(b->copier, &order, &ticket), "submit");
}

static void run_copier(struct bench *b, size_t count, size_t bytes)
{
    uint32_t live = 0;
    struct device_copy_done done;
    for (size_t at = 0; at < count || live > 0;) {
        while (at < count && device_copier_room(b->copier) > 0) {
            size_t step = count - at < PAGES_MAX ? count - at : PAGES_MAX;
            submit_pages(b, at, step, count, bytes);
            at += step;
            live++;
        }
        while (device_copier_poll(b->copier, &done)) {
            live--;
        }
        if (live > 0) {
            io_waker_wait(b->waker, UINT64_MAX);
        }
    }
}

static void run_memcpy(struct bench *b, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        struct device_copy copy = page_copy(b, i, count, bytes);
        memcpy(copy.to.pointer, copy.from.pointer, bytes);
        __asm__ volatile("" : : "r"(copy.to.pointer) : "memory");
    }
}

static double seconds_of(struct bench *b,
                         void (*run)(struct bench *, size_t, size_t),
                         size_t count, size_t bytes)
{
    double times[RUNS];
    run(b, count, bytes);
    for (int i = 0; i < RUNS; i++) {
        uint64_t begin = io_clock_now_ns();
        run(b, count, bytes);
        times[i] = line_ns_since(begin, 1);
    }
    return line_median(times, RUNS) / 1e9;
}

static void bench_pages(struct bench *b, const char *size, size_t bytes)
{
    size_t count = SPAN / bytes;
    double ours = seconds_of(b, run_copier, count, bytes);
    double plain = seconds_of(b, run_memcpy, count, bytes);
    char name[64];
    char against[64];
    snprintf(name, sizeof(name), "pages of %s, %u threads", size,
             b->thread_count);
    snprintf(against, sizeof(against), "memcpy, %.2f GB/s", SPAN / 1e9 / plain);
    line_print(&(struct line){.bench = "copy",
                              .name = name,
                              .value = SPAN / 1e9 / ours,
                              .unit = "GB/s",
                              .against = against,
                              .ratio = plain / ours,
                              .aim = bytes >= SMALLEST_AIM ? 0.9 : 0,
                              .runs = RUNS});
}

/* What handing over costs, to a thread that sleeps and back. */
static void bench_one(struct bench *b)
{
    char name[64];
    snprintf(name, sizeof(name), "one page of 4 KiB, %u threads",
             b->thread_count);
    line_print(&(struct line){.bench = "copy",
                              .name = name,
                              .value = seconds_of(b, run_copier, 1, 4096) * 1e6,
                              .unit = "us",
                              .runs = RUNS});
}

int main(int argc, char **argv)
{
    long threads =
        argc > 1 ? strtol(argv[1], NULL, 10) : (long)io_thread_cpu_count();
    if (argc > 2 || threads < 1 || threads > 256) {
        fprintf(stderr, "usage: copy_bench [THREADS]\n");
        return 2;
    }
    struct bench b = {.from = mem_try_aligned(64, SPAN),
                      .to = mem_try_aligned(64, SPAN),
                      .thread_count = (uint32_t)threads};
    stop_on(b.from == NULL || b.to == NULL ? ERR_NO_MEMORY : OK, "512 MiB");
    memset(b.from, 1, SPAN);
    memset(b.to, 2, SPAN);
    stop_on(io_waker_create(&b.waker), "waker");
    struct device_copier_host_options options = {
        .limits = {SUBMISSIONS, PAGES_MAX, 8},
        .thread_count = b.thread_count,
        .waker = b.waker,
    };
    stop_on(device_copier_host_create(&options, &b.copier), "copier");
    bench_one(&b);
    bench_pages(&b, "4 KiB", 4096);
    bench_pages(&b, "64 KiB", 65536);
    bench_pages(&b, "1 MiB", 1 << 20);
    bench_pages(&b, "128 MiB", 128 << 20);
    device_copier_destroy(b.copier);
    io_waker_destroy(b.waker);
    mem_free(b.from);
    mem_free(b.to);
    return 0;
}
