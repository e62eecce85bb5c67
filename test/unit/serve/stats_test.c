#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "../api/golden.h"
#include "../obs/exposition.h"
#include "serve/stats.h"

static void print(struct serve_stats *stats, struct buf *out)
{
    const struct engine_stats engine = {
        .turns = 5,
        .waiting = 2,
        .replayed_tokens = 11,
        .offloaded_pages = 12,
        .level_count = 2,
        .pool_count = 1,
        .pools = {{{.total = 9, .free = 4, .used = 3, .evictable = 2}},
                  {{.total = 6, .free = 6}}},
    };
    const struct serve_peer_stats peers = {21, 22, 23, 24, 25};
    buf_reset(out);
    serve_stats_print(stats, 3, &engine, &peers, out);
}

static void has(const struct buf *out, const char *line)
{
    if (strstr(buf_string(out), line) == NULL) {
        fail_msg("no '%s' in: %s", line, buf_string(out));
    }
}

/* [serve T100] Proof: every name with its type, as in the golden file. */
static void the_names_are_as_in_the_file(void **state)
{
    (void)state;
    struct buf out, names;
    struct serve_stats *stats = serve_stats_create();
    buf_init(&out, 1 << 20);
    buf_init(&names, 1 << 20);
    print(stats, &out);
    exposition_families(&out, &names);
    exposition_is_conventional(&names);
    golden_is("test/golden/names/worker_metrics.txt", buf_span(&names));
    serve_stats_destroy(stats);
    buf_finish(&out);
    buf_finish(&names);
}

/* Proof: each event moves its own numbers. */
static void events_move_their_numbers(void **state)
{
    (void)state;
    struct buf out;
    struct serve_stats *stats = serve_stats_create();
    const struct engine_journey journey = {.cached_tokens = 4,
                                           .moved_bytes = 100,
                                           .bounced_bytes = 60,
                                           .queue_ns = 2000000};
    buf_init(&out, 1 << 20);
    serve_stats_count_request(stats, OPENAI_CHAT);
    serve_stats_count_failure(stats, 404);
    serve_stats_count_failure(stats, 429);
    serve_stats_count_failure(stats, 503);
    serve_stats_count_gone(stats);
    serve_stats_add_first_token(stats, 30000000);
    serve_stats_add_end(stats, &(struct serve_stats_end){
                                   .kind = ENGINE_GENERATION_ONLY,
                                   .reason = "stop",
                                   .total_ns = 1000000000,
                                   .prompt_tokens = 10,
                                   .completion_tokens = 6,
                                   .journey = &journey,
                               });
    print(stats, &out);
    has(&out, "baton_requests_total{route=\"chat\"} 1");
    has(&out, "baton_requests_total{route=\"completions\"} 0");
    has(&out, "baton_request_failures_total{status=\"4xx\"} 1");
    has(&out, "baton_request_failures_total{status=\"429\"} 1");
    has(&out, "baton_request_failures_total{status=\"5xx\"} 1");
    has(&out, "baton_client_disconnects_total 1");
    has(&out, "baton_requests_finished_total{reason=\"stop\"} 1");
    has(&out, "baton_prompt_tokens_total 10");
    has(&out, "baton_prompt_tokens_cached_total 4");
    has(&out, "baton_completion_tokens_total 6");
    has(&out, "baton_handoff_bytes_total 100");
    has(&out, "baton_handoffs_bounced_total 1");
    has(&out, "baton_handoff_bounced_bytes_total 60");
    has(&out, "baton_first_token_seconds_bucket{le=\"0.04\"} 1");
    has(&out, "baton_first_token_seconds_bucket{le=\"0.02\"} 0");
    has(&out, "baton_request_seconds_count{kind=\"generation\"} 1");
    has(&out, "baton_request_seconds_count{kind=\"context\"} 0");
    has(&out, "baton_requests_open 3");
    has(&out, "baton_engine_turns_total 5");
    has(&out, "baton_engine_waiting 2");
    has(&out, "baton_engine_replayed_tokens_total 11");
    has(&out, "baton_kv_pages_offloaded_total 12");
    has(&out, "baton_transfer_peers_refused_total 21");
    has(&out, "baton_transfer_peers_denied_total 22");
    has(&out, "baton_transfer_strangers_cut_total 23");
    has(&out, "baton_transfer_connections_dropped_total 24");
    has(&out, "baton_transfer_frames_dropped_total 25");
    has(&out, "{level=\"0\",pool=\"0\",state=\"evictable\"} 2\n");
    has(&out, "{level=\"1\",pool=\"0\",state=\"free\"} 6\n");
    serve_stats_destroy(stats);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_names_are_as_in_the_file),
        cmocka_unit_test(events_move_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
