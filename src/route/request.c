#include "route/request.h"

#include "base/check.h"
#include "route/request_step.h"

struct route_request route_request_of(
    const struct route_request_options *options)
{
    return (struct route_request){
        .state = ROUTE_STATE_ADMIT,
        .is_stream = options->is_stream,
        .is_whole = options->is_whole,
        .is_retry_off = options->is_retry_off,
        .is_generation_first = options->is_generation_first,
        .max_retries = options->max_retries,
        .ctx_server = ROUTE_NO_SERVER,
        .gen_server = ROUTE_NO_SERVER,
        .failed = ROUTE_NO_SERVER,
    };
}

static bool broke(enum http_call_end end)
{
    return end != HTTP_CALL_COMPLETE && end != HTTP_CALL_TIMEOUT;
}

static bool never_arrived(enum http_call_end end)
{
    return end == HTTP_CALL_REFUSED || end == HTTP_CALL_UNDELIVERED;
}

static void end_stream(struct route_step *step)
{
    const struct route_event *event = step->event;
    bool is_whole =
        event->outcome.end == HTTP_CALL_COMPLETE && event->is_whole_stream;
    if (!is_whole) {
        route_step_cut(step, NULL);
        return;
    }
    route_step_act(step, (struct route_action){ROUTE_ACTION_END});
    route_step_done(step);
}

static void on_good_end(struct route_step *step)
{
    struct route_request *request = step->request;
    if (request->is_stream) {
        /* 200, but the stream never began. */
        route_step_fail(step, 502, "the worker's stream ended before it began");
        return;
    }
    request->state = ROUTE_STATE_REPLY;
    route_step_act(step, (struct route_action){ROUTE_ACTION_REPLY});
    route_step_done(step);
}

/* The whole request once more, at once or after a probe; false: it has had its
 * second try. */
static bool begin_again(struct route_step *step, enum route_verdict verdict,
                        int32_t server)
{
    struct route_request *request = step->request;
    if (verdict == ROUTE_VERDICT_RENEW) {
        return route_step_renew(step);
    }
    if (!route_step_may_restart(request)) {
        return false;
    }
    if (verdict == ROUTE_VERDICT_PROBE) {
        route_step_act(
            step, (struct route_action){ROUTE_ACTION_PROBE, .server = server});
        return true;
    }
    /* Whose fault it was nobody knows: the sender's KV is gone, another receiver
     * may be there. */
    request->failed = server;
    route_step_restart(step);
    return true;
}

static void on_leg_end(struct route_step *step)
{
    struct route_request *request = step->request;
    const struct route_outcome *outcome = &step->event->outcome;
    int32_t server = route_step_server_of_leg(request);
    if (broke(outcome->end)) {
        route_pool_on_refused(step->pool, server, step->event->now);
    }
    if (request->state == ROUTE_STATE_STREAM) {
        end_stream(step);
        return;
    }
    request->outcome = *outcome;
    route_step_disown(request, request->leg.kind, outcome);
    enum route_verdict verdict = route_leg_judge(&request->leg, outcome);
    switch (verdict) {
    case ROUTE_VERDICT_GOOD:
        on_good_end(step);
        return;
    case ROUTE_VERDICT_RETRY:
        route_step_retry(step, server);
        return;
    case ROUTE_VERDICT_RESTART:
    case ROUTE_VERDICT_RENEW:
    case ROUTE_VERDICT_PROBE:
        if (begin_again(step, verdict, server)) {
            return;
        }
        break;
    case ROUTE_VERDICT_FAIL:
        break;
    }
    if (route_step_ask_another(step, server)) {
        return;
    }
    /* The legs of a role that has died go to the other one. */
    if (never_arrived(outcome->end) && route_step_may_restart(request) &&
        route_step_has_other(step)) {
        route_step_restart(step);
        return;
    }
    route_step_fail_outcome(step, outcome);
}

static void on_probed(struct route_step *step)
{
    struct route_request *request = step->request;
    if (step->event->is_gone && route_step_may_restart(request)) {
        request->failed = request->gen_server;
        request->gen_may_hold = false;
        route_step_restart(step);
        return;
    }
    route_step_fail_outcome(step, &request->outcome);
}

/* The health probes have failed in a row: what is open there has no answer to
 * wait for. The worker may only be frozen, so it keeps what it has received:
 * its leg counts as possibly delivered and its id is used up (I2). */
static void on_server_down(struct route_step *step)
{
    struct route_request *request = step->request;
    int32_t server = route_step_server_of_leg(request);
    if (server != step->event->server) {
        return;
    }
    route_step_act(step, (struct route_action){ROUTE_ACTION_CANCEL});
    if (request->state == ROUTE_STATE_STREAM) {
        route_step_cut(step, NULL);
        return;
    }
    request->outcome = (struct route_outcome){.end = HTTP_CALL_LOST};
    enum route_verdict verdict =
        route_leg_judge(&request->leg, &request->outcome);
    request->failed = server;
    if (verdict == ROUTE_VERDICT_RETRY) {
        route_step_retry(step, server);
    } else if (verdict == ROUTE_VERDICT_PROBE &&
               route_step_may_restart(request)) {
        route_step_restart(step);
    } else {
        route_step_fail(step, 502, "the worker stopped answering");
    }
}

static void on_chunk(struct route_step *step)
{
    struct route_request *request = step->request;
    request->leg.has_passed_on = true;
    request->state = ROUTE_STATE_STREAM;
    route_step_act(step, (struct route_action){ROUTE_ACTION_BEGIN});
}

static void on_final(struct route_step *step)
{
    step->request->holds_kv = false;
    step->request->state = ROUTE_STATE_REPLY;
    route_step_act(step, (struct route_action){ROUTE_ACTION_FINAL});
    route_step_done(step);
}

static void on_pending(struct route_step *step)
{
    struct route_request *request = step->request;
    request->id = step->event->id;
    request->failed = ROUTE_NO_SERVER;
    request->state = ROUTE_STATE_PLACE_GEN;
    route_step_place_generation(step);
}

/* What is open is given up, for a reason that is ours. */
static void give_up(struct route_step *step, int status, const char *message)
{
    enum route_state state = step->request->state;
    if (state == ROUTE_STATE_LINGER) {
        route_pair_on_linger_end(step);
        return;
    }
    route_step_act(step, (struct route_action){ROUTE_ACTION_CANCEL});
    if (state == ROUTE_STATE_STREAM) {
        route_step_cut(step, message);
        return;
    }
    route_step_fail(step, status, message);
}

static void on_deadline(struct route_step *step)
{
    bool is_stream = step->request->state == ROUTE_STATE_STREAM;
    give_up(step, 504,
            is_stream ? "the stream was silent for too long"
                      : "the request took longer than its deadline allows");
}

static void on_gone(struct route_step *step)
{
    route_step_act(step, (struct route_action){ROUTE_ACTION_CANCEL});
    route_step_abort_hand_off(step);
    route_step_done(step);
}

/* While a pair is open; true: seen to. */
static bool on_pair_event(struct route_step *step)
{
    switch (step->event->kind) {
    case ROUTE_EVENT_BESIDE_END:
        route_pair_on_beside_end(step);
        return true;
    case ROUTE_EVENT_LEG_END:
        route_pair_on_leg_end(step);
        return true;
    case ROUTE_EVENT_SERVER_DOWN:
        route_pair_on_server_down(step);
        return true;
    default:
        return false;
    }
}

static void on_leg_event(struct route_step *step)
{
    enum route_state state = step->request->state;
    bool is_ctx = state == ROUTE_STATE_CTX;
    bool is_gen = state == ROUTE_STATE_GEN;
    if (step->request->is_pair && on_pair_event(step)) {
        return;
    }
    switch (step->event->kind) {
    case ROUTE_EVENT_CTX_PENDING:
        if (is_ctx) {
            on_pending(step);
        }
        return;
    case ROUTE_EVENT_CTX_FINAL:
        if (is_ctx) {
            on_final(step);
        }
        return;
    case ROUTE_EVENT_CTX_BAD:
        if (is_ctx) {
            route_step_fail(step, 502, NULL);
        }
        return;
    case ROUTE_EVENT_CHUNK:
        if (is_gen && step->request->is_stream) {
            on_chunk(step);
        }
        return;
    case ROUTE_EVENT_SERVER_DOWN:
        if (is_ctx || is_gen || state == ROUTE_STATE_STREAM) {
            on_server_down(step);
        }
        return;
    default:
        if (is_ctx || is_gen || state == ROUTE_STATE_STREAM) {
            on_leg_end(step);
        }
        return;
    }
}

void route_request_step(struct route_request *request, struct route_pool *pool,
                        const struct route_event *event,
                        struct route_actions *actions_out)
{
    struct route_step step = {request, pool, event, actions_out};
    actions_out->count = 0;
    if (request->state == ROUTE_STATE_DONE) {
        return;
    }
    switch (event->kind) {
    case ROUTE_EVENT_START:
        if (request->state == ROUTE_STATE_ADMIT) {
            route_step_place_first(&step, event->id);
        }
        return;
    case ROUTE_EVENT_PROBED:
        if (request->state == ROUTE_STATE_GEN) {
            on_probed(&step);
        }
        return;
    case ROUTE_EVENT_WAITED:
        if (request->state == ROUTE_STATE_CTX ||
            request->state == ROUTE_STATE_GEN) {
            route_step_place_again(&step);
        }
        return;
    case ROUTE_EVENT_UNPOSTABLE:
        route_pair_cancel(&step);
        route_step_fail(&step, 502, NULL);
        return;
    case ROUTE_EVENT_DEADLINE:
        on_deadline(&step);
        return;
    case ROUTE_EVENT_SHUT:
        give_up(&step, 503,
                "the server shuts down and the answer took too long");
        return;
    case ROUTE_EVENT_CLIENT_GONE:
        on_gone(&step);
        return;
    default:
        on_leg_event(&step);
        return;
    }
}

const char *route_state_name(enum route_state state)
{
    static const char *const NAMES[] = {
        "parse",      "admit",  "place", "context", "place generation",
        "generation", "stream", "reply", "restart", "linger",
        "done"};
    return (unsigned)state <= ROUTE_STATE_DONE ? NAMES[state] : "?";
}
