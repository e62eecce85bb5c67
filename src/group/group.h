#pragma once
/* group/group: collectives among the ranks of one instance, as a table.
 *
 * A collective is entered by all ranks, in the same order and equally often;
 * never on a condition that only one rank knows (consensus.md 3.1). All calls
 * are the engine thread's. Body `local` is a domain of one: nothing travels. */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct group;

struct group_ops {
    const char *name;
    void (*destroy)(struct group *group);
    /* Returns on each rank once all have come here. */
    enum err (*barrier)(struct group *group);
    /* `size` bytes of rank `root` to everyone's `data`. */
    enum err (*broadcast)(struct group *group, uint32_t root, void *data,
                          size_t size);
    /* `all_out`: (rank_count, size), each rank's `own` at its place. */
    enum err (*allgather)(struct group *group, const void *own, size_t size,
                          void *all_out);
};
/* ERR_INVALID: no such root. ERR_CLOSED: a rank is gone; fail-stop. */

/* Base of each body; first member. */
struct group {
    const struct group_ops *ops;
    uint32_t rank;
    uint32_t rank_count;
};

struct group *group_local_create(void);

static inline void group_destroy(struct group *group)
{
    if (group != NULL) {
        group->ops->destroy(group);
    }
}
