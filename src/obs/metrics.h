#pragma once
/* obs/metrics: counters, gauges and histograms in a fixed registry, and their
 * Prometheus text. Values are atomics: any thread adds, any thread prints.
 * Names and label sets are made at start and never grow because of input. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct obs_metrics;
struct obs_counter;
struct obs_gauge;
struct obs_histogram;
struct obs_metrics *obs_metrics_create(void);
void obs_metrics_destroy(struct obs_metrics *metrics);
/* `labels` as printed, `role="context"`, or NULL. The texts are static. */
struct obs_counter *obs_counter_create(struct obs_metrics *metrics,
                                       const char *name, const char *labels,
                                       const char *help);
struct obs_gauge *obs_gauge_create(struct obs_metrics *metrics,
                                   const char *name, const char *labels,
                                   const char *help);
/* Bounds rise; "+Inf" is added. */
struct obs_histogram *obs_histogram_create(struct obs_metrics *metrics,
                                           const char *name, const char *labels,
                                           const char *help,
                                           const double *bounds,
                                           uint32_t bound_count);
void obs_counter_add(struct obs_counter *counter, uint64_t n);
void obs_counter_set(struct obs_counter *counter, uint64_t total);
void obs_gauge_set(struct obs_gauge *gauge, double value);
void obs_histogram_add(struct obs_histogram *histogram, double value);
void obs_metrics_print(const struct obs_metrics *metrics, struct buf *out);
