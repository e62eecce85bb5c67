/* The text form byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "obs/metrics.h"

/* Two label sets of one family share one HELP and TYPE, even when another
 * metric was made between them. */
static void a_family_is_described_once(void **state)
{
    struct obs_metrics *m = obs_metrics_create();
    struct obs_counter *a =
        obs_counter_create(m, "hits_total", "role=\"a\"", "Hits\n\\");
    struct obs_gauge *g = obs_gauge_create(m, "load", NULL, "Load");
    struct obs_counter *b =
        obs_counter_create(m, "hits_total", "role=\"b\"", "Hits\n\\");
    struct buf out;
    (void)state;
    obs_counter_add(a, 2);
    obs_counter_add(a, 3);
    obs_counter_set(b, 7);
    obs_gauge_set(g, 0.1);
    buf_init(&out, 4096);
    obs_metrics_print(m, &out);
    assert_string_equal(buf_string(&out), "# HELP hits_total Hits\\n\\\\\n"
                                          "# TYPE hits_total counter\n"
                                          "hits_total{role=\"a\"} 5\n"
                                          "hits_total{role=\"b\"} 7\n"
                                          "# HELP load Load\n"
                                          "# TYPE load gauge\n"
                                          "load 0.1\n");
    buf_finish(&out);
    obs_metrics_destroy(m);
}

/* A value on a bound falls into its bucket; buckets cumulate. */
static void a_histogram_cumulates(void **state)
{
    static const double BOUNDS[] = {0.001, 1};
    struct obs_metrics *m = obs_metrics_create();
    struct obs_histogram *h = obs_histogram_create(
        m, "wait_seconds", "role=\"a\"", "Wait", BOUNDS, 2);
    struct buf out;
    (void)state;
    obs_histogram_add(h, 0.001);
    obs_histogram_add(h, 0.5);
    obs_histogram_add(h, 9);
    buf_init(&out, 4096);
    obs_metrics_print(m, &out);
    assert_string_equal(buf_string(&out),
                        "# HELP wait_seconds Wait\n"
                        "# TYPE wait_seconds histogram\n"
                        "wait_seconds_bucket{role=\"a\",le=\"0.001\"} 1\n"
                        "wait_seconds_bucket{role=\"a\",le=\"1\"} 2\n"
                        "wait_seconds_bucket{role=\"a\",le=\"+Inf\"} 3\n"
                        "wait_seconds_sum{role=\"a\"} 9.501\n"
                        "wait_seconds_count{role=\"a\"} 3\n");
    buf_finish(&out);
    obs_metrics_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_described_once),
        cmocka_unit_test(a_histogram_cumulates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
