#include "base/check.h"
#include "kv/tree_state.h"

static bool is_page_right(const struct kv_tree *tree, kv_node node,
                          uint32_t life)
{
    const struct node *record = &tree->nodes[node];
    kv_ref ref = record->pages[life];
    bool is_base = kv_tree_stands_on(tree, node, life);
    if (ref == KV_REF_NONE) {
        uint8_t bits = node_announced_bit(life) | node_whole_bit(life);
        return !is_base && (record->flags & bits) == 0;
    }
    const struct kv_page *page = kv_store_page(tree->options.store, ref);
    return page->node == node && page->life == life &&
           (page->flags & KV_PAGE_COMMITTED) != 0 &&
           page->tokens <= record->tokens &&
           ((record->flags & node_whole_bit(life)) == 0 ||
            page->tokens == tree->options.tokens_per_block) &&
           (!is_base || page->tokens == record->tokens);
}

static bool is_named_right(const struct kv_tree *tree, kv_node node)
{
    const struct node *record = &tree->nodes[node];
    if (record->kind == NODE_BLOCK &&
        record->tokens < tree->options.tokens_per_block) {
        return record->child == KV_NODE_NONE;
    }
    return prefix_table_find(tree->table, &record->key) == node;
}

static bool is_block_right(const struct kv_tree *tree, kv_node node)
{
    const struct node *record = &tree->nodes[node];
    const struct node *parent = &tree->nodes[record->parent];
    uint32_t ordinal = parent->kind == NODE_SCOPE ? 0 : parent->ordinal + 1;
    if (record->ordinal != ordinal || record->tokens == 0 ||
        record->tokens > tree->options.tokens_per_block ||
        record->first_token != node_row(tree, node)[0]) {
        return false;
    }
    bool has_page = false;
    for (uint32_t life = 0; life < tree->options.life_count; life++) {
        if (!is_page_right(tree, node, life)) {
            return false;
        }
        has_page = has_page || record->pages[life] != KV_REF_NONE;
    }
    return (has_page || record->child != KV_NODE_NONE) &&
           is_named_right(tree, node);
}

static bool is_scope_right(const struct kv_tree *tree, kv_node scope)
{
    const struct node *record = &tree->nodes[scope];
    kv_node next = record->right;
    return record->kind == NODE_SCOPE && record->child != KV_NODE_NONE &&
           is_named_right(tree, scope) &&
           (next == KV_NODE_NONE || tree->nodes[next].left == scope);
}

/* Every block is reached from its scope, so its ancestors are all here. */
bool kv_tree_is_valid(const struct kv_tree *tree)
{
    uint32_t scopes = 0, blocks = 0, children = 0, full = 0, count;
    for (kv_node at = tree->scopes; at != KV_NODE_NONE;
         at = tree->nodes[at].right) {
        if (!is_scope_right(tree, at) ||
            !kv_siblings_is_valid(tree, at, &count)) {
            return false;
        }
        children += count;
        scopes++;
    }
    for (kv_node at = kv_tree_first(tree); at != KV_NODE_NONE;
         at = kv_tree_next(tree, at)) {
        if (!is_block_right(tree, at) ||
            !kv_siblings_is_valid(tree, at, &count)) {
            return false;
        }
        children += count;
        blocks++;
        full += kv_tree_is_full(tree, at) ? 1 : 0;
    }
    return blocks == tree->blocks && children == blocks &&
           scopes + blocks == tree->used &&
           prefix_table_count(tree->table) == scopes + full &&
           prefix_table_is_valid(tree->table);
}
