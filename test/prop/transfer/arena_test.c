/* The arena beside a slow one that is a map of granules: the same answer to
 * every question, whatever the order of calls. */
#include "unit/base/test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "transfer/arena.h"

enum { GRANULE = 64, LEAVES_MAX = 64, STEPS = 4000 };

/* Each granule: 0 free, else the number of its block; who is quarantined. */
struct slow {
    uint32_t leaves;
    uint32_t map[LEAVES_MAX];
    bool is_quarantined[LEAVES_MAX];
};

static uint32_t granules_of(uint64_t size)
{
    uint32_t count = 1;
    while ((uint64_t)count * GRANULE < size) {
        count *= 2;
    }
    return count;
}

static bool is_free(const struct slow *slow, uint32_t first, uint32_t count)
{
    bool is = true;
    for (uint32_t i = 0; i < count; i++) {
        is &= slow->map[first + i] == 0;
    }
    return is;
}

/* Is there an aligned free block of that many granules in the half? */
static bool can_take(const struct slow *slow, enum transfer_arena_half half,
                     uint32_t count)
{
    uint32_t begin = half == TRANSFER_ARENA_LOWER ? 0 : slow->leaves / 2;
    bool can = false;
    for (uint32_t at = begin; at < begin + slow->leaves / 2; at += count) {
        can |= is_free(slow, at, count);
    }
    return can;
}

static void compare(const struct transfer_arena *arena, const struct slow *slow)
{
    struct transfer_arena_counts counts = transfer_arena_counts(arena);
    uint64_t live = 0, quarantined = 0, free = 0;
    for (uint32_t i = 0; i < slow->leaves; i++) {
        bool is_lent = slow->map[i] != 0;
        live += is_lent && !slow->is_quarantined[i] ? GRANULE : 0;
        quarantined += is_lent && slow->is_quarantined[i] ? GRANULE : 0;
        free += is_lent ? 0 : GRANULE;
    }
    assert_int_equal(counts.live, live);
    assert_int_equal(counts.quarantined, quarantined);
    assert_int_equal(counts.free, free);
    assert_true(transfer_arena_is_valid(arena));
}

static void take(struct transfer_arena *arena, struct slow *slow,
                 struct rng *rng, uint32_t number)
{
    uint64_t size = rng_below(rng, (uint64_t)GRANULE << rng_below(rng, 7));
    enum transfer_arena_half half = (enum transfer_arena_half)rng_below(rng, 2);
    uint32_t count = granules_of(size);
    uint64_t offset = 0;
    enum err err = transfer_arena_take(arena, half, size, &offset);
    if (size == 0 || count > slow->leaves / 2) {
        assert_int_equal(err, ERR_INVALID);
        return;
    }
    assert_int_equal(err, can_take(slow, half, count) ? OK : ERR_FULL);
    if (err) {
        return;
    }
    uint32_t first = (uint32_t)(offset / GRANULE);
    assert_int_equal(offset % ((uint64_t)count * GRANULE), 0);
    assert_int_equal(first >= slow->leaves / 2, half == TRANSFER_ARENA_UPPER);
    assert_true(first + count <= slow->leaves);
    assert_true(is_free(slow, first, count));
    for (uint32_t i = 0; i < count; i++) {
        slow->map[first + i] = number;
        slow->is_quarantined[first + i] = false;
    }
}

/* A random lent block moves one state on. */
static void change(struct transfer_arena *arena, struct slow *slow,
                   struct rng *rng)
{
    uint32_t at = (uint32_t)rng_below(rng, slow->leaves);
    uint32_t number = slow->map[at];
    if (number == 0) {
        return;
    }
    while (at > 0 && slow->map[at - 1] == number) {
        at--;
    }
    bool is_quarantined = slow->is_quarantined[at];
    bool will_be = !is_quarantined && rng_below(rng, 2);
    uint64_t offset = (uint64_t)at * GRANULE;
    if (is_quarantined) {
        transfer_arena_release(arena, offset);
    } else if (will_be) {
        transfer_arena_quarantine(arena, offset);
    } else {
        transfer_arena_give(arena, offset);
    }
    for (; at < slow->leaves && slow->map[at] == number; at++) {
        slow->map[at] = will_be ? number : 0;
        slow->is_quarantined[at] = will_be;
    }
}

/* Random takes, gives, quarantines and releases: blocks never overlap, ERR_FULL
 * only when the map has no such block, live + quarantined + free is the
 * capacity, nothing is allocated. [transfer T36 I30] */
static void it_does_what_the_map_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct rng rng = rng_from_seed(seed);
        struct slow slow = {.leaves = 2u << rng_below(&rng, 6)};
        struct transfer_arena *arena = transfer_arena_create(
            (uint64_t)slow.leaves * GRANULE + rng_below(&rng, GRANULE),
            GRANULE);
        uint64_t allocations = mem_allocation_count();
        for (uint32_t step = 1; step <= STEPS; step++) {
            if (rng_below(&rng, 5) < 2) {
                take(arena, &slow, &rng, step);
            } else {
                change(arena, &slow, &rng);
            }
            compare(arena, &slow);
        }
        assert_int_equal(mem_allocation_count(), allocations);
        transfer_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_what_the_map_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
