/* Writes through arenas in a world of random delays: bytes, bounds, leaks,
 * cancels and deaths. */
#include "bounce_world.h"

enum { STEPS_MAX = 400000 };

static void open_world(uint64_t seed, uint32_t leaves, uint32_t chunk_granules)
{
    memset(&world, 0, sizeof(world));
    world.rng = rng_from_seed(seed);
    world.now = 1;
    world.arena_size = (uint64_t)leaves * GRANULE;
    world.chunk_max = chunk_granules * GRANULE;
    world.is_revocable = chance(2);
    for (uint32_t i = 0; i < NODES; i++) {
        open_node(&world.nodes[i], seed + i);
    }
}

static void close_world(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        close_node(&world.nodes[i]);
    }
}

/* live + quarantined + free = capacity, and staging only in its half. */
static void check_node(const struct node *node)
{
    struct transfer_arena_counts counts = transfer_arena_counts(node->arena);
    uint64_t capacity = transfer_arena_capacity(node->arena), staging = 0;
    assert_int_equal(counts.live + counts.quarantined + counts.free, capacity);
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        const struct bounce_out_flow *flow = &node->send.flows[i];
        for (uint32_t k = 0; flow->is_used && k < BOUNCE_WINDOW; k++) {
            const struct bounce_out_chunk *chunk = &flow->chunks[k];
            bool is_here = chunk->state != BOUNCE_OUT_NONE &&
                           chunk->state != BOUNCE_OUT_SENT;
            staging += is_here ? chunk->size : 0;
            assert_true(!is_here ||
                        chunk->staging + chunk->size <= capacity / 2);
        }
    }
    assert_true(staging <= capacity / 2);
}

static void turn(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        if (!world.nodes[i].is_dead) {
            send_step(i, &(struct bounce_send_event){.kind = BOUNCE_SEND_TURN,
                                                     .now = world.now});
            receive_step(i, (struct bounce_receive_event){
                                .kind = BOUNCE_RECEIVE_TURN, .now = world.now});
        }
    }
}

/* One random thing happens. */
static void step(void)
{
    uint32_t a = chance(NODES), b = chance(NODES);
    struct node *node = &world.nodes[a];
    world.now += chance(1000);
    switch (chance(5)) {
    case 0:
        deliver(a, b);
        break;
    case 1:
        for (uint32_t i = 0, at = chance(WRITES_MAX); i < WRITES_MAX; i++) {
            if (move(&world.moves[(at + i) % WRITES_MAX])) {
                break;
            }
        }
        break;
    case 2:
        if (node->gather.is_due && !node->is_dead) {
            gather(a);
        }
        break;
    case 3:
        if (node->scatter.is_due && !node->is_dead) {
            scatter(a);
        }
        break;
    default:
        if (chance(4) == 0) {
            turn();
        }
        break;
    }
    if (chance(16) == 0) {
        check_node(node);
    }
}

static uint32_t count_open(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world.job_count; i++) {
        count +=
            world.jobs[i].is_open && !world.nodes[world.jobs[i].from].is_dead;
    }
    return count;
}

static bool is_moving(void)
{
    bool is = false;
    for (uint32_t i = 0; i < WRITES_MAX; i++) {
        is |= world.moves[i].is_used;
    }
    for (uint32_t a = 0; a < NODES; a++) {
        is |= world.nodes[a].gather.is_due && !world.nodes[a].is_dead;
        is |= world.nodes[a].scatter.is_due && !world.nodes[a].is_dead;
        for (uint32_t b = 0; b < NODES; b++) {
            is |= world.channels[a][b].count > 0;
        }
    }
    return is;
}

static void run(void)
{
    uint32_t steps = 0;
    while (count_open() > 0 || is_moving()) {
        step();
        assert_true(steps++ < STEPS_MAX);
    }
}

static void expect_empty(const struct node *node)
{
    struct transfer_arena_counts counts = transfer_arena_counts(node->arena);
    assert_int_equal(counts.live, 0);
    assert_int_equal(counts.quarantined, 0);
    assert_int_equal(node->send.flow_count, 0);
    assert_int_equal(node->receive.flow_count, 0);
}

static void open_random(uint64_t seed)
{
    struct rng rng = rng_from_seed(seed * 7919);
    uint32_t leaves = 4u << rng_below(&rng, 5);
    uint32_t most = leaves / 2;
    open_world(seed, leaves, 1 + (uint32_t)rng_below(&rng, most));
}

/* Many writes between three nodes in all directions, most of them larger than
 * the arena: all end, each byte is where it belongs, and nothing is left of
 * them. On the way grants never overlap, a head is passed over a bounded number
 * of times, and staging keeps to its half. [transfer T36 T50 I30] */
static void all_writes_get_through_a_small_arena(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        open_random(seed);
        uint32_t count = 1 + chance(JOBS_MAX);
        while (world.job_count < count) {
            uint32_t from = chance(NODES);
            add_job(from, (from + 1 + chance(NODES - 1)) % NODES);
            for (uint32_t i = chance(200); i > 0; i--) {
                step();
            }
        }
        run();
        for (uint32_t i = 0; i < world.job_count; i++) {
            assert_int_equal(world.jobs[i].outcome, BOUNCE_DONE);
            expect_bytes(&world.jobs[i]);
        }
        for (uint32_t i = 0; i < NODES; i++) {
            expect_empty(&world.nodes[i]);
        }
        close_world();
    }
}

/* Two nodes whose halves are two chunks, each with many writes to the other:
 * if grants and staging waited for each other they would stop here.
 * [transfer T36 I30] */
static void both_directions_go_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        open_world(seed, 8, 4);
        for (uint32_t i = 0; i < JOBS_MAX; i++) {
            add_job(i % 2, 1 - i % 2);
        }
        run();
        for (uint32_t i = 0; i < world.job_count; i++) {
            assert_int_equal(world.jobs[i].outcome, BOUNCE_DONE);
            expect_bytes(&world.jobs[i]);
        }
        close_world();
    }
}

static void for_flows(uint32_t job, enum bounce_receive_event_kind kind)
{
    struct bounce_key key = key_of(job);
    struct bounce_receive *role = &world.nodes[world.jobs[job].to].receive;
    for (uint32_t flow = bounce_receive_find(role, &key, 0);
         flow != BOUNCE_NOBODY;
         flow = bounce_receive_find(role, &key, flow + 1)) {
        receive_step(world.jobs[job].to,
                     (struct bounce_receive_event){
                         .kind = kind, .now = world.now, .flow = flow});
    }
}

static void stop_sender(uint32_t job)
{
    if (world.jobs[job].is_open) {
        send_step(world.jobs[job].from,
                  &(struct bounce_send_event){.kind = BOUNCE_SEND_STOP,
                                              .now = world.now,
                                              .flow = world.jobs[job].flow});
    }
}

/* Either side gives up at any moment; the receiver that did tells the sender,
 * as a session would. What had not been given up gets through, and at the end,
 * when all writers are quiet, nothing is left. [transfer T36 T68] */
static void cancels_leave_nothing_behind(void **state)
{
    (void)state;
    uint32_t stopped = 0, done = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        open_random(seed);
        while (world.job_count < JOBS_MAX) {
            uint32_t from = chance(NODES);
            add_job(from, (from + 1 + chance(NODES - 1)) % NODES);
            for (uint32_t i = chance(400); i > 0; i--) {
                step();
            }
            uint32_t job = chance(world.job_count);
            uint32_t which = chance(4);
            if (which == 0) {
                stop_sender(job);
            } else if (which == 1) {
                world.jobs[job].is_receiver_gone = true;
                for_flows(job, BOUNCE_RECEIVE_RECLAIM);
                stop_sender(job);
            }
        }
        run();
        for (uint32_t i = 0; i < world.job_count; i++) {
            bool is_done = world.jobs[i].outcome == BOUNCE_DONE;
            done += is_done;
            stopped += !is_done;
            if (is_done && !world.jobs[i].is_receiver_gone) {
                expect_bytes(&world.jobs[i]);
            }
            for_flows(i, BOUNCE_RECEIVE_QUIET);
        }
        for (uint32_t i = 0; i < NODES; i++) {
            expect_empty(&world.nodes[i]);
        }
        close_world();
    }
    assert_true(stopped > 100);
    assert_true(done > 100);
}

static void kill_node(uint32_t index)
{
    struct node *node = &world.nodes[index];
    node->is_dead = true;
    for (uint32_t i = 0; i < world.job_count; i++) {
        if (world.jobs[i].to == index) {
            stop_sender(i); /* its connection has ended */
        } else if (world.jobs[i].from == index) {
            world.jobs[i].is_receiver_gone = true;
            for_flows(i, BOUNCE_RECEIVE_RECLAIM);
        }
    }
}

/* Its process is gone: nothing of it lands any more. */
static void prove_end(uint32_t index)
{
    for (uint32_t i = 0; i < WRITES_MAX; i++) {
        struct moving *move = &world.moves[i];
        move->is_used &= world.jobs[move->job].from != index;
    }
    for (uint32_t i = 0; i < world.job_count; i++) {
        if (world.jobs[i].from == index) {
            for_flows(i, BOUNCE_RECEIVE_QUIET);
        }
    }
}

static uint32_t count_quarantined(uint32_t index)
{
    return transfer_arena_counts(world.nodes[index].arena).quarantined_count;
}

/* A node dies with writes of it still under way. Where a revoke is no proof
 * they may land for as long as they like, hours too, in regions that are lent
 * to nobody else; the proof of its end frees them. Writes between the others
 * get through. [transfer T36 T68] */
static void a_death_hurts_nobody_else(void **state)
{
    (void)state;
    uint32_t kept = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        open_random(seed);
        while (world.job_count < JOBS_MAX) {
            uint32_t from = chance(NODES);
            add_job(from, (from + 1 + chance(NODES - 1)) % NODES);
        }
        for (uint32_t i = chance(4000); i > 0; i--) {
            step();
        }
        kill_node(0);
        uint32_t before = count_quarantined(1);
        kept += before;
        for (uint32_t i = 0; i < 5000; i++) {
            step();
        }
        for (uint32_t i = 0; i < JOBS_MAX; i++) {
            receive_step(
                1, (struct bounce_receive_event){.kind = BOUNCE_RECEIVE_TIME,
                                                 .now = world.now + 50000 * MS,
                                                 .flow = i});
        }
        assert_int_equal(count_quarantined(1), before);
        prove_end(0);
        run();
        for (uint32_t i = 0; i < world.job_count; i++) {
            const struct job *job = &world.jobs[i];
            if (job->from != 0 && job->to != 0) {
                assert_int_equal(job->outcome, BOUNCE_DONE);
                expect_bytes(job);
            }
        }
        expect_empty(&world.nodes[1]);
        expect_empty(&world.nodes[2]);
        bounce_receive_abandon(&world.nodes[0].receive);
        world.nodes[0].send.flow_count = 0;
        close_world();
    }
    assert_true(kept > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_writes_get_through_a_small_arena),
        cmocka_unit_test(both_directions_go_on),
        cmocka_unit_test(cancels_leave_nothing_behind),
        cmocka_unit_test(a_death_hurts_nobody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
