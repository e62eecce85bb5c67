#include "transfer/arena.h"

#include "base/check.h"
#include "base/mem.h"

/* Of a granule where a block begins; the order is that of the block. */
enum { GRANULE_NONE, GRANULE_LIVE, GRANULE_QUARANTINED };
struct granule {
    uint8_t state, order;
};

/* best[node] is 1 + the order of the largest free block below a node, 0 when
 * there is none. Node 1 is the whole, its children 2 and 3 the halves. */
struct transfer_arena {
    uint64_t granule;
    uint32_t leaves, orders; /* leaves = 2^orders */
    struct transfer_arena_counts counts;
    uint8_t *best; /* (2 * leaves) */
    struct granule *granules; /* (leaves) */
};

uint64_t transfer_arena_usable(uint64_t size, uint64_t granule)
{
    uint64_t usable = granule;
    while (usable <= size / 2) {
        usable *= 2;
    }
    return usable >= 2 * granule && usable / granule <= UINT32_MAX / 4 ? usable
                                                                       : 0;
}

struct transfer_arena *transfer_arena_create(uint64_t size, uint64_t granule)
{
    CHECK(granule >= TRANSFER_ARENA_GRANULE_MIN);
    CHECK((granule & (granule - 1)) == 0);
    uint64_t usable = transfer_arena_usable(size, granule);
    CHECK(usable != 0);
    struct transfer_arena *arena = mem_new(sizeof(*arena));
    arena->granule = granule;
    arena->leaves = (uint32_t)(usable / granule);
    while (UINT32_C(1) << arena->orders < arena->leaves) {
        arena->orders++;
    }
    arena->counts.free = usable;
    arena->best = mem_new_array((size_t)2 * arena->leaves, 1);
    arena->granules = mem_new_array(arena->leaves, sizeof(arena->granules[0]));
    uint32_t order = arena->orders;
    for (uint32_t node = 1; node < 2 * arena->leaves; node++) {
        order -= node == arena->leaves >> order << 1;
        arena->best[node] = (uint8_t)(order + 1);
    }
    return arena;
}

void transfer_arena_destroy(struct transfer_arena *arena)
{
    if (arena != NULL) {
        mem_free(arena->best);
        mem_free(arena->granules);
        mem_free(arena);
    }
}

uint64_t transfer_arena_capacity(const struct transfer_arena *arena)
{
    return arena->granule * arena->leaves;
}

struct transfer_arena_counts transfer_arena_counts(
    const struct transfer_arena *arena)
{
    return arena->counts;
}

static uint64_t size_of(const struct transfer_arena *arena, uint32_t order)
{
    return arena->granule << order;
}

static uint32_t node_of(const struct transfer_arena *arena, uint32_t granule,
                        uint32_t order)
{
    return (arena->leaves >> order) + (granule >> order);
}

/* Sets a node of `order` and what follows from it above, up to its half. */
static void set_best(struct transfer_arena *arena, uint32_t node,
                     uint32_t order, uint8_t best)
{
    arena->best[node] = best;
    while (node > 3) {
        uint8_t one = arena->best[node], other = arena->best[node ^ 1];
        bool are_whole = one == order + 1 && other == order + 1;
        node /= 2;
        order++;
        arena->best[node] = are_whole     ? (uint8_t)(order + 1)
                            : one > other ? one
                                          : other;
    }
}

/* The smallest block that will do is cut, so that large ones stay whole. */
static uint32_t find_node(const struct transfer_arena *arena, uint32_t root,
                          uint32_t order)
{
    uint32_t node = root;
    for (uint32_t at = arena->orders - 1; at > order; at--) {
        uint8_t left = arena->best[2 * node];
        uint8_t right = arena->best[2 * node + 1];
        bool is_left = left > order && (right <= order || left <= right);
        node = 2 * node + (is_left ? 0 : 1);
    }
    return node;
}

enum err transfer_arena_take(struct transfer_arena *arena,
                             enum transfer_arena_half half, uint64_t size,
                             uint64_t *offset_out)
{
    uint32_t order = 0;
    while (order < arena->orders && size_of(arena, order) < size) {
        order++;
    }
    if (size == 0 || order >= arena->orders) {
        return ERR_INVALID;
    }
    uint32_t root = half == TRANSFER_ARENA_LOWER ? 2 : 3;
    if (arena->best[root] <= order) {
        return ERR_FULL;
    }
    uint32_t node = find_node(arena, root, order);
    CHECK(arena->best[node] == order + 1);
    set_best(arena, node, order, 0);
    uint32_t granule = (node - (arena->leaves >> order)) << order;
    CHECK(arena->granules[granule].state == GRANULE_NONE);
    arena->granules[granule] = (struct granule){GRANULE_LIVE, (uint8_t)order};
    arena->counts.live += size_of(arena, order);
    arena->counts.live_count++;
    arena->counts.free -= size_of(arena, order);
    *offset_out = arena->granule * granule;
    return OK;
}

/* The block at `offset`, which must be in that state. */
static uint32_t find_block(const struct transfer_arena *arena, uint64_t offset,
                           uint8_t state)
{
    CHECK(offset % arena->granule == 0);
    CHECK(offset / arena->granule < arena->leaves);
    uint32_t granule = (uint32_t)(offset / arena->granule);
    CHECK(arena->granules[granule].state == state);
    return granule;
}

static void set_free(struct transfer_arena *arena, uint32_t granule)
{
    uint32_t order = arena->granules[granule].order;
    arena->granules[granule] = (struct granule){0};
    arena->counts.free += size_of(arena, order);
    set_best(arena, node_of(arena, granule, order), order,
             (uint8_t)(order + 1));
}

static void count_off(uint64_t *bytes, uint32_t *blocks, uint64_t size)
{
    *bytes -= size;
    --*blocks;
}

void transfer_arena_give(struct transfer_arena *arena, uint64_t offset)
{
    uint32_t granule = find_block(arena, offset, GRANULE_LIVE);
    count_off(&arena->counts.live, &arena->counts.live_count,
              size_of(arena, arena->granules[granule].order));
    set_free(arena, granule);
}

void transfer_arena_quarantine(struct transfer_arena *arena, uint64_t offset)
{
    uint32_t granule = find_block(arena, offset, GRANULE_LIVE);
    uint64_t size = size_of(arena, arena->granules[granule].order);
    count_off(&arena->counts.live, &arena->counts.live_count, size);
    arena->counts.quarantined += size;
    arena->counts.quarantined_count++;
    arena->granules[granule].state = GRANULE_QUARANTINED;
}

void transfer_arena_release(struct transfer_arena *arena, uint64_t offset)
{
    uint32_t granule = find_block(arena, offset, GRANULE_QUARANTINED);
    count_off(&arena->counts.quarantined, &arena->counts.quarantined_count,
              size_of(arena, arena->granules[granule].order));
    set_free(arena, granule);
}

/* Blocks do not overlap, and no free block lies in one. */
bool transfer_arena_is_valid(const struct transfer_arena *arena)
{
    struct transfer_arena_counts seen = {0};
    for (uint32_t at = 0; at < arena->leaves;) {
        const struct granule *granule = &arena->granules[at];
        uint64_t size = size_of(arena, granule->order);
        bool is_lent = granule->state != GRANULE_NONE;
        seen.live += granule->state == GRANULE_LIVE ? size : 0;
        seen.quarantined += granule->state == GRANULE_QUARANTINED ? size : 0;
        seen.free += is_lent ? 0 : arena->granule;
        uint32_t node = node_of(arena, at, granule->order);
        if (is_lent && (arena->best[node] != 0 ||
                        at % (UINT32_C(1) << granule->order) != 0)) {
            return false;
        }
        at += is_lent ? UINT32_C(1) << granule->order : 1;
    }
    return seen.live == arena->counts.live &&
           seen.quarantined == arena->counts.quarantined &&
           seen.free == arena->counts.free &&
           seen.live + seen.quarantined + seen.free ==
               transfer_arena_capacity(arena);
}
