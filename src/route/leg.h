#pragma once
/* route/leg: what to do when a leg has ended badly (serve.md 4.1, 4.2). Pure.
 *
 * A context leg may be posted again under a new id: the hand-off of the first
 * one is aborted. A generation leg may be posted again only when the worker
 * provably holds no complete request, and keeps its id: two servers must never
 * wait for the same KV. */
#include <stdbool.h>
#include <stdint.h>

#include "http/client.h"

enum { ROUTE_TRANSIENT_BUDGET = 5 };

enum route_leg_kind {
    ROUTE_LEG_CONTEXT,
    ROUTE_LEG_GENERATION,
    ROUTE_LEG_WHOLE /* both phases on one worker, nothing handed off */
};

struct route_leg {
    enum route_leg_kind kind;
    int32_t max_retries;
    bool is_retry_off; /* TRTLLM_DISAGG_NO_RETRY */
    bool has_passed_on; /* a byte of its answer went to the client */
    int32_t retries; /* used of max_retries */
    int32_t transients; /* used of the transient budget */
};

struct route_outcome {
    enum http_call_end end;
    int status; /* with HTTP_CALL_COMPLETE */
    bool is_not_accepted; /* 503 starting, or x-disagg-not-accepted: 1 */
    bool is_kv_failed; /* error type kv_transfer_failed */
    bool is_handoff_refused; /* between our processes: a 502 to the client */
    bool is_restarted; /* not accepted by another process than was meant */
};

enum route_verdict {
    ROUTE_VERDICT_GOOD,
    ROUTE_VERDICT_RETRY,
    ROUTE_VERDICT_RESTART, /* the hand-off is lost: a new context leg */
    ROUTE_VERDICT_RENEW, /* the id is taken there: all again, under a new one */
    ROUTE_VERDICT_PROBE, /* possibly delivered: is the worker gone? */
    ROUTE_VERDICT_FAIL
};

struct route_leg route_leg_of(enum route_leg_kind kind, int32_t max_retries,
                              bool is_retry_off);
/* Counts the budget it grants. */
enum route_verdict route_leg_judge(struct route_leg *leg,
                                   const struct route_outcome *outcome);
/* True when the worker may hold the request: its KV may be pinned. */
bool route_outcome_is_possibly_delivered(const struct route_outcome *outcome);
/* The worker says that another request has the id: what is held under it there
 * is not ours. */
bool route_outcome_is_conflict(const struct route_outcome *outcome);
/* The status a client sees for an outcome that failed. */
int route_outcome_status(const struct route_outcome *outcome);
const char *route_outcome_message(const struct route_outcome *outcome);
