/* A worker's door: what calls ask becomes commands of the engine, its events
 * become answers. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/cluster_world.h"

static struct cluster_call *find_call(struct cluster_worker *worker,
                                      uint64_t number)
{
    for (uint32_t i = 0; i < CLUSTER_CALL_MAX; i++) {
        if (worker->calls[i].call == number) {
            return &worker->calls[i];
        }
    }
    return NULL;
}

static struct cluster_call *find_id(struct cluster_worker *worker, uint64_t id)
{
    for (uint32_t i = 0; i < CLUSTER_CALL_MAX; i++) {
        if (worker->calls[i].call != 0 && worker->calls[i].id == id) {
            return &worker->calls[i];
        }
    }
    return NULL;
}

static void answer(struct cluster_worker *worker,
                   const struct cluster_call *call,
                   struct cluster_message *message)
{
    message->call = call->call;
    message->worker = worker->index;
    message->request = call->request;
    message->incarnation = worker->incarnation;
    message->rid = call->rid;
    message->leg = call->leg;
    if (!call->is_closed) {
        cluster_post(worker->world, message, false);
    }
}

static enum engine_kind kind_of(enum route_leg_kind leg)
{
    return leg == ROUTE_LEG_CONTEXT      ? ENGINE_CONTEXT_ONLY
           : leg == ROUTE_LEG_GENERATION ? ENGINE_GENERATION_ONLY
                                         : ENGINE_AGGREGATED;
}

static struct engine_request *ask(struct cluster_worker *worker,
                                  const struct cluster_message *message,
                                  uint64_t id)
{
    const struct cluster_request *request =
        &worker->world->requests[message->request];
    uint64_t now_ns = io_loop_now(worker->engine_loop);
    struct engine_request *asked = mem_new(sizeof(*asked));
    *asked = (struct engine_request){
        .id = id,
        .kind = kind_of(message->leg),
        .arrival_ns = now_ns,
        .deadline_ns = message->left_ns > 0 ? now_ns + message->left_ns : 0,
        .scope = request->scope,
        .prompt_count = request->prompt_count,
        .choice_count = 1,
        .max_new_tokens = request->max_new,
        .sampling = sampler_defaults(),
        .logprob_count = -1,
        .rid = message->rid,
        .is_generation_first = message->is_pair,
        .sender_incarnation = message->sender_incarnation,
        .first_tokens = {message->first_token},
    };
    asked->sampling.temperature = 0;
    asked->prompt =
        mem_copy(request->tokens, request->prompt_count * sizeof(int32_t));
    memcpy(asked->sender_endpoint, message->sender_endpoint,
           sizeof(asked->sender_endpoint));
    if (request->length < request->max_new) {
        asked->stop_tokens[asked->stop_token_count++] =
            request->tokens[request->prompt_count + request->length - 1];
    }
    return asked;
}

static void submit(struct cluster_worker *worker,
                   const struct cluster_message *message)
{
    struct cluster_call *call = find_call(worker, 0);
    struct cluster_call refused = {.call = message->call,
                                   .request = message->request,
                                   .rid = message->rid,
                                   .leg = message->leg,
                                   .is_pair = message->is_pair};
    if (call == NULL) {
        struct cluster_message full = {.kind = CLUSTER_FAILED,
                                       .outcome = {.end = HTTP_CALL_COMPLETE,
                                                   .status = 503,
                                                   .is_not_accepted = true}};
        answer(worker, &refused, &full);
        return;
    }
    *call = refused;
    call->id = ++worker->next_id;
    call->is_stream = message->is_stream;
    struct engine_command command = {.kind = ENGINE_SUBMIT, .id = call->id};
    command.request = ask(worker, message, call->id);
    cluster_engine_post(worker, &command);
}

/* The other end has gone. */
static void close_call(struct cluster_worker *worker, uint64_t number)
{
    struct cluster_call *call = find_call(worker, number);
    if (call != NULL && !call->is_closed) {
        call->is_closed = true;
        struct engine_command command = {.kind = ENGINE_CANCEL, .id = call->id};
        cluster_engine_post(worker, &command);
    }
}

void cluster_serve_take(struct cluster_worker *worker,
                        const struct cluster_message *message)
{
    struct engine_command abort = {.kind = ENGINE_ABORT_RID,
                                   .rid = message->rid};
    switch (message->kind) {
    case CLUSTER_POST_LEG:
        submit(worker, message);
        break;
    case CLUSTER_CLOSE_CALL:
        close_call(worker, message->call);
        break;
    case CLUSTER_ABORT:
        cluster_engine_post(worker, &abort);
        break;
    default:
        CHECK_UNREACHABLE();
    }
}

/* ---- events ---- */

static void on_token(struct cluster_worker *worker, struct cluster_call *call,
                     const struct engine_event *event)
{
    CHECK(call->token_count < CLUSTER_TOKENS_MAX);
    call->tokens[call->token_count++] = event->token;
    bool is_context = call->leg == ROUTE_LEG_CONTEXT;
    if (call->is_stream && !is_context) {
        struct cluster_message message = {
            .kind = CLUSTER_TOKEN, .token_count = 1, .tokens = {event->token}};
        answer(worker, call, &message);
    }
}

static void on_finished(struct cluster_worker *worker,
                        struct cluster_call *call,
                        const struct engine_event *event)
{
    struct cluster_message message = {
        .kind = CLUSTER_ANSWER,
        .outcome = {.end = HTTP_CALL_COMPLETE, .status = 200},
        .is_hand_off = event->finish == ENGINE_FINISH_HANDOFF,
        .token_count = call->token_count,
        .sender_incarnation = worker->incarnation};
    memcpy(message.tokens, call->tokens, sizeof(message.tokens));
    strncpy(message.sender_endpoint, transfer_endpoint(worker->transfer),
            sizeof(message.sender_endpoint) - 1);
    if (event->finish == ENGINE_FINISH_CANCELLED) {
        /* By an abort of its id: its client went another way. */
        message.kind = CLUSTER_FAILED;
        message.outcome.status = 499;
    }
    answer(worker, call, &message);
    call->call = 0;
}

static int status_of(enum err error)
{
    switch (error) {
    case ERR_FULL:
        return 429;
    case ERR_INVALID:
        return 400;
    case ERR_TIMEOUT:
        return 504;
    default:
        return 500;
    }
}

/* As serve tells a lost hand-off apart. */
static void on_failed(struct cluster_worker *worker, struct cluster_call *call,
                      const struct engine_event *event)
{
    bool is_transfer = event->error == ERR_CLOSED ||
                       event->error == ERR_CORRUPT || event->error == ERR_IO ||
                       event->error == ERR_NOT_FOUND;
    struct cluster_message message = {
        .kind = CLUSTER_FAILED,
        .outcome = {.end = HTTP_CALL_COMPLETE,
                    .status = status_of(event->error),
                    .is_not_accepted = event->error == ERR_FULL}};
    if (call->leg == ROUTE_LEG_GENERATION && is_transfer) {
        message.outcome.status = 502;
        message.outcome.is_kv_failed = true;
    }
    cluster_say(worker->world, "worker %u fails %llu: %s", worker->index,
                (unsigned long long)call->call, err_name(event->error));
    answer(worker, call, &message);
    call->call = 0;
}

void cluster_serve_event(struct cluster_worker *worker,
                         const struct engine_event *event)
{
    if (event->kind == ENGINE_EVENT_ABORTED ||
        event->kind == ENGINE_EVENT_SENT) {
        return;
    }
    struct cluster_call *call = find_id(worker, event->id);
    if (call == NULL) {
        cluster_fail(worker->world, "worker %u speaks of request %llu",
                     worker->index, (unsigned long long)event->id);
        return;
    }
    switch (event->kind) {
    case ENGINE_EVENT_TOKEN:
        on_token(worker, call, event);
        break;
    case ENGINE_EVENT_FINISHED:
        on_finished(worker, call, event);
        break;
    case ENGINE_EVENT_FAILED:
        on_failed(worker, call, event);
        break;
    default:
        cluster_fail(worker->world, "an event of kind %d", event->kind);
        break;
    }
}
