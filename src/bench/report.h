#pragma once
/* bench/report: a run's records as a table or as one JSON object. */
#include <stdint.h>

#include "base/buf.h"
#include "bench/stats.h"

struct bench_run {
    const struct bench_record *records; /* (record_count) */
    uint32_t record_count;
    struct bench_series gaps; /* between chunks, seconds */
    double duration; /* seconds */
    struct bench_goal goal;
};
void bench_report_text(struct bench_run *run, struct buf *out);
void bench_report_json(struct bench_run *run, struct buf *out);
