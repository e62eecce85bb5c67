#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"

void bench_series_add(struct bench_series *series, double value)
{
    if (series->count == series->capacity) {
        size_t capacity = series->capacity == 0 ? 64 : 2 * series->capacity;
        double *values =
            mem_try_resize(series->values, capacity * sizeof(*values));
        CHECK(values != NULL);
        series->values = values;
        series->capacity = capacity;
    }
    series->values[series->count++] = value;
    series->is_sorted = false;
}

void bench_series_finish(struct bench_series *series)
{
    mem_free(series->values);
    *series = (struct bench_series){0};
}

double bench_series_mean(const struct bench_series *series)
{
    double sum = 0;
    for (size_t i = 0; i < series->count; i++) {
        sum += series->values[i];
    }
    return series->count == 0 ? 0 : sum / (double)series->count;
}

double bench_series_deviation(const struct bench_series *series)
{
    double mean = bench_series_mean(series);
    double sum = 0;
    for (size_t i = 0; i < series->count; i++) {
        sum += (series->values[i] - mean) * (series->values[i] - mean);
    }
    return series->count == 0 ? 0 : sqrt(sum / (double)series->count);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_series_percentile(struct bench_series *series, double percent)
{
    if (series->count == 0) {
        return 0;
    }
    if (!series->is_sorted) {
        qsort(series->values, series->count, sizeof(double), compare);
        series->is_sorted = true;
    }
    double at = percent / 100 * (double)(series->count - 1);
    size_t low = (size_t)at;
    size_t high = low + 1 < series->count ? low + 1 : low;
    double part = at - (double)low;
    return series->values[low] * (1 - part) + series->values[high] * part;
}

double bench_record_ttft(const struct bench_record *record)
{
    return record->first - record->start;
}

bool bench_record_tpot(const struct bench_record *record, double *tpot_out)
{
    if (record->output_tokens <= 1) {
        return false;
    }
    *tpot_out = (record->end - record->first) / (record->output_tokens - 1);
    return true;
}

bool bench_record_meets(const struct bench_record *record,
                        const struct bench_goal *goal)
{
    double tpot = 0;
    if (!bench_record_tpot(record, &tpot)) {
        tpot = 0; /* too short to have one: counts as met (serve.md 5.3) */
    }
    double ttft_ms = bench_record_ttft(record) * 1000;
    double e2el_ms = (record->end - record->start) * 1000;
    return record->is_ok && (goal->ttft_ms == 0 || ttft_ms <= goal->ttft_ms) &&
           (goal->tpot_ms == 0 || tpot * 1000 <= goal->tpot_ms) &&
           (goal->e2el_ms == 0 || e2el_ms <= goal->e2el_ms);
}

/* Marsaglia and Tsang's method for shape >= 1; below, the usual boost. */
static double draw_gamma(double shape, double (*next)(void *), void *context)
{
    if (shape < 1) {
        double boost = pow(next(context), 1 / shape);
        return draw_gamma(shape + 1, next, context) * boost;
    }
    double d = shape - 1.0 / 3;
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double radius = sqrt(-2 * log(next(context)));
        double x = radius * cos(2 * 3.14159265358979323846 * next(context));
        double v = pow(1 + c * x, 3);
        if (v > 0 &&
            log(next(context)) < 0.5 * x * x + d - d * v + d * log(v)) {
            return d * v;
        }
    }
}

double bench_next_gap(double rate, double burstiness,
                      double (*next)(void *context), void *context)
{
    return draw_gamma(burstiness, next, context) / (rate * burstiness);
}
