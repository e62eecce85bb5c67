#include "engine/state.h"

bool engine_core_is_stopped(const struct engine_core *core)
{
    if (!core->is_stopping || core->event_count > 0 || core->batch_count > 0) {
        return false;
    }
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        if (!item_is_answered(item)) {
            return false;
        }
    }
    return true;
}

static void add_cache_stats(const struct engine_core *core,
                            const struct kv_manager_stats *cache,
                            struct engine_stats *stats)
{
    stats->pool_count = core->options.group_count;
    stats->level_count = core->options.host_page_counts[0] > 0 ? 2 : 1;
    for (uint32_t level = 0; level < stats->level_count; level++) {
        for (uint32_t i = 0; i < stats->pool_count; i++) {
            const struct kv_store_counts *counts = &cache->counts[level][i];
            stats->pools[level][i] = (struct engine_pool_stats){
                .total = counts->total,
                .free = counts->free,
                .used = counts->total - counts->free - counts->droppable,
                .evictable = counts->droppable,
            };
        }
    }
    stats->blocks_allocated = cache->blocks_allocated;
    stats->blocks_reused = cache->blocks_reused_full;
    stats->blocks_reused_partial = cache->blocks_reused_partial;
    stats->blocks_missed = cache->blocks_missed;
    stats->evicted_pages = cache->totals.dropped;
    stats->offloaded_pages = cache->totals.offloaded;
    stats->onboarded_pages = cache->totals.onboarded;
    stats->copied_pages = cache->totals.copied;
    stats->metadata_bytes = cache->metadata_bytes;
    const struct kv_events *log = kv_manager_events(core->cache);
    if (log != NULL) {
        stats->cache_events = kv_events_stats(log).events;
        stats->cache_events_lost = kv_events_stats(log).lost;
        stats->metadata_bytes += kv_events_bytes(log);
    }
}

void engine_core_stats(const struct engine_core *core,
                       struct engine_stats *stats_out)
{
    struct kv_manager_stats cache;
    kv_manager_stats(core->cache, &cache);
    *stats_out = core->stats;
    stats_out->waiting = core->waiting_count;
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        stats_out->running +=
            item->state == ITEM_PREFILL || item->state == ITEM_DECODE;
        bool is_generation = item->kind == ENGINE_GENERATION_ONLY;
        bool is_moving =
            item->state == ITEM_RECEIVING || item->state == ITEM_RECEIVED ||
            item->state == ITEM_DRAINING || item->state == ITEM_SENDING;
        stats_out->receiving += is_moving && is_generation;
        stats_out->sending += is_moving && !is_generation;
    }
    for (uint32_t i = 0; i < core->options.group_count; i++) {
        const struct kv_store_counts *counts = &cache.counts[0][i];
        stats_out->pages_total += counts->total;
        stats_out->pages_free += counts->free;
        stats_out->pages_cached += counts->droppable;
    }
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        for (uint32_t g = 0; g < core->options.group_count; g++) {
            stats_out->pages_leased += core->sessions[i].leased_pages[g];
        }
    }
    stats_out->pages_used = stats_out->pages_total - stats_out->pages_free -
                            stats_out->pages_cached;
    add_cache_stats(core, &cache, stats_out);
    stats_out->chunk_budget = core->pace.tokens;
    stats_out->waited_prefix_tokens =
        prefix_wait_stats(core->waits).saved_tokens;
}

void engine_core_counts(const struct engine_core *core,
                        struct engine_counts *counts_out)
{
    *counts_out = (struct engine_counts){.sched = sched_stats(core->sched)};
    kv_manager_stats(core->cache, &counts_out->cache);
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        if (item->unit.waits > counts_out->waits_max) {
            counts_out->waits_max = item->unit.waits;
        }
    }
}

static uint32_t lanes_of(const struct engine_core *core,
                         const struct item *item)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        const struct lane *lane = &core->lanes[i];
        count += lane->item == item && item->lanes[lane->choice] == lane;
    }
    return count;
}

static bool item_is_valid(const struct engine_core *core,
                          const struct item *item)
{
    uint32_t lanes = lanes_of(core, item);
    bool is_live = session_is_live(item);
    switch (item->state) {
    case ITEM_FREE:
        return false;
    case ITEM_CONTEXT_WAIT:
        return item->seq == NULL && item_streams(item) &&
               (item->session == NULL || is_live) && item->lanes_held == 0;
    case ITEM_WAITING:
        return item->seq == NULL && is_live == item_streams(item) &&
               (is_live || item->session == NULL) && item->lanes_held == 0;
    case ITEM_PREFILL:
        return item->seq != NULL && lanes == 0 &&
               is_live == item_streams(item) &&
               (item->lanes_held > 0 || item->kind == ENGINE_GENERATION_ONLY);
    case ITEM_DECODE:
        return item->seq == NULL && lanes == item->lanes_held &&
               lanes == (uint32_t)__builtin_popcount(item->open_choices);
    case ITEM_RECEIVED:
        return item->seq != NULL && lanes == 0 && item->session != NULL;
    case ITEM_RECEIVING:
        return item->seq != NULL && is_live && !item_is_answered(item);
    case ITEM_SENDING:
    case ITEM_DRAINING:
        return is_live && item_is_answered(item) && item->request == NULL;
    }
    return false;
}

bool engine_core_is_valid(const struct engine_core *core)
{
    uint32_t held = 0;
    uint32_t waiting = 0;
    uint32_t sessions = 0;
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        if (!item_is_valid(core, item)) {
            return false;
        }
        held += item->lanes_held;
        waiting +=
            item->state == ITEM_WAITING || item->state == ITEM_CONTEXT_WAIT;
        sessions += item->session != NULL;
    }
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        const struct session *session = &core->sessions[i];
        sessions -= session->item != NULL;
        if (session->item != NULL && session->item->session != session) {
            return false;
        }
    }
    return held + core->lanes_free == core->options.max_batch &&
           waiting == core->waiting_count && sessions == 0 &&
           overlap_is_valid(core) && kv_manager_is_valid(core->cache) &&
           prefix_wait_is_valid(core->waits);
}
