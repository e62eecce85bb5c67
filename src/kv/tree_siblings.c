/* Siblings are a treap: a search tree by tokens and a heap by tag. Tags are
 * pseudo-random under a secret, so it is balanced whatever clients send, costs
 * two links a node, and an only child costs nothing.
 *
 *                 [5 1 7 2]             tag of a node >= tags below it
 *                /         \
 *          [3 9 ..]      [5 1 8 ..]     no one is a prefix of another, so any
 *                                       two differ at a token that both have
 *
 * On the way down to where some tokens belong lie their neighbours, and one of
 * the two shares the longest run with them. */
#include <string.h>

#include "base/check.h"
#include "kv/tree_state.h"

uint32_t kv_siblings_common(const struct kv_tree *tree, kv_node node,
                            const int32_t *tokens, uint32_t count)
{
    const struct node *record = &tree->nodes[node];
    if (count == 0 || record->first_token != tokens[0]) {
        return 0;
    }
    const int32_t *row = node_row(tree, node);
    uint32_t end = count < record->tokens ? count : record->tokens;
    /* Mostly all is shared or nothing. */
    if (memcmp(row, tokens, end * sizeof(row[0])) == 0) {
        return end;
    }
    uint32_t common = 1;
    while (common < end && row[common] == tokens[common]) {
        common++;
    }
    return common;
}

/* Do `tokens`, of which `common` are shared, come before the node's? */
static bool is_before(const struct kv_tree *tree, const int32_t *tokens,
                      uint32_t common, kv_node node)
{
    int32_t theirs = common == 0 ? tree->nodes[node].first_token
                                 : node_row(tree, node)[common];
    return tokens[common] < theirs;
}

/* Does sibling `a` come before `b`? */
static bool is_less(const struct kv_tree *tree, kv_node a, kv_node b)
{
    const int32_t *tokens = node_row(tree, a);
    uint32_t count = tree->nodes[a].tokens;
    uint32_t common = kv_siblings_common(tree, b, tokens, count);
    CHECK(common < count);
    CHECK(common < tree->nodes[b].tokens);
    return is_before(tree, tokens, common, b);
}

static bool is_heavier(const struct kv_tree *tree, kv_node a, kv_node b)
{
    const struct prefix_key *ours = &tree->nodes[a].key;
    const struct prefix_key *theirs = &tree->nodes[b].key;
    return memcmp(ours->bytes, theirs->bytes, sizeof(ours->bytes)) > 0;
}

/* Puts the subtree `at` below `node`, its own place in it being known. */
static void split(struct kv_tree *tree, kv_node at, kv_node node)
{
    kv_node *left = &tree->nodes[node].left;
    kv_node *right = &tree->nodes[node].right;
    while (at != KV_NODE_NONE) {
        if (is_less(tree, at, node)) {
            *left = at;
            left = &tree->nodes[at].right;
            at = *left;
        } else {
            *right = at;
            right = &tree->nodes[at].left;
            at = *right;
        }
    }
    *left = KV_NODE_NONE;
    *right = KV_NODE_NONE;
}

void kv_siblings_add(struct kv_tree *tree, kv_node node)
{
    kv_node *link = &tree->nodes[tree->nodes[node].parent].child;
    while (*link != KV_NODE_NONE && is_heavier(tree, *link, node)) {
        struct node *at = &tree->nodes[*link];
        link = is_less(tree, node, *link) ? &at->left : &at->right;
    }
    split(tree, *link, node);
    *link = node;
}

void kv_siblings_remove(struct kv_tree *tree, kv_node node)
{
    kv_node *link = &tree->nodes[tree->nodes[node].parent].child;
    while (*link != node) {
        CHECK(*link != KV_NODE_NONE);
        struct node *at = &tree->nodes[*link];
        link = is_less(tree, node, *link) ? &at->left : &at->right;
    }
    kv_node left = tree->nodes[node].left;
    kv_node right = tree->nodes[node].right;
    while (left != KV_NODE_NONE && right != KV_NODE_NONE) {
        bool is_left = is_heavier(tree, left, right);
        *link = is_left ? left : right;
        struct node *at = &tree->nodes[*link];
        link = is_left ? &at->right : &at->left;
        *(is_left ? &left : &right) = *link;
    }
    *link = left != KV_NODE_NONE ? left : right;
}

kv_node kv_siblings_nearest(const struct kv_tree *tree, kv_node parent,
                            const int32_t *tokens, uint32_t count,
                            uint32_t *common_out)
{
    kv_node at = tree->nodes[parent].child;
    kv_node nearest = KV_NODE_NONE;
    uint32_t longest = 0;
    while (at != KV_NODE_NONE) {
        const struct node *node = &tree->nodes[at];
        uint32_t common = kv_siblings_common(tree, at, tokens, count);
        if (common > longest) {
            nearest = at;
            longest = common;
        }
        if (common == count || common == node->tokens) {
            break; /* one is a prefix of the other: nobody shares more */
        }
        at = is_before(tree, tokens, common, at) ? node->left : node->right;
    }
    *common_out = longest;
    return nearest;
}

kv_node kv_siblings_first_with(const struct kv_tree *tree, kv_node parent,
                               const int32_t *tokens, uint32_t count)
{
    kv_node at = tree->nodes[parent].child;
    kv_node first = KV_NODE_NONE;
    while (at != KV_NODE_NONE) {
        const struct node *node = &tree->nodes[at];
        uint32_t common = kv_siblings_common(tree, at, tokens, count);
        if (common == count) {
            first = at;
            at = node->left;
        } else if (common == node->tokens) {
            at = node->right; /* a proper prefix: it comes before */
        } else {
            at = is_before(tree, tokens, common, at) ? node->left : node->right;
        }
    }
    return first;
}

static kv_node leftmost(const struct kv_tree *tree, kv_node at)
{
    while (at != KV_NODE_NONE && tree->nodes[at].left != KV_NODE_NONE) {
        at = tree->nodes[at].left;
    }
    return at;
}

kv_node kv_siblings_first(const struct kv_tree *tree, kv_node parent)
{
    return leftmost(tree, tree->nodes[parent].child);
}

kv_node kv_siblings_next(const struct kv_tree *tree, kv_node node)
{
    if (tree->nodes[node].right != KV_NODE_NONE) {
        return leftmost(tree, tree->nodes[node].right);
    }
    kv_node at = tree->nodes[tree->nodes[node].parent].child;
    kv_node next = KV_NODE_NONE;
    while (at != node) {
        CHECK(at != KV_NODE_NONE);
        if (is_less(tree, node, at)) {
            next = at;
            at = tree->nodes[at].left;
        } else {
            at = tree->nodes[at].right;
        }
    }
    return next;
}

/* Neither is a prefix of the other, and `a` comes first. */
static bool is_apart(const struct kv_tree *tree, kv_node a, kv_node b)
{
    uint32_t count = tree->nodes[a].tokens;
    const int32_t *tokens = node_row(tree, a);
    uint32_t common = kv_siblings_common(tree, b, tokens, count);
    return common < count && common < tree->nodes[b].tokens &&
           is_before(tree, tokens, common, b);
}

static bool is_heap(const struct kv_tree *tree, kv_node node)
{
    kv_node below[2] = {tree->nodes[node].left, tree->nodes[node].right};
    for (int i = 0; i < 2; i++) {
        if (below[i] != KV_NODE_NONE && is_heavier(tree, below[i], node)) {
            return false;
        }
    }
    return true;
}

bool kv_siblings_is_valid(const struct kv_tree *tree, kv_node parent,
                          uint32_t *count_out)
{
    kv_node at = kv_siblings_first(tree, parent);
    uint32_t count = 0;
    while (at != KV_NODE_NONE) {
        if (tree->nodes[at].kind != NODE_BLOCK ||
            tree->nodes[at].parent != parent || !is_heap(tree, at)) {
            return false;
        }
        kv_node next = kv_siblings_next(tree, at);
        if (next != KV_NODE_NONE && !is_apart(tree, at, next)) {
            return false;
        }
        at = next;
        count++;
    }
    *count_out = count;
    return true;
}
