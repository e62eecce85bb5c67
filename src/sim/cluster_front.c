/* The front end: its request and pool steps, as they are (route/request.h,
 * route/pool.h), carried out on messages instead of HTTP. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/cluster_world.h"

void cluster_front_create(struct cluster *world)
{
    struct config_route *config = mem_new(sizeof(*config));
    config->schedule_style = world->keeps_peers ? CONFIG_ROUTE_GENERATION_FIRST
                                                : CONFIG_ROUTE_CONTEXT_FIRST;
    for (uint32_t i = 0; i < world->worker_count; i++) {
        bool is_context = i < world->context_count;
        struct config_servers *servers =
            is_context ? &config->context : &config->generation;
        struct io_address *address = &servers->servers[servers->count++];
        snprintf(address->host, sizeof(address->host), "10.0.0.%u", i + 1);
        address->port = 8000;
    }
    route_pool_init(&world->route_pool, config, io_sim_now(world->io));
    mem_free(config);
}

/* ---- carrying out ---- */

int64_t cluster_front_rid(struct cluster *world,
                          const struct cluster_request *request)
{
    CHECK(world->rid_number + 1 < CLUSTER_RID_MAX);
    world->rid_owner[++world->rid_number] = request->index;
    return (int64_t)world->rid_number;
}

static uint64_t left_ns(const struct cluster *world,
                        const struct cluster_request *request)
{
    uint64_t now_ns = io_sim_now(world->io);
    if (request->deadline_ns == 0) {
        return 0;
    }
    return request->deadline_ns > now_ns ? request->deadline_ns - now_ns : 1;
}

/* Whom the generation leg pulls from: the one that has answered, or, when it has
 * not been asked yet, whoever lives where the context worker said it does. */
static void name_sender(struct cluster *world,
                        const struct cluster_request *request, bool is_pair,
                        struct cluster_message *message)
{
    if (!is_pair) {
        message->first_token = request->first_token;
        message->sender_incarnation = request->sender_incarnation;
        memcpy(message->sender_endpoint, request->sender_endpoint,
               sizeof(message->sender_endpoint));
        return;
    }
    const struct route_server *server =
        &world->route_pool.servers[request->route.ctx_server];
    struct span endpoint = route_peer_endpoint(&server->peer);
    CHECK(endpoint.size < sizeof(message->sender_endpoint));
    memcpy(message->sender_endpoint, endpoint.data, endpoint.size);
}

static void note_leg(struct cluster *world, struct cluster_request *request,
                     const struct route_action *action)
{
    world->summary.legs++;
    if (action->is_pair && action->leg == ROUTE_LEG_CONTEXT) {
        request->beside = ++world->call_number;
        request->beside_worker = (uint32_t)action->server;
        world->summary.pairs++;
        return;
    }
    request->call = ++world->call_number;
    request->worker = (uint32_t)action->server;
    request->leg = action->leg;
    request->rid = action->id;
    request->leg_tokens = 0;
}

static void post_leg(struct cluster *world, struct cluster_request *request,
                     const struct route_action *action)
{
    note_leg(world, request, action);
    struct cluster_message message = {.kind = CLUSTER_POST_LEG,
                                      .call = world->call_number,
                                      .worker = (uint32_t)action->server,
                                      .request = request->index,
                                      .leg = action->leg,
                                      .rid = action->id,
                                      .left_ns = left_ns(world, request),
                                      .is_stream = request->is_stream,
                                      .is_pair = action->is_pair};
    world->rid_is_pair[action->id] = action->is_pair;
    if (action->leg == ROUTE_LEG_GENERATION) {
        name_sender(world, request, action->is_pair, &message);
    }
    cluster_say(world, "post %u leg %d%s to worker %u rid %lld call %llu",
                request->index, action->leg, action->is_pair ? " pair" : "",
                message.worker, (long long)action->id,
                (unsigned long long)message.call);
    cluster_post(world, &message, true);
}

void cluster_front_pull(struct cluster *world,
                        const struct cluster_request *request, uint32_t worker,
                        bool is_known)
{
    int64_t rid = request->route.id;
    if (!is_known) {
        rid = cluster_front_rid(world, request);
        world->rid_is_pair[rid] = request->route.is_pair;
    }
    struct cluster_message message = {.kind = CLUSTER_POST_LEG,
                                      .call = ++world->call_number,
                                      .worker = worker,
                                      .request = request->index,
                                      .leg = ROUTE_LEG_GENERATION,
                                      .rid = rid,
                                      .is_pair = request->route.is_pair};
    name_sender(world, request, message.is_pair, &message);
    cluster_post(world, &message, true);
}

static void close_call(struct cluster *world,
                       const struct cluster_request *request, uint64_t *call,
                       uint32_t worker)
{
    if (*call == 0) {
        return;
    }
    struct cluster_message message = {.kind = CLUSTER_CLOSE_CALL,
                                      .call = *call,
                                      .worker = worker,
                                      .request = request->index};
    cluster_post(world, &message, true);
    *call = 0;
}

static void close_calls(struct cluster *world, struct cluster_request *request)
{
    close_call(world, request, &request->call, request->worker);
    close_call(world, request, &request->beside, request->beside_worker);
}

static void abort_rid(struct cluster *world, struct cluster_request *request,
                      const struct route_action *action)
{
    struct cluster_message message = {.kind = CLUSTER_ABORT,
                                      .worker = (uint32_t)action->server,
                                      .request = request->index,
                                      .rid = action->id};
    world->summary.aborts++;
    cluster_post(world, &message, true);
}

/* A probe answers at once here: is somebody there, and the same as before? */
static void probe(struct cluster *world, struct cluster_request *request,
                  const struct route_action *action)
{
    const struct cluster_worker *worker = &world->workers[action->server];
    struct route_event event = {.kind = ROUTE_EVENT_PROBED,
                                .is_gone = !worker->is_alive};
    event.id = cluster_front_rid(world, request);
    cluster_front_event(world, request, event);
}

static void end(struct cluster *world, struct cluster_request *request)
{
    if (request->has_ended) {
        cluster_fail(world, "request %u ends twice", request->index);
    }
    close_calls(world, request);
    request->has_ended = true;
    request->wait_ns = 0;
    world->summary.answered += request->is_answered;
    world->summary.refused += !request->is_answered;
    cluster_say(world, "request %u ends %s after %u of %u tokens",
                request->index, request->is_answered ? "answered" : "refused",
                request->heard, request->length);
}

/* All of the answer has come. */
static void complete(struct cluster *world, struct cluster_request *request)
{
    request->is_answered = true;
    if (request->heard != request->length) {
        cluster_fail(world, "request %u is answered with %u of %u tokens",
                     request->index, request->heard, request->length);
    }
}

static void act(struct cluster *world, struct cluster_request *request,
                const struct route_action *action)
{
    switch (action->kind) {
    case ROUTE_ACTION_POST:
        post_leg(world, request, action);
        break;
    case ROUTE_ACTION_CANCEL:
        close_calls(world, request);
        break;
    case ROUTE_ACTION_WAIT:
        request->wait_ns = io_sim_now(world->io) + action->delay_ns;
        break;
    case ROUTE_ACTION_PROBE:
        probe(world, request, action);
        break;
    case ROUTE_ACTION_ABORT:
        abort_rid(world, request, action);
        break;
    case ROUTE_ACTION_BEGIN:
        request->is_begun = true;
        break;
    case ROUTE_ACTION_REPLY:
    case ROUTE_ACTION_FINAL:
    case ROUTE_ACTION_END:
        complete(world, request);
        break;
    case ROUTE_ACTION_ERROR:
    case ROUTE_ACTION_CUT:
        break;
    case ROUTE_ACTION_LINGER:
        request->deadline_ns = io_sim_now(world->io) + action->delay_ns;
        break;
    case ROUTE_ACTION_DONE:
        end(world, request);
        break;
    }
}

void cluster_front_event(struct cluster *world, struct cluster_request *request,
                         struct route_event event)
{
    struct route_actions actions;
    event.now = io_sim_now(world->io);
    route_request_step(&request->route, &world->route_pool, &event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        act(world, request, &actions.actions[i]);
    }
}

void cluster_front_tell(struct cluster *world, struct cluster_request *request,
                        enum route_event_kind kind)
{
    struct route_event event = {.kind = kind, .server = ROUTE_NO_SERVER};
    event.id = cluster_front_rid(world, request);
    cluster_front_event(world, request, event);
}

void cluster_front_start(struct cluster *world, struct cluster_request *request)
{
    struct route_request_options options = {.is_stream = request->is_stream,
                                            .is_generation_first =
                                                world->keeps_peers &&
                                                request->is_generation_first,
                                            .max_retries = 1};
    request->route = route_request_of(&options);
    cluster_front_tell(world, request, ROUTE_EVENT_START);
}

void cluster_front_gone(struct cluster *world, struct cluster_request *request)
{
    request->is_cancelled = true;
    world->summary.cancels++;
    cluster_say(world, "request %u: its client leaves", request->index);
    cluster_front_tell(world, request, ROUTE_EVENT_CLIENT_GONE);
}

/* ---- time ---- */

/* What a context worker says of itself, as its /server_info has it. */
static void read_peer(struct cluster *world,
                      const struct cluster_worker *worker)
{
    struct route_server *server = &world->route_pool.servers[worker->index];
    if (!world->keeps_peers || !worker->is_context ||
        server->state != ROUTE_SERVER_READY) {
        return;
    }
    char info[400];
    snprintf(info, sizeof(info),
             "{\"disaggregated_params\":{\"ctx_info_endpoint\":[\"%s\"]}}",
             transfer_endpoint(worker->transfer));
    struct why why = {0};
    struct span text = span_of((const uint8_t *)info, strlen(info));
    CHECK(route_peer_read(text, &why, &server->peer) == OK);
}

static void tell_down(struct cluster *world, int32_t index)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        struct cluster_request *request = &world->requests[i];
        struct route_event event = {.kind = ROUTE_EVENT_SERVER_DOWN,
                                    .server = index};
        if (!request->has_ended &&
            (request->call != 0 || request->beside != 0)) {
            event.id = cluster_front_rid(world, request);
            cluster_front_event(world, request, event);
        }
    }
}

static void probe_servers(struct cluster *world)
{
    struct route_pool *pool = &world->route_pool;
    uint64_t now = io_sim_now(world->io);
    int32_t index;
    while ((index = route_pool_next_probe(pool, now)) != ROUTE_NO_SERVER) {
        const struct cluster_worker *worker = &world->workers[index];
        bool is_good = worker->is_alive && !worker->is_frozen;
        enum route_server_state before = pool->servers[index].state;
        bool wants_more = route_pool_on_probe(
            pool, index, is_good ? ROUTE_PROBE_GOOD : ROUTE_PROBE_BAD, now);
        if (wants_more) {
            route_pool_on_prepared(pool, index, is_good, now);
            read_peer(world, worker);
        }
        enum route_server_state after = pool->servers[index].state;
        if (after != before) {
            cluster_say(world, "worker %d is %s", index,
                        route_server_state_name(after));
        }
        if (after != before && after == ROUTE_SERVER_DOWN) {
            tell_down(world, index);
        }
    }
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t cluster_front_ns(const struct cluster *world)
{
    uint64_t next = route_pool_wake_ns(&world->route_pool);
    for (uint32_t i = 0; i < world->request_count; i++) {
        const struct cluster_request *request = &world->requests[i];
        if (request->has_ended) {
            continue;
        }
        next = request->wait_ns > 0 ? sooner(next, request->wait_ns) : next;
        next = request->cancel_ns > 0 ? sooner(next, request->cancel_ns) : next;
        next = request->deadline_ns > 0 ? sooner(next, request->deadline_ns)
                                        : next;
    }
    return next;
}

static bool is_due(const struct cluster *world, uint64_t due_ns)
{
    return due_ns > 0 && due_ns <= io_sim_now(world->io);
}

static void step_request(struct cluster *world, struct cluster_request *request)
{
    if (is_due(world, request->wait_ns)) {
        request->wait_ns = 0;
        cluster_front_tell(world, request, ROUTE_EVENT_WAITED);
    }
    if (!request->has_ended && is_due(world, request->cancel_ns)) {
        cluster_front_gone(world, request);
    }
    if (!request->has_ended && is_due(world, request->deadline_ns)) {
        cluster_front_tell(world, request, ROUTE_EVENT_DEADLINE);
    }
}

void cluster_front_step(struct cluster *world)
{
    probe_servers(world);
    for (uint32_t i = 0; i < world->request_count; i++) {
        if (!world->requests[i].has_ended) {
            step_request(world, &world->requests[i]);
        }
    }
}
