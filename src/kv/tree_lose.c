/* A page is gone, and with it what cannot match any more (engine.md 1.7.7). */
#include "base/check.h"
#include "kv/tree_state.h"

struct loss {
    struct kv_store *store;
    kv_ref page; /* the lost one: whoever lost it frees it */
    kv_tree_removed *removed;
    void *context;
};

bool kv_tree_stands_on(const struct kv_tree *tree, kv_node node, uint32_t life)
{
    const struct kv_life *rule = &tree->options.lives[life];
    uint32_t sinks =
        kv_blocks_of(rule->sink_tokens, tree->options.tokens_per_block);
    return rule->window == 0 || tree->nodes[node].ordinal < sinks;
}

static bool has_page(const struct kv_tree *tree, kv_node node)
{
    for (uint32_t life = 0; life < tree->options.life_count; life++) {
        if (tree->nodes[node].pages[life] != KV_REF_NONE) {
            return true;
        }
    }
    return false;
}

static void clear_page(struct kv_tree *tree, kv_node node, uint32_t life,
                       const struct loss *loss)
{
    kv_ref page = tree->nodes[node].pages[life];
    if (page == KV_REF_NONE) {
        return;
    }
    if (loss->removed != NULL) {
        loss->removed(loss->context, node, life);
    }
    tree->nodes[node].pages[life] = KV_REF_NONE;
    uint8_t bits = node_announced_bit(life) | node_whole_bit(life);
    tree->nodes[node].flags &= (uint8_t)~bits;
    kv_tree_count_loss(tree);
    if (page != loss->page) {
        kv_store_discard(loss->store, page);
    }
}

static kv_node deepest(const struct kv_tree *tree, kv_node node)
{
    while (tree->nodes[node].child != KV_NODE_NONE) {
        node = tree->nodes[node].child;
    }
    return node;
}

/* What the removals to come look up lies all over memory, and is fetched side by
 * side: of the node, and of those above it up to `top`. */
static void fetch_above(const struct kv_tree *tree, kv_node node, kv_node top)
{
    struct prefix_key keys[KV_EXPECT_MAX];
    uint32_t count = 0;
    bool is_top = false;
    while (count < KV_EXPECT_MAX && !is_top) {
        const struct node *at = &tree->nodes[node];
        keys[count++] = at->key;
        for (uint32_t life = 0; life < tree->options.life_count; life++) {
            if (at->pages[life] != KV_REF_NONE) {
                __builtin_prefetch(
                    kv_store_page(tree->options.store, at->pages[life]), 1);
            }
        }
        is_top = node == top;
        node = at->parent;
    }
    kv_tree_expect(tree, keys, count);
}

/* Leaves first: freed nodes unlink themselves, so the parent leads on to the
 * next and no stack is needed. */
static void remove_subtree(struct kv_tree *tree, kv_node top,
                           const struct loss *loss)
{
    kv_node node = top;
    bool is_top = false;
    for (uint32_t count = 1; !is_top; count++) {
        node = deepest(tree, node);
        is_top = node == top;
        if (count % KV_EXPECT_MAX == 0) {
            fetch_above(tree, node, top);
        }
        kv_node parent = tree->nodes[node].parent;
        for (uint32_t i = 0; i < tree->options.life_count; i++) {
            clear_page(tree, node, i, loss);
        }
        kv_tree_free_node(tree, node);
        node = parent;
    }
}

void kv_tree_trim(struct kv_tree *tree, kv_node node)
{
    while (node != KV_NODE_NONE &&
           kv_tree_get(tree, node)->child == KV_NODE_NONE &&
           !has_page(tree, node)) {
        kv_node parent = kv_tree_parent(tree, node);
        kv_tree_free_node(tree, node);
        node = parent;
    }
}

void kv_tree_lose_page(struct kv_tree *tree, struct kv_store *store,
                       kv_node node, uint32_t life, kv_tree_removed *removed,
                       void *context)
{
    kv_ref page = kv_tree_page(tree, node, life);
    CHECK(page != KV_REF_NONE);
    struct loss loss = {store, page, removed, context};
    if (!kv_tree_stands_on(tree, node, life)) {
        clear_page(tree, node, life, &loss);
        kv_tree_trim(tree, node);
        return;
    }
    kv_node parent = kv_tree_parent(tree, node);
    remove_subtree(tree, node, &loss);
    if (parent != KV_NODE_NONE) {
        kv_tree_trim(tree, parent);
    }
}
