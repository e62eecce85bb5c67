#pragma once
/* transfer/fault_held: a write inside backend_fault, and lists of them in
 * order. Private to it. */
#include <stddef.h>

#include "transfer/fault_plan.h"

struct fault_peer;

/* A write inside, and what `next` is told of it. */
struct held {
    struct held *after;
    struct transfer_write *outer; /* NULL: it came back, too early */
    struct transfer_write inner;
    struct fault_plan plan;
    struct fault_peer *peer;
    enum transfer_outcome outcome;
    uint32_t polls_left; /* before it is carried out late, or comes back */
    uint64_t due_ns; /* when the link would have carried it; 0: any time */
    bool is_twice; /* to be carried out once more */
};
struct held_list {
    struct held *first, *last;
};

static inline void fault_push(struct held_list *list, struct held *held)
{
    held->after = NULL;
    if (list->last != NULL) {
        list->last->after = held;
    } else {
        list->first = held;
    }
    list->last = held;
}

static inline struct held *fault_pop(struct held_list *list)
{
    struct held *held = list->first;
    list->first = held->after;
    list->last = list->first != NULL ? list->last : NULL;
    return held;
}

static inline struct held *fault_pop_second(struct held_list *list)
{
    struct held *first = list->first;
    struct held *held = first->after;
    first->after = held->after;
    list->last = list->last == held ? first : list->last;
    return held;
}
