#pragma once
/* device/copy_body: for those who write a body of device/copy.h.
 *
 * What all bodies share is the owner's ledger: it hands out tickets, keeps the
 * lists of each submission in a slot until the end is polled, and knows which
 * ticket lies in which slot. A body is told slots:
 *
 *   free --submit--> with the body --poll--> free
 *
 * All calls come from the owner's thread. Between submit and poll the body may
 * read the slot's lists from any thread; it sets `err` and `launches` before it
 * answers the slot to poll. */
#include "device/copy.h"

enum { DEVICE_COPY_SLOT_NONE = UINT32_MAX };

struct device_copy_slot {
    struct device_copy *copies; /* (copy_count) */
    uint32_t copy_count;
    /* Set by the body. */
    enum err err;
    uint32_t launches;
    /* The ledger's. */
    device_ticket ticket; /* 0: the slot is free */
    uint32_t next; /* of the free slots, or of the same bucket */
};

struct device_copier_ops {
    const char *name;
    uint32_t kinds; /* bit (1 << device_kind): addresses it can reach */
    /* `waits` are slots not polled yet, perhaps finished. Cannot refuse: what
     * goes wrong is told by the slot's `err`. */
    void (*submit)(struct device_copier *copier, uint32_t slot,
                   const uint32_t *waits, uint32_t wait_count);
    /* A finished slot, each once, none before those it waited for;
     * DEVICE_COPY_SLOT_NONE: none now. */
    uint32_t (*poll)(struct device_copier *copier);
    void (*drain)(struct device_copier *copier);
    void (*destroy)(struct device_copier *copier); /* drained before */
};

/* The first member of each body. */
struct device_copier {
    const struct device_copier_ops *ops;
    struct device_copier_limits limits;
    struct device_copier_stats stats;
    struct device_copy_slot *slots; /* (submission_count_max) */
    struct device_copy *copies; /* (submission_count_max, copy_count_max) */
    uint32_t *wait_slots; /* (wait_count_max): of the order at hand */
    uint32_t *buckets; /* (bucket_mask + 1): first slot by ticket */
    uint32_t bucket_mask;
    uint32_t free_first;
    uint32_t free_count;
    device_ticket last_ticket;
};

/* ERR_NO_MEMORY: nothing is held. */
MUST_USE enum err device_copier_init(struct device_copier *copier,
                                     const struct device_copier_ops *ops,
                                     const struct device_copier_limits *limits);
void device_copier_finish(struct device_copier *copier);
