#include "route/request.h"

#include "base/check.h"

/* Long enough for a worker to come back from a hiccup, short enough that the
 * client has its answer or error within a second of a death. */
static const uint64_t RETRY_DELAY_NS = 400000000ull;

struct step {
    struct route_request *request;
    struct route_pool *pool;
    const struct route_event *event;
    struct route_actions *actions;
};

struct route_request route_request_of(
    const struct route_request_options *options)
{
    return (struct route_request){
        .state = ROUTE_STATE_ADMIT,
        .is_stream = options->is_stream,
        .is_whole = options->is_whole,
        .is_retry_off = options->is_retry_off,
        .max_retries = options->max_retries,
        .ctx_server = ROUTE_NO_SERVER,
        .gen_server = ROUTE_NO_SERVER,
        .failed = ROUTE_NO_SERVER,
    };
}

static void act(struct step *step, struct route_action action)
{
    CHECK(step->actions->count < ROUTE_ACTION_COUNT_MAX);
    step->actions->actions[step->actions->count++] = action;
}

static void done(struct step *step)
{
    step->request->state = ROUTE_STATE_DONE;
    act(step, (struct route_action){ROUTE_ACTION_DONE});
}

/* Tells whoever may hold KV for the current id, or wait for it, to let go. */
static void abort_hand_off(struct step *step)
{
    struct route_request *request = step->request;
    if (request->holds_kv && request->ctx_server != ROUTE_NO_SERVER) {
        act(step, (struct route_action){ROUTE_ACTION_ABORT,
                                        .server = request->ctx_server,
                                        .id = request->id});
    }
    if (request->gen_may_hold && request->gen_server != ROUTE_NO_SERVER) {
        act(step, (struct route_action){ROUTE_ACTION_ABORT,
                                        .server = request->gen_server,
                                        .id = request->id});
    }
    request->holds_kv = false;
    request->gen_may_hold = false;
}

static void fail(struct step *step, int status, const char *message)
{
    abort_hand_off(step);
    act(step, (struct route_action){ROUTE_ACTION_ERROR, .status = status,
                                    .message = message});
    done(step);
}

static void fail_outcome(struct step *step, const struct route_outcome *outcome)
{
    bool has_body = outcome->end == HTTP_CALL_COMPLETE &&
                    outcome->status >= 400 && outcome->status < 600;
    fail(step, route_outcome_status(outcome),
         has_body ? NULL : route_outcome_message(outcome));
}

static void post(struct step *step, enum route_leg_kind kind, int32_t server)
{
    struct route_request *request = step->request;
    if (kind == ROUTE_LEG_CONTEXT) {
        request->state = ROUTE_STATE_CTX;
        request->ctx_server = server;
        request->holds_kv = true;
    } else {
        request->state = ROUTE_STATE_GEN;
        request->gen_server = server;
        request->gen_may_hold = kind == ROUTE_LEG_GENERATION;
    }
    act(step, (struct route_action){ROUTE_ACTION_POST, .leg = kind,
                                    .server = server, .id = request->id});
}

static int32_t place(struct step *step, enum route_role role,
                     int32_t prefer_not)
{
    struct route_request *request = step->request;
    if (request->failed != ROUTE_NO_SERVER) {
        int32_t server =
            route_pool_place(step->pool, role, request->failed, true);
        if (server != ROUTE_NO_SERVER) {
            return server;
        }
    }
    return route_pool_place(step->pool, role, prefer_not, false);
}

static bool is_live(const struct step *step, int32_t server)
{
    return server != ROUTE_NO_SERVER &&
           step->pool->servers[server].state == ROUTE_SERVER_READY;
}

/* A leg begins with full budgets; changing between context and whole for want
 * of servers goes on with what is left of them. */
static void use_leg(struct route_request *request, enum route_leg_kind kind)
{
    bool is_same_side = (request->leg.kind == ROUTE_LEG_GENERATION) ==
                        (kind == ROUTE_LEG_GENERATION);
    bool goes_on = is_same_side && request->state != ROUTE_STATE_ADMIT &&
                   request->state != ROUTE_STATE_RESTART;
    if (goes_on) {
        request->leg.kind = kind;
        return;
    }
    request->leg =
        route_leg_of(kind, request->max_retries, request->is_retry_off);
}

/* PLACE: a context server, when a generation server is there to take over; or
 * one server for both phases. */
static void place_first(struct step *step, int64_t id)
{
    struct route_request *request = step->request;
    int32_t context = place(step, ROUTE_CONTEXT, ROUTE_NO_SERVER);
    bool has_generation =
        route_pool_ready_count(step->pool, ROUTE_GENERATION) > 0;
    bool is_split = is_live(step, context) && has_generation;
    int32_t server = context;
    if (!is_split && !is_live(step, context)) {
        int32_t other = place(step, ROUTE_GENERATION, ROUTE_NO_SERVER);
        server = is_live(step, other) || context == ROUTE_NO_SERVER ? other
                                                                    : context;
    }
    request->id = id;
    request->is_alone = !is_split;
    if (server == ROUTE_NO_SERVER) {
        fail(step, 503, "no worker is ready");
        return;
    }
    enum route_leg_kind kind = request->is_whole || request->is_alone
                                   ? ROUTE_LEG_WHOLE
                                   : ROUTE_LEG_CONTEXT;
    use_leg(request, kind);
    post(step, kind, server);
}

static void restart(struct step *step)
{
    struct route_request *request = step->request;
    abort_hand_off(step);
    request->restarts++;
    request->state = ROUTE_STATE_RESTART;
    place_first(step, step->event->id);
}

static bool may_restart(const struct route_request *request)
{
    return !request->is_retry_off && !request->leg.has_passed_on &&
           request->restarts < ROUTE_FULL_RESTARTS_MAX;
}

static void place_generation(struct step *step)
{
    struct route_request *request = step->request;
    int32_t server = place(step, ROUTE_GENERATION, request->ctx_server);
    if (!is_live(step, server) && may_restart(request)) {
        /* Nobody can take over: begin again, most likely on one worker. */
        restart(step);
        return;
    }
    if (server == ROUTE_NO_SERVER) {
        fail(step, 503, "no generation worker is ready");
        return;
    }
    use_leg(request, ROUTE_LEG_GENERATION);
    post(step, ROUTE_LEG_GENERATION, server);
}

static void place_again(struct step *step)
{
    struct route_request *request = step->request;
    if (request->leg.kind == ROUTE_LEG_GENERATION) {
        place_generation(step);
        return;
    }
    place_first(step, step->event->id);
}

static bool has_other_of(const struct step *step, enum route_role role)
{
    for (uint32_t i = 0; i < step->pool->server_count; i++) {
        const struct route_server *server = &step->pool->servers[i];
        if (server->has_role[role] && server->state == ROUTE_SERVER_READY &&
            (int32_t)i != step->request->failed) {
            return true;
        }
    }
    return false;
}

/* True when trying again now would meet another live server. */
static bool has_other(const struct step *step)
{
    const struct route_request *request = step->request;
    bool has_generation = has_other_of(step, ROUTE_GENERATION);
    bool has_context = has_other_of(step, ROUTE_CONTEXT);
    if (request->leg.kind != ROUTE_LEG_GENERATION) {
        return has_context || has_generation;
    }
    bool can_begin_again =
        has_context && may_restart(request) && !is_live(step, request->failed);
    return has_generation || can_begin_again;
}

static void retry(struct step *step, int32_t failed)
{
    struct route_request *request = step->request;
    request->failed = failed;
    if (request->leg.kind == ROUTE_LEG_GENERATION) {
        request->gen_may_hold = false;
    } else {
        request->holds_kv &=
            route_outcome_is_possibly_delivered(&request->outcome);
        abort_hand_off(step);
    }
    if (has_other(step)) {
        place_again(step);
        return;
    }
    act(step,
        (struct route_action){ROUTE_ACTION_WAIT, .delay_ns = RETRY_DELAY_NS});
}

static int32_t server_of_leg(const struct route_request *request)
{
    return request->leg.kind == ROUTE_LEG_CONTEXT ? request->ctx_server
                                                  : request->gen_server;
}

static bool broke(enum http_call_end end)
{
    return end != HTTP_CALL_COMPLETE && end != HTTP_CALL_TIMEOUT;
}

static bool never_arrived(enum http_call_end end)
{
    return end == HTTP_CALL_REFUSED || end == HTTP_CALL_UNDELIVERED;
}

static void end_stream(struct step *step)
{
    const struct route_event *event = step->event;
    bool is_whole =
        event->outcome.end == HTTP_CALL_COMPLETE && event->is_whole_stream;
    if (!is_whole) {
        abort_hand_off(step);
    }
    act(step,
        (struct route_action){is_whole ? ROUTE_ACTION_END : ROUTE_ACTION_CUT});
    done(step);
}

static void on_good_end(struct step *step)
{
    struct route_request *request = step->request;
    if (request->is_stream) {
        /* 200, but the stream never began. */
        fail(step, 502, "the worker's stream ended before it began");
        return;
    }
    request->state = ROUTE_STATE_REPLY;
    act(step, (struct route_action){ROUTE_ACTION_REPLY});
    done(step);
}

static void on_leg_end(struct step *step)
{
    struct route_request *request = step->request;
    const struct route_outcome *outcome = &step->event->outcome;
    int32_t server = server_of_leg(request);
    if (broke(outcome->end)) {
        route_pool_on_refused(step->pool, server, step->event->now);
    }
    if (request->state == ROUTE_STATE_STREAM) {
        end_stream(step);
        return;
    }
    request->outcome = *outcome;
    switch (route_leg_judge(&request->leg, outcome)) {
    case ROUTE_VERDICT_GOOD:
        on_good_end(step);
        return;
    case ROUTE_VERDICT_RETRY:
        retry(step, server);
        return;
    case ROUTE_VERDICT_RESTART:
        if (may_restart(request)) {
            request->failed = ROUTE_NO_SERVER;
            restart(step);
            return;
        }
        break;
    case ROUTE_VERDICT_PROBE:
        if (may_restart(request)) {
            act(step,
                (struct route_action){ROUTE_ACTION_PROBE, .server = server});
            return;
        }
        break;
    case ROUTE_VERDICT_FAIL:
        break;
    }
    /* The legs of a role that has died go to the other one. */
    request->failed = server;
    if (never_arrived(outcome->end) && may_restart(request) &&
        has_other(step)) {
        restart(step);
        return;
    }
    fail_outcome(step, outcome);
}

static void on_probed(struct step *step)
{
    struct route_request *request = step->request;
    if (step->event->is_gone && may_restart(request)) {
        request->failed = request->gen_server;
        request->gen_may_hold = false;
        restart(step);
        return;
    }
    fail_outcome(step, &request->outcome);
}

static void on_chunk(struct step *step)
{
    struct route_request *request = step->request;
    request->leg.has_passed_on = true;
    request->state = ROUTE_STATE_STREAM;
    act(step, (struct route_action){ROUTE_ACTION_BEGIN});
}

static void on_final(struct step *step)
{
    step->request->holds_kv = false;
    step->request->state = ROUTE_STATE_REPLY;
    act(step, (struct route_action){ROUTE_ACTION_FINAL});
    done(step);
}

static void on_pending(struct step *step)
{
    struct route_request *request = step->request;
    request->id = step->event->id;
    request->failed = ROUTE_NO_SERVER;
    request->state = ROUTE_STATE_PLACE_GEN;
    place_generation(step);
}

static void on_deadline(struct step *step)
{
    act(step, (struct route_action){ROUTE_ACTION_CANCEL});
    if (step->request->state == ROUTE_STATE_STREAM) {
        abort_hand_off(step);
        act(step, (struct route_action){ROUTE_ACTION_CUT});
        done(step);
        return;
    }
    fail(step, 504, "the request took longer than its deadline allows");
}

static void on_gone(struct step *step)
{
    act(step, (struct route_action){ROUTE_ACTION_CANCEL});
    abort_hand_off(step);
    done(step);
}

static void on_leg_event(struct step *step)
{
    enum route_state state = step->request->state;
    bool is_ctx = state == ROUTE_STATE_CTX;
    bool is_gen = state == ROUTE_STATE_GEN;
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
            fail(step, 502, NULL);
        }
        return;
    case ROUTE_EVENT_CHUNK:
        if (is_gen && step->request->is_stream) {
            on_chunk(step);
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
    struct step step = {request, pool, event, actions_out};
    actions_out->count = 0;
    if (request->state == ROUTE_STATE_DONE) {
        return;
    }
    switch (event->kind) {
    case ROUTE_EVENT_START:
        if (request->state == ROUTE_STATE_ADMIT) {
            place_first(&step, event->id);
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
            place_again(&step);
        }
        return;
    case ROUTE_EVENT_UNPOSTABLE:
        fail(&step, 502, NULL);
        return;
    case ROUTE_EVENT_DEADLINE:
        on_deadline(&step);
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
        "generation", "stream", "reply", "restart", "done"};
    return (unsigned)state <= ROUTE_STATE_DONE ? NAMES[state] : "?";
}
