#include "device/copy_sim.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "device/copy_body.h"
#include "device/copy_graph.h"
#include "device/copy_split.h"
#include "io/mailbox.h"

struct sim {
    struct device_copier base;
    struct device_copy_graph graph;
    struct rng rng;
    uint32_t fail_per_1024;
    bool poison;
    bool *is_begun; /* (submission_count_max) */
    struct io_waker *waker;
};

static const struct device_copier_ops SIM_OPS;

static struct sim *sim_of(struct device_copier *copier)
{
    CHECK(copier->ops == &SIM_OPS);
    return (struct sim *)copier;
}

/* ---- the bytes ---- */

static bool touches(struct device_address a, size_t a_bytes,
                    struct device_address b, size_t b_bytes)
{
    uintptr_t a_first = (uintptr_t)a.pointer;
    uintptr_t b_first = (uintptr_t)b.pointer;
    return a_first < b_first + b_bytes && b_first < a_first + a_bytes;
}

static void check_apart(const struct device_copy_slot *order)
{
    for (uint32_t i = 0; i < order->copy_count; i++) {
        const struct device_copy *a = &order->copies[i];
        for (uint32_t k = 0; k < order->copy_count; k++) {
            const struct device_copy *b = &order->copies[k];
            bool has_bytes = a->bytes > 0 && b->bytes > 0;
            CHECK(!has_bytes || !touches(a->to, a->bytes, b->from, b->bytes));
            CHECK(!has_bytes || i == k ||
                  !touches(a->to, a->bytes, b->to, b->bytes));
        }
    }
}

static void poison_targets(const struct device_copy_slot *order)
{
    for (uint32_t i = 0; i < order->copy_count; i++) {
        const struct device_copy *copy = &order->copies[i];
        if (copy->bytes > 0) {
            memset(copy->to.pointer, DEVICE_COPIER_SIM_POISON, copy->bytes);
        }
    }
}

static void move(const struct device_copy *copy)
{
    if (copy->bytes > 0) {
        memcpy(copy->to.pointer, copy->from.pointer, copy->bytes);
    }
}

static uint32_t count_items(const struct device_copy_slot *order)
{
    struct device_copy_cursor cursor =
        device_copy_cursor_first(order->copies, order->copy_count);
    struct device_copy_item item;
    uint32_t count = 0;
    while (device_copy_cursor_next(&cursor, order->copies, order->copy_count,
                                   &item)) {
        count++;
    }
    return count;
}

/* ---- submissions ---- */

/* What may begin now does. The ready list is walked whole, since a step takes
 * from its middle. */
static void begin_ready(struct sim *sim)
{
    uint32_t slot = sim->graph.ready.first;
    while (slot != DEVICE_COPY_NODE_NONE) {
        if (!sim->is_begun[slot] && sim->poison) {
            poison_targets(&sim->base.slots[slot]);
        }
        sim->is_begun[slot] = true;
        slot = sim->graph.nodes[slot].next;
    }
}

/* A copy with bytes, drawn; the order has one. */
static uint32_t draw_victim(struct sim *sim,
                            const struct device_copy_slot *order)
{
    uint32_t victim = (uint32_t)rng_below(&sim->rng, order->copy_count);
    while (order->copies[victim].bytes == 0) {
        victim = (victim + 1) % order->copy_count;
    }
    return victim;
}

/* One copy is lost for sure, of the others every second. */
static void move_some(struct sim *sim, const struct device_copy_slot *order)
{
    uint32_t victim = draw_victim(sim, order);
    for (uint32_t i = 0; i < order->copy_count; i++) {
        if (i != victim && rng_below(&sim->rng, 2) == 0) {
            move(&order->copies[i]);
        }
    }
}

static void carry_out(struct sim *sim, struct device_copy_slot *order)
{
    order->launches = count_items(order);
    if (order->launches > 0 &&
        rng_below(&sim->rng, 1024) < sim->fail_per_1024) {
        order->err = ERR_IO;
        move_some(sim, order);
        return;
    }
    for (uint32_t i = 0; i < order->copy_count; i++) {
        move(&order->copies[i]);
    }
}

bool device_copier_sim_step(struct device_copier *copier)
{
    struct sim *sim = sim_of(copier);
    if (sim->graph.ready.count == 0) {
        CHECK(sim->graph.unfinished_count == 0);
        return false;
    }
    uint32_t position = (uint32_t)rng_below(&sim->rng, sim->graph.ready.count);
    uint32_t slot = device_copy_graph_run(&sim->graph, position);
    carry_out(sim, &copier->slots[slot]);
    bool was_quiet = sim->graph.finished.count == 0;
    device_copy_graph_end(&sim->graph, slot);
    begin_ready(sim);
    if (was_quiet && sim->waker != NULL) {
        io_waker_wake(sim->waker);
    }
    return true;
}

/* ---- the table ---- */

/* Empty submissions take their turn like others: what is over at once in one
 * body need not be in the next. */
static void sim_submit(struct device_copier *copier, uint32_t slot,
                       const uint32_t *waits, uint32_t wait_count)
{
    struct sim *sim = sim_of(copier);
    check_apart(&copier->slots[slot]);
    sim->is_begun[slot] = false;
    device_copy_graph_add(&sim->graph, slot, false, waits, wait_count);
    begin_ready(sim);
}

static uint32_t sim_poll(struct device_copier *copier)
{
    return device_copy_graph_take(&sim_of(copier)->graph);
}

static void sim_drain(struct device_copier *copier)
{
    while (device_copier_sim_step(copier)) {
    }
}

static void sim_destroy(struct device_copier *copier)
{
    struct sim *sim = sim_of(copier);
    device_copy_graph_finish(&sim->graph);
    mem_free(sim->is_begun);
    device_copier_finish(copier);
    mem_free(sim);
}

static const struct device_copier_ops SIM_OPS = {
    .name = "sim",
    .kinds = 1u << DEVICE_KIND_HOST,
    .submit = sim_submit,
    .poll = sim_poll,
    .drain = sim_drain,
    .destroy = sim_destroy,
};

enum err device_copier_sim_create(
    const struct device_copier_sim_options *options,
    struct device_copier **copier_out)
{
    const struct device_copier_limits *limits = &options->limits;
    CHECK(options->fail_per_1024 <= 1024);
    struct sim *sim = mem_new(sizeof(*sim));
    enum err err = device_copier_init(&sim->base, &SIM_OPS, limits);
    if (err) {
        mem_free(sim);
        return err;
    }
    sim->rng = options->rng;
    sim->fail_per_1024 = options->fail_per_1024;
    sim->poison = options->poison;
    sim->waker = options->waker;
    err = device_copy_graph_init(&sim->graph, limits->submission_count_max,
                                 limits->wait_count_max);
    sim->is_begun =
        mem_try_array(limits->submission_count_max, sizeof(*sim->is_begun));
    if (err || sim->is_begun == NULL) {
        sim_destroy(&sim->base);
        return ERR_NO_MEMORY;
    }
    *copier_out = &sim->base;
    return OK;
}
