#include "route/metrics.h"

static const double SHORT[] = {0.001, .005, .01, .02, .04, .06, .08, .1,
                               .25,   .5,   .75, 1,   2.5, 5,   7.5, 10,
                               20,    40,   80,  160, 640, 2560};
static const double LONG[] = {0.1, .3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,  15,
                              20,  30, 40, 50, 60, 120, 240, 480, 960, 1920};
enum {
    SHORT_COUNT = sizeof(SHORT) / sizeof(SHORT[0]),
    LONG_COUNT = sizeof(LONG) / sizeof(LONG[0])
};

static struct obs_counter *counter(struct route_metrics *metrics,
                                   const char *name, const char *labels,
                                   const char *help)
{
    return obs_counter_create(metrics->registry, name, labels, help);
}

static struct obs_histogram *histogram(struct route_metrics *metrics,
                                       const char *name, const char *help,
                                       bool is_long)
{
    return obs_histogram_create(metrics->registry, name, NULL, help,
                                is_long ? LONG : SHORT,
                                is_long ? LONG_COUNT : SHORT_COUNT);
}

static void init_front(struct route_metrics *m)
{
    m->total = counter(m, "total_requests_total", NULL,
                       "Generation requests received");
    m->stream = counter(m, "stream_requests_total", NULL,
                        "Requests that asked for a stream");
    m->nonstream = counter(m, "nonstream_requests_total", NULL,
                           "Requests that asked for one answer");
    m->validation = counter(m, "validation_exceptions_total", NULL,
                            "Requests refused because of their content");
    m->http = counter(m, "http_exceptions_total", NULL,
                      "Requests answered with an error of a worker or limit");
    m->internal = counter(m, "internal_errors_total", NULL,
                          "Requests failed by a fault of the front end");
    m->responses = counter(m, "total_responses_total", NULL,
                           "Answers given; streams from their first chunk on");
    m->truncated = counter(m, "baton_front_streams_truncated_total", NULL,
                           "Streams that ended before [DONE]");
    m->restarts = counter(m, "baton_front_full_restarts_total", NULL,
                          "Requests begun again after a lost hand-off");
    m->whole = counter(m, "baton_front_whole_requests_total", NULL,
                       "Requests served by one worker without a hand-off");
    m->styles[CONFIG_ROUTE_CONTEXT_FIRST] =
        counter(m, "baton_front_handoffs_total", "style=\"context_first\"",
                "Requests begun with a hand-off");
    m->styles[CONFIG_ROUTE_GENERATION_FIRST] =
        counter(m, "baton_front_handoffs_total", "style=\"generation_first\"",
                "Requests begun with a hand-off");
    m->fallbacks =
        counter(m, "baton_front_generation_first_fallbacks_total", NULL,
                "Requests that had to go context-first, because the context "
                "worker did not say where it can be met");
    m->disconnects[0] = counter(m, "baton_front_client_disconnects_total",
                                "phase=\"context\"", "Clients that left early");
    m->disconnects[1] =
        counter(m, "baton_front_client_disconnects_total",
                "phase=\"generation\"", "Clients that left early");
    m->disconnects[2] = counter(m, "baton_front_client_disconnects_total",
                                "phase=\"stream\"", "Clients that left early");
    m->queue_latency = histogram(m, "queue_latency_seconds",
                                 "Arrival to the first leg", false);
    m->handoff = histogram(m, "baton_front_handoff_seconds",
                           "Context answer to first generation byte", false);
    m->inter_chunk = histogram(m, "baton_front_inter_chunk_seconds",
                               "Time between two chunks of a stream", false);
    m->open = obs_gauge_create(m->registry, "baton_front_requests_open", NULL,
                               "Requests under way");
}

static void init_context(struct route_metrics *m, struct route_leg_metrics *leg)
{
    leg->total =
        counter(m, "ctx_total_requests_total", NULL, "Context legs posted");
    leg->error =
        counter(m, "ctx_error_requests_total", NULL, "Context legs failed");
    leg->retry =
        counter(m, "ctx_retry_requests_total", NULL, "Context legs retried");
    leg->completed = counter(m, "ctx_completed_requests_total", NULL,
                             "Context legs that succeeded");
    leg->first_token = histogram(m, "ctx_first_token_latency_seconds",
                                 "Context leg to its first byte", false);
    leg->per_token = histogram(m, "ctx_per_token_latency_seconds",
                               "Time between chunks of a context leg", false);
    leg->complete = histogram(m, "ctx_complete_latency_seconds",
                              "Context leg to its end", true);
    leg->undelivered =
        counter(m, "baton_front_legs_undelivered_total", "role=\"context\"",
                "Legs that provably did not arrive");
    leg->possibly_delivered =
        counter(m, "baton_front_legs_possibly_delivered_total",
                "role=\"context\"", "Legs lost after they may have arrived");
}

static void init_generation(struct route_metrics *m,
                            struct route_leg_metrics *leg)
{
    leg->total =
        counter(m, "gen_total_requests_total", NULL, "Generation legs posted");
    leg->error =
        counter(m, "gen_error_requests_total", NULL, "Generation legs failed");
    leg->retry =
        counter(m, "gen_retry_requests_total", NULL, "Generation legs retried");
    leg->completed = counter(m, "gen_completed_requests_total", NULL,
                             "Generation legs that succeeded");
    leg->first_token = histogram(m, "gen_first_token_latency_seconds",
                                 "Generation leg to its first byte", false);
    leg->per_token =
        histogram(m, "gen_per_token_latency_seconds",
                  "Time between chunks of a generation leg", false);
    leg->complete = histogram(m, "gen_complete_latency_seconds",
                              "Generation leg to its end", true);
    leg->undelivered =
        counter(m, "baton_front_legs_undelivered_total", "role=\"generation\"",
                "Legs that provably did not arrive");
    leg->possibly_delivered =
        counter(m, "baton_front_legs_possibly_delivered_total",
                "role=\"generation\"", "Legs lost after they may have arrived");
}

void route_metrics_init(struct route_metrics *metrics)
{
    metrics->registry = obs_metrics_create();
    init_front(metrics);
    init_context(metrics, &metrics->legs[ROUTE_CONTEXT]);
    init_generation(metrics, &metrics->legs[ROUTE_GENERATION]);
    metrics->selects[ROUTE_CONTEXT] =
        counter(metrics, "baton_front_selects_total",
                "role=\"context\",router=\"round_robin\",reason=\"balance\"",
                "Servers chosen");
    metrics->selects[ROUTE_GENERATION] =
        counter(metrics, "baton_front_selects_total",
                "role=\"generation\",router=\"round_robin\",reason=\"balance\"",
                "Servers chosen");
}

void route_metrics_finish(struct route_metrics *metrics)
{
    obs_metrics_destroy(metrics->registry);
}

void route_metrics_print(const struct route_metrics *metrics,
                         const struct route_pool *pool, struct buf *out)
{
    obs_metrics_print(metrics->registry, out);
    buf_add_string(out, "# HELP baton_front_server_state State of each worker\n"
                        "# TYPE baton_front_server_state gauge\n");
    for (int role = 0; role < ROUTE_ROLE_COUNT; role++) {
        for (uint32_t i = 0; i < pool->member_count[role]; i++) {
            const struct route_server *server =
                &pool->servers[pool->members[role][i]];
            buf_printf(out,
                       "baton_front_server_state{role=\"%s\",server=\"%s\","
                       "state=\"%s\"} 1\n",
                       route_role_name((enum route_role)role), server->name,
                       route_server_status(server));
        }
    }
}

enum route_role route_metrics_role(enum route_leg_kind kind)
{
    return kind == ROUTE_LEG_CONTEXT ? ROUTE_CONTEXT : ROUTE_GENERATION;
}

void route_metrics_on_leg_end(struct route_metrics *metrics,
                              enum route_leg_kind kind,
                              const struct route_outcome *outcome,
                              uint64_t duration_ns)
{
    struct route_leg_metrics *leg = &metrics->legs[route_metrics_role(kind)];
    if (outcome->end == HTTP_CALL_COMPLETE && outcome->status == 200) {
        obs_counter_add(leg->completed, 1);
        obs_histogram_add(leg->complete, (double)duration_ns / 1e9);
        return;
    }
    obs_counter_add(leg->error, 1);
    if (outcome->end != HTTP_CALL_COMPLETE) {
        obs_counter_add(route_outcome_is_possibly_delivered(outcome)
                            ? leg->possibly_delivered
                            : leg->undelivered,
                        1);
    }
}

void route_metrics_on_gone(struct route_metrics *metrics,
                           enum route_state state)
{
    int phase = state == ROUTE_STATE_STREAM ? 2
                : state == ROUTE_STATE_GEN  ? 1
                                            : 0;
    obs_counter_add(metrics->disconnects[phase], 1);
}
