#pragma once
/* A tree with a real store below it, and the few moves that a manager makes:
 * commit a sequence, lose a page, look a prompt up. */
#include "unit/base/test.h"

#include <stdlib.h>

#include "kv/tree.h"

enum { WORLD_BLOCKS_MAX = 64, WORLD_REMOVED_MAX = 4096 };

struct world_options {
    uint32_t tokens_per_block;
    uint32_t life_count;
    struct kv_life lives[KV_LIFE_COUNT_MAX];
    uint32_t node_max;
    uint32_t page_count; /* a life cycle */
    bool is_whole_only;
};

struct removed {
    kv_node node;
    uint32_t life, ordinal;
    struct prefix_key key;
};

struct world {
    struct world_options options;
    struct kv_store *store;
    struct kv_tree *tree;
    struct prefix_scope scope;
    struct removed removed[WORLD_REMOVED_MAX];
    uint32_t removed_count;
    enum kv_insert last; /* what the last insertion answered */
};

static inline struct prefix_scope world_scope(uint64_t salt)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {7};
    struct prefix_scope scope;
    prefix_scope_init(&scope, SECRET, salt);
    return scope;
}

static inline void world_ignore_lost(void *context, kv_ref page)
{
    (void)context;
    (void)page;
}

static inline void world_ignore_moved(void *context, kv_ref page, uint8_t from,
                                      uint8_t to)
{
    (void)context;
    (void)page;
    (void)from;
    (void)to;
}

static inline kv_ref world_same_victim(void *context, kv_ref page)
{
    (void)context;
    return page;
}

static inline void world_init(struct world *world,
                              const struct world_options *options)
{
    memset(world, 0, sizeof(*world));
    world->options = *options;
    struct kv_store_options store = {
        .life_count = options->life_count,
        .group_count = options->life_count,
        .level_count = 1,
        .order_max = 16,
        .watch = {world_ignore_lost, world_ignore_moved, world_same_victim,
                  world},
    };
    for (uint32_t i = 0; i < options->life_count; i++) {
        store.group_of[i] = (uint8_t)i;
        store.slot_counts[0][i] = options->page_count;
    }
    world->store = kv_store_create(&store);
    struct kv_tree_options tree = {
        .tokens_per_block = options->tokens_per_block,
        .life_count = options->life_count,
        .node_max = options->node_max,
        .enable_partial = !options->is_whole_only,
        .store = world->store,
    };
    memcpy(tree.lives, options->lives, sizeof(tree.lives));
    world->tree = kv_tree_create(&tree);
    assert_non_null(world->tree);
    world->scope = world_scope(0);
}

static inline void world_finish(struct world *world)
{
    kv_tree_destroy(world->tree);
    kv_store_destroy(world->store);
}

static inline void world_on_removed(void *context, kv_node node, uint32_t life)
{
    struct world *world = context;
    assert_true(world->removed_count < WORLD_REMOVED_MAX);
    assert_int_not_equal(kv_tree_page(world->tree, node, life), KV_REF_NONE);
    world->removed[world->removed_count++] = (struct removed){
        .node = node,
        .life = life,
        .ordinal = kv_tree_ordinal(world->tree, node),
        .key = *kv_tree_key(world->tree, node),
    };
}

/* What a manager does after its store told it of a lost page. */
static inline void world_lose(struct world *world, kv_node node, uint32_t life)
{
    kv_ref page = kv_tree_page(world->tree, node, life);
    kv_tree_lose_page(world->tree, world->store, node, life, world_on_removed,
                      world);
    kv_store_discard(world->store, page);
}

/* A page of its own for the node, covering all of it, queued. What it replaces is
 * let go of. */
static inline void world_give_page(struct world *world, kv_node node,
                                   uint32_t life)
{
    uint32_t want[KV_LIFE_COUNT_MAX] = {0};
    const int32_t *tokens;
    kv_ref page, old = kv_tree_page(world->tree, node, life);
    want[life] = 1;
    assert_int_equal(kv_store_take(world->store, want, &page), OK);
    kv_tree_set_page(world->tree, node, life, page);
    kv_store_commit(world->store, page, node,
                    (uint16_t)kv_tree_tokens(world->tree, node, &tokens));
    kv_store_unlock(world->store, page);
    if (old != KV_REF_NONE) {
        kv_store_discard(world->store, old);
    }
}

/* Publishes the full blocks of `tokens` and the tail, each with pages of the
 * lives in `lives` (bits), as far as the tree takes them. Returns the last node,
 * or KV_NODE_NONE when the tree stopped it. */
static inline kv_node world_commit_as(struct world *world,
                                      const struct prefix_scope *scope,
                                      const int32_t *tokens, uint32_t count,
                                      uint32_t lives)
{
    uint32_t step = world->options.tokens_per_block;
    struct prefix_key key = scope->root;
    kv_node node = KV_NODE_NONE;
    for (uint32_t at = 0; at < count; at += step) {
        uint32_t length = count - at < step ? count - at : step;
        key =
            prefix_key_next(scope, at == 0 ? NULL : &key, tokens + at, length);
        kv_node parent = node;
        world->last = kv_tree_insert(world->tree, &scope->root, parent, &key,
                                     tokens + at, length, world->store, &node);
        if (world->last == KV_INSERT_USELESS || world->last == KV_INSERT_FULL) {
            return KV_NODE_NONE;
        }
        for (uint32_t life = 0; life < world->options.life_count; life++) {
            if (world->last != KV_INSERT_EXISTS && (lives >> life & 1) != 0) {
                world_give_page(world, node, life);
            }
        }
    }
    return node;
}

static inline kv_node world_commit(struct world *world, const int32_t *tokens,
                                   uint32_t count)
{
    return world_commit_as(world, &world->scope, tokens, count, UINT32_MAX);
}

/* Looks `count` tokens up. */
static inline struct kv_match world_match_as(const struct world *world,
                                             const struct prefix_scope *scope,
                                             const int32_t *tokens,
                                             uint32_t count, kv_node *nodes_out)
{
    uint32_t step = world->options.tokens_per_block;
    struct prefix_key keys[WORLD_BLOCKS_MAX];
    struct kv_prompt prompt = {
        .root = &scope->root,
        .keys = keys,
        .key_count =
            prefix_keys(scope, tokens, count, step, WORLD_BLOCKS_MAX, keys),
        .tokens = tokens,
        .token_count = count,
    };
    return kv_tree_match(world->tree, &prompt, nodes_out);
}

/* Tokens that a prompt reuses: its last token is computed anew. */
static inline uint32_t world_reuse(const struct world *world,
                                   const int32_t *prompt, uint32_t count)
{
    return world_match_as(world, &world->scope, prompt, count - 1, NULL).usable;
}

static inline void world_prove(const struct world *world)
{
    assert_true(kv_tree_is_valid(world->tree));
    assert_true(kv_store_is_valid(world->store));
}

static inline uint32_t world_free(const struct world *world, uint32_t life)
{
    return kv_store_counts(world->store, 0, life).free;
}

/* `count` tokens that count up from `first`. */
static inline void world_fill(int32_t *tokens, int32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = first + (int32_t)i;
    }
}

/* The block `ordinal` on the way down to `deepest`. */
static inline kv_node world_chain_node(const struct world *world,
                                       kv_node deepest, uint32_t ordinal)
{
    while (kv_tree_ordinal(world->tree, deepest) > ordinal) {
        deepest = kv_tree_parent(world->tree, deepest);
    }
    return deepest;
}
