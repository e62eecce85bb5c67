#include "kv/manager.h"

#include "base/mem.h"
#include "kv/manager_state.h"

/* -- sizes ---------------------------------------------------------------- */

static uint32_t slots_of(const struct kv_manager_options *options,
                         uint32_t group)
{
    uint32_t count = 0;
    for (uint32_t level = 0; level < options->level_count; level++) {
        count += options->slot_counts[level][group];
    }
    return count;
}

static uint32_t all_slots(const struct kv_manager_options *options)
{
    uint32_t count = 0;
    for (uint32_t group = 0; group < options->group_count; group++) {
        count += slots_of(options, group);
    }
    return count;
}

/* Each node stands on a full-attention page. Without such a life cycle a chain's
 * nodes outlive their pages for as long as its end is here: some are granted. */
static uint32_t count_nodes(const struct kv_manager_options *options)
{
    uint32_t count = UINT32_MAX;
    for (uint32_t life = 0; life < options->life_count; life++) {
        uint32_t slots = slots_of(options, options->group_of[life]);
        if (options->lives[life].window == 0 && slots < count) {
            count = slots;
        }
    }
    return count < UINT32_MAX ? count : 4 * all_slots(options);
}

static void set_defaults(struct kv_manager *manager)
{
    struct kv_manager_options *options = &manager->options;
    uint32_t lives = options->life_count;
    uint32_t tokens = options->block_count_max * options->tokens_per_block;
    options->step_max = options->step_max == 0 || options->step_max > tokens
                            ? tokens
                            : options->step_max;
    manager->batch_max = lives * options->block_count_max + lives;
    if (options->order_max == 0) {
        uint32_t copies = 2 * lives * options->seq_count_max;
        uint32_t moves = options->level_count > 1 ? 2 * manager->batch_max : 0;
        options->order_max = copies + moves;
    }
    /* On the last level all that is queued may be dropped, and a batch at a time
     * will do; above it what may be can stand behind any number of held ones. */
    manager->victim_max = manager->batch_max;
    for (uint32_t level = 0; level + 1 < options->level_count; level++) {
        for (uint32_t group = 0; group < options->group_count; group++) {
            uint32_t slots = options->slot_counts[level][group];
            if (slots > manager->victim_max) {
                manager->victim_max = slots;
            }
        }
    }
    manager->is_all_windowed = true;
    manager->page_count = all_slots(options) + 2 * options->order_max;
    for (uint32_t life = 0; life < lives; life++) {
        const struct kv_life *rule = &options->lives[life];
        manager->sinks[life] =
            kv_blocks_of(rule->sink_tokens, options->tokens_per_block);
        manager->is_all_windowed &= rule->window > 0;
    }
}

/* -- life ----------------------------------------------------------------- */

static bool reserve_parts(struct kv_manager *manager)
{
    const struct kv_manager_options *options = &manager->options;
    struct kv_store_options store = {
        .life_count = options->life_count,
        .group_count = options->group_count,
        .level_count = options->level_count,
        .offload_priority_min = options->offload_priority_min,
        .order_max = options->order_max,
        .batch_max = manager->batch_max,
        .watch = kv_watch(manager),
    };
    struct kv_tree_options tree = {
        .tokens_per_block = options->tokens_per_block,
        .life_count = options->life_count,
        .node_max = count_nodes(options),
        .enable_partial = options->enable_partial,
    };
    for (uint32_t i = 0; i < KV_LIFE_COUNT_MAX; i++) {
        store.group_of[i] = options->group_of[i];
        tree.lives[i] = options->lives[i];
        for (uint32_t level = 0; level < options->level_count; level++) {
            store.slot_counts[level][i] = options->slot_counts[level][i];
        }
    }
    manager->store = kv_store_create(&store);
    manager->pages = kv_store_pages(manager->store);
    tree.store = manager->store;
    manager->tree = kv_tree_create(&tree);
    if (options->event_max > 0) {
        manager->events =
            kv_events_create(options->event_max, options->tokens_per_block);
    }
    return manager->tree != NULL &&
           (options->event_max == 0 || manager->events != NULL);
}

static void reserve_seqs(struct kv_manager *manager)
{
    const struct kv_manager_options *options = &manager->options;
    size_t seqs = options->seq_count_max;
    size_t rows = seqs * options->life_count * options->block_count_max;
    manager->seqs = mem_new_array(seqs, sizeof(manager->seqs[0]));
    manager->insides = mem_new_array(seqs, sizeof(manager->insides[0]));
    manager->tables = mem_new_array(rows, sizeof(manager->tables[0]));
    manager->refs = mem_new_array(rows, sizeof(manager->refs[0]));
    for (size_t i = 0; i < rows; i++) {
        manager->tables[i] = KV_PAGE_NONE;
        manager->refs[i] = KV_REF_NONE;
    }
    for (size_t i = seqs; i > 0; i--) {
        struct kv_seq *seq = &manager->seqs[i - 1];
        struct kv_seq_inside *inside = &manager->insides[i - 1];
        size_t row = (i - 1) * options->life_count;
        for (uint32_t life = 0; life < options->life_count; life++) {
            size_t at = (row + life) * options->block_count_max;
            seq->tables[life] = manager->tables + at;
            inside->refs[life] = manager->refs + at;
        }
        seq->inside = inside;
        inside->manager = manager;
        inside->next_free = manager->free_seqs;
        manager->free_seqs = seq;
    }
}

static void announce_pools(struct kv_manager *manager)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t blocks[KV_LEVEL_COUNT_MAX] = {0};
        for (uint32_t level = 0; level < manager->options.level_count;
             level++) {
            blocks[level] =
                manager->options.slot_counts[level][kv_group_of(manager, life)];
        }
        kv_events_created(manager->events, (uint8_t)life, blocks);
    }
}

enum err kv_manager_create(const struct kv_manager_options *options,
                           struct why *why, struct kv_manager **manager_out)
{
    enum err err = kv_manager_check(options, why);
    if (err != OK) {
        return err;
    }
    struct kv_manager *manager = mem_new(sizeof(*manager));
    manager->options = *options;
    set_defaults(manager);
    uint32_t page_count = manager->page_count;
    if (!reserve_parts(manager)) {
        kv_manager_destroy(manager);
        return why_say(why, ERR_NO_MEMORY,
                       "slot_counts: no memory to keep %u pages in mind",
                       page_count);
    }
    reserve_seqs(manager);
    size_t blocks = options->block_count_max;
    size_t batch = manager->batch_max;
    manager->chain = mem_new_array(blocks, sizeof(manager->chain[0]));
    manager->batch = mem_new_array(batch, sizeof(manager->batch[0]));
    manager->fresh = mem_new_array(batch, sizeof(manager->fresh[0]));
    manager->victims =
        mem_new_array(manager->victim_max, sizeof(manager->victims[0]));
    manager->sides =
        mem_new_array(manager->page_count, sizeof(manager->sides[0]));
    if (manager->events != NULL) {
        announce_pools(manager);
    }
    *manager_out = manager;
    return OK;
}

void kv_manager_destroy(struct kv_manager *manager)
{
    if (manager == NULL) {
        return;
    }
    mem_free(manager->sides);
    mem_free(manager->victims);
    mem_free(manager->fresh);
    mem_free(manager->batch);
    mem_free(manager->chain);
    mem_free(manager->refs);
    mem_free(manager->tables);
    mem_free(manager->insides);
    mem_free(manager->seqs);
    kv_tree_destroy(manager->tree);
    kv_store_destroy(manager->store);
    kv_events_destroy(manager->events);
    mem_free(manager);
}

/* -- look-up -------------------------------------------------------------- */

struct kv_match kv_manager_probe(const struct kv_manager *manager,
                                 const struct kv_prompt *prompt)
{
    if (!manager->options.enable_reuse) {
        return (struct kv_match){0};
    }
    return kv_tree_match(manager->tree, prompt, NULL);
}

void kv_room_need(const struct kv_manager *manager, uint32_t token_total,
                  uint32_t reused, uint32_t need_out[KV_LIFE_COUNT_MAX])
{
    uint32_t block_tokens = kv_block_tokens(manager);
    uint32_t shared = reused / block_tokens;
    uint32_t all = kv_blocks_of(token_total, block_tokens);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t most =
            kv_life_blocks_max(&manager->options.lives[life], block_tokens,
                               token_total, manager->options.step_max);
        /* Sinks stay shared to the end; a window moves on. */
        uint32_t stay = manager->options.lives[life].window == 0 ||
                                shared < manager->sinks[life]
                            ? shared
                            : manager->sinks[life];
        uint32_t rest = all > shared ? all - shared : 0;
        most = most > stay ? most - stay : 0;
        need_out[life] = most < rest ? most : rest;
    }
}

void kv_room_fork_need(const struct kv_manager *manager,
                       const struct kv_promise *promise,
                       uint32_t need_out[KV_LIFE_COUNT_MAX])
{
    uint32_t block_tokens = kv_block_tokens(manager);
    uint32_t full = promise->fork_at / block_tokens;
    /* Who forks beyond what it was promised forks with a copy all the same. */
    uint32_t total = promise->token_total > promise->fork_at
                         ? promise->token_total
                         : promise->fork_at;
    kv_room_need(manager, total, promise->fork_at, need_out);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        const struct kv_life *rule = &manager->options.lives[life];
        uint32_t first =
            kv_life_stale(rule, block_tokens, promise->fork_at).end;
        first = first > manager->sinks[life] ? first : manager->sinks[life];
        if (rule->window > 0 && full > first) {
            need_out[life] += full - first;
        }
    }
}

void kv_manager_need(const struct kv_manager *manager,
                     const struct kv_promise *promise, uint32_t reused,
                     uint32_t need_out[KV_LIFE_COUNT_MAX])
{
    uint32_t each[KV_LIFE_COUNT_MAX];
    kv_room_need(manager, promise->token_total, reused, need_out);
    kv_room_fork_need(manager, promise, each);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        need_out[life] += promise->fork_count * each[life];
    }
}

uint64_t kv_manager_epoch(const struct kv_manager *manager)
{
    return kv_tree_epoch(manager->tree);
}

/* -- the shell's side ----------------------------------------------------- */

void kv_manager_tick(struct kv_manager *manager, uint64_t now_ms)
{
    manager->now_ms = now_ms;
    kv_store_tick(manager->store, now_ms);
    if (manager->events != NULL) {
        kv_events_flush(manager->events);
    }
}

const struct kv_order *kv_manager_orders(const struct kv_manager *manager,
                                         uint32_t *count_out)
{
    return kv_store_orders(manager->store, count_out);
}

void kv_manager_orders_taken(struct kv_manager *manager, uint32_t count)
{
    kv_store_orders_taken(manager->store, count);
}

void kv_manager_order_done(struct kv_manager *manager, kv_ticket ticket,
                           bool is_ok)
{
    manager->orders_done++;
    kv_store_order_done(manager->store, ticket, is_ok);
}

struct kv_events *kv_manager_events(struct kv_manager *manager)
{
    return manager->events;
}
