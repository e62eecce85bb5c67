#pragma once
/* kv/events_tree: which facts about tree and store routers are told (engine.md
 * 1.12). The bit that says so lies in the tree, one a (node, life).
 *
 *   page in place, full block, covers all of it  -->  told once   bit set
 *   page gone, bit set                           -->  removed     bit cleared
 *   page moved or ranked anew, bit set           -->  updated
 *   partial leaves, orphans, anything else       -->  nothing
 *
 * `events` NULL: nobody listens, nothing is told and no bit is set. */
#include "kv/events.h"
#include "kv/tree.h"

/* After kv_tree_set_page and kv_store_commit; may be repeated. */
void kv_events_tell_stored(struct kv_events *events, struct kv_tree *tree,
                           const struct kv_store *store, kv_node node,
                           uint32_t life);
/* While the node still names the page: from kv_tree_removed. */
void kv_events_tell_removed(struct kv_events *events,
                            const struct kv_tree *tree, kv_node node,
                            uint32_t life);
/* Level and priority are what the page shows now; `before` is what it showed.
 * Nothing when neither changed. */
void kv_events_tell_updated(struct kv_events *events,
                            const struct kv_tree *tree,
                            const struct kv_store *store, kv_ref page,
                            uint8_t level_before, uint8_t priority_before);
/* Everything that is announced now, as STORED events of id 0 and one record,
 * a life cycle after the other, parents before children: for a reader that lost
 * its place. What is in the log by then is in the listing too: flush and take
 * before. kv_events_tokens finds the ids for as long as the tree stays as it is. */
void kv_events_list(const struct kv_tree *tree, const struct kv_store *store,
                    uint32_t life_count,
                    void (*visit)(void *context, const struct kv_event *event),
                    void *context);
