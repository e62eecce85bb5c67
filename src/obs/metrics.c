#include "obs/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { METRIC_COUNT_MAX = 1024, BOUND_COUNT_MAX = 64 };
enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };

/* What all three share; first member of each. */
struct metric {
    enum kind kind;
    const char *name;
    const char *labels; /* NULL: none */
    const char *help;
};

struct obs_counter {
    struct metric base;
    _Atomic uint64_t total;
};

struct obs_gauge {
    struct metric base;
    _Atomic double value;
};

struct obs_histogram {
    struct metric base;
    uint32_t bound_count;
    double *bounds; /* (bound) */
    _Atomic uint64_t *counts; /* (bound + 1), not cumulated */
    _Atomic double sum;
};

struct obs_metrics {
    uint32_t count;
    struct metric *metrics[METRIC_COUNT_MAX]; /* in order of creation */
};

struct obs_metrics *obs_metrics_create(void)
{
    return mem_new(sizeof(struct obs_metrics));
}

void obs_metrics_destroy(struct obs_metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    for (uint32_t i = 0; i < metrics->count; i++) {
        if (metrics->metrics[i]->kind == KIND_HISTOGRAM) {
            struct obs_histogram *histogram = (void *)metrics->metrics[i];
            mem_free(histogram->bounds);
            mem_free((void *)histogram->counts);
        }
        mem_free(metrics->metrics[i]);
    }
    mem_free(metrics);
}

static bool same_labels(const struct metric *a, const struct metric *b)
{
    return strcmp(a->labels == NULL ? "" : a->labels,
                  b->labels == NULL ? "" : b->labels) == 0;
}

/* A name has one kind, a name with labels one metric. */
static void check_new(const struct obs_metrics *metrics,
                      const struct metric *metric)
{
    for (uint32_t i = 0; i < metrics->count; i++) {
        const struct metric *other = metrics->metrics[i];
        if (strcmp(other->name, metric->name) == 0) {
            CHECK(other->kind == metric->kind);
            CHECK(!same_labels(other, metric));
        }
    }
}

static void *add(struct obs_metrics *metrics, size_t size, struct metric base)
{
    CHECK(metrics->count < METRIC_COUNT_MAX);
    check_new(metrics, &base);
    struct metric *metric = mem_new(size);
    *metric = base;
    metrics->metrics[metrics->count++] = metric;
    return metric;
}

struct obs_counter *obs_counter_create(struct obs_metrics *metrics,
                                       const char *name, const char *labels,
                                       const char *help)
{
    return add(metrics, sizeof(struct obs_counter),
               (struct metric){KIND_COUNTER, name, labels, help});
}

struct obs_gauge *obs_gauge_create(struct obs_metrics *metrics,
                                   const char *name, const char *labels,
                                   const char *help)
{
    return add(metrics, sizeof(struct obs_gauge),
               (struct metric){KIND_GAUGE, name, labels, help});
}

struct obs_histogram *obs_histogram_create(struct obs_metrics *metrics,
                                           const char *name, const char *labels,
                                           const char *help,
                                           const double *bounds,
                                           uint32_t bound_count)
{
    CHECK(bound_count <= BOUND_COUNT_MAX);
    for (uint32_t i = 1; i < bound_count; i++) {
        CHECK(bounds[i - 1] < bounds[i]);
    }
    struct obs_histogram *histogram =
        add(metrics, sizeof(*histogram),
            (struct metric){KIND_HISTOGRAM, name, labels, help});
    histogram->bound_count = bound_count;
    histogram->bounds = mem_copy(bounds, bound_count * sizeof(*bounds));
    histogram->counts =
        mem_new_array(bound_count + 1, sizeof(*histogram->counts));
    return histogram;
}

void obs_counter_add(struct obs_counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->total, n, memory_order_relaxed);
}

void obs_counter_set(struct obs_counter *counter, uint64_t total)
{
    atomic_store_explicit(&counter->total, total, memory_order_relaxed);
}

void obs_gauge_set(struct obs_gauge *gauge, double value)
{
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

static void add_double(_Atomic double *total, double value)
{
    double old = atomic_load_explicit(total, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        total, &old, old + value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void obs_histogram_add(struct obs_histogram *histogram, double value)
{
    uint32_t at = 0;
    while (at < histogram->bound_count && !(value <= histogram->bounds[at])) {
        at++;
    }
    atomic_fetch_add_explicit(&histogram->counts[at], 1, memory_order_relaxed);
    add_double(&histogram->sum, value);
}

/* The shortest of three spellings that reads back as the same number. */
static void print_number(double value, struct buf *out)
{
    static const int DIGITS[] = {6, 15, 17};
    char text[40];
    if (isinf(value) || isnan(value)) {
        buf_add_string(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "%.*g", DIGITS[i], value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    buf_add_string(out, text);
}

/* `name_suffix{labels,extra="..."} `; the value follows. */
static void print_key(const struct metric *metric, const char *suffix,
                      const char *bound, struct buf *out)
{
    buf_printf(out, "%s%s", metric->name, suffix);
    bool has_labels = metric->labels != NULL && metric->labels[0] != 0;
    if (has_labels || bound != NULL) {
        buf_printf(out, "{%s", has_labels ? metric->labels : "");
        if (bound != NULL) {
            buf_printf(out, "%sle=\"%s\"", has_labels ? "," : "", bound);
        }
        buf_add_byte(out, '}');
    }
    buf_add_byte(out, ' ');
}

static void print_histogram(const struct obs_histogram *histogram,
                            struct buf *out)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i <= histogram->bound_count; i++) {
        struct buf bound;
        buf_init(&bound, 64);
        print_number(i < histogram->bound_count ? histogram->bounds[i]
                                                : INFINITY,
                     &bound);
        total +=
            atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        print_key(&histogram->base, "_bucket", buf_string(&bound), out);
        buf_printf(out, "%llu\n", (unsigned long long)total);
        buf_finish(&bound);
    }
    print_key(&histogram->base, "_sum", NULL, out);
    print_number(histogram->sum, out);
    buf_add_byte(out, '\n');
    print_key(&histogram->base, "_count", NULL, out);
    buf_printf(out, "%llu\n", (unsigned long long)total);
}

static void print_metric(const struct metric *metric, struct buf *out)
{
    if (metric->kind == KIND_HISTOGRAM) {
        print_histogram((const struct obs_histogram *)metric, out);
        return;
    }
    print_key(metric, "", NULL, out);
    if (metric->kind == KIND_COUNTER) {
        const struct obs_counter *counter = (const void *)metric;
        buf_printf(out, "%llu\n", (unsigned long long)counter->total);
    } else {
        print_number(((const struct obs_gauge *)metric)->value, out);
        buf_add_byte(out, '\n');
    }
}

static bool is_first_of_name(const struct obs_metrics *metrics, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(metrics->metrics[i]->name, metrics->metrics[index]->name) ==
            0) {
            return false;
        }
    }
    return true;
}

/* HELP lets only a backslash and a line feed be escaped. */
static void print_head(const struct metric *metric, struct buf *out)
{
    static const char *const TYPES[] = {"counter", "gauge", "histogram"};
    buf_printf(out, "# HELP %s ", metric->name);
    for (const char *at = metric->help; *at != 0; at++) {
        if (*at == '\\' || *at == '\n') {
            buf_add_string(out, *at == '\n' ? "\\n" : "\\\\");
        } else {
            buf_add_byte(out, (uint8_t)*at);
        }
    }
    buf_printf(out, "\n# TYPE %s %s\n", metric->name, TYPES[metric->kind]);
}

void obs_metrics_print(const struct obs_metrics *metrics, struct buf *out)
{
    for (uint32_t i = 0; i < metrics->count; i++) {
        if (!is_first_of_name(metrics, i)) {
            continue;
        }
        print_head(metrics->metrics[i], out);
        for (uint32_t j = i; j < metrics->count; j++) {
            if (strcmp(metrics->metrics[j]->name, metrics->metrics[i]->name) ==
                0) {
                print_metric(metrics->metrics[j], out);
            }
        }
    }
}
