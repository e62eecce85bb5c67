#pragma once
/* kv/tree_state: what the files of the tree share; beside them only tests
 * that look inside include it.
 *
 *   scope: a node without tokens, called by the scope's root tag
 *     `-- children: a search tree over their tokens (kv/tree_siblings.c)
 *
 * A free node is kind NODE_FREE and `parent` leads to the next free one. */
#include <stdalign.h>

#include "base/check.h"
#include "kv/tree.h"
#include "prefix/table.h"

enum node_kind { NODE_FREE, NODE_SCOPE, NODE_BLOCK };
enum { LEAF_LOOK_MAX = 32, TIE_LOOK_MAX = 32 };

struct node {
    alignas(64) struct prefix_key key; /* first: prefix_table reads it here */
    kv_node parent; /* a scope's: none */
    kv_node child; /* top of the search tree of its children */
    kv_node left, right; /* in the siblings' one; of scopes: a plain list */
    uint32_t ordinal;
    int32_t first_token; /* spares most look-ups the token row */
    uint16_t tokens;
    uint8_t kind;
    uint8_t flags; /* two bits a life cycle, see below */
    uint32_t
        proven; /* a match that ends with this block was found usable, whole,
                      * when tree->losses was this */
    kv_ref pages[KV_LIFE_COUNT_MAX];
};
_Static_assert(sizeof(struct node) == 64, "a node is one cache line");
_Static_assert(KV_LIFE_COUNT_MAX <= 4, "flags hold two bits a life cycle");

/* The page was announced to routers. */
static inline uint8_t node_announced_bit(uint32_t life)
{
    return (uint8_t)(1u << life);
}
/* The page was seen to cover the whole block; what a page covers never shrinks,
 * so it need not be asked again. */
static inline uint8_t node_whole_bit(uint32_t life)
{
    return (uint8_t)(16u << life);
}

/* Where the last kv_tree_leaf_below stopped: draining a long branch continues
 * there instead of walking down again. `at` is `from` or below it. */
struct cursor {
    kv_node from, at;
    uint32_t life;
};

struct kv_tree {
    struct kv_tree_options options;
    struct node *nodes; /* (node_count) */
    int32_t *rows; /* (node_count, tokens_per_block) ids */
    struct prefix_table *table; /* full blocks and scopes */
    uint32_t node_count; /* node_max and some for scopes */
    uint32_t used, blocks; /* nodes not free; of them, blocks */
    kv_node free; /* list of those given back */
    uint32_t fresh; /* from here on never used */
    kv_node scopes; /* newest first */
    struct cursor cursor;
    uint32_t losses; /* pages lost, from 1 on; wraps with all proofs undone */
    uint64_t epoch;
};

static inline int32_t *node_row(const struct kv_tree *tree, kv_node node)
{
    return tree->rows + (size_t)node * tree->options.tokens_per_block;
}

static inline bool node_is_full(const struct kv_tree *tree,
                                const struct node *node)
{
    return node->tokens == tree->options.tokens_per_block;
}

/* A block of the tree; anything else is the caller's broken promise. */
static inline struct node *kv_tree_get(const struct kv_tree *tree, kv_node node)
{
    CHECK(node < tree->fresh);
    CHECK(tree->nodes[node].kind == NODE_BLOCK);
    return &tree->nodes[node];
}

/* -- nodes (kv/tree_nodes.c) ---------------------------------------------- */

/* An empty node that the caller makes a block or a scope; he has seen that there
 * is one. */
kv_node kv_tree_take_node(struct kv_tree *tree, const struct prefix_key *key);
/* Into the table, under its key. */
void kv_tree_enter(struct kv_tree *tree, kv_node node);
kv_node kv_tree_add_scope(struct kv_tree *tree, const struct prefix_key *root);
/* Frees a childless node, and its scope when that was the last of it. Its pages
 * are somebody else's by now. */
void kv_tree_free_node(struct kv_tree *tree, kv_node node);

/* -- pages ---------------------------------------------------------------- */

/* Tokens of the node's block that its page of `life` covers; 0 without page.
 * Remembers full coverage in the node. */
uint32_t kv_tree_cover(const struct kv_tree *tree, kv_node node, uint32_t life);
/* Losing this page takes the subtree along: full attention, or a sink. */
bool kv_tree_stands_on(const struct kv_tree *tree, kv_node node, uint32_t life);
/* A page is gone: what was found usable may not be any more. */
void kv_tree_count_loss(struct kv_tree *tree);

/* -- siblings (kv/tree_siblings.c): children of `parent`, by their tokens -- */

void kv_siblings_add(struct kv_tree *tree, kv_node node);
void kv_siblings_remove(struct kv_tree *tree, kv_node node);
/* The child that shares the longest leading run with `tokens`; KV_NODE_NONE when
 * none shares a token. */
kv_node kv_siblings_nearest(const struct kv_tree *tree, kv_node parent,
                            const int32_t *tokens, uint32_t count,
                            uint32_t *common_out);
/* Least child that begins with `tokens` (count > 0). */
kv_node kv_siblings_first_with(const struct kv_tree *tree, kv_node parent,
                               const int32_t *tokens, uint32_t count);
/* How many leading tokens the node's block shares with `tokens`. */
uint32_t kv_siblings_common(const struct kv_tree *tree, kv_node node,
                            const int32_t *tokens, uint32_t count);
kv_node kv_siblings_first(const struct kv_tree *tree, kv_node parent);
kv_node kv_siblings_next(const struct kv_tree *tree, kv_node node);
/* Order, balance, parents, no one a prefix of another; counts them. */
bool kv_siblings_is_valid(const struct kv_tree *tree, kv_node parent,
                          uint32_t *count_out);
