/* What befalls pages: the store says what it drops and moves, the tree what goes
 * with it, readers of events are told, plans forget. */
#include "kv/manager_state.h"

static void on_removed(void *context, kv_node node, uint32_t life)
{
    struct kv_manager *manager = context;
    kv_events_tell_removed(manager->events, manager->tree, node, life);
}

static void lose(struct kv_manager *manager, kv_ref page)
{
    const struct kv_page *record = kv_manager_page(manager, page);
    if (record->node != KV_NODE_NONE) {
        kv_tree_lose_page(manager->tree, manager->store, record->node,
                          record->life, on_removed, manager);
    }
}

void kv_watch_leave(struct kv_manager *manager, kv_ref page)
{
    lose(manager, page);
}

static void on_lost(void *context, kv_ref page)
{
    lose(context, page);
}

static void on_moved(void *context, kv_ref page, uint8_t from, uint8_t to)
{
    struct kv_manager *manager = context;
    const struct kv_page *record = kv_manager_page(manager, page);
    CHECK(record->level == to);
    if (kv_is_in_tree(record)) {
        kv_events_tell_updated(manager->events, manager->tree, manager->store,
                               page, from, record->priority);
    }
}

static kv_ref on_victim(void *context, kv_ref page)
{
    const struct kv_manager *manager = context;
    const struct kv_page *record = kv_manager_page(manager, page);
    /* Nobody stands on a windowed page. */
    if (record->node == KV_NODE_NONE ||
        manager->options.lives[record->life].window > 0) {
        return page;
    }
    kv_node leaf =
        kv_tree_leaf_below(manager->tree, record->node, record->life);
    return kv_tree_page(manager->tree, leaf, record->life);
}

struct kv_store_watch kv_watch(struct kv_manager *manager)
{
    return (struct kv_store_watch){
        .lost = on_lost,
        .moved = on_moved,
        .victim = on_victim,
        .context = manager,
    };
}

void kv_watch_forget(struct kv_manager *manager, kv_ref page)
{
    lose(manager, page);
    kv_store_discard(manager->store, page);
}

void kv_watch_displace(struct kv_manager *manager, kv_ref page)
{
    kv_store_discard(manager->store, page);
}

/* -- all of it ------------------------------------------------------------ */

/* A batch from a queue's head; what stands on one that is dropped goes with it,
 * so each is looked at anew. */
static bool drop_some(struct kv_manager *manager, uint8_t level, uint32_t group,
                      uint32_t free_min)
{
    uint32_t count = kv_store_queue(manager->store, level, group,
                                    manager->victim_max, manager->victims);
    bool is_any = false;
    for (uint32_t i = 0; i < count; i++) {
        kv_ref page = manager->victims[i];
        const struct kv_page *record = kv_manager_page(manager, page);
        if (kv_store_counts(manager->store, level, group).free >= free_min) {
            return false;
        }
        if ((record->flags & KV_PAGE_QUEUED) != 0 && record->holds == 0) {
            kv_watch_forget(manager, page);
            is_any = true;
        }
    }
    return is_any;
}

void kv_watch_drop(struct kv_manager *manager, uint8_t level, uint32_t group,
                   uint32_t free_min)
{
    while (drop_some(manager, level, group, free_min)) {
    }
}

void kv_manager_clear(struct kv_manager *manager)
{
    for (uint32_t level = 0; level < manager->options.level_count; level++) {
        for (uint32_t group = 0; group < manager->options.group_count;
             group++) {
            kv_watch_drop(manager, (uint8_t)level, group, UINT32_MAX);
        }
    }
}

void kv_manager_resync(struct kv_manager *manager,
                       void (*visit)(void *context,
                                     const struct kv_event *event),
                       void *context)
{
    kv_events_list(manager->tree, manager->store, manager->options.life_count,
                   visit, context);
}
