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

static void step(struct cluster *world, struct cluster_request *request,
                 struct route_event event);

static int64_t next_rid(struct cluster *world,
                        const struct cluster_request *request)
{
    CHECK(world->rid_number + 1 < CLUSTER_RID_MAX);
    world->rid_owner[++world->rid_number] = request->index;
    return (int64_t)world->rid_number;
}

static void post_leg(struct cluster *world, struct cluster_request *request,
                     const struct route_action *action)
{
    request->call = ++world->call_number;
    request->worker = (uint32_t)action->server;
    request->leg = action->leg;
    request->rid = action->id;
    request->leg_tokens = 0;
    world->summary.legs++;
    struct cluster_message message = {.kind = CLUSTER_POST_LEG,
                                      .call = request->call,
                                      .worker = request->worker,
                                      .request = request->index,
                                      .leg = action->leg,
                                      .rid = action->id,
                                      .is_stream = request->is_stream};
    uint64_t now_ns = io_sim_now(world->io);
    if (request->deadline_ns > 0) {
        message.left_ns =
            request->deadline_ns > now_ns ? request->deadline_ns - now_ns : 1;
    }
    if (action->leg == ROUTE_LEG_GENERATION) {
        message.first_token = request->first_token;
        message.sender_incarnation = request->sender_incarnation;
        memcpy(message.sender_endpoint, request->sender_endpoint,
               sizeof(message.sender_endpoint));
    }
    cluster_say(world, "post %u leg %d to worker %u rid %lld call %llu",
                request->index, action->leg, request->worker,
                (long long)action->id, (unsigned long long)request->call);
    cluster_post(world, &message, true);
}

static void close_call(struct cluster *world, struct cluster_request *request)
{
    if (request->call == 0) {
        return;
    }
    struct cluster_message message = {.kind = CLUSTER_CLOSE_CALL,
                                      .call = request->call,
                                      .worker = request->worker,
                                      .request = request->index};
    cluster_post(world, &message, true);
    request->call = 0;
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
    event.id = next_rid(world, request);
    step(world, request, event);
}

static void end(struct cluster *world, struct cluster_request *request)
{
    if (request->has_ended) {
        cluster_fail(world, "request %u ends twice", request->index);
    }
    close_call(world, request);
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
        close_call(world, request);
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
        CHECK_UNREACHABLE(); /* of pairs: these go context-first */
    case ROUTE_ACTION_DONE:
        end(world, request);
        break;
    }
}

static void step(struct cluster *world, struct cluster_request *request,
                 struct route_event event)
{
    struct route_actions actions;
    event.now = io_sim_now(world->io);
    route_request_step(&request->route, &world->route_pool, &event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        act(world, request, &actions.actions[i]);
    }
}

/* Feeds an event that may need a fresh id. */
static void tell(struct cluster *world, struct cluster_request *request,
                 enum route_event_kind kind)
{
    struct route_event event = {.kind = kind, .server = ROUTE_NO_SERVER};
    event.id = next_rid(world, request);
    step(world, request, event);
}

void cluster_front_start(struct cluster *world, struct cluster_request *request)
{
    struct route_request_options options = {.is_stream = request->is_stream,
                                            .max_retries = 1};
    request->route = route_request_of(&options);
    tell(world, request, ROUTE_EVENT_START);
}

void cluster_front_gone(struct cluster *world, struct cluster_request *request)
{
    request->is_cancelled = true;
    world->summary.cancels++;
    cluster_say(world, "request %u: its client leaves", request->index);
    tell(world, request, ROUTE_EVENT_CLIENT_GONE);
}

/* ---- hearing ---- */

static void hear_tokens(struct cluster *world, struct cluster_request *request,
                        const int32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = request->leg_tokens++;
        int32_t expected = at < request->length
                               ? request->tokens[request->prompt_count + at]
                               : -1;
        if (tokens[i] != expected) {
            cluster_fail(world, "request %u token %u is %d, not %d, from %u",
                         request->index, at, tokens[i], expected,
                         request->worker);
            return;
        }
        world->summary.tokens++;
    }
    request->heard = request->leg_tokens;
}

static void hear_context(struct cluster *world, struct cluster_request *request,
                         const struct cluster_message *message)
{
    hear_tokens(world, request, message->tokens, message->token_count);
    struct route_event event = {.kind = message->is_hand_off
                                            ? ROUTE_EVENT_CTX_PENDING
                                            : ROUTE_EVENT_CTX_FINAL,
                                .id = message->rid};
    request->first_token = message->tokens[0];
    request->sender_incarnation = message->sender_incarnation;
    memcpy(request->sender_endpoint, message->sender_endpoint,
           sizeof(request->sender_endpoint));
    request->call = 0;
    step(world, request, event);
}

static void hear_end(struct cluster *world, struct cluster_request *request,
                     const struct cluster_message *message)
{
    struct route_event event = {.kind = ROUTE_EVENT_LEG_END,
                                .outcome = message->outcome,
                                .is_whole_stream =
                                    message->kind == CLUSTER_ANSWER};
    event.id = next_rid(world, request);
    request->call = 0;
    step(world, request, event);
}

static void hear_answer(struct cluster *world, struct cluster_request *request,
                        const struct cluster_message *message)
{
    if (message->leg == ROUTE_LEG_CONTEXT) {
        hear_context(world, request, message);
        return;
    }
    if (!request->is_stream) {
        hear_tokens(world, request, message->tokens, message->token_count);
    }
    hear_end(world, request, message);
}

static void hear_token(struct cluster *world, struct cluster_request *request,
                       const struct cluster_message *message)
{
    hear_tokens(world, request, message->tokens, message->token_count);
    if (request->leg_tokens == 1) {
        tell(world, request, ROUTE_EVENT_CHUNK);
    }
}

/* What an older call still says is nobody's any more. */
void cluster_front_hear(struct cluster *world,
                        const struct cluster_message *message)
{
    struct cluster_request *request = &world->requests[message->request];
    if (request->call != message->call || request->has_ended) {
        return;
    }
    switch (message->kind) {
    case CLUSTER_TOKEN:
        hear_token(world, request, message);
        break;
    case CLUSTER_ANSWER:
        hear_answer(world, request, message);
        break;
    default:
        if (world->options.without_faults && message->outcome.status != 429) {
            cluster_fail(world,
                         "request %u fails with %d, and nothing is wrong",
                         request->index, message->outcome.status);
        }
        cluster_say(world, "request %u: leg %d at %u ends %d status %d",
                    request->index, message->leg, message->worker,
                    message->outcome.end, message->outcome.status);
        hear_end(world, request, message);
        break;
    }
}

/* ---- time ---- */

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
        }
        enum route_server_state after = pool->servers[index].state;
        if (after != before) {
            cluster_say(world, "worker %d is %s", index,
                        route_server_state_name(after));
        }
        for (uint32_t i = 0; after != before && after == ROUTE_SERVER_DOWN &&
                             i < world->request_count;
             i++) {
            struct cluster_request *request = &world->requests[i];
            struct route_event event = {.kind = ROUTE_EVENT_SERVER_DOWN,
                                        .server = index};
            if (!request->has_ended && request->call != 0) {
                event.id = next_rid(world, request);
                step(world, request, event);
            }
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
        tell(world, request, ROUTE_EVENT_WAITED);
    }
    if (!request->has_ended && is_due(world, request->cancel_ns)) {
        cluster_front_gone(world, request);
    }
    if (!request->has_ended && is_due(world, request->deadline_ns)) {
        tell(world, request, ROUTE_EVENT_DEADLINE);
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
