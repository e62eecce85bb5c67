#include "serve/stats.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "obs/metrics.h"

enum {
    ROUTE_COUNT = 4,
    KIND_COUNT = 3,
    ENGINE_COUNT = 40,
    STATE_COUNT = 4,
    PEER_COUNT = 5
};

enum failure { FAIL_4XX, FAIL_429, FAIL_5XX, FAIL_COUNT };

struct serve_stats {
    struct obs_metrics *metrics;
    struct obs_counter *requests[ROUTE_COUNT];
    struct obs_counter *failures[FAIL_COUNT];
    struct obs_counter *gone, *stops, *lengths;
    struct obs_counter *prompt, *cached, *completion, *moved, *recomputed;
    struct obs_counter *bounced_count, *bounced_bytes;
    struct obs_histogram *first_token, *gap;
    struct obs_histogram *total[KIND_COUNT];
    struct obs_histogram *queue, *prefill, *handoff;
    struct obs_gauge *open;
    struct obs_counter *peers[PEER_COUNT];
    struct obs_counter *engine_counters[ENGINE_COUNT];
    struct obs_gauge *engine_gauges[ENGINE_COUNT];
    /* Of as many levels and pools as the engine first told. */
    struct obs_gauge *pools[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX][STATE_COUNT];
    char pool_labels[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX][STATE_COUNT][48];
};

static const double short_bounds[] = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
static const double long_bounds[] = {0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,
                                     2.5, 5,   10,  15,  20,  30,  40,
                                     50,  60,  120, 240, 480, 960, 1920};

/* The engine's own numbers, by where they stand in its struct. */
struct engine_number {
    const char *name, *help;
    size_t offset;
    double scale;
    char width; /* 8 or 4 bytes */
    bool is_gauge;
};
#define WIDE(name, field, help)                               \
    {                                                         \
        "baton_engine_" name "_total", help,                  \
            offsetof(struct engine_stats, field), 1, 8, false \
    }
#define CACHE(name, field, help)                                               \
    {                                                                          \
        "baton_kv_" name "_total", help, offsetof(struct engine_stats, field), \
            1, 8, false                                                        \
    }
#define GAUGE(name, field, help)                                              \
    {                                                                         \
        "baton_" name, help, offsetof(struct engine_stats, field), 1, 4, true \
    }

static const struct engine_number engine_numbers[] = {
    WIDE("turns", turns, "Turns of the engine."),
    WIDE("prefill_tokens", prefill_tokens, "Prompt tokens computed."),
    WIDE("decode_tokens", decode_tokens, "Tokens generated."),
    WIDE("cached_tokens", cached_tokens, "Prompt tokens found in the cache."),
    WIDE("requests_started", requests_started, "Requests begun."),
    WIDE("requests_finished", requests_finished, "Requests ended well."),
    WIDE("requests_failed", requests_failed, "Requests failed."),
    WIDE("requests_cancelled", requests_cancelled, "Requests cancelled."),
    WIDE("suspended_requests", suspended_requests,
         "Times that a request gave way and kept its pages on a lower level."),
    WIDE("paused_requests", paused_requests,
         "Times that a request gave way and lost its pages."),
    WIDE("replayed_tokens", replayed_tokens,
         "Tokens computed anew after a pause."),
    WIDE("waited_prefix_tokens", waited_prefix_tokens,
         "Prompt tokens saved by waiting for a prefix."),
    WIDE("evicted_pages", evicted_pages, "KV pages evicted."),
    WIDE("copied_kv_bytes", copied_kv_bytes, "KV bytes copied on write."),
    WIDE("steady_allocations", steady_allocations,
         "Heap allocations in steady state; stays 0."),
    CACHE("blocks_allocated", blocks_allocated, "KV blocks taken."),
    CACHE("blocks_reused", blocks_reused, "Whole KV blocks found cached."),
    CACHE("blocks_reused_partial", blocks_reused_partial,
          "KV blocks of which the beginning was found cached."),
    CACHE("blocks_missed", blocks_missed, "KV blocks of prompts not found."),
    CACHE("page_seconds", page_seconds,
          "KV pages of running requests, by the seconds they were held."),
    CACHE("pages_offloaded", offloaded_pages,
          "KV pages moved to the second level."),
    CACHE("pages_onboarded", onboarded_pages,
          "KV pages brought back from the second level."),
    CACHE("pages_copied", copied_pages, "KV pages copied within a level."),
    CACHE("events", cache_events, "Events of the cache."),
    CACHE("events_lost", cache_events_lost,
          "Events of the cache that were dropped unread."),
    {"baton_kv_metadata_bytes", "Memory of the cache beside its pages.",
     offsetof(struct engine_stats, metadata_bytes), 1, 8, true},
    {"baton_engine_turn_max_seconds", "Longest turn since start.",
     offsetof(struct engine_stats, turn_ns_max), 1e-9, 8, true},
    GAUGE("engine_waiting", waiting, "Requests that wait."),
    GAUGE("engine_running", running, "Requests being computed."),
    GAUGE("engine_receiving", receiving, "Requests whose KV is on its way."),
    GAUGE("engine_sending", sending, "Requests whose KV is being pulled."),
    GAUGE("engine_chunk_budget_tokens", chunk_budget, "Prompt tokens a turn."),
    GAUGE("kv_pages", pages_total, "KV pages of the pool."),
    GAUGE("kv_pages_free", pages_free, "KV pages free."),
    GAUGE("kv_pages_cached", pages_cached, "KV pages kept for reuse."),
    GAUGE("kv_pages_leased", pages_leased, "KV pages under a transfer."),
    GAUGE("kv_pages_used", pages_used, "KV pages of running requests."),
};

/* The transfer's, likewise. */
static const struct {
    const char *name, *help;
    size_t offset;
} peer_numbers[PEER_COUNT] = {
    {"baton_transfer_peers_refused_total",
     "Peers whose model, layout or version does not fit.",
     offsetof(struct serve_peer_stats, refused)},
    {"baton_transfer_peers_denied_total",
     "Peers whose internal key is not ours.",
     offsetof(struct serve_peer_stats, denied)},
    {"baton_transfer_strangers_cut_total",
     "Connections cut off that never said who they are.",
     offsetof(struct serve_peer_stats, strangers_cut)},
    {"baton_transfer_connections_dropped_total",
     "Connections of peers ended for what they said, or for silence.",
     offsetof(struct serve_peer_stats, connections_dropped)},
    {"baton_transfer_frames_dropped_total",
     "Messages without effect: too late, or of another life.",
     offsetof(struct serve_peer_stats, frames_dropped)},
};

static void make_peers(struct serve_stats *stats)
{
    for (size_t i = 0; i < PEER_COUNT; i++) {
        stats->peers[i] = obs_counter_create(
            stats->metrics, peer_numbers[i].name, NULL, peer_numbers[i].help);
    }
}

static void make_engine(struct serve_stats *stats)
{
    size_t count = sizeof(engine_numbers) / sizeof(engine_numbers[0]);
    _Static_assert(sizeof(engine_numbers) / sizeof(engine_numbers[0]) <=
                       ENGINE_COUNT,
                   "room for every number");
    for (size_t i = 0; i < count; i++) {
        const struct engine_number *number = &engine_numbers[i];
        if (number->is_gauge) {
            stats->engine_gauges[i] = obs_gauge_create(
                stats->metrics, number->name, NULL, number->help);
        } else {
            stats->engine_counters[i] = obs_counter_create(
                stats->metrics, number->name, NULL, number->help);
        }
    }
}

static struct obs_counter *counter(struct serve_stats *stats, const char *name,
                                   const char *labels, const char *help)
{
    return obs_counter_create(stats->metrics, name, labels, help);
}

static void make_counters(struct serve_stats *stats)
{
    static const char *const routes[] = {"route=\"completions\"",
                                         "route=\"chat\"", "route=\"tokenize\"",
                                         "route=\"detokenize\""};
    static const char *const failures[] = {"status=\"4xx\"", "status=\"429\"",
                                           "status=\"5xx\""};
    for (int i = 0; i < ROUTE_COUNT; i++) {
        stats->requests[i] = counter(stats, "baton_requests_total", routes[i],
                                     "Requests received.");
    }
    for (int i = 0; i < FAIL_COUNT; i++) {
        stats->failures[i] =
            counter(stats, "baton_request_failures_total", failures[i],
                    "Requests refused or failed.");
    }
    stats->gone = counter(stats, "baton_client_disconnects_total", NULL,
                          "Clients that left before the end.");
    stats->stops = counter(stats, "baton_requests_finished_total",
                           "reason=\"stop\"", "Requests answered.");
    stats->lengths = counter(stats, "baton_requests_finished_total",
                             "reason=\"length\"", "Requests answered.");
    stats->prompt =
        counter(stats, "baton_prompt_tokens_total", NULL, "Tokens of prompts.");
    stats->cached = counter(stats, "baton_prompt_tokens_cached_total", NULL,
                            "Tokens of prompts found in the cache.");
    stats->completion = counter(stats, "baton_completion_tokens_total", NULL,
                                "Tokens of answers.");
    stats->moved = counter(stats, "baton_handoff_bytes_total", NULL,
                           "KV bytes received or sent.");
    stats->bounced_count =
        counter(stats, "baton_handoffs_bounced_total", NULL,
                "Hand-offs that went packed through the transfer arenas.");
    stats->bounced_bytes = counter(stats, "baton_handoff_bounced_bytes_total",
                                   NULL, "KV bytes of them.");
    stats->recomputed =
        counter(stats, "baton_handoffs_recomputed_total", NULL,
                "Hand-offs that came too late: their prompts were computed "
                "here.");
}

#define BOUNDS(bounds) bounds, sizeof(bounds) / sizeof(bounds[0])

static void make_histograms(struct serve_stats *stats)
{
    static const char *const kinds[] = {
        "kind=\"aggregated\"", "kind=\"context\"", "kind=\"generation\""};
    struct obs_metrics *metrics = stats->metrics;
    stats->first_token =
        obs_histogram_create(metrics, "baton_first_token_seconds", NULL,
                             "Arrival to first token.", BOUNDS(short_bounds));
    stats->gap = obs_histogram_create(metrics, "baton_inter_token_seconds",
                                      NULL, "From one token to the next.",
                                      BOUNDS(short_bounds));
    stats->queue = obs_histogram_create(metrics, "baton_queue_seconds", NULL,
                                        "Arrival to first scheduled.",
                                        BOUNDS(short_bounds));
    stats->prefill = obs_histogram_create(
        metrics, "baton_prefill_seconds", NULL,
        "First scheduled to first token.", BOUNDS(short_bounds));
    stats->handoff = obs_histogram_create(
        metrics, "baton_handoff_seconds", NULL,
        "Receive posted to KV complete.", BOUNDS(short_bounds));
    for (int i = 0; i < KIND_COUNT; i++) {
        stats->total[i] = obs_histogram_create(
            metrics, "baton_request_seconds", kinds[i],
            "Arrival to the end of the answer.", BOUNDS(long_bounds));
    }
    stats->open = obs_gauge_create(metrics, "baton_requests_open", NULL,
                                   "Requests not answered yet.");
}

struct serve_stats *serve_stats_create(void)
{
    struct serve_stats *stats = mem_new(sizeof(*stats));
    stats->metrics = obs_metrics_create();
    make_counters(stats);
    make_histograms(stats);
    make_engine(stats);
    make_peers(stats);
    return stats;
}

void serve_stats_destroy(struct serve_stats *stats)
{
    if (stats != NULL) {
        obs_metrics_destroy(stats->metrics);
        mem_free(stats);
    }
}

void serve_stats_count_request(struct serve_stats *stats,
                               enum openai_route route)
{
    int index = route == OPENAI_COMPLETIONS ? 0
                : route == OPENAI_CHAT      ? 1
                : route == OPENAI_TOKENIZE  ? 2
                                            : 3;
    obs_counter_add(stats->requests[index], 1);
}

void serve_stats_count_failure(struct serve_stats *stats, int status)
{
    enum failure which = status == 429  ? FAIL_429
                         : status < 500 ? FAIL_4XX
                                        : FAIL_5XX;
    obs_counter_add(stats->failures[which], 1);
}

void serve_stats_count_gone(struct serve_stats *stats)
{
    obs_counter_add(stats->gone, 1);
}

void serve_stats_count_recomputed(struct serve_stats *stats)
{
    obs_counter_add(stats->recomputed, 1);
}

static void add_seconds(struct obs_histogram *histogram, uint64_t ns)
{
    obs_histogram_add(histogram, (double)ns / 1e9);
}

void serve_stats_add_first_token(struct serve_stats *stats, uint64_t ns)
{
    add_seconds(stats->first_token, ns);
}

void serve_stats_add_gap(struct serve_stats *stats, uint64_t ns)
{
    add_seconds(stats->gap, ns);
}

void serve_stats_add_moved(struct serve_stats *stats,
                           const struct engine_journey *journey)
{
    obs_counter_add(stats->moved, journey->moved_bytes);
    obs_counter_add(stats->bounced_count, journey->bounced_bytes > 0);
    obs_counter_add(stats->bounced_bytes, journey->bounced_bytes);
}

void serve_stats_add_end(struct serve_stats *stats,
                         const struct serve_stats_end *end)
{
    bool is_stop = strcmp(end->reason, "stop") == 0;
    obs_counter_add(is_stop ? stats->stops : stats->lengths, 1);
    obs_counter_add(stats->prompt, end->prompt_tokens);
    obs_counter_add(stats->cached, end->journey->cached_tokens);
    obs_counter_add(stats->completion, end->completion_tokens);
    if (end->kind == ENGINE_GENERATION_ONLY) {
        serve_stats_add_moved(stats, end->journey);
    }
    add_seconds(stats->total[end->kind], end->total_ns);
    add_seconds(stats->queue, end->journey->queue_ns);
    if (end->kind != ENGINE_GENERATION_ONLY) {
        add_seconds(stats->prefill, end->journey->prefill_ns);
    } else {
        add_seconds(stats->handoff, end->journey->handoff_ns);
    }
}

static uint64_t read_number(const struct engine_number *number,
                            const struct engine_stats *engine)
{
    const char *at = (const char *)engine + number->offset;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    if (number->width == 8) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

static void make_pool(struct serve_stats *stats, uint32_t level, uint32_t pool)
{
    static const char *const states[STATE_COUNT] = {"total", "free", "used",
                                                    "evictable"};
    for (int i = 0; i < STATE_COUNT; i++) {
        char *labels = stats->pool_labels[level][pool][i];
        snprintf(labels, sizeof(stats->pool_labels[level][pool][i]),
                 "level=\"%u\",pool=\"%u\",state=\"%s\"", level, pool,
                 states[i]);
        stats->pools[level][pool][i] = obs_gauge_create(
            stats->metrics, "baton_kv_pool_pages", labels,
            "KV pages by level and pool; free, used and evictable are all.");
    }
}

static void set_pools(struct serve_stats *stats,
                      const struct engine_stats *engine)
{
    for (uint32_t level = 0; level < engine->level_count; level++) {
        for (uint32_t i = 0; i < engine->pool_count; i++) {
            const struct engine_pool_stats *pool = &engine->pools[level][i];
            struct obs_gauge **gauges = stats->pools[level][i];
            if (gauges[0] == NULL) {
                make_pool(stats, level, i);
            }
            obs_gauge_set(gauges[0], pool->total);
            obs_gauge_set(gauges[1], pool->free);
            obs_gauge_set(gauges[2], pool->used);
            obs_gauge_set(gauges[3], pool->evictable);
        }
    }
}

void serve_stats_print(struct serve_stats *stats, uint32_t open_count,
                       const struct engine_stats *engine,
                       const struct serve_peer_stats *peers, struct buf *out)
{
    size_t count = sizeof(engine_numbers) / sizeof(engine_numbers[0]);
    for (size_t i = 0; i < count; i++) {
        const struct engine_number *number = &engine_numbers[i];
        uint64_t value = read_number(number, engine);
        if (number->is_gauge) {
            obs_gauge_set(stats->engine_gauges[i],
                          (double)value * number->scale);
        } else {
            obs_counter_set(stats->engine_counters[i], value);
        }
    }
    for (size_t i = 0; i < PEER_COUNT; i++) {
        uint64_t value;
        memcpy(&value, (const char *)peers + peer_numbers[i].offset,
               sizeof(value));
        obs_counter_set(stats->peers[i], value);
    }
    set_pools(stats, engine);
    obs_gauge_set(stats->open, open_count);
    obs_metrics_print(stats->metrics, out);
}
