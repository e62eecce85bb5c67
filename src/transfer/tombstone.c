#include "transfer/tombstone.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"

enum { NONE = -1 };

struct stone {
    int64_t rid;
    uint64_t until_ns;
    int32_t next; /* in its chain */
    uint8_t kind;
};

struct transfer_tombstones {
    uint64_t life_ns;
    uint32_t capacity; /* a power of two */
    uint32_t begin, count;
    struct stone *ring; /* (capacity), oldest at begin */
    int32_t *chains; /* (capacity), first of each hash */
};

struct transfer_tombstones *transfer_tombstones_create(uint32_t capacity,
                                                       uint64_t life_ns)
{
    CHECK(capacity > 0);
    CHECK((capacity & (capacity - 1)) == 0);
    struct transfer_tombstones *stones = mem_new(sizeof(*stones));
    stones->life_ns = life_ns;
    stones->capacity = capacity;
    stones->ring = mem_new_array(capacity, sizeof(stones->ring[0]));
    stones->chains = mem_new_array(capacity, sizeof(stones->chains[0]));
    for (uint32_t i = 0; i < capacity; i++) {
        stones->chains[i] = NONE;
    }
    return stones;
}

void transfer_tombstones_destroy(struct transfer_tombstones *tombstones)
{
    if (tombstones != NULL) {
        mem_free(tombstones->ring);
        mem_free(tombstones->chains);
        mem_free(tombstones);
    }
}

static int32_t *chain_of(const struct transfer_tombstones *stones, int64_t rid)
{
    uint64_t hash = rng_at((uint64_t)rid, 0, 0);
    return &stones->chains[hash & (stones->capacity - 1)];
}

static struct stone *find(const struct transfer_tombstones *stones, int64_t rid)
{
    int32_t at = *chain_of(stones, rid);
    while (at != NONE && stones->ring[at].rid != rid) {
        at = stones->ring[at].next;
    }
    return at != NONE ? &stones->ring[at] : NULL;
}

static void drop_oldest(struct transfer_tombstones *stones)
{
    struct stone *oldest = &stones->ring[stones->begin];
    int32_t *link = chain_of(stones, oldest->rid);
    while (*link != (int32_t)stones->begin) {
        CHECK(*link != NONE);
        link = &stones->ring[*link].next;
    }
    *link = oldest->next;
    stones->begin = (stones->begin + 1) & (stones->capacity - 1);
    stones->count--;
}

void transfer_tombstones_add(struct transfer_tombstones *tombstones,
                             int64_t rid, enum transfer_tombstone kind,
                             uint64_t now)
{
    struct stone *known = find(tombstones, rid);
    if (known != NULL && known->until_ns > now) {
        if (kind == TRANSFER_TOMBSTONE_ENDED) {
            known->kind = (uint8_t)kind;
        }
        return;
    }
    if (known != NULL) {
        known->kind = (uint8_t)kind;
        known->until_ns = now + tombstones->life_ns;
        return;
    }
    if (tombstones->count == tombstones->capacity) {
        drop_oldest(tombstones);
    }
    uint32_t at =
        (tombstones->begin + tombstones->count++) & (tombstones->capacity - 1);
    int32_t *chain = chain_of(tombstones, rid);
    tombstones->ring[at] =
        (struct stone){rid, now + tombstones->life_ns, *chain, (uint8_t)kind};
    *chain = (int32_t)at;
}

enum transfer_tombstone transfer_tombstones_find(
    const struct transfer_tombstones *tombstones, int64_t rid, uint64_t now)
{
    const struct stone *stone = find(tombstones, rid);
    bool is_live = stone != NULL && stone->until_ns > now;
    return is_live ? (enum transfer_tombstone)stone->kind
                   : TRANSFER_TOMBSTONE_NONE;
}
