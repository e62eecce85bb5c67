/* What options must be for a manager to work with them. */
#include "kv/manager_state.h"

/* A page counts its users in 16 bits, and leases are among them. */
enum { SEQ_COUNT_MAX = INT16_MAX };
/* Pages are named in 30 bits, and there may be four nodes a page. */
#define PAGE_COUNT_MAX (UINT32_C(1) << 27)

static enum err check_lives(const struct kv_manager_options *options,
                            struct why *why)
{
    if (options->life_count == 0 || options->life_count > KV_LIFE_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "life_count: %u is not 1 to %d",
                       options->life_count, KV_LIFE_COUNT_MAX);
    }
    if (options->group_count == 0 ||
        options->group_count > options->life_count) {
        return why_say(why, ERR_INVALID, "group_count: %u is not 1 to %u",
                       options->group_count, options->life_count);
    }
    for (uint32_t life = 0; life < options->life_count; life++) {
        if (options->group_of[life] >= options->group_count) {
            return why_say(why, ERR_INVALID, "group_of[%u]: no group %u", life,
                           options->group_of[life]);
        }
        if (options->lives[life].window == 0 &&
            options->lives[life].sink_tokens > 0) {
            return why_say(why, ERR_INVALID,
                           "lives[%u].sink_tokens: sinks need a window", life);
        }
    }
    return OK;
}

static enum err check_sizes(const struct kv_manager_options *options,
                            struct why *why)
{
    uint32_t block = options->tokens_per_block;
    if (block == 0 || (block & (block - 1)) != 0 ||
        block > PREFIX_BLOCK_TOKENS_MAX) {
        return why_say(why, ERR_INVALID,
                       "tokens_per_block: %u is no power of two up to %d",
                       block, PREFIX_BLOCK_TOKENS_MAX);
    }
    if (options->level_count == 0 ||
        options->level_count > KV_LEVEL_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "level_count: %u is not 1 to %d",
                       options->level_count, KV_LEVEL_COUNT_MAX);
    }
    if (options->seq_count_max == 0 || options->block_count_max == 0) {
        return why_say(why, ERR_INVALID, "%s: must not be 0",
                       options->seq_count_max == 0 ? "seq_count_max"
                                                   : "block_count_max");
    }
    if (options->seq_count_max > SEQ_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "seq_count_max: %u is over %d",
                       options->seq_count_max, SEQ_COUNT_MAX);
    }
    if (options->block_count_max > UINT32_MAX / block) {
        return why_say(why, ERR_INVALID,
                       "block_count_max: %u blocks of %u tokens are too many",
                       options->block_count_max, block);
    }
    if (options->offload_priority_min > KV_PRIORITY_MAX) {
        return why_say(why, ERR_INVALID, "offload_priority_min: %u is over %d",
                       options->offload_priority_min, KV_PRIORITY_MAX);
    }
    return OK;
}

/* Slots, and records that orders keep from being used again. */
static enum err check_counts(const struct kv_manager_options *options,
                             struct why *why)
{
    uint64_t count = UINT64_C(2) * options->order_max;
    for (uint32_t level = 0; level < options->level_count; level++) {
        for (uint32_t group = 0; group < options->group_count; group++) {
            count += options->slot_counts[level][group];
        }
    }
    uint64_t blocks = (uint64_t)options->block_count_max * options->life_count;
    unsigned long long all = count + 4 * blocks;
    if (all > PAGE_COUNT_MAX) {
        return why_say(why, ERR_INVALID,
                       "slot_counts: %llu pages, copies and blocks of a "
                       "sequence are over %u",
                       all, PAGE_COUNT_MAX);
    }
    return OK;
}

/* A pool that cannot hold one sequence to its end would never let it end. */
static enum err check_pools(const struct kv_manager_options *options,
                            struct why *why)
{
    uint32_t tokens = options->block_count_max * options->tokens_per_block;
    uint32_t step = options->step_max < tokens ? options->step_max : tokens;
    for (uint32_t group = 0; group < options->group_count; group++) {
        uint64_t need = 0;
        for (uint32_t life = 0; life < options->life_count; life++) {
            if (options->group_of[life] == group) {
                need +=
                    kv_life_blocks_max(&options->lives[life],
                                       options->tokens_per_block, tokens, step);
            }
        }
        if (options->slot_counts[0][group] < need) {
            return why_say(why, ERR_FULL,
                           "slot_counts[0][%u]: %u pages, but one sequence of "
                           "%u tokens in steps of %u takes %llu",
                           group, options->slot_counts[0][group], tokens, step,
                           (unsigned long long)need);
        }
    }
    return OK;
}

enum err kv_manager_check(const struct kv_manager_options *options,
                          struct why *why)
{
    enum err err = check_lives(options, why);
    err = err == OK ? check_sizes(options, why) : err;
    err = err == OK ? check_counts(options, why) : err;
    return err == OK ? check_pools(options, why) : err;
}
