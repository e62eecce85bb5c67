#pragma once
/* Memory behind a manager, and what should be in it. A token of a life cycle is
 * one number that depends on all tokens up to it, so that one wrong page shows at
 * once. Copies are done late, in any order that their tickets allow, and some
 * fail. A slot that is nobody's holds poison. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/base/test.h"

#include "base/rng.h"
#include "kv/manager_state.h"

enum {
    SLOT_MAX = 64, /* of a level and group */
    BLOCK_MAX = 4, /* tokens */
    DEPTH_MAX = 24, /* blocks of a sequence */
    TEXT_MAX = DEPTH_MAX * BLOCK_MAX,
    ORDER_MAX = 512,
    SCOPE_COUNT = 2
};
static const uint64_t POISON = UINT64_C(0xdeaddeaddeaddead);

struct oracle {
    struct kv_manager *manager;
    struct rng rng;
    uint32_t fail_of_256; /* copies */
    uint64_t memory[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX][SLOT_MAX][BLOCK_MAX];
    struct kv_order orders[ORDER_MAX]; /* taken and not done */
    uint32_t order_count;
    struct prefix_scope scopes[SCOPE_COUNT];
};

static inline uint64_t oracle_mix(uint64_t before, uint64_t value)
{
    uint64_t hash = (before ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* What stands for the prefix of no tokens. */
static inline uint64_t oracle_scope(uint32_t scope)
{
    return oracle_mix(0x5c09e, scope + 1);
}

static inline uint64_t *oracle_slot(struct oracle *oracle,
                                    const struct kv_page *page)
{
    uint32_t group = oracle->manager->options.group_of[page->life];
    return oracle->memory[page->level][group][page->slot];
}

/* -- copies --------------------------------------------------------------- */

static inline bool oracle_may_start(const struct oracle *oracle,
                                    const struct kv_order *order)
{
    return kv_store_is_done(oracle->manager->store, order->after[0]) &&
           kv_store_is_done(oracle->manager->store, order->after[1]);
}

static inline void oracle_take(struct oracle *oracle)
{
    uint32_t count = 0;
    const struct kv_order *orders = kv_manager_orders(oracle->manager, &count);
    uint32_t taken =
        count > 0 ? (uint32_t)rng_below(&oracle->rng, count + 1) : 0;
    for (uint32_t i = 0; i < taken; i++) {
        assert_true(oracle->order_count < ORDER_MAX);
        oracle->orders[oracle->order_count++] = orders[i];
    }
    kv_manager_orders_taken(oracle->manager, taken);
}

static inline void oracle_finish(struct oracle *oracle, uint32_t at)
{
    struct kv_order order = oracle->orders[at];
    oracle->orders[at] = oracle->orders[--oracle->order_count];
    bool is_ok = rng_below(&oracle->rng, 256) >= oracle->fail_of_256;
    uint64_t *from =
        oracle->memory[order.from_level][order.group][order.from_slot];
    uint64_t *to = oracle->memory[order.to_level][order.group][order.to_slot];
    for (int i = 0; i < BLOCK_MAX; i++) {
        to[i] = is_ok ? from[i] : POISON;
    }
    kv_manager_order_done(oracle->manager, order.ticket, is_ok);
}

/* Some copies get done. */
static inline void oracle_work(struct oracle *oracle)
{
    oracle_take(oracle);
    for (int i = 0; i < 3 && oracle->order_count > 0; i++) {
        uint32_t at = (uint32_t)rng_below(&oracle->rng, oracle->order_count);
        if (oracle_may_start(oracle, &oracle->orders[at])) {
            oracle_finish(oracle, at);
        }
    }
}

/* All of them do. */
static inline void oracle_drain(struct oracle *oracle)
{
    uint32_t left = 1;
    while (left > 0 || oracle->order_count > 0) {
        oracle_take(oracle);
        for (uint32_t i = oracle->order_count; i > 0; i--) {
            if (i <= oracle->order_count &&
                oracle_may_start(oracle, &oracle->orders[i - 1])) {
                oracle_finish(oracle, i - 1);
            }
        }
        kv_manager_orders(oracle->manager, &left);
    }
}

/* -- memory --------------------------------------------------------------- */

static inline bool oracle_is_alive(const struct kv_page *page)
{
    return page->locks > 0 || page->holds > 0 ||
           (page->flags & KV_PAGE_QUEUED) != 0;
}

/* Whatever is no page's and under no copy. */
static inline void oracle_poison(struct oracle *oracle)
{
    static bool used[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX][SLOT_MAX];
    struct kv_manager *manager = oracle->manager;
    memset(used, 0, sizeof(used));
    for (kv_ref ref = 0; ref < manager->page_count; ref++) {
        const struct kv_page *page = kv_store_page(manager->store, ref);
        if (oracle_is_alive(page)) {
            uint32_t group = manager->options.group_of[page->life];
            assert_false(used[page->level][group][page->slot]);
            used[page->level][group][page->slot] = true;
        }
    }
    uint32_t count = 0;
    const struct kv_order *queued = kv_manager_orders(manager, &count);
    for (uint32_t i = 0; i < count + oracle->order_count; i++) {
        const struct kv_order *order =
            i < count ? &queued[i] : &oracle->orders[i - count];
        used[order->from_level][order->group][order->from_slot] = true;
        used[order->to_level][order->group][order->to_slot] = true;
    }
    for (uint32_t level = 0; level < manager->options.level_count; level++) {
        for (uint32_t group = 0; group < manager->options.group_count;
             group++) {
            for (uint32_t i = 0; i < SLOT_MAX; i++) {
                for (int k = 0; !used[level][group][i] && k < BLOCK_MAX; k++) {
                    oracle->memory[level][group][i][k] = POISON;
                }
            }
        }
    }
}

/* -- what the tree says --------------------------------------------------- */

/* Which scope a first block is of. */
static inline uint32_t oracle_scope_of(const struct oracle *oracle,
                                       kv_node node)
{
    const int32_t *tokens = NULL;
    uint32_t count = kv_tree_tokens(oracle->manager->tree, node, &tokens);
    for (uint32_t scope = 0; scope < SCOPE_COUNT; scope++) {
        struct prefix_key key =
            prefix_key_next(&oracle->scopes[scope], NULL, tokens, count);
        if (prefix_key_equals(&key, kv_tree_key(oracle->manager->tree, node))) {
            return scope;
        }
    }
    fail_msg("a block of no scope");
    return 0;
}

/* The tokens from the scope's start to the node's end; how many. */
static inline uint32_t oracle_chain(const struct oracle *oracle, kv_node node,
                                    int32_t tokens_out[TEXT_MAX],
                                    uint32_t *scope_out)
{
    const struct kv_tree *tree = oracle->manager->tree;
    uint32_t block = oracle->manager->options.tokens_per_block;
    uint32_t total = 0;
    for (kv_node at = node; at != KV_NODE_NONE; at = kv_tree_parent(tree, at)) {
        const int32_t *tokens = NULL;
        uint32_t count = kv_tree_tokens(tree, at, &tokens);
        uint32_t first = kv_tree_ordinal(tree, at) * block;
        total = first + count > total ? first + count : total;
        memcpy(tokens_out + first, tokens, count * sizeof(tokens[0]));
        if (kv_tree_ordinal(tree, at) == 0) {
            *scope_out = oracle_scope_of(oracle, at);
        }
    }
    return total;
}

static inline uint64_t oracle_hash(uint32_t scope, const int32_t *tokens,
                                   uint32_t count)
{
    uint64_t hash = oracle_scope(scope);
    for (uint32_t i = 0; i < count; i++) {
        hash = oracle_mix(hash, (uint64_t)tokens[i] + 1);
    }
    return hash;
}

static inline uint64_t oracle_value(uint64_t hash, uint32_t life)
{
    return oracle_mix(hash, life + 77);
}

/* Every page that can be found holds what its node's tokens say. */
static inline void oracle_check_tree(struct oracle *oracle)
{
    struct kv_manager *manager = oracle->manager;
    uint32_t block = manager->options.tokens_per_block;
    for (kv_node node = kv_tree_first(manager->tree); node != KV_NODE_NONE;
         node = kv_tree_next(manager->tree, node)) {
        int32_t tokens[TEXT_MAX];
        uint32_t scope = 0;
        oracle_chain(oracle, node, tokens, &scope);
        uint32_t first = kv_tree_ordinal(manager->tree, node) * block;
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            kv_ref ref = kv_tree_page(manager->tree, node, life);
            if (ref == KV_REF_NONE ||
                !kv_store_is_done(manager->store,
                                  kv_store_ready(manager->store, ref))) {
                continue;
            }
            const struct kv_page *page = kv_store_page(manager->store, ref);
            for (uint32_t i = 0; i < page->tokens; i++) {
                uint64_t hash = oracle_hash(scope, tokens, first + i + 1);
                assert_int_equal(oracle_slot(oracle, page)[i],
                                 oracle_value(hash, life));
            }
        }
    }
}

/* What a match could give, by looking at every node: the longest run of content,
 * and the most tokens of which all that is needed is there. */
struct oracle_match {
    uint32_t raw, usable;
};

static inline bool oracle_is_usable(const struct oracle *oracle, kv_node node,
                                    uint32_t tokens)
{
    const struct kv_manager *manager = oracle->manager;
    uint32_t block = manager->options.tokens_per_block;
    for (kv_node at = node; at != KV_NODE_NONE;
         at = kv_tree_parent(manager->tree, at)) {
        uint32_t ordinal = kv_tree_ordinal(manager->tree, at);
        uint32_t left = tokens - ordinal * block;
        uint32_t need = left < block ? left : block;
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            kv_ref ref = kv_tree_page(manager->tree, at, life);
            bool is_stale = kv_range_has(
                kv_life_stale(&manager->options.lives[life], block, tokens),
                ordinal);
            if (!is_stale &&
                (ref == KV_REF_NONE ||
                 kv_store_page(manager->store, ref)->tokens < need)) {
                return false;
            }
        }
    }
    return true;
}

static inline struct oracle_match oracle_match(const struct oracle *oracle,
                                               uint32_t scope,
                                               const int32_t *tokens,
                                               uint32_t count)
{
    const struct kv_manager *manager = oracle->manager;
    uint32_t block = manager->options.tokens_per_block;
    struct oracle_match best = {0};
    for (kv_node node = kv_tree_first(manager->tree); node != KV_NODE_NONE;
         node = kv_tree_next(manager->tree, node)) {
        int32_t chain[TEXT_MAX];
        uint32_t chain_scope = 0;
        uint32_t total = oracle_chain(oracle, node, chain, &chain_scope);
        uint32_t first = kv_tree_ordinal(manager->tree, node) * block;
        uint32_t common = 0;
        while (common < total && common < count &&
               chain[common] == tokens[common]) {
            common++;
        }
        bool is_whole = common == total && total % block == 0;
        if (chain_scope != scope || common <= first ||
            (!manager->options.enable_partial && !is_whole)) {
            continue;
        }
        best.raw = common > best.raw ? common : best.raw;
        uint32_t least = manager->options.enable_partial ? first + 1 : common;
        for (uint32_t n = common; n >= least && n > best.usable; n--) {
            if (oracle_is_usable(oracle, node, n)) {
                best.usable = n;
            }
        }
    }
    return best;
}

/* -- all that a failed call must leave alone ------------------------------- */

static inline uint64_t oracle_dump(const struct oracle *oracle)
{
    const struct kv_manager *manager = oracle->manager;
    const struct kv_manager_options *options = &manager->options;
    uint64_t hash = kv_tree_epoch(manager->tree);
    uint32_t count = 0;
    kv_manager_orders(manager, &count);
    hash = oracle_mix(hash, count);
    for (uint32_t i = 0; i < options->seq_count_max; i++) {
        const struct kv_seq *seq = &manager->seqs[i];
        hash = oracle_mix(hash, seq->status);
        hash = oracle_mix(hash, seq->committed);
        hash = oracle_mix(hash, seq->history);
        hash = oracle_mix(hash, seq->capacity);
        hash = oracle_mix(hash, seq->inside->shared_tail);
        for (uint32_t life = 0; life < options->life_count; life++) {
            hash = oracle_mix(hash, seq->promised[life]);
            hash = oracle_mix(hash, seq->inside->owed[life]);
            for (uint32_t k = 0; k < options->block_count_max; k++) {
                hash = oracle_mix(hash, (uint32_t)seq->tables[life][k]);
                hash = oracle_mix(hash, seq->inside->refs[life][k]);
            }
        }
    }
    for (uint8_t level = 0; level < options->level_count; level++) {
        for (uint32_t group = 0; group < options->group_count; group++) {
            struct kv_store_counts counts =
                kv_store_counts(manager->store, level, group);
            kv_ref refs[SLOT_MAX];
            uint32_t queued =
                kv_store_queue(manager->store, level, group, SLOT_MAX, refs);
            hash = oracle_mix(hash, counts.free);
            hash = oracle_mix(hash, counts.locked);
            hash = oracle_mix(hash, counts.held);
            for (uint32_t i = 0; i < queued; i++) {
                hash = oracle_mix(hash, refs[i]);
            }
        }
    }
    return hash;
}
