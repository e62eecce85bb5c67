#include "base/check.h"
#include "route/request_step.h"

/* serve.md 2.13: both legs of a request at once. The generation leg is the one
 * whose answer the client gets; the context leg runs beside it and only its
 * failure counts. Whichever fails first ends the other one. */

/* The client is served: the context worker only has to see that its part is
 * done too, which takes it a few turns. */
static const uint64_t LINGER_NS = 2000000000ull;

void route_pair_post(struct route_step *step, int32_t context,
                     int32_t generation)
{
    struct route_request *request = step->request;
    CHECK(generation != ROUTE_NO_SERVER);
    request->state = ROUTE_STATE_GEN;
    request->ctx_server = context;
    request->gen_server = generation;
    request->holds_kv = true;
    request->gen_may_hold = true;
    request->has_beside = true;
    route_step_act(
        step, (struct route_action){ROUTE_ACTION_POST, ROUTE_LEG_GENERATION,
                                    .server = generation, .id = request->id,
                                    .is_pair = true});
    route_step_act(step,
                   (struct route_action){ROUTE_ACTION_POST, ROUTE_LEG_CONTEXT,
                                         .server = context, .id = request->id,
                                         .is_pair = true});
}

void route_pair_cancel(struct route_step *step)
{
    if (step->request->is_pair) {
        step->request->has_beside = false;
        route_step_act(step, (struct route_action){ROUTE_ACTION_CANCEL});
    }
}

/* The generation leg has given the whole answer. */
static void finish(struct route_step *step, enum route_action_kind kind)
{
    struct route_request *request = step->request;
    request->gen_may_hold = false;
    route_step_act(step, (struct route_action){kind});
    if (!request->has_beside) {
        route_step_done(step);
        return;
    }
    request->state = ROUTE_STATE_LINGER;
    route_step_act(step, (struct route_action){ROUTE_ACTION_LINGER,
                                               .delay_ns = LINGER_NS});
}

void route_pair_on_linger_end(struct route_step *step)
{
    route_pair_cancel(step);
    route_step_abort_hand_off(step);
    route_step_done(step);
}

static void cut(struct route_step *step, const char *message)
{
    route_pair_cancel(step);
    route_step_cut(step, message);
}

/* A second try of the whole request. The one after a failed transfer does not
 * trust what the context worker said of itself: it goes context-first, unless
 * another one is there. */
static bool try_restart(struct route_step *step, enum route_verdict verdict)
{
    struct route_request *request = step->request;
    bool is_transfer = verdict == ROUTE_VERDICT_RESTART;
    if (is_transfer) {
        route_pool_forget_peer(step->pool, request->ctx_server,
                               step->event->now);
    }
    if (!route_step_may_restart(request)) {
        return false;
    }
    if (is_transfer) {
        request->failed = request->gen_server;
        route_step_restart(step);
        return true;
    }
    if (verdict == ROUTE_VERDICT_PROBE) {
        route_step_act(step,
                       (struct route_action){ROUTE_ACTION_PROBE,
                                             .server = request->gen_server});
        return true;
    }
    enum http_call_end end = request->outcome.end;
    bool never_arrived =
        end == HTTP_CALL_REFUSED || end == HTTP_CALL_UNDELIVERED;
    request->failed = route_step_server_of_leg(request);
    if (never_arrived && route_step_has_other(step)) {
        route_step_restart(step);
        return true;
    }
    return false;
}

/* One leg has failed before a byte went to the client. A retry is one of both
 * legs, under a new id. */
static void fail(struct route_step *step, enum route_leg_kind which,
                 const struct route_outcome *outcome)
{
    struct route_request *request = step->request;
    request->leg.kind = which;
    request->outcome = *outcome;
    route_pair_cancel(step);
    route_step_disown(request, which, outcome);
    enum route_verdict verdict = route_leg_judge(&request->leg, outcome);
    if (verdict == ROUTE_VERDICT_RETRY) {
        route_step_retry(step, route_step_server_of_leg(request));
        return;
    }
    if (verdict == ROUTE_VERDICT_FAIL &&
        route_step_ask_another(step, route_step_server_of_leg(request))) {
        return;
    }
    bool goes_on = verdict == ROUTE_VERDICT_RENEW ? route_step_renew(step)
                                                  : try_restart(step, verdict);
    if (!goes_on) {
        route_step_fail_outcome(step, outcome);
    }
}

static bool is_good(const struct route_outcome *outcome)
{
    return outcome->end == HTTP_CALL_COMPLETE && outcome->status == 200;
}

static void note_break(struct route_step *step, int32_t server)
{
    enum http_call_end end = step->event->outcome.end;
    if (end != HTTP_CALL_COMPLETE && end != HTTP_CALL_TIMEOUT) {
        route_pool_on_refused(step->pool, server, step->event->now);
    }
}

void route_pair_on_leg_end(struct route_step *step)
{
    struct route_request *request = step->request;
    const struct route_event *event = step->event;
    enum route_state state = request->state;
    if (state != ROUTE_STATE_GEN && state != ROUTE_STATE_STREAM) {
        return;
    }
    note_break(step, request->gen_server);
    bool is_whole = is_good(&event->outcome) && event->is_whole_stream;
    if (state == ROUTE_STATE_STREAM && is_whole) {
        finish(step, ROUTE_ACTION_END);
    } else if (state == ROUTE_STATE_STREAM) {
        cut(step, NULL);
    } else if (!is_good(&event->outcome)) {
        fail(step, ROUTE_LEG_GENERATION, &event->outcome);
    } else if (request->is_stream) {
        route_pair_cancel(step);
        route_step_fail(step, 502, "the worker's stream ended before it began");
    } else {
        finish(step, ROUTE_ACTION_REPLY);
    }
}

void route_pair_on_beside_end(struct route_step *step)
{
    struct route_request *request = step->request;
    const struct route_outcome *outcome = &step->event->outcome;
    if (!request->has_beside) {
        return;
    }
    request->has_beside = false;
    note_break(step, request->ctx_server);
    if (request->state == ROUTE_STATE_LINGER) {
        request->holds_kv &= !is_good(outcome);
        route_step_abort_hand_off(step);
        route_step_done(step);
    } else if (is_good(outcome)) {
        return; /* the KV may still be on its way */
    } else if (request->state == ROUTE_STATE_STREAM) {
        cut(step, "the context worker failed");
    } else {
        fail(step, ROUTE_LEG_CONTEXT, outcome);
    }
}

/* Frozen or cut off: like a leg that broke after it had arrived, but nobody
 * need be asked whether the worker is gone. */
static void give_up(struct route_step *step, enum route_leg_kind which)
{
    struct route_request *request = step->request;
    request->leg.kind = which;
    request->outcome = (struct route_outcome){.end = HTTP_CALL_LOST};
    request->failed = route_step_server_of_leg(request);
    route_pair_cancel(step);
    enum route_verdict verdict =
        route_leg_judge(&request->leg, &request->outcome);
    if (verdict == ROUTE_VERDICT_RETRY) {
        route_step_retry(step, request->failed);
    } else if (verdict == ROUTE_VERDICT_PROBE &&
               route_step_may_restart(request)) {
        route_step_restart(step);
    } else {
        route_step_fail(step, 502, "the worker stopped answering");
    }
}

void route_pair_on_server_down(struct route_step *step)
{
    struct route_request *request = step->request;
    int32_t server = step->event->server;
    bool is_over = request->state == ROUTE_STATE_LINGER;
    bool is_gen = !is_over && server == request->gen_server;
    bool is_ctx = request->has_beside && server == request->ctx_server;
    if (!is_gen && !is_ctx) {
        return;
    }
    if (is_over) {
        route_pair_on_linger_end(step);
    } else if (request->state == ROUTE_STATE_STREAM) {
        cut(step, is_gen ? NULL : "the context worker stopped answering");
    } else {
        give_up(step, is_gen ? ROUTE_LEG_GENERATION : ROUTE_LEG_CONTEXT);
    }
}
