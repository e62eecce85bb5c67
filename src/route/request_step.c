#include "route/request_step.h"

#include "base/check.h"

/* Long enough for a worker to come back from a hiccup, short enough that the
 * client has its answer or error within a second of a death. */
static const uint64_t RETRY_DELAY_NS = 400000000ull;

void route_step_act(struct route_step *step, struct route_action action)
{
    CHECK(step->actions->count < ROUTE_ACTION_COUNT_MAX);
    step->actions->actions[step->actions->count++] = action;
}

void route_step_done(struct route_step *step)
{
    step->request->state = ROUTE_STATE_DONE;
    route_step_act(step, (struct route_action){ROUTE_ACTION_DONE});
}

/* Tells whoever may hold KV for the current id, or wait for it, to let go. */
void route_step_abort_hand_off(struct route_step *step)
{
    struct route_request *request = step->request;
    if (request->holds_kv && request->ctx_server != ROUTE_NO_SERVER) {
        route_step_act(step,
                       (struct route_action){ROUTE_ACTION_ABORT,
                                             .server = request->ctx_server,
                                             .id = request->id});
    }
    if (request->gen_may_hold && request->gen_server != ROUTE_NO_SERVER) {
        route_step_act(step,
                       (struct route_action){ROUTE_ACTION_ABORT,
                                             .server = request->gen_server,
                                             .id = request->id});
    }
    request->holds_kv = false;
    request->gen_may_hold = false;
}

void route_step_cut(struct route_step *step, const char *message)
{
    route_step_abort_hand_off(step);
    route_step_act(step,
                   (struct route_action){ROUTE_ACTION_CUT, .message = message});
    route_step_done(step);
}

void route_step_fail(struct route_step *step, int status, const char *message)
{
    route_step_abort_hand_off(step);
    route_step_act(step,
                   (struct route_action){ROUTE_ACTION_ERROR, .status = status,
                                         .message = message});
    route_step_done(step);
}

void route_step_fail_outcome(struct route_step *step,
                             const struct route_outcome *outcome)
{
    bool has_body = outcome->end == HTTP_CALL_COMPLETE &&
                    outcome->status >= 400 && outcome->status < 600;
    route_step_fail(step, route_outcome_status(outcome),
                    has_body ? NULL : route_outcome_message(outcome));
}

static void post(struct route_step *step, enum route_leg_kind kind,
                 int32_t server)
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
    route_step_act(step,
                   (struct route_action){ROUTE_ACTION_POST, .leg = kind,
                                         .server = server, .id = request->id});
}

static int32_t place(struct route_step *step, enum route_role role,
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

static bool is_live(const struct route_step *step, int32_t server)
{
    return server != ROUTE_NO_SERVER &&
           route_server_is_ready(&step->pool->servers[server]);
}

/* Only a generation leg by itself takes over from another leg. */
static bool is_second(enum route_leg_kind kind, bool is_pair)
{
    return kind == ROUTE_LEG_GENERATION && !is_pair;
}

/* A leg begins with full budgets; changing between context, pair and whole for
 * want of servers goes on with what is left of them. */
static void use_leg(struct route_request *request, enum route_leg_kind kind,
                    bool is_pair)
{
    bool is_same_side = is_second(request->leg.kind, request->is_pair) ==
                        is_second(kind, is_pair);
    bool goes_on = is_same_side && request->state != ROUTE_STATE_ADMIT &&
                   request->state != ROUTE_STATE_RESTART;
    request->is_pair = is_pair;
    if (goes_on) {
        request->leg.kind = kind;
        return;
    }
    request->leg =
        route_leg_of(kind, request->max_retries, request->is_retry_off);
}

static bool has_receiver(const struct route_step *step)
{
    for (uint32_t i = 0; i < step->pool->server_count; i++) {
        const struct route_server *server = &step->pool->servers[i];
        if (server->has_role[ROUTE_GENERATION] && !server->is_whole_only &&
            route_server_is_ready(server)) {
            return true;
        }
    }
    return false;
}

/* What cannot be handed over runs whole, on the one with less to do. */
static int32_t place_whole(struct route_step *step, int32_t context)
{
    int32_t other = place(step, ROUTE_GENERATION, ROUTE_NO_SERVER);
    if (!is_live(step, other)) {
        return context;
    }
    const struct route_server *servers = step->pool->servers;
    return servers[other].open_legs < servers[context].open_legs ? other
                                                                 : context;
}

static bool is_pair_wanted(const struct route_step *step, int32_t context)
{
    const struct route_request *request = step->request;
    return request->is_generation_first && !request->is_whole &&
           !request->is_alone &&
           route_peer_is_known(&step->pool->servers[context].peer);
}

/* PLACE: a context server, when a generation server is there to take over, or
 * to be posted first; or one server for both phases. */
void route_step_place_first(struct route_step *step, int64_t id)
{
    struct route_request *request = step->request;
    int32_t context = place(step, ROUTE_CONTEXT, ROUTE_NO_SERVER);
    bool has_generation =
        route_pool_ready_count(step->pool, ROUTE_GENERATION) > 0;
    bool is_whole_only =
        is_live(step, context) && (step->pool->servers[context].is_whole_only ||
                                   (has_generation && !has_receiver(step)));
    bool is_split = is_live(step, context) && has_generation && !is_whole_only;
    int32_t server = is_whole_only ? place_whole(step, context) : context;
    if (!is_split && !is_live(step, context)) {
        int32_t other = place(step, ROUTE_GENERATION, ROUTE_NO_SERVER);
        server = is_live(step, other) || context == ROUTE_NO_SERVER ? other
                                                                    : context;
    }
    request->id = id;
    request->is_alone = !is_split;
    if (server == ROUTE_NO_SERVER) {
        route_step_fail(step, 503, "no worker is ready");
        return;
    }
    if (is_pair_wanted(step, server)) {
        use_leg(request, ROUTE_LEG_GENERATION, true);
        route_pair_post(step, server, place(step, ROUTE_GENERATION, server));
        return;
    }
    enum route_leg_kind kind = request->is_whole || request->is_alone
                                   ? ROUTE_LEG_WHOLE
                                   : ROUTE_LEG_CONTEXT;
    use_leg(request, kind, false);
    post(step, kind, server);
}

void route_step_restart(struct route_step *step)
{
    struct route_request *request = step->request;
    route_step_abort_hand_off(step);
    request->restarts++;
    request->state = ROUTE_STATE_RESTART;
    route_step_place_first(step, step->event->id);
}

bool route_step_may_restart(const struct route_request *request)
{
    return !request->is_retry_off && !request->leg.has_passed_on &&
           request->restarts < ROUTE_FULL_RESTARTS_MAX;
}

void route_step_disown(struct route_request *request, enum route_leg_kind kind,
                       const struct route_outcome *outcome)
{
    bool is_other = route_outcome_is_conflict(outcome);
    request->holds_kv &= !is_other || kind != ROUTE_LEG_CONTEXT;
    request->gen_may_hold &= !is_other || kind != ROUTE_LEG_GENERATION;
}

bool route_step_renew(struct route_step *step)
{
    struct route_request *request = step->request;
    if (request->has_renewed) {
        return false;
    }
    request->has_renewed = true;
    request->failed = ROUTE_NO_SERVER;
    route_step_abort_hand_off(step);
    request->state = ROUTE_STATE_RESTART;
    route_step_place_first(step, step->event->id);
    return true;
}

void route_step_place_generation(struct route_step *step)
{
    struct route_request *request = step->request;
    int32_t server = place(step, ROUTE_GENERATION, request->ctx_server);
    if (!is_live(step, server) && route_step_may_restart(request)) {
        /* Nobody can take over: begin again, most likely on one worker. */
        route_step_restart(step);
        return;
    }
    if (server == ROUTE_NO_SERVER) {
        route_step_fail(step, 503, "no generation worker is ready");
        return;
    }
    use_leg(request, ROUTE_LEG_GENERATION, false);
    post(step, ROUTE_LEG_GENERATION, server);
}

void route_step_place_again(struct route_step *step)
{
    struct route_request *request = step->request;
    if (is_second(request->leg.kind, request->is_pair)) {
        route_step_place_generation(step);
        return;
    }
    route_step_place_first(step, step->event->id);
}

static bool has_other_of(const struct route_step *step, enum route_role role)
{
    for (uint32_t i = 0; i < step->pool->server_count; i++) {
        const struct route_server *server = &step->pool->servers[i];
        if (server->has_role[role] && route_server_is_ready(server) &&
            (int32_t)i != step->request->failed) {
            return true;
        }
    }
    return false;
}

/* True when trying again now would meet another live server. */
bool route_step_has_other(const struct route_step *step)
{
    const struct route_request *request = step->request;
    bool has_generation = has_other_of(step, ROUTE_GENERATION);
    bool has_context = has_other_of(step, ROUTE_CONTEXT);
    if (request->is_pair && is_live(step, request->failed)) {
        return request->leg.kind == ROUTE_LEG_CONTEXT ? has_context
                                                      : has_generation;
    }
    if (request->is_pair) {
        return has_context || has_generation;
    }
    if (request->leg.kind != ROUTE_LEG_GENERATION) {
        return has_context || has_generation;
    }
    bool can_begin_again = has_context && route_step_may_restart(request) &&
                           !is_live(step, request->failed);
    return has_generation || can_begin_again;
}

bool route_step_ask_another(struct route_step *step, int32_t refused)
{
    struct route_request *request = step->request;
    struct route_leg *leg = &request->leg;
    request->failed = refused;
    if (!request->outcome.is_handoff_refused || leg->is_retry_off ||
        leg->has_passed_on || leg->retries >= leg->max_retries ||
        !route_step_has_other(step)) {
        return false;
    }
    leg->retries++;
    route_step_retry(step, refused);
    return true;
}

void route_step_retry(struct route_step *step, int32_t failed)
{
    struct route_request *request = step->request;
    request->failed = failed;
    bool may_hold = route_outcome_is_possibly_delivered(&request->outcome);
    if (is_second(request->leg.kind, request->is_pair)) {
        request->gen_may_hold = false;
    } else {
        bool *holds = request->leg.kind == ROUTE_LEG_GENERATION
                          ? &request->gen_may_hold
                          : &request->holds_kv;
        *holds &= may_hold;
        route_step_abort_hand_off(step);
    }
    if (route_step_has_other(step)) {
        route_step_place_again(step);
        return;
    }
    route_step_act(step, (struct route_action){ROUTE_ACTION_WAIT,
                                               .delay_ns = RETRY_DELAY_NS});
}

int32_t route_step_server_of_leg(const struct route_request *request)
{
    return request->leg.kind == ROUTE_LEG_CONTEXT ? request->ctx_server
                                                  : request->gen_server;
}
