#pragma once
/* kv/tree: which prefixes are cached (engine.md 1.7, 6.2).
 *
 *   scope -- [block 0] -- [block 1] -- [block 2]
 *              |             `-- [block 1'] -- [partial, 2 tokens]
 *              `-- a node has at most one page a life cycle
 *
 * A node is one committed block, called by the tag of everything up to its end
 * (prefix/keys.h). Only leaves may be partial. No two siblings where one's
 * tokens are a prefix of the other's. Presence is prefix-closed, so the longest
 * run of full blocks is found by galloping and binary search over the prompt's
 * tags (prefix/table.h); what is usable of it, by the fixed point of 1.7.5.
 *
 * Whoever has a node's page has node and page point at each other; the tree owns
 * nodes and never a page. A full-attention or sink page is what a node stands
 * on: it covers the node's tokens, and without it the whole subtree goes. A
 * windowed page may be missing, or cover less. A model without full attention has
 * nodes without any page, for as long as they have descendants.
 *
 * Tokens alone tell the blocks below one parent apart: where a prompt has items
 * that are no text, their places hold ids made from the items' digests, above the
 * vocabulary, in all that is handed to the tree.
 *
 * Indices, not pointers; arrays allocated once; 64 bytes a node besides its
 * tokens. Pure, one thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/life.h"
#include "kv/store.h"
#include "prefix/keys.h"

struct kv_tree_options {
    uint32_t tokens_per_block;
    uint32_t life_count;
    struct kv_life lives[KV_LIFE_COUNT_MAX];
    uint32_t node_max; /* blocks. A scope with blocks takes a node of its own; a
                        * few (node_max / 128 + 16) are set aside for that, more
                        * of them eat into the blocks */
    bool enable_partial; /* match and keep partial leaves */
    /* For pages' coverage. */
    const struct kv_store *store;
};

struct kv_tree;
/* NULL: the system has no memory for it. */
struct kv_tree *kv_tree_create(const struct kv_tree_options *options);
void kv_tree_destroy(struct kv_tree *tree); /* NULL is fine */

/* What to look for. All the caller's. */
struct kv_prompt {
    const struct prefix_key *root; /* tag of the scope */
    const struct prefix_key *keys; /* (key_count) tags of full blocks */
    uint32_t key_count; /* at least token_count / tokens_per_block */
    const int32_t *tokens;
    uint32_t token_count; /* looked up: the prompt without its last token */
    uint32_t guess; /* blocks found last time, or 0; wrong ones only cost */
};

struct kv_match {
    uint32_t raw; /* tokens whose content is here */
    uint32_t attention; /* ... whose attention pages are usable; without
                         * recurrent layers the same as usable */
    uint32_t usable; /* tokens that a claim would get */
};
/* Claims nothing. `nodes_out`, with room for the blocks of token_count, rounded
 * up: the chain of what is usable, the last one perhaps used in part; NULL: only
 * the numbers. */
struct kv_match kv_tree_match(const struct kv_tree *tree,
                              const struct kv_prompt *prompt,
                              kv_node *nodes_out);

/* The full node called `key`, or KV_NODE_NONE: how a sequence finds what it stands
 * on after anything was evicted (a node's index may be used anew). */
kv_node kv_tree_find(const struct kv_tree *tree, const struct prefix_key *key);

/* Blocks with these keys (KV_EXPECT_MAX at most) are about to be inserted or
 * removed: what the table of keys has of them is fetched side by side. */
enum { KV_EXPECT_MAX = 16 };
void kv_tree_expect(const struct kv_tree *tree, const struct prefix_key *keys,
                    uint32_t key_count);

/* Insertion below `parent` (KV_NODE_NONE: first block of the scope `root`). */
enum kv_insert {
    KV_INSERT_NEW, /* node_out is ours to give pages to */
    KV_INSERT_EXTENDS, /* as new; it has the pages of a partial sibling, with the
                        * coverage recorded in them: the sibling itself under
                        * its new key, so the pages' `node` stays right */
    KV_INSERT_EXISTS, /* full, and there already */
    KV_INSERT_USELESS, /* partial, and covered by node_out; KV_NODE_NONE: this
                        * tree keeps no partial leaves, or there is a block of
                        * these tokens under another tag */
    KV_INSERT_FULL, /* node_max reached; nothing changed */
};
/* `key`: tag of everything up to the block's end; of a partial one any tag that
 * the caller likes, it is not found by it. `tokens`: (token_count) of the block.
 * `parent` is full. `store` is that of the options. */
enum kv_insert kv_tree_insert(struct kv_tree *tree,
                              const struct prefix_key *root, kv_node parent,
                              const struct prefix_key *key,
                              const int32_t *tokens, uint32_t token_count,
                              struct kv_store *store, kv_node *node_out);

/* The node's page of that life cycle; KV_REF_NONE: none. */
kv_ref kv_tree_page(const struct kv_tree *tree, kv_node node, uint32_t life);
/* From now on it is `page`. What was there before, or KV_REF_NONE, is the caller's
 * to let go. */
kv_ref kv_tree_set_page(struct kv_tree *tree, kv_node node, uint32_t life,
                        kv_ref page);
uint32_t kv_tree_tokens(const struct kv_tree *tree, kv_node node,
                        const int32_t **tokens_out);
kv_node kv_tree_parent(const struct kv_tree *tree, kv_node node);
/* Tag of what the node follows: its parent's, or its scope's root. */
const struct prefix_key *kv_tree_key_above(const struct kv_tree *tree,
                                           kv_node node);
uint32_t kv_tree_ordinal(const struct kv_tree *tree, kv_node node);
const struct prefix_key *kv_tree_key(const struct kv_tree *tree, kv_node node);
bool kv_tree_is_full(const struct kv_tree *tree, kv_node node);

/* The page of `life`, which the node still names, is gone (engine.md 1.7.7): a
 * full-attention life or a sink block takes the whole subtree with it, children
 * first; a windowed one clears its place and prunes childless nodes without pages
 * upward. Other pages of removed nodes are handed to kv_store_discard; the lost
 * one is the caller's to free. `removed` (NULL is fine) is called once for each
 * (node, life) that ceases, the lost one too, before the node goes and while it
 * still names the page. Iterative, O(1) extra space. */
typedef void kv_tree_removed(void *context, kv_node node, uint32_t life);
void kv_tree_lose_page(struct kv_tree *tree, struct kv_store *store,
                       kv_node node, uint32_t life, kv_tree_removed *removed,
                       void *context);

/* Takes back an insertion that got no page: frees the node when it has neither
 * page nor child, and then its ancestors that are like that. */
void kv_tree_trim(struct kv_tree *tree, kv_node node);

/* For kv_store_watch.victim: a node below `node` whose page of `life` is queued on
 * the level of node's page (which there is) and below which none like that is
 * found; `node` itself when there is none. Goes down into the child to be taken
 * first (lowest priority, then released longest ago) among at most 32 of each
 * node. The first call for a node costs its depth below it; further ones for the
 * same (node, life) go on from where the last answer was, so that draining a
 * branch costs O(1) a node however long it is. */
kv_node kv_tree_leaf_below(struct kv_tree *tree, kv_node node, uint32_t life);
/* The greatest priority among a node's own pages' wish and its children's
 * (engine.md 6.4 rule 2) is kept by the manager through this walk: calls
 * `visit` for the ancestors of `node`, nearest first, until it says stop. */
void kv_tree_ancestors(const struct kv_tree *tree, kv_node node,
                       bool (*visit)(void *context, kv_node node),
                       void *context);
/* Every node, parents before children: for resync listings and clear. The tree
 * is not changed between; after a change start anew. KV_NODE_NONE: the end. */
kv_node kv_tree_first(const struct kv_tree *tree);
kv_node kv_tree_next(const struct kv_tree *tree, kv_node node);

/* Whether routers were told of this (node, life): kv/events_tree.h sets and asks.
 * Cleared by the tree when the page goes. */
bool kv_tree_is_announced(const struct kv_tree *tree, kv_node node,
                          uint32_t life);
void kv_tree_set_announced(struct kv_tree *tree, kv_node node, uint32_t life);

uint32_t kv_tree_count(const struct kv_tree *tree);
uint64_t kv_tree_epoch(const struct kv_tree *tree); /* changes with content */
size_t kv_tree_bytes(const struct kv_tree *tree); /* all it allocated */
size_t kv_tree_token_bytes(const struct kv_tree *tree); /* of these, ids */
/* Invariants 21 to 26 of engine.md 7.1, and that pages point back. Slow; not
 * between an insertion and its kv_tree_set_page and kv_store_commit. */
bool kv_tree_is_valid(const struct kv_tree *tree);
