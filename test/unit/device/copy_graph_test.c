/* device/copy_graph: what may run and what is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "device/copy_graph.h"

enum { NONE = DEVICE_COPY_NODE_NONE };

static struct device_copy_graph graph_of(uint32_t nodes, uint32_t waits)
{
    struct device_copy_graph graph;
    assert_int_equal(device_copy_graph_init(&graph, nodes, waits), OK);
    return graph;
}

static void run_and_end(struct device_copy_graph *graph, uint32_t expected)
{
    assert_int_equal(device_copy_graph_run(graph, 0), expected);
    device_copy_graph_end(graph, expected);
}

/* A node with two waits: not ready after the first of them, ready after both,
 * whichever was named first and however often. [engine T8] */
static void node_is_ready_after_its_last_wait(void **state)
{
    (void)state;
    struct device_copy_graph graph = graph_of(4, 3);
    device_copy_graph_add(&graph, 0, false, NULL, 0);
    device_copy_graph_add(&graph, 1, false, NULL, 0);
    device_copy_graph_add(&graph, 2, false, (uint32_t[]){1, 0, 1}, 3);
    assert_int_equal(graph.ready.count, 2);
    run_and_end(&graph, 0);
    assert_int_equal(graph.ready.count, 1);
    run_and_end(&graph, 1);
    assert_int_equal(graph.ready.count, 1);
    assert_int_equal(graph.ready.first, 2);
    assert_true(device_copy_graph_is_valid(&graph));
    device_copy_graph_finish(&graph);
}

/* A wait for a node that is finished and not taken yet does not delay. */
static void finished_wait_does_not_delay(void **state)
{
    (void)state;
    struct device_copy_graph graph = graph_of(2, 1);
    device_copy_graph_add(&graph, 0, false, NULL, 0);
    run_and_end(&graph, 0);
    device_copy_graph_add(&graph, 1, false, (uint32_t[]){0}, 1);
    assert_int_equal(graph.ready.first, 1);
    assert_int_equal(device_copy_graph_take(&graph), 0);
    assert_int_equal(device_copy_graph_take(&graph), NONE);
    device_copy_graph_finish(&graph);
}

/* A hundred thousand empty nodes, each behind the one before, all behind one
 * with work: its end finishes all of them, in their order, on a stack of any
 * size. */
static void chain_of_empty_nodes_ends_at_once(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    struct device_copy_graph graph = graph_of(COUNT, 1);
    device_copy_graph_add(&graph, 0, false, NULL, 0);
    for (uint32_t i = 1; i < COUNT; i++) {
        device_copy_graph_add(&graph, i, true, (uint32_t[]){i - 1}, 1);
    }
    assert_int_equal(graph.unfinished_count, COUNT);
    run_and_end(&graph, 0);
    assert_int_equal(graph.unfinished_count, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(device_copy_graph_take(&graph), i);
    }
    device_copy_graph_finish(&graph);
}

struct model {
    struct device_copy_graph graph;
    struct rng rng;
    uint64_t born[24]; /* 0: free */
    uint64_t waits[24][4]; /* births */
    uint64_t ended[24]; /* by birth, the last ones */
    uint32_t running[24];
    uint32_t running_count;
    uint64_t births;
};

static bool is_alive(const struct model *model, uint64_t birth)
{
    for (int i = 0; i < 24; i++) {
        if (birth != 0 && model->born[i] == birth && model->ended[i] == 0) {
            return true;
        }
    }
    return false;
}

static void add_drawn(struct model *model)
{
    uint32_t waits[4], wait_count = 0, node = 0;
    while (node < 24 && model->born[node] != 0) {
        node++;
    }
    if (node == 24) {
        return;
    }
    memset(model->waits[node], 0, sizeof(model->waits[node]));
    for (uint64_t k = rng_below(&model->rng, 5); k > 0; k--) {
        uint32_t wait = (uint32_t)rng_below(&model->rng, 24);
        if (model->born[wait] != 0) {
            model->waits[node][wait_count] = model->born[wait];
            waits[wait_count++] = wait;
        }
    }
    model->born[node] = ++model->births;
    model->ended[node] = 0;
    device_copy_graph_add(&model->graph, node, false, waits, wait_count);
}

static void run_drawn(struct model *model)
{
    if (model->graph.ready.count == 0) {
        return;
    }
    uint32_t node = device_copy_graph_run(
        &model->graph,
        (uint32_t)rng_below(&model->rng, model->graph.ready.count));
    for (int k = 0; k < 4; k++) {
        assert_false(is_alive(model, model->waits[node][k]));
    }
    model->running[model->running_count++] = node;
}

static void end_drawn(struct model *model)
{
    if (model->running_count > 0) {
        uint32_t at = (uint32_t)rng_below(&model->rng, model->running_count);
        uint32_t node = model->running[at];
        model->running[at] = model->running[--model->running_count];
        model->ended[node] = 1;
        device_copy_graph_end(&model->graph, node);
    }
}

/* Drawn adds, runs, ends and takes beside a plain list of births: nothing runs
 * before its waits have ended, every count agrees with the links after each
 * step, and in the end all come out. */
static void drawn_graphs_run_in_a_legal_order(void **state)
{
    (void)state;
    struct model model = {.graph = graph_of(24, 4), .rng = rng_from_seed(3)};
    uint64_t taken = 0;
    for (int step = 0; step < 60000; step++) {
        switch (rng_below(&model.rng, 4)) {
        case 0:
            add_drawn(&model);
            break;
        case 1:
            run_drawn(&model);
            break;
        case 2:
            end_drawn(&model);
            break;
        default: {
            uint32_t node = device_copy_graph_take(&model.graph);
            if (node != NONE) {
                model.born[node] = 0;
                taken++;
            }
        }
        }
        assert_true(device_copy_graph_is_valid(&model.graph));
    }
    while (model.graph.unfinished_count > 0) {
        run_drawn(&model);
        end_drawn(&model);
    }
    while (device_copy_graph_take(&model.graph) != NONE) {
        taken++;
    }
    assert_true(taken > 5000);
    assert_int_equal(taken, model.births);
    device_copy_graph_finish(&model.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_is_ready_after_its_last_wait),
        cmocka_unit_test(finished_wait_does_not_delay),
        cmocka_unit_test(chain_of_empty_nodes_ends_at_once),
        cmocka_unit_test(drawn_graphs_run_in_a_legal_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
