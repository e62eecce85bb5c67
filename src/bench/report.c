#include "bench/report.h"

#include <string.h>

struct totals {
    uint32_t completed, failed, met;
    uint64_t input, output;
    struct bench_series ttft, tpot, e2el, speed;
};

static struct totals sum_up(const struct bench_run *run)
{
    struct totals totals = {0};
    for (uint32_t i = 0; i < run->record_count; i++) {
        const struct bench_record *record = &run->records[i];
        if (!record->is_ok) {
            totals.failed++;
            continue;
        }
        double tpot = 0;
        double whole = record->end - record->start;
        totals.completed++;
        totals.met += bench_record_meets(record, &run->goal);
        totals.input += record->prompt_tokens;
        totals.output += record->output_tokens;
        bench_series_add(&totals.ttft, bench_record_ttft(record));
        bench_series_add(&totals.e2el, whole);
        bench_series_add(&totals.speed, record->output_tokens / whole);
        if (bench_record_tpot(record, &tpot)) {
            bench_series_add(&totals.tpot, tpot);
        }
    }
    return totals;
}

static void finish(struct totals *totals)
{
    bench_series_finish(&totals->ttft);
    bench_series_finish(&totals->tpot);
    bench_series_finish(&totals->e2el);
    bench_series_finish(&totals->speed);
}

static bool has_goal(const struct bench_goal *goal)
{
    return goal->ttft_ms > 0 || goal->tpot_ms > 0 || goal->e2el_ms > 0;
}

static void add_section(struct buf *out, const char *title,
                        struct bench_series *series)
{
    buf_printf(out, "---- %s (ms)\n", title);
    buf_printf(out, "mean   %12.3f\n", bench_series_mean(series) * 1000);
    buf_printf(out, "median %12.3f\n",
               bench_series_percentile(series, 50) * 1000);
    buf_printf(out, "std    %12.3f\n", bench_series_deviation(series) * 1000);
    buf_printf(out, "p90    %12.3f\n",
               bench_series_percentile(series, 90) * 1000);
    buf_printf(out, "p99    %12.3f\n",
               bench_series_percentile(series, 99) * 1000);
}

/* Each kind of failure once, with its count. */
static void add_failures(struct buf *out, const struct bench_run *run)
{
    for (uint32_t i = 0; i < run->record_count; i++) {
        const char *error = run->records[i].error;
        uint32_t count = 0, earlier = 0;
        for (uint32_t j = 0; j < run->record_count; j++) {
            bool is_same = strcmp(run->records[j].error, error) == 0;
            count += is_same;
            earlier += is_same && j < i;
        }
        if (!run->records[i].is_ok && earlier == 0) {
            buf_printf(out, "  %6u x %s\n", count, error);
        }
    }
}

void bench_report_text(struct bench_run *run, struct buf *out)
{
    struct totals totals = sum_up(run);
    double seconds = run->duration;
    buf_printf(out, "requests             %u\n", run->record_count);
    buf_printf(out, "successful           %u\n", totals.completed);
    buf_printf(out, "failed               %u\n", totals.failed);
    add_failures(out, run);
    buf_printf(out, "duration             %.3f s\n", seconds);
    buf_printf(out, "input tokens         %llu\n",
               (unsigned long long)totals.input);
    buf_printf(out, "generated tokens     %llu\n",
               (unsigned long long)totals.output);
    buf_printf(out, "requests a second    %.3f\n", totals.completed / seconds);
    if (has_goal(&run->goal)) {
        buf_printf(out, "goodput              %.3f\n", totals.met / seconds);
    }
    buf_printf(out, "output tokens/s      %.2f\n",
               (double)totals.output / seconds);
    buf_printf(out, "total tokens/s       %.2f\n",
               (double)(totals.input + totals.output) / seconds);
    buf_printf(out, "tokens/s of a user   %.2f\n",
               bench_series_mean(&totals.speed));
    add_section(out, "time to first token", &totals.ttft);
    add_section(out, "time per output token", &totals.tpot);
    add_section(out, "inter-token latency", &run->gaps);
    add_section(out, "end to end", &totals.e2el);
    finish(&totals);
}

static void add_json_section(struct buf *out, const char *name,
                             struct bench_series *series)
{
    buf_printf(out,
               ",\"mean_%s_ms\":%.6g,\"median_%s_ms\":%.6g,\"std_%s_ms\":%.6g,"
               "\"p90_%s_ms\":%.6g,\"p99_%s_ms\":%.6g",
               name, bench_series_mean(series) * 1000, name,
               bench_series_percentile(series, 50) * 1000, name,
               bench_series_deviation(series) * 1000, name,
               bench_series_percentile(series, 90) * 1000, name,
               bench_series_percentile(series, 99) * 1000);
}

void bench_report_json(struct bench_run *run, struct buf *out)
{
    struct totals totals = sum_up(run);
    double seconds = run->duration;
    double goodput = totals.met / seconds;
    buf_printf(out,
               "{\"duration\":%.6g,\"completed\":%u,\"failed\":%u,"
               "\"total_input_tokens\":%llu,\"total_output_tokens\":%llu,"
               "\"request_throughput\":%.6g,\"request_goodput\":%.6g,"
               "\"request_goodput:\":%.6g,\"output_throughput\":%.6g,"
               "\"total_token_throughput\":%.6g,\"user_throughput\":%.6g",
               seconds, totals.completed, totals.failed,
               (unsigned long long)totals.input,
               (unsigned long long)totals.output, totals.completed / seconds,
               goodput, goodput, (double)totals.output / seconds,
               (double)(totals.input + totals.output) / seconds,
               bench_series_mean(&totals.speed));
    add_json_section(out, "ttft", &totals.ttft);
    add_json_section(out, "tpot", &totals.tpot);
    add_json_section(out, "itl", &run->gaps);
    add_json_section(out, "e2el", &totals.e2el);
    buf_add_string(out, "}\n");
    finish(&totals);
}
