#include "route/leg.h"

struct route_leg route_leg_of(enum route_leg_kind kind, int32_t max_retries,
                              bool is_retry_off)
{
    return (struct route_leg){
        .kind = kind, .max_retries = max_retries, .is_retry_off = is_retry_off};
}

static enum route_verdict spend(int32_t *used, int32_t budget)
{
    if (*used >= budget) {
        return ROUTE_VERDICT_FAIL;
    }
    (*used)++;
    return ROUTE_VERDICT_RETRY;
}

static int32_t transient_budget(const struct route_leg *leg)
{
    return leg->max_retries > ROUTE_TRANSIENT_BUDGET ? leg->max_retries
                                                     : ROUTE_TRANSIENT_BUDGET;
}

static bool is_worth_retrying(int status)
{
    return status == 408 || status == 429 || status >= 500;
}

/* Also for whole requests: nothing is handed off, so nothing can be claimed
 * twice. */
static enum route_verdict judge_context(struct route_leg *leg,
                                        const struct route_outcome *outcome)
{
    switch (outcome->end) {
    case HTTP_CALL_REFUSED:
        return spend(&leg->retries, leg->max_retries);
    case HTTP_CALL_UNDELIVERED:
    case HTTP_CALL_LOST:
        return spend(&leg->transients, transient_budget(leg));
    case HTTP_CALL_COMPLETE:
        return is_worth_retrying(outcome->status)
                   ? spend(&leg->retries, leg->max_retries)
                   : ROUTE_VERDICT_FAIL;
    case HTTP_CALL_PROTOCOL:
        return spend(&leg->retries, leg->max_retries);
    case HTTP_CALL_TIMEOUT:
        break;
    }
    return ROUTE_VERDICT_FAIL;
}

static enum route_verdict judge_generation(struct route_leg *leg,
                                           const struct route_outcome *outcome)
{
    switch (outcome->end) {
    case HTTP_CALL_REFUSED:
        return spend(&leg->retries, leg->max_retries);
    case HTTP_CALL_UNDELIVERED:
        return spend(&leg->transients, transient_budget(leg));
    case HTTP_CALL_LOST:
    case HTTP_CALL_PROTOCOL:
        return ROUTE_VERDICT_PROBE;
    case HTTP_CALL_COMPLETE:
        if (outcome->is_not_accepted) {
            return spend(&leg->retries, leg->max_retries);
        }
        return outcome->is_kv_failed ? ROUTE_VERDICT_RESTART
                                     : ROUTE_VERDICT_FAIL;
    case HTTP_CALL_TIMEOUT:
        break;
    }
    return ROUTE_VERDICT_FAIL;
}

enum route_verdict route_leg_judge(struct route_leg *leg,
                                   const struct route_outcome *outcome)
{
    if (outcome->end == HTTP_CALL_COMPLETE && outcome->status == 200) {
        return ROUTE_VERDICT_GOOD;
    }
    if (leg->is_retry_off || leg->has_passed_on) {
        return ROUTE_VERDICT_FAIL;
    }
    /* Our news of it are old: that says nothing against the next one. */
    if (outcome->is_restarted) {
        return spend(&leg->transients, transient_budget(leg));
    }
    if (leg->kind != ROUTE_LEG_WHOLE && route_outcome_is_conflict(outcome)) {
        return ROUTE_VERDICT_RENEW;
    }
    return leg->kind == ROUTE_LEG_GENERATION ? judge_generation(leg, outcome)
                                             : judge_context(leg, outcome);
}

bool route_outcome_is_possibly_delivered(const struct route_outcome *outcome)
{
    return outcome->end != HTTP_CALL_REFUSED &&
           outcome->end != HTTP_CALL_UNDELIVERED && !outcome->is_not_accepted &&
           !outcome->is_handoff_refused && !route_outcome_is_conflict(outcome);
}

bool route_outcome_is_conflict(const struct route_outcome *outcome)
{
    return outcome->end == HTTP_CALL_COMPLETE && outcome->status == 409;
}

int route_outcome_status(const struct route_outcome *outcome)
{
    switch (outcome->end) {
    case HTTP_CALL_COMPLETE:
        if (outcome->is_handoff_refused || outcome->status == 409) {
            return 502; /* the client has named no id */
        }
        return outcome->status >= 400 && outcome->status < 600 ? outcome->status
                                                               : 502;
    case HTTP_CALL_TIMEOUT:
        return 504;
    default:
        return 502;
    }
}

const char *route_outcome_message(const struct route_outcome *outcome)
{
    switch (outcome->end) {
    case HTTP_CALL_COMPLETE:
        return "the worker gave an answer that cannot be used";
    case HTTP_CALL_REFUSED:
        return "the worker cannot be reached";
    case HTTP_CALL_UNDELIVERED:
    case HTTP_CALL_LOST:
        return "the connection to the worker was lost";
    case HTTP_CALL_TIMEOUT:
        return "the worker did not answer in time";
    case HTTP_CALL_PROTOCOL:
        break;
    }
    return "the worker's answer was cut or is not HTTP";
}
