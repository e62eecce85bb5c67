#pragma once
/* device/memory: where bytes live that kernels and transfers touch, and who
 * gave them.
 *
 *   owner of a memory kind --- struct device_allocator ---> device_memory_take
 *   (heap, transfer backend, later a GPU)                         |
 *                                            struct device_memory: base, size
 *
 * Memory that a peer writes must come from the backend that lets it in, so the
 * allocator is handed in by whoever puts the worker together. One thread takes
 * and gives; the bytes belong to whoever holds the struct. */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum device_kind {
    DEVICE_KIND_HOST, /* plain loads and stores of this process reach it */
    DEVICE_KIND_COUNT
};

/* A table for those who provide memory. `take` gives at least `size` zeroed
 * bytes aligned to DEVICE_ALIGNMENT or says why not; `give` ends them. */
struct device_allocator {
    const char *name; /* static: "heap", "ucx", ... */
    enum device_kind kind;
    enum err (*take)(void *context, size_t size, struct why *why,
                     void **memory_out);
    void (*give)(void *context, void *memory, size_t size);
    void *context; /* outlives what was taken */
};

enum { DEVICE_ALIGNMENT = 64 };

/* Open: callers embed it. */
struct device_memory {
    uint8_t *base; /* aligned to DEVICE_ALIGNMENT; NULL: nothing held */
    size_t size;
    enum device_kind kind;
    /* private */
    struct device_allocator allocator;
};

/* Zeroed memory of the process's own heap. */
struct device_allocator device_allocator_heap(void);

/* ERR_INVALID for size 0, else what the allocator said: ERR_NO_MEMORY, ERR_IO.
 * `memory_out` is untouched on failure. */
MUST_USE enum err device_memory_take(const struct device_allocator *allocator,
                                     size_t size, struct why *why,
                                     struct device_memory *memory_out);
/* Ends it; fine when nothing is held. */
void device_memory_give(struct device_memory *memory);
