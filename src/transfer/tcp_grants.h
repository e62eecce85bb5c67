#pragma once
/* transfer/tcp_grants: which parts of our pool which sender may write now
 * (transfer.md 1.6.6, T70). The one place that decides whether a byte off a
 * socket may land.
 *
 *   authorise -> add(sender, token, ranges) ... remove -> nothing lands
 *
 * Memory of ranges is kept for the next grant: no allocation in steady state.
 * One thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transfer/backend.h"

struct tcp_grant {
    uint64_t sender;
    struct transfer_token token;
    uint32_t range_count, range_capacity;
    struct transfer_range *ranges; /* sorted, apart from each other */
};

struct tcp_grants {
    uint32_t count, capacity;
    struct tcp_grant *items; /* (capacity); the first `count` are in force */
    uint64_t change; /* another number after each add, remove and clear */
};

void tcp_grants_init(struct tcp_grants *grants, uint32_t capacity);
void tcp_grants_finish(struct tcp_grants *grants);
/* Ranges in any order, touching or overlapping. ERR_EXISTS, ERR_FULL,
 * ERR_NO_MEMORY. */
MUST_USE enum err tcp_grants_add(struct tcp_grants *grants, uint64_t sender,
                                 struct transfer_token token,
                                 const struct transfer_range *ranges,
                                 size_t count);
void tcp_grants_remove(struct tcp_grants *grants, uint64_t sender,
                       struct transfer_token token);
void tcp_grants_clear(struct tcp_grants *grants);
/* NULL: there is none. Valid until the next add or remove. */
const struct tcp_grant *tcp_grants_find(const struct tcp_grants *grants,
                                        uint64_t sender,
                                        struct transfer_token token);
bool tcp_grant_covers(const struct tcp_grant *grant, uint64_t offset,
                      uint64_t size);
