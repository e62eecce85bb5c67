#pragma once
/* route/metrics: the front end's numbers under their published names: those of
 * TensorRT-LLM's front end (serve.md 5.1), and with baton_front_ what it lacks.
 * Any thread may print. */
#include "http/client.h"
#include "obs/metrics.h"
#include "route/leg.h"
#include "route/pool.h"
#include "route/request.h"

struct route_leg_metrics {
    struct obs_counter *total, *error, *retry, *completed, *undelivered,
        *possibly_delivered;
    struct obs_histogram *first_token, *per_token, *complete;
};

struct route_metrics {
    struct obs_metrics *registry;
    struct obs_counter *total, *stream, *nonstream, *validation, *http,
        *internal, *responses, *truncated, *restarts, *whole, *fallbacks;
    struct obs_counter *styles[2]; /* by enum config_schedule_style */
    struct obs_counter *disconnects[3]; /* context, generation, stream */
    struct obs_histogram *queue_latency, *handoff, *inter_chunk;
    struct obs_gauge *open;
    struct route_leg_metrics legs[ROUTE_ROLE_COUNT];
    struct obs_counter *selects[ROUTE_ROLE_COUNT];
};
void route_metrics_init(struct route_metrics *metrics);
void route_metrics_finish(struct route_metrics *metrics);
/* Everything, with one `baton_front_server_state` line a role and server. */
void route_metrics_print(const struct route_metrics *metrics,
                         const struct route_pool *pool, struct buf *out);

/* Whole legs count as generation. */
enum route_role route_metrics_role(enum route_leg_kind kind);
void route_metrics_on_leg_end(struct route_metrics *metrics,
                              enum route_leg_kind kind,
                              const struct route_outcome *outcome,
                              uint64_t duration_ns);
void route_metrics_on_gone(struct route_metrics *metrics,
                           enum route_state state);
