#include "base/check.h"
#include "sim/engine_world.h"

/* Batches under way, as a model that computes beside the core has them: each is
 * computed some time between its launch and when it is asked for, in order. */

static struct sim_flight *flight_at(struct sim_world *world, uint32_t index)
{
    return &world->flights[(world->flight_first + index) % SIM_FLIGHT_MAX];
}

static void compute(struct sim_world *world, uint32_t index)
{
    struct sim_flight *flight = flight_at(world, index);
    if (!flight->is_computed) {
        sim_compute(world, flight,
                    flight_at(world, index + SIM_FLIGHT_MAX - 1));
    }
}

/* What the pass wrote that gave up, and whatever came after it, is garbage. */
static void spoil_all(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->flight_count; i++) {
        const struct sim_flight *flight = flight_at(world, i);
        if (i == 0 || flight->is_computed) {
            sim_spoil(world, flight->plan);
        }
    }
    world->flight_count = 0;
}

static void give_up(struct sim_world *world, const char *why)
{
    spoil_all(world);
    sim_say(world, "abort %s", why);
    world->summary.faults++;
    engine_core_abort(world->core);
    sim_check_core(world, "abort");
}

/* The engine answers for those of a pass that failed. */
static void fail(struct sim_world *world)
{
    spoil_all(world);
    sim_say(world, "forward fails");
    world->summary.faults++;
    for (uint32_t i = 0; i < world->request_count; i++) {
        world->requests[i].may_fail = true;
    }
    engine_core_fail(world->core, world->now_ns, ERR_INTERNAL);
    sim_check_core(world, "fail");
}

static void push(struct sim_world *world, const struct engine_plan *plan)
{
    CHECK(world->flight_count < engine_core_depth(world->core));
    struct sim_flight *flight = flight_at(world, world->flight_count++);
    flight->plan = plan;
    flight->is_computed = false;
}

void sim_flight_settle(struct sim_world *world)
{
    struct sim_flight *flight = flight_at(world, 0);
    compute(world, 0);
    if (sim_has_failed(world)) {
        return;
    }
    world->now_ns += 1000000 + (uint64_t)flight->plan->row_count * 50000;
    if (!world->is_quiet &&
        sim_chance(&world->world_rng, world->hostility.abort)) {
        give_up(world, "as asked");
    } else if (!world->is_quiet &&
               sim_chance(&world->world_rng, world->hostility.fail)) {
        fail(world);
    } else {
        world->flight_first = (world->flight_first + 1) % SIM_FLIGHT_MAX;
        world->flight_count--;
        engine_core_result(world->core, world->now_ns, flight->results);
        sim_check_core(world, "result");
    }
}

/* Until the newest plan's pages may be used. Copies that wait for the batch
 * before it need its end. False: the plan is gone. */
static bool await(struct sim_world *world)
{
    enum engine_plan_state state = engine_core_plan_state(world->core);
    while (state == ENGINE_PLAN_WAITS) {
        sim_copies_take(world);
        if (!sim_copies_end_one(world)) {
            if (world->flight_count < 2) {
                sim_fail(world, "the batch waits for copies, and none is left");
                return false;
            }
            world->flight_count--; /* not launched yet */
            sim_flight_settle(world);
            if (engine_core_flight(world->core) == 0) {
                return false;
            }
            world->flight_count++;
        }
        state = engine_core_plan_state(world->core);
    }
    return true;
}

static void lose(struct sim_world *world)
{
    if (world->flight_count > 1) {
        world->flight_count--;
        sim_flight_settle(world);
        if (engine_core_flight(world->core) == 0) {
            return;
        }
        world->flight_count++;
    }
    sim_copies_take(world);
    sim_copies_drain(world); /* what is given up is written all over */
    give_up(world, "a copy failed");
}

bool sim_flight_launch(struct sim_world *world, const struct engine_plan *plan)
{
    push(world, plan);
    if (!await(world)) {
        return false;
    }
    if (engine_core_plan_state(world->core) == ENGINE_PLAN_LOST) {
        lose(world);
        return false;
    }
    for (uint32_t i = 0;
         world->core_options.is_overlapped && i < world->flight_count &&
         !sim_has_failed(world) && sim_chance(&world->world_rng, 400);
         i++) {
        compute(world, i);
    }
    return !sim_has_failed(world);
}
