/* How fast device/copy_host moves pages of a size, from submit to the poll of a
 * sleeping owner, beside a memcpy of the same pages by the owner itself. Runs of
 * 256 MiB, more than the caches hold; 4 KiB alone shows what one hand-over
 * costs. A line of JSON each.
 *
 * usage: copy_bench [THREADS]      (default: the CPUs) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/copy_host.h"
#include "io/clock.h"
#include "io/mailbox.h"
#include "io/thread.h"

enum { RUNS = 9, PAGES_MAX = 1024, SUBMISSIONS = 64, SPAN = 256 << 20 };

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

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double seconds_of(struct bench *b,
                         void (*run)(struct bench *, size_t, size_t),
                         size_t count, size_t bytes)
{
    uint64_t times[RUNS];
    run(b, count, bytes);
    for (int i = 0; i < RUNS; i++) {
        uint64_t begin = io_clock_now_ns();
        run(b, count, bytes);
        times[i] = io_clock_now_ns() - begin;
    }
    qsort(times, RUNS, sizeof(times[0]), compare);
    return (double)times[RUNS / 2] / 1e9;
}

static void bench_pages(struct bench *b, const char *name, size_t bytes)
{
    size_t count = SPAN / bytes;
    double ours = seconds_of(b, run_copier, count, bytes);
    double plain = seconds_of(b, run_memcpy, count, bytes);
    printf("{\"bench\":\"copy\",\"name\":\"pages_%s_threads_%u\",\"value\":"
           "%.2f,\"unit\":\"GB/s\",\"against\":\"memcpy\",\"ratio\":%.2f,"
           "\"runs\":%d}\n",
           name, b->thread_count, SPAN / 1e9 / ours, plain / ours, RUNS);
    fflush(stdout);
}

static void bench_one(struct bench *b)
{
    double ours = seconds_of(b, run_copier, 1, 4096);
    printf("{\"bench\":\"copy\",\"name\":\"one_4kib_threads_%u\",\"value\":"
           "%.1f,\"unit\":\"us\",\"runs\":%d}\n",
           b->thread_count, ours * 1e6, RUNS);
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
    bench_pages(&b, "4kib", 4096);
    bench_pages(&b, "64kib", 65536);
    bench_pages(&b, "1mib", 1 << 20);
    bench_pages(&b, "128mib", 128 << 20);
    device_copier_destroy(b.copier);
    io_waker_destroy(b.waker);
    mem_free(b.from);
    mem_free(b.to);
    return 0;
}
