#pragma once
/* bench/line: a figure as scripts/bench collects it, a line of JSON:
 *
 *   bench, name   what was measured
 *   value, unit   a median, or the least where only noise is added
 *   against       the peer or limit measured beside it in the same run
 *   ratio         ours over theirs, more being better; only with `against`
 *   goal, aim     must be met, is hoped for: of the ratio where there is one,
 *                 else of the value
 *   runs          of which this is the median or least
 *
 * Included by programs of bench/ only. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "io/clock.h"

struct line {
    const char *bench, *name;
    double value;
    const char *unit;
    const char *against; /* NULL: nobody, and no ratio */
    double ratio;
    double goal, aim; /* 0: none */
    bool must_be_zero; /* that is the goal */
    uint32_t runs;
};

static inline void line_put_number(const char *key, double value)
{
    if (value > 0) {
        printf(",\"%s\":%.5g", key, value);
    } else {
        printf(",\"%s\":null", key);
    }
}

static inline void line_print(const struct line *line)
{
    const char *quote = line->against == NULL ? "" : "\"";
    printf("{\"bench\":\"%s\",\"name\":\"%s\",\"value\":%.5g,\"unit\":\"%s\","
           "\"against\":%s%s%s",
           line->bench, line->name, line->value, line->unit, quote,
           line->against == NULL ? "null" : line->against, quote);
    line_put_number("ratio", line->against == NULL ? 0 : line->ratio);
    if (line->must_be_zero) {
        printf(",\"goal\":0");
    } else {
        line_put_number("goal", line->goal);
    }
    line_put_number("aim", line->aim);
    printf(",\"runs\":%u}\n", line->runs);
    fflush(stdout);
}

static inline int line_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts them. `thousandths` 500: the median. */
static inline double line_quantile(double *values, uint32_t count,
                                   uint32_t thousandths)
{
    qsort(values, count, sizeof(*values), line_compare);
    uint64_t at = (uint64_t)(count - 1) * thousandths / 1000;
    return values[at];
}

static inline double line_median(double *values, uint32_t count)
{
    return line_quantile(values, count, 500);
}

static inline double line_ns_since(uint64_t begin, uint32_t count)
{
    return (double)(io_clock_now_ns() - begin) / count;
}

/* What this machine asks for one line of `bytes` of memory that nobody could
 * foretell: the measure of whatever looks something up. One ring through all
 * cache lines, each load waiting for the one before. */
static inline double line_random_load_ns(size_t bytes)
{
    enum { STRIDE = 64 / sizeof(uint32_t), LOADS = 1 << 20 };
    uint32_t count = (uint32_t)(bytes / 64);
    uint32_t *next = mem_new_array((size_t)count * STRIDE, sizeof(*next));
    struct rng rng = rng_from_seed(7);
    for (uint32_t i = 0; i < count; i++) {
        next[(size_t)i * STRIDE] = i;
    }
    for (uint32_t i = count - 1; i > 0; i--) { /* Sattolo: one ring */
        uint32_t j = (uint32_t)rng_below(&rng, i);
        uint32_t kept = next[(size_t)i * STRIDE];
        next[(size_t)i * STRIDE] = next[(size_t)j * STRIDE];
        next[(size_t)j * STRIDE] = kept;
    }
    uint32_t at = 0;
    uint64_t begin = io_clock_now_ns();
    for (uint32_t i = 0; i < LOADS; i++) {
        at = next[(size_t)at * STRIDE];
    }
    double ns = line_ns_since(begin, LOADS);
    __asm__ volatile("" : : "r"(at) : "memory");
    mem_free(next);
    return ns;
}
