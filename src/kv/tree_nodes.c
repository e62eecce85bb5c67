/* Where nodes come from and go to: the pool of all nodes, and the scopes. */
#include "base/check.h"
#include "kv/tree_state.h"

/* The next insertion's memory, while this one goes on. */
static void prefetch_next(const struct kv_tree *tree)
{
    kv_node next = tree->free != KV_NODE_NONE ? tree->free : tree->fresh;
    if (next < tree->node_count) {
        const int32_t *row = node_row(tree, next);
        uint32_t count = tree->options.tokens_per_block;
        __builtin_prefetch(&tree->nodes[next], 1);
        for (uint32_t i = 0; i < count; i += 64 / sizeof(*row)) {
            __builtin_prefetch(row + i, 1);
        }
    }
}

kv_node kv_tree_take_node(struct kv_tree *tree, const struct prefix_key *key)
{
    kv_node taken = tree->free;
    if (taken != KV_NODE_NONE) {
        tree->free = tree->nodes[taken].parent;
    } else {
        CHECK(tree->fresh < tree->node_count);
        taken = tree->fresh++;
    }
    struct node *node = &tree->nodes[taken];
    *node = (struct node){
        .key = *key,
        .parent = KV_NODE_NONE,
        .child = KV_NODE_NONE,
        .left = KV_NODE_NONE,
        .right = KV_NODE_NONE,
    };
    for (uint32_t i = 0; i < KV_LIFE_COUNT_MAX; i++) {
        node->pages[i] = KV_REF_NONE;
    }
    tree->used++;
    prefetch_next(tree);
    return taken;
}

static void give_node(struct kv_tree *tree, kv_node given)
{
    struct node *node = &tree->nodes[given];
    node->kind = NODE_FREE;
    node->parent = tree->free;
    tree->free = given;
    tree->used--;
}

void kv_tree_enter(struct kv_tree *tree, kv_node node)
{
    /* The table holds as many as there are nodes. */
    CHECK(prefix_table_insert(tree->table, node) == OK);
}

kv_node kv_tree_add_scope(struct kv_tree *tree, const struct prefix_key *root)
{
    kv_node added = kv_tree_take_node(tree, root);
    struct node *scope = &tree->nodes[added];
    scope->kind = NODE_SCOPE;
    scope->right = tree->scopes;
    if (tree->scopes != KV_NODE_NONE) {
        tree->nodes[tree->scopes].left = added;
    }
    tree->scopes = added;
    kv_tree_enter(tree, added);
    return added;
}

static void remove_scope(struct kv_tree *tree, kv_node removed)
{
    const struct node *scope = &tree->nodes[removed];
    if (scope->left != KV_NODE_NONE) {
        tree->nodes[scope->left].right = scope->right;
    } else {
        tree->scopes = scope->right;
    }
    if (scope->right != KV_NODE_NONE) {
        tree->nodes[scope->right].left = scope->left;
    }
    prefix_table_remove(tree->table, removed);
    give_node(tree, removed);
}

static void leave_cursor(struct kv_tree *tree, kv_node gone, kv_node parent)
{
    struct cursor *cursor = &tree->cursor;
    if (cursor->from == gone) {
        *cursor = (struct cursor){.from = KV_NODE_NONE, .at = KV_NODE_NONE};
    } else if (cursor->at == gone) {
        cursor->at = parent;
    }
}

void kv_tree_free_node(struct kv_tree *tree, kv_node freed)
{
    struct node *node = kv_tree_get(tree, freed);
    CHECK(node->child == KV_NODE_NONE);
    kv_node parent = node->parent;
    leave_cursor(tree, freed, parent);
    kv_siblings_remove(tree, freed);
    if (node_is_full(tree, node)) {
        prefix_table_remove(tree->table, freed);
    }
    give_node(tree, freed);
    tree->blocks--;
    tree->epoch++;
    const struct node *above = &tree->nodes[parent];
    if (above->kind == NODE_SCOPE && above->child == KV_NODE_NONE) {
        remove_scope(tree, parent);
    }
}
