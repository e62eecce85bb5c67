/* Ways through the tree: down to what goes first, up, and over all of it. */
#include "base/check.h"
#include "kv/tree_state.h"

/* -- leaf first ----------------------------------------------------------- */

/* The page if it could be taken in place of one queued on `level`. */
static const struct kv_page *queued_page(const struct kv_tree *tree,
                                         kv_node node, uint32_t life,
                                         uint8_t level)
{
    kv_ref ref = tree->nodes[node].pages[life];
    if (ref == KV_REF_NONE) {
        return NULL;
    }
    const struct kv_page *page = kv_store_page(tree->options.store, ref);
    bool is_queued = (page->flags & KV_PAGE_QUEUED) != 0;
    return is_queued && page->level == level ? page : NULL;
}

static bool is_taken_before(const struct kv_page *a, const struct kv_page *b)
{
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return a->released < b->released;
}

/* The children nearest to the top of their search tree: by tag, so by chance. */
static uint32_t some_children(const struct kv_tree *tree, kv_node parent,
                              kv_node children_out[LEAF_LOOK_MAX])
{
    uint32_t count = 0;
    if (tree->nodes[parent].child != KV_NODE_NONE) {
        children_out[count++] = tree->nodes[parent].child;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct node *node = &tree->nodes[children_out[i]];
        kv_node below[2] = {node->left, node->right};
        for (int k = 0; k < 2; k++) {
            if (below[k] != KV_NODE_NONE && count < LEAF_LOOK_MAX) {
                children_out[count++] = below[k];
            }
        }
    }
    return count;
}

static kv_node first_child_to_go(const struct kv_tree *tree, kv_node parent,
                                 uint32_t life, uint8_t level)
{
    kv_node children[LEAF_LOOK_MAX];
    uint32_t count = some_children(tree, parent, children);
    kv_node chosen = KV_NODE_NONE;
    const struct kv_page *first = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct kv_page *page =
            queued_page(tree, children[i], life, level);
        if (page != NULL && (first == NULL || is_taken_before(page, first))) {
            first = page;
            chosen = children[i];
        }
    }
    return chosen;
}

/* Where the last walk below `node` left off, as far as it is still of use. */
static kv_node start_of(const struct kv_tree *tree, kv_node node, uint32_t life,
                        uint8_t level)
{
    const struct cursor *cursor = &tree->cursor;
    if (cursor->from != node || cursor->life != life) {
        return node;
    }
    kv_node at = cursor->at;
    while (at != node && queued_page(tree, at, life, level) == NULL) {
        at = tree->nodes[at].parent;
    }
    return at;
}

kv_node kv_tree_leaf_below(struct kv_tree *tree, kv_node node, uint32_t life)
{
    kv_ref ref = kv_tree_page(tree, node, life);
    CHECK(ref != KV_REF_NONE);
    uint8_t level = kv_store_page(tree->options.store, ref)->level;
    kv_node at = start_of(tree, node, life, level);
    kv_node below = first_child_to_go(tree, at, life, level);
    while (below != KV_NODE_NONE) {
        at = below;
        below = first_child_to_go(tree, at, life, level);
    }
    tree->cursor = (struct cursor){
        .from = node,
        .at = at == node ? node : tree->nodes[at].parent,
        .life = life,
    };
    return at;
}

/* -- up, and over all ----------------------------------------------------- */

void kv_tree_ancestors(const struct kv_tree *tree, kv_node node,
                       bool (*visit)(void *context, kv_node node),
                       void *context)
{
    kv_node at = kv_tree_parent(tree, node);
    while (at != KV_NODE_NONE && visit(context, at)) {
        at = kv_tree_parent(tree, at);
    }
}

kv_node kv_tree_first(const struct kv_tree *tree)
{
    if (tree->scopes == KV_NODE_NONE) {
        return KV_NODE_NONE;
    }
    return kv_siblings_first(tree, tree->scopes);
}

kv_node kv_tree_next(const struct kv_tree *tree, kv_node node)
{
    CHECK(kv_tree_get(tree, node) != NULL);
    if (tree->nodes[node].child != KV_NODE_NONE) {
        return kv_siblings_first(tree, node);
    }
    while (tree->nodes[node].kind == NODE_BLOCK) {
        kv_node next = kv_siblings_next(tree, node);
        if (next != KV_NODE_NONE) {
            return next;
        }
        node = tree->nodes[node].parent;
    }
    kv_node scope = tree->nodes[node].right;
    return scope == KV_NODE_NONE ? scope : kv_siblings_first(tree, scope);
}
