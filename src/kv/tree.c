#include "kv/tree.h"

#include "base/check.h"
#include "base/mem.h"
#include "kv/tree_state.h"

_Static_assert(KV_NODE_NONE == PREFIX_TABLE_NONE, "ids pass through as nodes");

/* -- life ----------------------------------------------------------------- */

static bool reserve(struct kv_tree *tree)
{
    size_t count = tree->node_count;
    tree->nodes = mem_try_aligned(64, count * sizeof(tree->nodes[0]));
    tree->rows = mem_try_array(count, sizeof(tree->rows[0]) *
                                          tree->options.tokens_per_block);
    if (tree->nodes == NULL || tree->rows == NULL) {
        return false;
    }
    tree->table = prefix_table_create(&(struct prefix_table_options){
        .capacity = tree->node_count,
        .keys = &tree->nodes[0].key,
        .key_stride = sizeof(tree->nodes[0]),
    });
    return tree->table != NULL;
}

struct kv_tree *kv_tree_create(const struct kv_tree_options *options)
{
    CHECK(options->tokens_per_block > 0);
    CHECK(options->tokens_per_block <= UINT16_MAX);
    CHECK(options->life_count > 0);
    CHECK(options->life_count <= KV_LIFE_COUNT_MAX);
    CHECK(options->node_max > 0);
    CHECK(options->node_max < PREFIX_TABLE_CAPACITY_MAX / 2);
    struct kv_tree *tree = mem_new(sizeof(*tree));
    tree->options = *options;
    tree->node_count = options->node_max + options->node_max / 128 + 16;
    tree->free = KV_NODE_NONE;
    tree->scopes = KV_NODE_NONE;
    tree->losses = 1;
    tree->cursor = (struct cursor){.from = KV_NODE_NONE, .at = KV_NODE_NONE};
    if (!reserve(tree)) {
        kv_tree_destroy(tree);
        return NULL;
    }
    return tree;
}

void kv_tree_destroy(struct kv_tree *tree)
{
    if (tree == NULL) {
        return;
    }
    prefix_table_destroy(tree->table);
    mem_free(tree->rows);
    mem_free(tree->nodes);
    mem_free(tree);
}

/* -- what a node is ------------------------------------------------------- */

kv_node kv_tree_find(const struct kv_tree *tree, const struct prefix_key *key)
{
    return prefix_table_find(tree->table, key);
}

void kv_tree_expect(const struct kv_tree *tree, const struct prefix_key *keys,
                    uint32_t key_count)
{
    prefix_table_expect(tree->table, keys, key_count);
}

kv_ref kv_tree_page(const struct kv_tree *tree, kv_node node, uint32_t life)
{
    CHECK(life < tree->options.life_count);
    return kv_tree_get(tree, node)->pages[life];
}

kv_ref kv_tree_set_page(struct kv_tree *tree, kv_node node, uint32_t life,
                        kv_ref page)
{
    CHECK(page != KV_REF_NONE);
    CHECK(life < tree->options.life_count);
    struct node *record = kv_tree_get(tree, node);
    kv_ref before = record->pages[life];
    record->pages[life] = page;
    record->flags &= (uint8_t)~node_whole_bit(life);
    tree->epoch++;
    return before;
}

uint32_t kv_tree_cover(const struct kv_tree *tree, kv_node node, uint32_t life)
{
    struct node *record = &tree->nodes[node];
    if ((record->flags & node_whole_bit(life)) != 0) {
        return record->tokens;
    }
    kv_ref page = record->pages[life];
    if (page == KV_REF_NONE) {
        return 0;
    }
    uint32_t cover = kv_store_page(tree->options.store, page)->tokens;
    if (cover == tree->options.tokens_per_block) {
        record->flags |= node_whole_bit(life);
    }
    return cover;
}

void kv_tree_count_loss(struct kv_tree *tree)
{
    tree->epoch++;
    if (++tree->losses != 0) {
        return;
    }
    for (uint32_t i = 0; i < tree->fresh; i++) {
        tree->nodes[i].proven = 0;
    }
    tree->losses = 1;
}

uint32_t kv_tree_tokens(const struct kv_tree *tree, kv_node node,
                        const int32_t **tokens_out)
{
    const struct node *record = kv_tree_get(tree, node);
    *tokens_out = node_row(tree, node);
    return record->tokens;
}

kv_node kv_tree_parent(const struct kv_tree *tree, kv_node node)
{
    kv_node parent = kv_tree_get(tree, node)->parent;
    return tree->nodes[parent].kind == NODE_SCOPE ? KV_NODE_NONE : parent;
}

const struct prefix_key *kv_tree_key_above(const struct kv_tree *tree,
                                           kv_node node)
{
    return &tree->nodes[kv_tree_get(tree, node)->parent].key;
}

uint32_t kv_tree_ordinal(const struct kv_tree *tree, kv_node node)
{
    return kv_tree_get(tree, node)->ordinal;
}

const struct prefix_key *kv_tree_key(const struct kv_tree *tree, kv_node node)
{
    return &kv_tree_get(tree, node)->key;
}

bool kv_tree_is_full(const struct kv_tree *tree, kv_node node)
{
    return node_is_full(tree, kv_tree_get(tree, node));
}

bool kv_tree_is_announced(const struct kv_tree *tree, kv_node node,
                          uint32_t life)
{
    uint8_t flags = kv_tree_get(tree, node)->flags;
    return (flags & node_announced_bit(life)) != 0;
}

void kv_tree_set_announced(struct kv_tree *tree, kv_node node, uint32_t life)
{
    CHECK(kv_tree_page(tree, node, life) != KV_REF_NONE);
    kv_tree_get(tree, node)->flags |= node_announced_bit(life);
}

uint32_t kv_tree_count(const struct kv_tree *tree)
{
    return tree->blocks;
}

uint64_t kv_tree_epoch(const struct kv_tree *tree)
{
    return tree->epoch;
}

size_t kv_tree_token_bytes(const struct kv_tree *tree)
{
    return (size_t)tree->node_count * tree->options.tokens_per_block *
           sizeof(tree->rows[0]);
}

size_t kv_tree_bytes(const struct kv_tree *tree)
{
    return sizeof(*tree) + prefix_table_bytes(tree->table) +
           tree->node_count * sizeof(tree->nodes[0]) +
           kv_tree_token_bytes(tree);
}
