#pragma once
/* transfer/advert: what receivers asked this sender for, key (rid, receiver
 * incarnation), stored until its session comes, bound to it then (transfer.md
 * 1.6.7, 2.7). A bounded table; page lists keep their memory for the next. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "transfer/pairing.h"
#include "transfer/state.h"
#include "wire/recv_request.h"

struct transfer_advert {
    uint8_t state; /* enum advert_state */
    int64_t rid;
    uint64_t receiver;
    uint32_t attempt;
    int64_t receiver_slice;
    uint32_t prompt_tokens;
    uint32_t style;
    uint64_t arrived_ns; /* of the first advertisement of this rid */
    uint32_t group_count;
    struct transfer_blocks blocks[WIRE_GROUP_COUNT_MAX]; /* by group */
    void *owner; /* the caller's: by whom it came */
    /* private */
    kv_page_id *pages; /* (group_count, block_count) */
    uint32_t page_capacity;
};

struct transfer_adverts;
struct transfer_adverts *transfer_adverts_create(uint32_t capacity);
void transfer_adverts_destroy(struct transfer_adverts *adverts);

/* Stores it. The same again (key, attempt and list) is OK and the same entry;
 * ERR_EXISTS: another one under that key; ERR_FULL: no place, or one receiver
 * has half of them STORED, so that none keeps the others out; ERR_NO_MEMORY;
 * ERR_INVALID: another number of groups than `group_count`, or a page outside
 * [0, page_counts[group]). */
MUST_USE enum err transfer_adverts_store(
    struct transfer_adverts *adverts, uint64_t receiver, uint32_t attempt,
    const struct wire_recv_request *request, const uint32_t *page_counts,
    uint32_t group_count, uint64_t now, struct transfer_advert **advert_out);
struct transfer_advert *transfer_adverts_find(struct transfer_adverts *adverts,
                                              int64_t rid, uint64_t receiver);
/* The longest waiting STORED one of `rid`, or NULL. */
struct transfer_advert *transfer_adverts_find_stored(
    struct transfer_adverts *adverts, int64_t rid);
void transfer_advert_move(struct transfer_advert *advert,
                          enum advert_event event);
/* One STORED for more than `ttl_ns`, or NULL. */
struct transfer_advert *transfer_adverts_find_expired(
    struct transfer_adverts *adverts, uint64_t now, uint64_t ttl_ns);
/* Any STORED one with that owner, or NULL. */
struct transfer_advert *transfer_adverts_find_of(
    struct transfer_adverts *adverts, const void *owner);
/* STORED ones. */
uint32_t transfer_adverts_stored(const struct transfer_adverts *adverts);
