#pragma once
/* transfer/mourner: senders whose connection ended while they may still write
 * into our pages. Each is asked again by a new connection until it answers, or
 * its process is proven gone. Private to transfer. */
#include <stdbool.h>
#include <stdint.h>

#include "transfer/control.h"

struct mourner {
    bool is_used;
    uint64_t incarnation;
    uint64_t retry_ns; /* when to connect again */
    char endpoint[280];
    struct transfer_process *process;
};

struct mourners {
    uint32_t capacity;
    struct mourner *items; /* (capacity) */
};

void mourners_init(struct mourners *mourners, uint32_t capacity);
void mourners_finish(struct mourners *mourners);
/* Takes the proof of `link` over. One for each incarnation. */
void mourners_add(struct mourners *mourners, struct link *link, uint64_t now);
void mourner_end(struct mourner *mourner);
