/* Calls between the front end and the workers: messages that take their time,
 * in order each way, and wait at a worker that is stopped. */
#include <string.h>

#include "base/check.h"
#include "sim/cluster_world.h"

static bool is_to_worker(const struct cluster_message *message)
{
    return message->kind <= CLUSTER_ABORT;
}

void cluster_post(struct cluster *world, const struct cluster_message *message,
                  bool to_worker)
{
    CHECK(to_worker == is_to_worker(message));
    CHECK(world->message_count < CLUSTER_MESSAGE_MAX);
    struct cluster_worker *worker = &world->workers[message->worker];
    uint64_t *last_ns = to_worker ? &worker->to_ns : &worker->from_ns;
    uint64_t due_ns = io_sim_now(world->io) + 1 +
                      rng_below(&world->world_rng, world->http_ns_max);
    due_ns = due_ns < *last_ns ? *last_ns : due_ns;
    *last_ns = due_ns;
    struct cluster_message *posted = &world->messages[world->message_count++];
    *posted = *message;
    posted->due_ns = due_ns;
    posted->number = ++world->message_number;
}

static bool can_go(const struct cluster *world,
                   const struct cluster_message *message)
{
    const struct cluster_worker *worker = &world->workers[message->worker];
    return !is_to_worker(message) || !worker->is_alive || !worker->is_frozen;
}

static int find_next(const struct cluster *world)
{
    int next = -1;
    for (uint32_t i = 0; i < world->message_count; i++) {
        const struct cluster_message *one = &world->messages[i];
        const struct cluster_message *best =
            next < 0 ? NULL : &world->messages[next];
        if (can_go(world, one) &&
            (best == NULL || one->due_ns < best->due_ns ||
             (one->due_ns == best->due_ns && one->number < best->number))) {
            next = (int)i;
        }
    }
    return next;
}

uint64_t cluster_messages_ns(const struct cluster *world)
{
    int next = find_next(world);
    return next < 0 ? UINT64_MAX : world->messages[next].due_ns;
}

/* Nobody listens there, or the worker that had the call is another one now. */
static void bounce(struct cluster *world, const struct cluster_message *message)
{
    if (message->kind != CLUSTER_POST_LEG) {
        return;
    }
    struct cluster_message answer = {.kind = CLUSTER_REFUSED,
                                     .call = message->call,
                                     .worker = message->worker,
                                     .request = message->request,
                                     .leg = message->leg,
                                     .rid = message->rid};
    answer.outcome.end = HTTP_CALL_REFUSED;
    cluster_post(world, &answer, false);
}

static void deliver(struct cluster *world,
                    const struct cluster_message *message)
{
    if (!is_to_worker(message)) {
        cluster_front_hear(world, message);
        return;
    }
    struct cluster_worker *worker = &world->workers[message->worker];
    if (worker->is_alive) {
        cluster_serve_take(worker, message);
    } else {
        bounce(world, message);
    }
}

void cluster_messages_step(struct cluster *world)
{
    int next = find_next(world);
    while (next >= 0 && world->messages[next].due_ns <= io_sim_now(world->io)) {
        struct cluster_message message = world->messages[next];
        world->message_count--;
        memmove(&world->messages[next], &world->messages[next + 1],
                (world->message_count - (uint32_t)next) *
                    sizeof(world->messages[0]));
        deliver(world, &message);
        next = find_next(world);
    }
}

static void lose_call(struct cluster *world, struct cluster_worker *worker,
                      const struct cluster_call *call)
{
    struct cluster_message message = {.kind = CLUSTER_LOST,
                                      .call = call->call,
                                      .worker = worker->index,
                                      .request = call->request,
                                      .leg = call->leg,
                                      .rid = call->rid};
    message.outcome.end = HTTP_CALL_LOST;
    cluster_post(world, &message, false);
}

/* What it said last still arrives, then the ends of its connections. What was
 * on its way to it meets nobody, or the next one. */
void cluster_messages_lose(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    for (uint32_t i = 0; i < CLUSTER_CALL_MAX; i++) {
        const struct cluster_call *call = &worker->calls[i];
        if (call->call != 0 && !call->is_closed) {
            lose_call(world, worker, call);
        }
    }
}
