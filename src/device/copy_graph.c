#include "device/copy_graph.h"

#include "base/check.h"
#include "base/mem.h"

enum { NONE = DEVICE_COPY_NODE_NONE };

static void list_reset(struct device_copy_list *list)
{
    *list = (struct device_copy_list){.first = NONE, .last = NONE};
}

static void list_append(struct device_copy_graph *graph,
                        struct device_copy_list *list, uint32_t node)
{
    graph->nodes[node].next = NONE;
    if (list->count == 0) {
        list->first = node;
    } else {
        graph->nodes[list->last].next = node;
    }
    list->last = node;
    list->count++;
}

static uint32_t list_remove(struct device_copy_graph *graph,
                            struct device_copy_list *list, uint32_t position)
{
    CHECK(position < list->count);
    uint32_t before = NONE;
    uint32_t node = list->first;
    for (uint32_t i = 0; i < position; i++) {
        before = node;
        node = graph->nodes[node].next;
    }
    uint32_t after = graph->nodes[node].next;
    if (before == NONE) {
        list->first = after;
    } else {
        graph->nodes[before].next = after;
    }
    if (after == NONE) {
        list->last = before;
    }
    list->count--;
    return node;
}

enum err device_copy_graph_init(struct device_copy_graph *graph,
                                uint32_t node_count, uint32_t wait_count_max)
{
    *graph = (struct device_copy_graph){
        .nodes = mem_try_array(node_count, sizeof(*graph->nodes)),
        .links = mem_try_array((size_t)node_count * wait_count_max + 1,
                               sizeof(*graph->links)),
        .node_count = node_count,
        .wait_count_max = wait_count_max,
    };
    list_reset(&graph->ready);
    list_reset(&graph->finished);
    if (graph->nodes == NULL || graph->links == NULL) {
        device_copy_graph_finish(graph);
        return ERR_NO_MEMORY;
    }
    return OK;
}

void device_copy_graph_finish(struct device_copy_graph *graph)
{
    mem_free(graph->nodes);
    mem_free(graph->links);
    *graph = (struct device_copy_graph){0};
}

static void to_finished(struct device_copy_graph *graph, uint32_t node)
{
    graph->nodes[node].state = DEVICE_COPY_FINISHED;
    graph->unfinished_count--;
    list_append(graph, &graph->finished, node);
}

static void release(struct device_copy_graph *graph, uint32_t node)
{
    if (graph->nodes[node].is_empty) {
        to_finished(graph, node);
    } else {
        graph->nodes[node].state = DEVICE_COPY_READY;
        list_append(graph, &graph->ready, node);
    }
}

void device_copy_graph_add(struct device_copy_graph *graph, uint32_t node,
                           bool is_empty, const uint32_t *waits,
                           uint32_t wait_count)
{
    CHECK(node < graph->node_count);
    CHECK(wait_count <= graph->wait_count_max);
    struct device_copy_node *self = &graph->nodes[node];
    CHECK(self->state == DEVICE_COPY_FREE);
    *self = (struct device_copy_node){
        .state = DEVICE_COPY_WAITING,
        .is_empty = is_empty,
        .first_dependent = NONE,
        .next = NONE,
    };
    graph->unfinished_count++;
    for (uint32_t i = 0; i < wait_count; i++) {
        struct device_copy_node *target = &graph->nodes[waits[i]];
        CHECK(target != self);
        CHECK(target->state != DEVICE_COPY_FREE);
        if (target->state != DEVICE_COPY_FINISHED) {
            uint32_t link = node * graph->wait_count_max + i;
            graph->links[link] = target->first_dependent;
            target->first_dependent = link;
            self->waits_left++;
        }
    }
    if (self->waits_left == 0) {
        release(graph, node);
    }
}

uint32_t device_copy_graph_run(struct device_copy_graph *graph,
                               uint32_t position)
{
    uint32_t node = list_remove(graph, &graph->ready, position);
    CHECK(graph->nodes[node].state == DEVICE_COPY_READY);
    graph->nodes[node].state = DEVICE_COPY_RUNNING;
    return node;
}

static void release_dependents(struct device_copy_graph *graph, uint32_t node)
{
    uint32_t link = graph->nodes[node].first_dependent;
    graph->nodes[node].first_dependent = NONE;
    while (link != NONE) {
        uint32_t waiter = link / graph->wait_count_max;
        CHECK(graph->nodes[waiter].waits_left > 0);
        if (--graph->nodes[waiter].waits_left == 0) {
            release(graph, waiter);
        }
        link = graph->links[link];
    }
}

/* Empty ones finish in turn: each joins the end of the finished list, along
 * which this walks, so that a long chain of them needs no recursion. */
void device_copy_graph_end(struct device_copy_graph *graph, uint32_t node)
{
    CHECK(graph->nodes[node].state == DEVICE_COPY_RUNNING);
    to_finished(graph, node);
    for (uint32_t at = node; at != NONE; at = graph->nodes[at].next) {
        release_dependents(graph, at);
    }
}

uint32_t device_copy_graph_take(struct device_copy_graph *graph)
{
    if (graph->finished.count == 0) {
        return NONE;
    }
    uint32_t node = list_remove(graph, &graph->finished, 0);
    CHECK(graph->nodes[node].state == DEVICE_COPY_FINISHED);
    graph->nodes[node].state = DEVICE_COPY_FREE;
    return node;
}

/* ---- proof ---- */

static bool list_is_valid(const struct device_copy_graph *graph,
                          const struct device_copy_list *list,
                          enum device_copy_state state)
{
    uint32_t count = 0;
    uint32_t last = NONE;
    for (uint32_t node = list->first; node != NONE && count <= list->count;
         node = graph->nodes[node].next) {
        if (graph->nodes[node].state != state) {
            return false;
        }
        last = node;
        count++;
    }
    return count == list->count && last == list->last;
}

/* Links of unfinished targets that lead to `waiter`. */
static uint32_t count_waits(const struct device_copy_graph *graph,
                            uint32_t waiter)
{
    uint32_t count = 0;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        if (graph->nodes[node].state == DEVICE_COPY_FREE) {
            continue;
        }
        uint32_t link = graph->nodes[node].first_dependent;
        for (; link != NONE; link = graph->links[link]) {
            count += link / graph->wait_count_max == waiter;
        }
    }
    return count;
}

bool device_copy_graph_is_valid(const struct device_copy_graph *graph)
{
    uint32_t counts[DEVICE_COPY_FINISHED + 1] = {0};
    for (uint32_t node = 0; node < graph->node_count; node++) {
        const struct device_copy_node *self = &graph->nodes[node];
        counts[self->state]++;
        bool is_waiting = self->state == DEVICE_COPY_WAITING;
        if (self->state != DEVICE_COPY_FREE &&
            (is_waiting != (self->waits_left > 0) ||
             self->waits_left != count_waits(graph, node))) {
            return false;
        }
    }
    return counts[DEVICE_COPY_READY] == graph->ready.count &&
           counts[DEVICE_COPY_FINISHED] == graph->finished.count &&
           counts[DEVICE_COPY_WAITING] + counts[DEVICE_COPY_READY] +
                   counts[DEVICE_COPY_RUNNING] ==
               graph->unfinished_count &&
           list_is_valid(graph, &graph->ready, DEVICE_COPY_READY) &&
           list_is_valid(graph, &graph->finished, DEVICE_COPY_FINISHED);
}
