/* How long the C library takes to copy KV: the measure beside which a hand-off
 * is put. Source and target are touched before, and larger runs than the
 * caches hold are what they are. Prints one JSON object.
 *
 * usage: memcpy_bench BYTES [ROUNDS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/clock.h"

enum { ROUNDS_MAX = 999 };

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t copy_ns(uint8_t *to, const uint8_t *from, size_t size)
{
    uint64_t begin = io_clock_now_ns();
    memcpy(to, from, size);
    /* The copy is wanted, whoever reads it. */
    __asm__ volatile("" : : "r"(to) : "memory");
    return io_clock_now_ns() - begin;
}

int main(int argc, char **argv)
{
    size_t size = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    size_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 9;
    if (size == 0 || rounds == 0 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: memcpy_bench BYTES [ROUNDS]\n");
        return 2;
    }
    uint8_t *from = mem_try_aligned(64, size);
    uint8_t *to = mem_try_aligned(64, size);
    if (from == NULL || to == NULL) {
        fprintf(stderr, "memcpy_bench: no memory for 2 x %zu bytes\n", size);
        return 1;
    }
    memset(from, 1, size);
    memset(to, 2, size);
    uint64_t times[ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++) {
        times[i] = copy_ns(to, from, size);
    }
    qsort(times, rounds, sizeof(times[0]), compare);
    double seconds = (double)times[rounds / 2] / 1e9;
    printf("{\"bytes\":%zu,\"seconds\":%.9f,\"gb_per_s\":%.2f}\n", size,
           seconds, (double)size / 1e9 / seconds);
    mem_free(from);
    mem_free(to);
    return 0;
}
