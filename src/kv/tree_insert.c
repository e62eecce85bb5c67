/* How a block enters the tree (engine.md 1.7.2). */
#include <string.h>

#include "base/check.h"
#include "kv/tree_state.h"

static void write_tokens(struct kv_tree *tree, kv_node written,
                         const struct prefix_key *key, const int32_t *tokens,
                         uint32_t token_count)
{
    struct node *node = &tree->nodes[written];
    node->key = *key;
    node->tokens = (uint16_t)token_count;
    node->first_token = tokens[0];
    memcpy(node_row(tree, written), tokens, token_count * sizeof(tokens[0]));
    kv_siblings_add(tree, written);
    if (node_is_full(tree, node)) {
        kv_tree_enter(tree, written);
    }
    tree->epoch++;
}

static kv_node add_block(struct kv_tree *tree, kv_node above,
                         const struct prefix_key *key, const int32_t *tokens,
                         uint32_t token_count)
{
    kv_node added = kv_tree_take_node(tree, key);
    struct node *node = &tree->nodes[added];
    const struct node *parent = &tree->nodes[above];
    node->kind = NODE_BLOCK;
    node->parent = above;
    node->ordinal = parent->kind == NODE_SCOPE ? 0 : parent->ordinal + 1;
    tree->blocks++;
    write_tokens(tree, added, key, tokens, token_count);
    return added;
}

/* The new node is empty and would take over all pages of the partial one, so it
 * is the same node under a new name: pages need not be told. */
static void extend(struct kv_tree *tree, kv_node partial,
                   const struct prefix_key *key, const int32_t *tokens,
                   uint32_t token_count)
{
    CHECK(tree->nodes[partial].child == KV_NODE_NONE);
    CHECK(tree->nodes[partial].flags == 0);
    kv_siblings_remove(tree, partial);
    write_tokens(tree, partial, key, tokens, token_count);
}

static bool has_room(const struct kv_tree *tree, bool is_scope_new)
{
    return tree->blocks < tree->options.node_max &&
           tree->used + (is_scope_new ? 2 : 1) <= tree->node_count;
}

static kv_node find_above(const struct kv_tree *tree,
                          const struct prefix_key *root, kv_node parent)
{
    if (parent == KV_NODE_NONE) {
        return prefix_table_find(tree->table, root);
    }
    CHECK(node_is_full(tree, kv_tree_get(tree, parent)));
    return parent;
}

/* What the tree has already covers all of the block. */
static enum kv_insert refuse(const struct kv_tree *tree, kv_node near,
                             const struct prefix_key *key, uint32_t token_count,
                             kv_node *node_out)
{
    const struct node *node = &tree->nodes[near];
    *node_out = near;
    if (token_count < tree->options.tokens_per_block) {
        return KV_INSERT_USELESS;
    }
    if (prefix_key_equals(&node->key, key)) {
        return KV_INSERT_EXISTS;
    }
    *node_out = KV_NODE_NONE;
    return KV_INSERT_USELESS;
}

/* Siblings say what is there, so the table of all tags, far away in memory, is
 * met only to enter a new one. */
enum kv_insert kv_tree_insert(struct kv_tree *tree,
                              const struct prefix_key *root, kv_node parent,
                              const struct prefix_key *key,
                              const int32_t *tokens, uint32_t token_count,
                              struct kv_store *store, kv_node *node_out)
{
    CHECK(store == tree->options.store);
    CHECK(token_count > 0);
    CHECK(token_count <= tree->options.tokens_per_block);
    if (token_count < tree->options.tokens_per_block &&
        !tree->options.enable_partial) {
        *node_out = KV_NODE_NONE;
        return KV_INSERT_USELESS;
    }
    kv_node above = find_above(tree, root, parent);
    kv_node near = KV_NODE_NONE;
    uint32_t common = 0;
    if (above != KV_NODE_NONE) {
        near = kv_siblings_nearest(tree, above, tokens, token_count, &common);
    }
    if (near != KV_NODE_NONE && common == token_count) {
        return refuse(tree, near, key, token_count, node_out);
    }
    if (near != KV_NODE_NONE && common == tree->nodes[near].tokens) {
        extend(tree, near, key, tokens, token_count);
        *node_out = near;
        return KV_INSERT_EXTENDS;
    }
    if (!has_room(tree, above == KV_NODE_NONE)) {
        return KV_INSERT_FULL;
    }
    if (above == KV_NODE_NONE) {
        above = kv_tree_add_scope(tree, root);
    }
    *node_out = add_block(tree, above, key, tokens, token_count);
    return KV_INSERT_NEW;
}
