#include "transfer/tcp_grants.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void tcp_grants_init(struct tcp_grants *grants, uint32_t capacity)
{
    *grants = (struct tcp_grants){
        .capacity = capacity,
        .items = mem_new_array(capacity, sizeof(grants->items[0])),
    };
}

void tcp_grants_finish(struct tcp_grants *grants)
{
    for (uint32_t i = 0; i < grants->capacity; i++) {
        mem_free(grants->items[i].ranges);
    }
    mem_free(grants->items);
    *grants = (struct tcp_grants){0};
}

static struct tcp_grant *find(const struct tcp_grants *grants, uint64_t sender,
                              struct transfer_token token)
{
    for (uint32_t i = 0; i < grants->count; i++) {
        struct tcp_grant *grant = &grants->items[i];
        if (grant->sender == sender && grant->token.rid == token.rid &&
            grant->token.attempt == token.attempt) {
            return grant;
        }
    }
    return NULL;
}

const struct tcp_grant *tcp_grants_find(const struct tcp_grants *grants,
                                        uint64_t sender,
                                        struct transfer_token token)
{
    return find(grants, sender, token);
}

static int compare(const void *a, const void *b)
{
    const struct transfer_range *x = a;
    const struct transfer_range *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorted ones that touch become one, so that a piece across two pages is found
 * whole. */
static uint32_t join(struct transfer_range *ranges, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct transfer_range *last = &ranges[kept == 0 ? 0 : kept - 1];
        uint64_t end = ranges[i].offset + ranges[i].size;
        if (kept == 0 || ranges[i].offset > last->offset + last->size) {
            ranges[kept++] = ranges[i];
        } else if (end > last->offset + last->size) {
            last->size = end - last->offset;
        }
    }
    return kept;
}

static enum err reserve(struct tcp_grant *grant, size_t count)
{
    if (count > UINT32_MAX / sizeof(grant->ranges[0])) {
        return ERR_FULL;
    }
    if (count > grant->range_capacity) {
        void *ranges =
            mem_try_resize(grant->ranges, count * sizeof(grant->ranges[0]));
        if (ranges == NULL) {
            return ERR_NO_MEMORY;
        }
        grant->ranges = ranges;
        grant->range_capacity = (uint32_t)count;
    }
    return OK;
}

enum err tcp_grants_add(struct tcp_grants *grants, uint64_t sender,
                        struct transfer_token token,
                        const struct transfer_range *ranges, size_t count)
{
    if (find(grants, sender, token) != NULL) {
        return ERR_EXISTS;
    }
    if (grants->count == grants->capacity) {
        return ERR_FULL;
    }
    struct tcp_grant *grant = &grants->items[grants->count];
    enum err err = reserve(grant, count);
    if (err) {
        return err;
    }
    if (count > 0) {
        memcpy(grant->ranges, ranges, count * sizeof(ranges[0]));
        qsort(grant->ranges, count, sizeof(ranges[0]), compare);
    }
    grant->range_count = join(grant->ranges, (uint32_t)count);
    grant->sender = sender;
    grant->token = token;
    grants->count++;
    grants->change++;
    return OK;
}

void tcp_grants_remove(struct tcp_grants *grants, uint64_t sender,
                       struct transfer_token token)
{
    struct tcp_grant *grant = find(grants, sender, token);
    if (grant != NULL) {
        /* Changes places with the last one, which keeps both memories. */
        grants->change++;
        struct tcp_grant *last = &grants->items[--grants->count];
        struct tcp_grant kept = *grant;
        *grant = *last;
        *last = kept;
    }
}

void tcp_grants_clear(struct tcp_grants *grants)
{
    grants->count = 0;
    grants->change++;
}

bool tcp_grant_covers(const struct tcp_grant *grant, uint64_t offset,
                      uint64_t size)
{
    uint32_t low = 0, high = grant->range_count;
    while (low < high) { /* the first that begins behind `offset` */
        uint32_t middle = low + (high - low) / 2;
        if (grant->ranges[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return false;
    }
    const struct transfer_range *range = &grant->ranges[low - 1];
    uint64_t in = offset - range->offset;
    return in <= range->size && size <= range->size - in;
}
