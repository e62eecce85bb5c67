#include "base/check.h"
#include "sim/cluster_world.h"

enum fault_kind {
    FAULT_CRASH,
    FAULT_FREEZE,
    FAULT_BREAK,
    FAULT_BLOCK, /* both ways */
    FAULT_BLOCK_ONE_WAY,
    FAULT_DELAY,
    FAULT_CORRUPT,
    FAULT_CRASH_IN_FREEZE, /* stopped, and killed before it goes on */
    FAULT_SHUTDOWN, /* in order; refused while sessions are not quiet */
    FAULT_STRANGER,
    FAULT_RESTART, /* another process at the address of one that transfers */
    FAULT_LEAVE, /* a client, while its KV is under way */
    FAULT_KIND_COUNT
};

_Static_assert((int)FAULT_KIND_COUNT == (int)CLUSTER_FAULT_KIND_MAX,
               "a weight each");

static struct cluster_worker *draw_worker(struct cluster *world)
{
    return &world->workers[rng_below(&world->fault_rng, world->worker_count)];
}

/* From a moment to more than any timeout: sessions, heartbeats, grace. */
static uint64_t draw_span(struct cluster *world)
{
    struct rng *rng = &world->fault_rng;
    uint64_t most_ms = sim_chance(rng, 300) ? 8000 : 600;
    return (1 + rng_below(rng, most_ms)) * CLUSTER_MS;
}

static void crash(struct cluster *world, struct cluster_worker *worker)
{
    cluster_worker_crash(worker);
    worker->restart_ns = io_sim_now(world->io) + draw_span(world);
    world->summary.crashes++;
    world->summary.faults++;
}

static void freeze(struct cluster *world, struct cluster_worker *worker,
                   bool is_killed)
{
    cluster_worker_freeze(worker, true);
    worker->thaw_ns = io_sim_now(world->io) + draw_span(world);
    worker->is_doomed = is_killed;
    world->summary.freezes++;
    world->summary.faults++;
}

static bool has_session(const struct cluster_worker *worker)
{
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        if (worker->sessions[i].ticket != 0) {
            return true;
        }
    }
    return false;
}

/* Whoever talks to it hears of the end and of the new one at nearly the same
 * time. */
static void restart(struct cluster *world, struct cluster_worker *worker)
{
    if (has_session(worker)) {
        crash(world, worker);
        worker->restart_ns = io_sim_now(world->io) + 1 +
                             rng_below(&world->fault_rng, 5 * CLUSTER_MS);
        world->summary.restarts++;
    }
}

/* Where its hand-off stands when a client leaves. */
static void note_phase(struct cluster *world,
                       const struct cluster_session *session)
{
    struct sim_cluster_summary *summary = &world->summary;
    if (session->word != 0) {
        summary->cancels_ending++;
    } else if (session->is_receive) {
        summary->cancels_receiving++;
    } else if (session->slice_count == 0) {
        summary->cancels_offered++;
    } else if (session->drained < session->slice_count) {
        summary->cancels_moving++;
    } else {
        summary->cancels_between++;
    }
}

static void leave(struct cluster *world, const struct cluster_worker *worker)
{
    uint32_t at = (uint32_t)rng_below(&world->fault_rng, CLUSTER_SESSION_MAX);
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX && worker->is_alive; i++) {
        const struct cluster_session *session =
            &worker->sessions[(at + i) % CLUSTER_SESSION_MAX];
        if (session->ticket == 0) {
            continue;
        }
        struct cluster_request *request = cluster_owner_of(world, session->rid);
        if (!request->has_ended) {
            note_phase(world, session);
            cluster_front_gone(world, request);
            return;
        }
    }
}

/* Its connections end in order, if it may go at all (I32). */
static void shut_down(struct cluster *world, struct cluster_worker *worker)
{
    if (cluster_worker_stop(worker)) {
        cluster_say(world, "worker %u leaves", worker->index);
        worker->restart_ns = io_sim_now(world->io) + draw_span(world);
        world->summary.crashes++;
        world->summary.faults++;
    }
}

/* A context worker and a generation worker: they talk to each other. */
static void draw_pair(struct cluster *world, uint32_t *context_out,
                      uint32_t *generation_out)
{
    struct rng *rng = &world->fault_rng;
    *context_out = (uint32_t)rng_below(rng, world->context_count);
    *generation_out = world->context_count +
                      (uint32_t)rng_below(rng, world->generation_count);
}

static void break_link(struct cluster *world)
{
    uint32_t context, generation;
    draw_pair(world, &context, &generation);
    uint32_t count = io_sim_break(world->io, context + 1, generation + 1);
    if (count > 0) {
        cluster_say(world, "link %u-%u breaks", context, generation);
        world->summary.breaks++;
        world->summary.faults++;
    }
}

static void corrupt_link(struct cluster *world)
{
    uint32_t context, generation;
    draw_pair(world, &context, &generation);
    bool is_back = sim_chance(&world->fault_rng, 512);
    uint32_t from = is_back ? generation : context;
    uint32_t to = is_back ? context : generation;
    io_sim_corrupt(world->io, from + 1, to + 1);
    cluster_say(world, "link %u-%u corrupts", from, to);
}

static void set_link(struct cluster *world, uint32_t one, uint32_t other,
                     bool is_both, bool is_blocked, uint64_t extra_ns)
{
    io_sim_block(world->io, one + 1, other + 1, is_blocked);
    io_sim_delay(world->io, one + 1, other + 1, extra_ns);
    if (is_both || !is_blocked) {
        io_sim_block(world->io, other + 1, one + 1, is_blocked);
        io_sim_delay(world->io, other + 1, one + 1, extra_ns);
    }
}

static void hold_link(struct cluster *world, uint32_t kind)
{
    uint32_t context, generation;
    draw_pair(world, &context, &generation);
    bool is_back = sim_chance(&world->fault_rng, 512);
    uint64_t span_ns = draw_span(world);
    uint64_t extra_ns = draw_span(world) / 8;
    if (world->heal_ns[context][generation] > 0) {
        return;
    }
    world->heal_ns[context][generation] = io_sim_now(world->io) + span_ns;
    bool is_delay = kind == FAULT_DELAY;
    set_link(world, is_back ? generation : context,
             is_back ? context : generation, kind != FAULT_BLOCK_ONE_WAY,
             !is_delay, is_delay ? extra_ns : 0);
    cluster_say(world, "link %u-%u is %s", context, generation,
                is_delay ? "slow" : "silent");
    world->summary.blocks += !is_delay;
    world->summary.delays += is_delay;
    world->summary.faults++;
}

static uint32_t draw_kind(struct cluster *world)
{
    const uint32_t *weights = world->hostility.weights;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < FAULT_KIND_COUNT; i++) {
        sum += weights[i];
    }
    if (sum == 0) {
        return FAULT_KIND_COUNT;
    }
    uint32_t drawn = (uint32_t)rng_below(&world->fault_rng, sum);
    uint32_t kind = 0;
    while (drawn >= weights[kind]) {
        drawn -= weights[kind++];
    }
    return kind;
}

static void happen(struct cluster *world)
{
    struct cluster_worker *worker = draw_worker(world);
    bool can_fall = worker->is_alive && !worker->is_frozen;
    uint32_t kind = draw_kind(world);
    switch (kind) {
    case FAULT_CRASH:
        if (can_fall) {
            crash(world, worker);
        }
        break;
    case FAULT_FREEZE:
    case FAULT_CRASH_IN_FREEZE:
        if (can_fall) {
            freeze(world, worker, kind == FAULT_CRASH_IN_FREEZE);
        }
        break;
    case FAULT_BREAK:
        break_link(world);
        break;
    case FAULT_BLOCK:
    case FAULT_BLOCK_ONE_WAY:
    case FAULT_DELAY:
        hold_link(world, kind);
        break;
    case FAULT_CORRUPT:
        corrupt_link(world);
        break;
    case FAULT_SHUTDOWN:
        if (can_fall) {
            shut_down(world, worker);
        }
        break;
    case FAULT_STRANGER:
        world->summary.strangers += cluster_stranger_come(world, worker->index);
        break;
    case FAULT_RESTART:
        if (can_fall) {
            restart(world, worker);
        }
        break;
    case FAULT_LEAVE:
        leave(world, worker);
        break;
    default:
        break;
    }
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return b > 0 && b < a ? b : a;
}

uint64_t cluster_faults_ns(const struct cluster *world)
{
    uint64_t next = world->is_quiet || world->hostility.fault == 0
                        ? UINT64_MAX
                        : world->next_fault_ns;
    for (uint32_t i = 0; i < world->worker_count; i++) {
        const struct cluster_worker *worker = &world->workers[i];
        next = sooner(next, worker->restart_ns);
        next = sooner(next, worker->thaw_ns);
        for (uint32_t j = 0; j < world->worker_count; j++) {
            next = sooner(next, world->heal_ns[i][j]);
        }
    }
    return next;
}

static bool is_due(const struct cluster *world, uint64_t due_ns)
{
    return due_ns > 0 && due_ns <= io_sim_now(world->io);
}

static void recover(struct cluster *world, struct cluster_worker *worker)
{
    if (is_due(world, worker->thaw_ns)) {
        worker->thaw_ns = 0;
        if (worker->is_doomed) {
            worker->is_doomed = false;
            crash(world, worker);
        } else {
            cluster_worker_freeze(worker, false);
        }
    }
    if (is_due(world, worker->restart_ns)) {
        cluster_worker_start(world, worker->index);
    }
}

static void recover_all(struct cluster *world)
{
    for (uint32_t i = 0; i < world->worker_count; i++) {
        recover(world, &world->workers[i]);
        for (uint32_t j = 0; j < world->worker_count; j++) {
            if (is_due(world, world->heal_ns[i][j])) {
                world->heal_ns[i][j] = 0;
                cluster_say(world, "link %u-%u is sound", i, j);
                set_link(world, i, j, true, false, 0);
            }
        }
    }
}

/* What is in doubt stays so while its process lives: whoever runs a cluster
 * has to restart that. */
static void restart_doubtful(struct cluster *world)
{
    for (uint32_t i = 0; i < world->worker_count; i++) {
        struct cluster_worker *worker = &world->workers[i];
        if (worker->is_alive && !worker->is_frozen && worker->is_doubtful) {
            cluster_worker_crash(worker);
            cluster_worker_start(world, i);
        }
    }
}

void cluster_faults_step(struct cluster *world)
{
    recover_all(world);
    if (world->is_quiet) {
        restart_doubtful(world);
    }
    if (world->is_quiet || world->hostility.fault == 0 ||
        !is_due(world, world->next_fault_ns)) {
        return;
    }
    struct rng *rng = &world->fault_rng;
    world->next_fault_ns = io_sim_now(world->io) + 1 +
                           rng_below(rng, world->hostility.fault_ns_max);
    if (sim_chance(rng, world->hostility.fault)) {
        happen(world);
    }
}

/* From here on all is well. */
void cluster_faults_heal(struct cluster *world)
{
    uint64_t now = io_sim_now(world->io);
    world->is_quiet = true;
    world->quiet_ns = now;
    cluster_say(world, "all is healed");
    io_sim_spare(world->io);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        struct cluster_worker *worker = &world->workers[i];
        worker->thaw_ns = worker->thaw_ns > 0 ? now : 0;
        worker->restart_ns = worker->restart_ns > 0 ? now : 0;
        for (uint32_t j = 0; j < world->worker_count; j++) {
            world->heal_ns[i][j] = world->heal_ns[i][j] > 0 ? now : 0;
        }
    }
    recover_all(world);
}
