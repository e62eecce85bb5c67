#include "engine/state.h"

bool engine_core_is_stopped(const struct engine_core *core)
{
    if (!core->is_stopping || core->event_count > 0) {
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

void engine_core_stats(const struct engine_core *core,
                       struct engine_stats *stats_out)
{
    struct kv_cache_counts counts = kv_cache_counts(core->cache);
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
    stats_out->pages_total = counts.all;
    stats_out->pages_free = counts.free;
    stats_out->pages_cached = counts.cached;
    stats_out->pages_leased = counts.leased;
    stats_out->pages_used = counts.used;
    stats_out->evicted_pages = counts.evicted;
}

static uint32_t lanes_of(const struct engine_core *core,
                         const struct item *item)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        count += core->lanes[i].item == item;
    }
    return count;
}

static bool item_is_valid(const struct engine_core *core,
                          const struct item *item)
{
    uint32_t lanes = lanes_of(core, item);
    bool is_live = item->session != NULL && item->session->ticket != 0;
    switch (item->state) {
    case ITEM_FREE:
        return false;
    case ITEM_WAITING:
        return item->seq == NULL && item->session == NULL &&
               item->lanes_held == 0;
    case ITEM_PREFILL:
        return item->seq != NULL && item->lanes_held > 0 && lanes == 0 &&
               !is_live;
    case ITEM_DECODE:
        return item->seq == NULL && lanes == item->lanes_held &&
               lanes == (uint32_t)__builtin_popcount(item->open_choices);
    case ITEM_RECEIVED:
        return item->seq != NULL && item->lanes_held == 0 &&
               item->session != NULL;
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
    uint32_t prefills = 0;
    uint32_t sessions = 0;
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        if (!item_is_valid(core, item)) {
            return false;
        }
        held += item->lanes_held;
        waiting += item->state == ITEM_WAITING;
        prefills += item->state == ITEM_PREFILL;
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
           prefills == core->prefill_count && kv_cache_is_valid(core->cache);
}
