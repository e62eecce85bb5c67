#include "kv/events_tree.h"

static bool is_telling(const struct kv_tree *tree, const struct kv_store *store,
                       kv_node node, uint32_t life)
{
    const int32_t *tokens;
    kv_ref page = kv_tree_page(tree, node, life);
    return page != KV_REF_NONE && kv_tree_is_full(tree, node) &&
           kv_store_page(store, page)->tokens ==
               kv_tree_tokens(tree, node, &tokens);
}

void kv_events_tell_stored(struct kv_events *events, struct kv_tree *tree,
                           const struct kv_store *store, kv_node node,
                           uint32_t life)
{
    if (events == NULL || kv_tree_is_announced(tree, node, life) ||
        !is_telling(tree, store, node, life)) {
        return;
    }
    const int32_t *tokens;
    (void)kv_tree_tokens(tree, node, &tokens);
    const struct kv_page *page =
        kv_store_page(store, kv_tree_page(tree, node, life));
    kv_events_stored(events, (uint8_t)life, page->level, page->priority,
                     kv_tree_ordinal(tree, node), kv_tree_key(tree, node),
                     kv_tree_key_above(tree, node), tokens);
    kv_tree_set_announced(tree, node, life);
}

void kv_events_tell_removed(struct kv_events *events,
                            const struct kv_tree *tree, kv_node node,
                            uint32_t life)
{
    if (events != NULL && kv_tree_is_announced(tree, node, life)) {
        kv_events_removed(events, (uint8_t)life, kv_tree_key(tree, node));
    }
}

void kv_events_tell_updated(struct kv_events *events,
                            const struct kv_tree *tree,
                            const struct kv_store *store, kv_ref page,
                            uint8_t level_before, uint8_t priority_before)
{
    const struct kv_page *now = kv_store_page(store, page);
    bool is_same =
        now->level == level_before && now->priority == priority_before;
    if (events == NULL || is_same || now->node == KV_NODE_NONE ||
        !kv_tree_is_announced(tree, now->node, now->life)) {
        return;
    }
    kv_events_updated(events, now->life, kv_tree_key(tree, now->node),
                      level_before, now->level, priority_before, now->priority);
}

static struct kv_event listed(const struct kv_tree *tree,
                              const struct kv_store *store, kv_node node,
                              uint32_t life)
{
    const struct kv_page *page =
        kv_store_page(store, kv_tree_page(tree, node, life));
    struct kv_event event = {
        .kind = KV_EVENT_STORED,
        .has_parent = kv_tree_ordinal(tree, node) > 0,
        .life = (uint8_t)life,
        .level = page->level,
        .level_before = page->level,
        .priority = page->priority,
        .priority_before = page->priority,
        .ordinal = kv_tree_ordinal(tree, node),
        .key = *kv_tree_key(tree, node),
        .parent = *kv_tree_key_above(tree, node),
    };
    event.token_count = kv_tree_tokens(tree, node, &event.tokens);
    return event;
}

void kv_events_list(const struct kv_tree *tree, const struct kv_store *store,
                    uint32_t life_count,
                    void (*visit)(void *context, const struct kv_event *event),
                    void *context)
{
    for (uint32_t life = 0; life < life_count; life++) {
        for (kv_node at = kv_tree_first(tree); at != KV_NODE_NONE;
             at = kv_tree_next(tree, at)) {
            if (kv_tree_is_announced(tree, at, life)) {
                struct kv_event event = listed(tree, store, at, life);
                visit(context, &event);
            }
        }
    }
}
