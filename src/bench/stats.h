#pragma once
/* bench/stats: the arithmetic of a report (serve.md 5.3). Percentiles are
 * linear interpolations, deviations those of the population. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_series {
    double *values; /* (count), owned */
    size_t count, capacity;
    bool is_sorted;
};
void bench_series_add(struct bench_series *series, double value);
void bench_series_finish(struct bench_series *series);
double bench_series_mean(const struct bench_series *series);
double bench_series_deviation(const struct bench_series *series);
/* `percent` 0 to 100; 0 for an empty series. Sorts. */
double bench_series_percentile(struct bench_series *series, double percent);

/* One request as the client saw it. Times in seconds. */
struct bench_record {
    double start, first, end; /* first: 0 when no token came */
    uint32_t prompt_tokens, output_tokens;
    bool is_ok;
    char error[96];
};
double bench_record_ttft(const struct bench_record *record);
/* (end to end - ttft) / (tokens - 1); false when there are not two. */
bool bench_record_tpot(const struct bench_record *record, double *tpot_out);

struct bench_goal {
    double ttft_ms, tpot_ms, e2el_ms; /* 0: no limit */
};
bool bench_record_meets(const struct bench_record *record,
                        const struct bench_goal *goal);

/* The next gap of a Poisson-like arrival process: gamma with shape
 * `burstiness` and mean 1 / rate, from uniform draws of `next` in (0, 1). */
double bench_next_gap(double rate, double burstiness,
                      double (*next)(void *context), void *context);
