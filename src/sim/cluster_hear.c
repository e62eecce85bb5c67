/* What workers say to the front end, and whether it is what the model says. */
#include <string.h>

#include "sim/cluster_world.h"

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
    cluster_front_event(world, request, event);
}

static void hear_end(struct cluster *world, struct cluster_request *request,
                     const struct cluster_message *message)
{
    struct route_event event = {.kind = ROUTE_EVENT_LEG_END,
                                .outcome = message->outcome,
                                .is_whole_stream =
                                    message->kind == CLUSTER_ANSWER};
    event.id = cluster_front_rid(world, request);
    request->call = 0;
    cluster_front_event(world, request, event);
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
        cluster_front_tell(world, request, ROUTE_EVENT_CHUNK);
    }
}

static void hear_failure(struct cluster *world, struct cluster_request *request,
                         const struct cluster_message *message)
{
    if (world->options.without_faults && message->outcome.status != 429) {
        cluster_fail(world, "request %u fails with %d, and nothing is wrong",
                     request->index, message->outcome.status);
    }
    cluster_say(world, "request %u: leg %d at %u ends %d status %d",
                request->index, message->leg, message->worker,
                message->outcome.end, message->outcome.status);
}

/* A pair's context leg: its answer tells nothing new, how it ends matters. */
static void hear_beside(struct cluster *world, struct cluster_request *request,
                        const struct cluster_message *message)
{
    struct route_event event = {.kind = ROUTE_EVENT_BESIDE_END,
                                .outcome = message->outcome};
    if (message->kind == CLUSTER_ANSWER) {
        int32_t first = request->tokens[request->prompt_count];
        if (message->token_count != 1 || message->tokens[0] != first) {
            cluster_fail(world, "request %u begins with %d at worker %u",
                         request->index, message->tokens[0], message->worker);
        }
    } else {
        hear_failure(world, request, message);
    }
    event.id = cluster_front_rid(world, request);
    request->beside = 0;
    cluster_front_event(world, request, event);
}

/* What an older call still says is nobody's any more. */
void cluster_front_hear(struct cluster *world,
                        const struct cluster_message *message)
{
    struct cluster_request *request = &world->requests[message->request];
    if (request->has_ended) {
        return;
    }
    if (request->beside == message->call) {
        hear_beside(world, request, message);
        return;
    }
    if (request->call != message->call) {
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
        hear_failure(world, request, message);
        hear_end(world, request, message);
        break;
    }
}
