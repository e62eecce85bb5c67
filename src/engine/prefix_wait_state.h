#pragma once
/* engine/prefix_wait_state: the insides of the planner, for its own files only:
 *   prefix_wait.c        plan and admission
 *   prefix_wait_index.c  which prompts share a prefix */
#include "engine/prefix_wait.h"
#include "prefix/table.h"

/* One request at one tag. Entry 0 is nobody. */
struct prefix_wait_entry {
    struct prefix_wait_request *request;
    uint32_t tag; /* index of the tag's list */
    uint32_t older, younger; /* of the same tag */
    uint32_t deeper; /* of the same request; free list */
};

struct prefix_wait_tag {
    struct prefix_key key;
    uint32_t oldest, youngest; /* entries */
    uint32_t next_free;
};

struct prefix_wait {
    struct prefix_wait_options options;
    struct prefix_table *table; /* key -> tag */
    struct prefix_wait_tag *tags; /* (entry_max) */
    uint32_t free_tag;
    struct prefix_wait_entry *entries; /* (entry_max + 1) */
    uint32_t free_entry;
    uint64_t pass;
    struct prefix_key *computing; /* (request_max) first block of each chunk */
    uint32_t computing_count;
    struct prefix_wait_stats stats;
};

/* The oldest few with that tag: an eligible owner for `request`, or NULL. */
struct prefix_wait_request *prefix_wait_find_owner(
    const struct prefix_wait *waits, const struct prefix_key *key,
    const struct prefix_wait_request *request);
/* prefix_wait.c: may it be waited for in this pass? */
bool prefix_wait_may_own(const struct prefix_wait *waits,
                         const struct prefix_wait_request *request);
