#pragma once
/* kv/radix: which prefixes are cached, and which page to give up first.
 *
 *     scope root
 *      |-- [block 0 | page 7] -- [block 1 | page 2] -- [block 2 | page 9]
 *      |                            `-- [block 1'| page 4]
 *      `-- [block 0'| page 5]
 *
 *     idle queue, oldest first:  9  4  2 ...
 *
 * A node is one full block: its chained key (prefix/keys.h), the page that holds
 * its tokens, its parent. A page belongs to at most one node, so a node is named
 * by its page. A key implies the keys of all ancestors (prefix-closed), hence
 * the longest match is a binary search over the prompt's keys.
 *
 * Whoever uses a node uses its whole chain and lets go of the deepest block
 * first. So in the queue of nodes that nobody uses an ancestor is never older
 * than its descendants: the head is a leaf, and giving it up orphans nothing
 * (engine.md 6.4). The tree counts users; page references and leases are the
 * caller's (kv/cache.h). One thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/ids.h"
#include "prefix/keys.h"

struct kv_radix;
struct kv_radix *kv_radix_create(uint32_t page_count);
void kv_radix_destroy(struct kv_radix *radix); /* NULL is fine */

/* Page of the node with this key, or KV_PAGE_NONE. */
kv_page_id kv_radix_find(const struct kv_radix *radix,
                         const struct prefix_key *key);
/* Longest run of blocks, from the first one on, that is here. `keys` are the
 * chained keys of one prompt; `pages_out` (key_count) gets as many pages as the
 * answer says. Claims nothing. */
uint32_t kv_radix_match(const struct kv_radix *radix,
                        const struct prefix_key *keys, uint32_t key_count,
                        kv_page_id *pages_out);

/* Adds a node with one user. `parent` is its predecessor's page (KV_PAGE_NONE:
 * first block), which has a user too. Neither key nor page is here already. */
void kv_radix_insert(struct kv_radix *radix, const struct prefix_key *key,
                     kv_page_id parent, kv_page_id page);
/* One more user: the node leaves the idle queue. Ancestors first. */
void kv_radix_hold(struct kv_radix *radix, kv_page_id page);
/* One user less: the last one sends the node to the queue's young end. Deepest
 * block first. */
void kv_radix_drop(struct kv_radix *radix, kv_page_id page);
/* Removes the node that has been idle longest and returns its page;
 * KV_PAGE_NONE when none is idle. */
kv_page_id kv_radix_evict(struct kv_radix *radix);

bool kv_radix_has(const struct kv_radix *radix, kv_page_id page);
uint32_t kv_radix_users(const struct kv_radix *radix, kv_page_id page);
uint32_t kv_radix_node_count(const struct kv_radix *radix);
uint32_t kv_radix_idle_count(const struct kv_radix *radix);
/* Links, counts, buckets and queue agree; users of a node <= users of its
 * parent; idle queue = nodes without users, leaves before ancestors. */
bool kv_radix_is_valid(const struct kv_radix *radix);
