#include "engine/prefix_wait.h"

#include "base/check.h"
#include "base/mem.h"
#include "engine/prefix_wait_state.h"

struct prefix_wait_options prefix_wait_options_default(void)
{
    return (struct prefix_wait_options){
        .tokens_per_block = 32,
        .gain_min = 64,
        .wait_max = 128,
        .request_max = 1024,
        .entry_max = 1 << 17,
        .is_cost_ruled = true,
        .point_gap = 64,
        .is_enabled = true,
    };
}

static enum err check_options(const struct prefix_wait_options *options,
                              struct why *why)
{
    if (options->tokens_per_block == 0 || options->gain_min == 0 ||
        options->request_max == 0 || options->entry_max == 0) {
        return why_say(why, ERR_INVALID,
                       "tokens_per_block %u, gain_min %u, request_max %u and "
                       "entry_max %u must be at least 1",
                       options->tokens_per_block, options->gain_min,
                       options->request_max, options->entry_max);
    }
    return OK;
}

static void create_lists(struct prefix_wait *waits)
{
    uint32_t count = waits->options.entry_max;
    waits->tags = mem_new_array(count, sizeof(waits->tags[0]));
    waits->entries =
        mem_new_array((size_t)count + 1, sizeof(waits->entries[0]));
    for (uint32_t i = 0; i < count; i++) {
        waits->tags[i].next_free = i + 1 < count ? i + 1 : UINT32_MAX;
        waits->entries[i + 1].deeper = i + 1 < count ? i + 2 : 0;
    }
    waits->free_tag = 0;
    waits->free_entry = 1;
}

enum err prefix_wait_create(const struct prefix_wait_options *options,
                            struct why *why, struct prefix_wait **waits_out)
{
    enum err err = check_options(options, why);
    if (err != OK) {
        return err;
    }
    struct prefix_wait *waits = mem_new(sizeof(*waits));
    waits->options = *options;
    create_lists(waits);
    waits->computing =
        mem_new_array(options->request_max, sizeof(waits->computing[0]));
    waits->table = prefix_table_create(
        &(struct prefix_table_options){.capacity = options->entry_max,
                                       .keys = &waits->tags[0].key,
                                       .key_stride = sizeof(waits->tags[0])});
    if (waits->table == NULL) {
        prefix_wait_destroy(waits);
        return why_say(why, ERR_NO_MEMORY, "no memory for %u index entries",
                       options->entry_max);
    }
    *waits_out = waits;
    return OK;
}

void prefix_wait_destroy(struct prefix_wait *waits)
{
    if (waits == NULL) {
        return;
    }
    prefix_table_destroy(waits->table);
    mem_free(waits->computing);
    mem_free(waits->entries);
    mem_free(waits->tags);
    mem_free(waits);
}

bool prefix_wait_may_own(const struct prefix_wait *waits,
                         const struct prefix_wait_request *request)
{
    const struct sched_unit *unit = request->unit;
    if (unit->kind != SCHED_CONTEXT ||
        unit->position - unit->under_way >= unit->target) {
        return false;
    }
    bool stands_ahead = request->seen_pass == waits->pass &&
                        request->planned_pass != waits->pass;
    return unit->is_started || stands_ahead;
}

/* Keys are chained: equal at one block means equal up to it. */
static uint32_t common_blocks(const struct prefix_wait_request *a,
                              const struct prefix_wait_request *b,
                              uint32_t known)
{
    uint32_t most = a->key_count < b->key_count ? a->key_count : b->key_count;
    uint32_t end = known + PREFIX_WAIT_STRIDE;
    most = most < end ? most : end;
    while (known < most) {
        uint32_t middle = known + (most - known + 1) / 2;
        if (prefix_key_equals(&a->keys[middle - 1], &b->keys[middle - 1])) {
            known = middle;
        } else {
            most = middle - 1;
        }
    }
    return known;
}

/* Whoever shares the prefix at `step` strides, and not waits for it. */
static struct prefix_wait_request *owner_at(
    const struct prefix_wait *waits, const struct prefix_wait_request *request,
    uint32_t step)
{
    const struct prefix_key *key =
        &request->keys[step * PREFIX_WAIT_STRIDE - 1];
    return prefix_wait_find_owner(waits, key, request);
}

/* The owner that shares most: galloping on from the least depth worth it, then
 * between the last hit and the first miss. */
static struct prefix_wait_request *deepest_owner(
    const struct prefix_wait *waits, const struct prefix_wait_request *request,
    uint32_t least_blocks, uint32_t *step_out)
{
    uint32_t most = request->key_count / PREFIX_WAIT_STRIDE;
    uint32_t hit = least_blocks / PREFIX_WAIT_STRIDE;
    if (hit == 0 || hit > most) {
        return NULL;
    }
    struct prefix_wait_request *owner = owner_at(waits, request, hit);
    uint32_t miss = owner == NULL ? hit + 1 : most + 1;
    uint32_t stride = 1;
    while (miss - hit > 1) {
        bool is_galloping = hit + stride < miss;
        uint32_t next = is_galloping ? hit + stride : hit + (miss - hit) / 2;
        struct prefix_wait_request *deeper = owner_at(waits, request, next);
        if (deeper == NULL) {
            miss = next;
        } else {
            owner = deeper;
            hit = next;
        }
        stride = deeper == NULL ? (miss - hit) / 2 : stride * 2;
        stride = stride == 0 ? 1 : stride;
    }
    *step_out = hit;
    return owner;
}

uint32_t prefix_wait_request_point(const struct prefix_wait *waits,
                                   struct prefix_wait_request *owner,
                                   uint32_t depth)
{
    uint32_t block = waits->options.tokens_per_block;
    uint32_t point = depth / block * block;
    if (point <= owner->unit->position || point >= owner->token_count) {
        return 0;
    }
    uint32_t at = 0;
    while (at < owner->point_count && owner->points[at] < point) {
        at++;
    }
    if (at < owner->point_count && owner->points[at] == point) {
        return point;
    }
    uint32_t gap = waits->options.point_gap * block;
    bool is_close =
        (at > 0 && point - owner->points[at - 1] < gap) ||
        (at < owner->point_count && owner->points[at] - point < gap);
    if (is_close || owner->point_count == PREFIX_WAIT_POINT_MAX) {
        return 0;
    }
    for (uint32_t i = owner->point_count++; i > at; i--) {
        owner->points[i] = owner->points[i - 1];
    }
    owner->points[at] = point;
    return point;
}

/* Passes until the owner has computed up to `depth`, against passes that the
 * gain would take us, both times 256. Not worth it: more than 5/4. */
static bool is_too_dear(const struct prefix_wait *waits,
                        const struct prefix_wait_request *owner, uint32_t depth,
                        uint32_t gain_tokens, uint32_t budget_tokens,
                        uint64_t ahead_tokens)
{
    if (!waits->options.is_cost_ruled || ahead_tokens >= budget_tokens ||
        budget_tokens == 0) {
        return false;
    }
    const struct sched_unit *unit = owner->unit;
    uint64_t left = depth > unit->position ? depth - unit->position : 0;
    uint64_t speed = unit->recent_tokens / 256;
    if (!unit->is_started || speed == 0) {
        speed = budget_tokens;
    }
    uint64_t owner_passes = left * 256 / speed;
    uint64_t own_passes =
        (uint64_t)gain_tokens * 256 / (budget_tokens - ahead_tokens);
    return owner_passes * 4 > own_passes * 5;
}

static bool may_wait(const struct prefix_wait *waits,
                     const struct prefix_wait_request *request)
{
    const struct sched_unit *unit = request->unit;
    return !unit->is_started && !unit->is_multimodal &&
           unit->waits < waits->options.wait_max;
}

/* An owner worth waiting for, or NULL. */
static const struct prefix_wait_request *choose(
    struct prefix_wait *waits, struct prefix_wait_request *request,
    uint32_t budget_tokens, uint64_t ahead_tokens)
{
    uint32_t block = waits->options.tokens_per_block;
    uint32_t reused = request->unit->probed / block;
    uint32_t least = reused + waits->options.gain_min;
    uint32_t step = 0;
    struct prefix_wait_request *owner =
        deepest_owner(waits, request, least, &step);
    if (owner == NULL) {
        return NULL;
    }
    uint32_t depth = common_blocks(request, owner, step * PREFIX_WAIT_STRIDE);
    uint32_t usable = (request->token_count - 1) / block;
    depth = depth < usable ? depth : usable;
    if (depth < least) {
        return NULL;
    }
    if (waits->options.needs_points) {
        uint32_t granted =
            prefix_wait_request_point(waits, owner, depth * block);
        waits->stats.points += granted > 0;
        waits->stats.refusals += granted == 0;
        depth = granted / block;
        if (depth < least) {
            return NULL;
        }
    }
    if (is_too_dear(waits, owner, depth * block, (depth - reused) * block,
                    budget_tokens, ahead_tokens)) {
        waits->stats.too_dear++;
        return NULL;
    }
    return owner;
}

static void plan_one(struct prefix_wait *waits,
                     struct prefix_wait_request *request,
                     uint32_t budget_tokens, uint64_t *ahead_tokens)
{
    struct sched_unit *unit = request->unit;
    request->owner = NULL;
    if (may_wait(waits, request)) {
        request->owner = choose(waits, request, budget_tokens, *ahead_tokens);
    }
    if (request->owner != NULL) {
        request->planned_pass = waits->pass;
        waits->stats.planned++;
        if (!request->has_waited) {
            request->has_waited = true;
            request->first_reused = unit->probed;
            waits->stats.requests_waited++;
        }
    } else {
        uint32_t done = unit->is_started ? unit->position : unit->probed;
        *ahead_tokens += unit->target - done;
    }
    request->seen_pass = waits->pass;
}

void prefix_wait_plan(struct prefix_wait *waits,
                      struct prefix_wait_request *const *pending,
                      uint32_t count, uint32_t budget_tokens)
{
    waits->computing_count = 0;
    if (!waits->options.is_enabled) {
        return;
    }
    waits->pass++;
    uint64_t ahead_tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        plan_one(waits, pending[i], budget_tokens, &ahead_tokens);
    }
}

bool prefix_wait_defer(struct prefix_wait *waits,
                       struct prefix_wait_request *request)
{
    if (request->owner == NULL || request->planned_pass != waits->pass ||
        !request->owner->unit->is_started) {
        return false;
    }
    waits->stats.waits++;
    waits->stats.exhausted +=
        request->unit->waits + 1 == waits->options.wait_max;
    return true;
}

static const struct prefix_key *first_new_block(
    const struct prefix_wait *waits, const struct prefix_wait_request *request,
    uint32_t position)
{
    uint32_t block = position / waits->options.tokens_per_block;
    return block < request->key_count ? &request->keys[block] : NULL;
}

static void add_computing(struct prefix_wait *waits,
                          const struct prefix_wait_request *request,
                          uint32_t position)
{
    const struct prefix_key *key = first_new_block(waits, request, position);
    if (waits->options.is_enabled && key != NULL && request->can_publish &&
        waits->computing_count < waits->options.request_max) {
        waits->computing[waits->computing_count++] = *key;
    }
}

void prefix_wait_admitted(struct prefix_wait *waits,
                          struct prefix_wait_request *request)
{
    uint32_t position = request->unit->position;
    if (request->has_waited && position > request->first_reused) {
        waits->stats.saved_tokens += position - request->first_reused;
    }
    request->has_waited = false;
    add_computing(waits, request, position);
}

void prefix_wait_in_flight(struct prefix_wait *waits,
                           const struct prefix_wait_request *request)
{
    const struct sched_unit *unit = request->unit;
    add_computing(waits, request, unit->position - unit->under_way);
}

bool prefix_wait_is_duplicate(const struct prefix_wait *waits,
                              const struct prefix_wait_request *request,
                              uint32_t reused)
{
    const struct prefix_key *key = first_new_block(waits, request, reused);
    for (uint32_t i = 0; key != NULL && i < waits->computing_count; i++) {
        if (prefix_key_equals(&waits->computing[i], key)) {
            return true;
        }
    }
    return false;
}

struct prefix_wait_stats prefix_wait_stats(const struct prefix_wait *waits)
{
    return waits->stats;
}
