/* How a budget is divided among pool groups: what each must have, then the rest
 * in the proportion in which typical work needs them. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "kv/geometry.h"

enum { TYPICAL_HISTORY = 2048, TYPICAL_CAPACITY = 2049 };

/* Of each group. */
struct shares {
    uint64_t bytes[KV_LIFE_COUNT_MAX]; /* of a slot, all pools */
    uint64_t floor[KV_LIFE_COUNT_MAX]; /* slots that max_batch sequences need */
    uint64_t batch[KV_LIFE_COUNT_MAX]; /* slots of the constraints */
    uint64_t typical[KV_LIFE_COUNT_MAX]; /* slots of a typical request */
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Blocks that one request has at a time. */
static uint64_t blocks_of(const struct kv_life *life, uint32_t block,
                          const struct kv_constraint *request)
{
    uint64_t blocks = kv_blocks_of(request->capacity, block);
    struct kv_range stale = kv_life_stale(life, block, request->history);
    return blocks - smaller(blocks, kv_range_count(stale));
}

/* Blocks of the shared prefix that a request uses, [0, sinks) and [window, end). */
struct shared {
    uint64_t sinks, window, end;
};

static struct shared shared_of(const struct kv_life *life, uint32_t block,
                               const struct kv_constraint *request,
                               uint32_t shared_tokens)
{
    struct kv_range stale = kv_life_stale(life, block, request->history);
    uint64_t tokens = smaller(shared_tokens, request->capacity);
    uint64_t end = tokens / block;
    uint64_t sinks = smaller(stale.first, end);
    return (struct shared){sinks, larger(sinks, smaller(stale.end, end)), end};
}

/* All constraints at a time; what they share counts once. */
static uint64_t batch_of(const struct kv_division_options *options,
                         const struct kv_life *life)
{
    struct shared all = {.window = UINT64_MAX};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < options->constraint_count; i++) {
        const struct kv_constraint *request = &options->constraints[i];
        struct shared one = shared_of(life, options->tokens_per_block, request,
                                      options->shared_tokens);
        sum += blocks_of(life, options->tokens_per_block, request);
        sum -= one.sinks + (one.end - one.window);
        all.sinks = larger(all.sinks, one.sinks);
        all.window = smaller(all.window, one.window);
        all.end = larger(all.end, one.end);
    }
    /* Where the two ranges meet, blocks count once. */
    all.window = larger(all.window, all.sinks);
    return sum + all.sinks + (all.end - smaller(all.window, all.end));
}

/* A windowed pool that runs dry stops everybody, as no sequence can take a step;
 * a full one is what admission counts. */
static uint64_t floor_of(const struct kv_division_options *options,
                         const struct kv_life *life)
{
    uint32_t block = options->tokens_per_block;
    if (life->window == 0) {
        return 1;
    }
    uint64_t visible = (uint64_t)life->window + options->draft + 1;
    uint64_t blocks = (visible + block - 1) / block + 1;
    blocks += kv_blocks_of(life->sink_tokens, block);
    return options->max_batch * blocks + kv_blocks_of(options->step_max, block);
}

static void weigh(const struct kv_geometry *geometry,
                  const struct kv_division_options *options,
                  struct shares *shares_out)
{
    struct kv_constraint typical = options->typical;
    if (typical.capacity == 0) {
        typical = (struct kv_constraint){TYPICAL_CAPACITY, TYPICAL_HISTORY};
    }
    struct shares shares;
    memset(&shares, 0, sizeof(shares));
    for (uint32_t i = 0; i < options->life_count; i++) {
        const struct kv_life *life = &options->lives[i];
        uint32_t group = geometry->group_of[i];
        shares.floor[group] += floor_of(options, life);
        shares.batch[group] += batch_of(options, life);
        shares.typical[group] +=
            blocks_of(life, options->tokens_per_block, &typical);
    }
    for (uint32_t group = 0; group < geometry->group_count; group++) {
        for (uint32_t i = 0; i < geometry->pool_counts[group]; i++) {
            shares.bytes[group] += geometry->slot_bytes[group][i];
        }
        if (options->typical.capacity == 0 && options->constraint_count > 0) {
            shares.typical[group] = shares.batch[group];
        }
    }
    *shares_out = shares;
}

static enum err say_full(const struct shares *shares, uint32_t group_count,
                         uint64_t budget, struct why *why)
{
    char sums[256] = "";
    size_t length = 0;
    for (uint32_t group = 0; group < group_count; group++) {
        int added = snprintf(
            sums + length, sizeof(sums) - length,
            "; group %u: %llu slots for max_batch, %llu for constraints, of "
            "%llu bytes",
            group, (unsigned long long)shares->floor[group],
            (unsigned long long)shares->batch[group],
            (unsigned long long)shares->bytes[group]);
        length = smaller(length + (size_t)added, sizeof(sums) - 1);
    }
    return why_say(why, ERR_FULL, "budget_bytes: %llu do not hold the least%s",
                   (unsigned long long)budget, sums);
}

/* The least that each group must have; false: more than the budget. */
static bool set_least(const struct shares *shares, uint32_t group_count,
                      uint64_t budget, uint64_t *least_out)
{
    uint64_t left = budget;
    for (uint32_t group = 0; group < group_count; group++) {
        least_out[group] = larger(shares->floor[group], shares->batch[group]);
        if (least_out[group] > left / shares->bytes[group]) {
            return false;
        }
        left -= least_out[group] * shares->bytes[group];
    }
    return true;
}

/* Slots of a group when `left` bytes go to all that are still open. */
static uint64_t share_of(const struct shares *shares, const bool *is_fixed,
                         uint32_t group_count, uint32_t group, uint64_t left)
{
    unsigned __int128 sum = 0;
    for (uint32_t i = 0; i < group_count; i++) {
        if (!is_fixed[i]) {
            sum += (unsigned __int128)shares->typical[i] * shares->bytes[i];
        }
    }
    /* left * (typical * bytes / sum) / bytes */
    return sum == 0 ? 0
                    : (uint64_t)((unsigned __int128)left *
                                 shares->typical[group] / sum);
}

/* Groups whose share is below their least get that; the others share the rest. */
static uint64_t fix_small(const struct shares *shares, const uint64_t *least,
                          uint32_t group_count, uint64_t budget, bool *is_fixed)
{
    uint64_t left = budget;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (uint32_t i = 0; i < group_count; i++) {
            if (!is_fixed[i] &&
                share_of(shares, is_fixed, group_count, i, left) < least[i]) {
                is_fixed[i] = true;
                is_changed = true;
                left -= least[i] * shares->bytes[i];
                break;
            }
        }
    }
    return left;
}

enum err kv_geometry_divide(const struct kv_geometry *geometry,
                            const struct kv_division_options *options,
                            struct why *why,
                            uint32_t slots_out[KV_LIFE_COUNT_MAX])
{
    uint32_t group_count = geometry->group_count;
    struct shares shares;
    uint64_t least[KV_LIFE_COUNT_MAX];
    bool is_fixed[KV_LIFE_COUNT_MAX] = {false};
    if (options->tokens_per_block == 0) {
        return why_say(why, ERR_INVALID, "tokens_per_block: 0");
    }
    weigh(geometry, options, &shares);
    if (!set_least(&shares, group_count, options->budget_bytes, least)) {
        return say_full(&shares, group_count, options->budget_bytes, why);
    }
    uint64_t left =
        fix_small(&shares, least, group_count, options->budget_bytes, is_fixed);
    uint32_t slots[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t i = 0; i < group_count; i++) {
        uint64_t count =
            is_fixed[i] ? least[i]
                        : share_of(&shares, is_fixed, group_count, i, left);
        slots[i] = (uint32_t)smaller(count, INT32_MAX);
    }
    memcpy(slots_out, slots, sizeof(slots));
    return OK;
}
