#pragma once
/* device/copy_graph: which submissions may run, and which are over. Pure; the
 * body that has threads calls it under its lock.
 *
 *   waiting --last wait finished--> ready --taken--> running --finish--> finished
 *
 * A node is the slot of a submission (device/copy_body.h). Waits go to nodes
 * that were there before, so there is no circle. Nothing is allocated after
 * init: a node's waits are links of its own. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { DEVICE_COPY_NODE_NONE = UINT32_MAX };

enum device_copy_state {
    DEVICE_COPY_FREE,
    DEVICE_COPY_WAITING,
    DEVICE_COPY_READY,
    DEVICE_COPY_RUNNING,
    DEVICE_COPY_FINISHED,
};

struct device_copy_node {
    enum device_copy_state state;
    bool is_empty; /* nothing to run: finished as soon as it is ready */
    uint32_t waits_left;
    uint32_t first_dependent; /* a link */
    uint32_t next; /* of its list */
};

struct device_copy_list {
    uint32_t first, last;
    uint32_t count;
};

/* Open: a body embeds it and reads the lists. */
struct device_copy_graph {
    struct device_copy_list ready; /* in the order they became so */
    struct device_copy_list finished; /* likewise */
    uint32_t unfinished_count;
    /* private */
    struct device_copy_node *nodes; /* (node_count) */
    uint32_t *links; /* (node_count, wait_count_max): next of the same target */
    uint32_t node_count;
    uint32_t wait_count_max;
};

MUST_USE enum err device_copy_graph_init(struct device_copy_graph *graph,
                                         uint32_t node_count,
                                         uint32_t wait_count_max);
void device_copy_graph_finish(struct device_copy_graph *graph);

/* A free node begins to wait for `waits`, which may repeat or be finished. */
void device_copy_graph_add(struct device_copy_graph *graph, uint32_t node,
                           bool is_empty, const uint32_t *waits,
                           uint32_t wait_count);
/* Takes the ready node at `position` of the list; it is running now. */
uint32_t device_copy_graph_run(struct device_copy_graph *graph,
                               uint32_t position);
/* A running node is over; what waited for nothing else gets ready, in an order
 * that depends on nothing but the calls. */
void device_copy_graph_end(struct device_copy_graph *graph, uint32_t node);
/* The first that finished; its node is free again. NONE: there is none. */
uint32_t device_copy_graph_take(struct device_copy_graph *graph);
/* Is every count what the lists and links say? For tests. */
bool device_copy_graph_is_valid(const struct device_copy_graph *graph);
