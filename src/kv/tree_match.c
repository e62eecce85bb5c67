/* What of a prompt is cached and usable (engine.md 1.7.4, 1.7.5).
 *
 *   content  |  full blocks, by their tags .........  | part of a child |
 *   usable   |  ... up to where each life cycle has its window          |
 *
 * A node stands on its full-attention and sink pages, so of these only the last
 * block needs a look. Windowed life cycles look at their window, from the end
 * back: a hole that the window of `n` tokens sees is seen by every longer match
 * up to n as well, so cutting there loses nothing and no block is looked at
 * twice for a life cycle. The cost is O(log blocks + window), O(log blocks) when
 * asked again with no page lost since; what was cut away comes on top. */
#include "base/check.h"
#include "kv/tree_state.h"

/* A match of `tokens`, whose last block is `node` (KV_NODE_NONE: of none). */
struct end {
    kv_node node;
    uint32_t tokens;
};

/* -- content -------------------------------------------------------------- */

/* Leading tokens of the child that every life cycle covers, at most `count`: it
 * is the last block of a match, so nobody finds it stale. */
static uint32_t cover_all(const struct kv_tree *tree, kv_node node,
                          uint32_t count)
{
    for (uint32_t life = 0; life < tree->options.life_count; life++) {
        uint32_t cover = kv_tree_cover(tree, node, life);
        count = cover < count ? cover : count;
    }
    return count;
}

/* Among children that share the same run, the one whose pages serve most of it;
 * a few are looked at. */
static kv_node best_of_equals(const struct kv_tree *tree, kv_node parent,
                              const int32_t *tokens, uint32_t common,
                              kv_node found)
{
    uint32_t best = cover_all(tree, found, common);
    if (best == common) {
        return found;
    }
    kv_node at = kv_siblings_first_with(tree, parent, tokens, common);
    for (int i = 0; i < TIE_LOOK_MAX && at != KV_NODE_NONE; i++) {
        if (kv_siblings_common(tree, at, tokens, common) < common) {
            break;
        }
        uint32_t cover = cover_all(tree, at, common);
        if (cover > best) {
            best = cover;
            found = at;
        }
        at = kv_siblings_next(tree, at);
    }
    return found;
}

/* Goes on into the child that shares the longest run of what is left. */
static struct end match_partial(const struct kv_tree *tree,
                                const struct kv_prompt *prompt, kv_node parent,
                                struct end end)
{
    uint32_t left = prompt->token_count - end.tokens;
    uint32_t count = left < tree->options.tokens_per_block
                         ? left
                         : tree->options.tokens_per_block;
    const int32_t *tokens = prompt->tokens + end.tokens;
    uint32_t common;
    kv_node child = kv_siblings_nearest(tree, parent, tokens, count, &common);
    if (child == KV_NODE_NONE) {
        return end;
    }
    child = best_of_equals(tree, parent, tokens, common, child);
    return (struct end){.node = child, .tokens = end.tokens + common};
}

static struct end match_raw(const struct kv_tree *tree,
                            const struct kv_prompt *prompt)
{
    uint32_t full = prompt->token_count / tree->options.tokens_per_block;
    CHECK(full <= prompt->key_count);
    uint32_t id;
    uint32_t run = prefix_table_find_longest(tree->table, prompt->keys, full,
                                             prompt->guess, &id);
    struct end end = {
        .node = run > 0 ? id : KV_NODE_NONE,
        .tokens = run * tree->options.tokens_per_block,
    };
    if (!tree->options.enable_partial || end.tokens == prompt->token_count) {
        return end;
    }
    kv_node parent =
        run > 0 ? id : prefix_table_find(tree->table, prompt->root);
    return parent == KV_NODE_NONE ? end
                                  : match_partial(tree, prompt, parent, end);
}

/* -- use ------------------------------------------------------------------ */

/* The first block that has to be looked at for a match of `tokens`. */
static uint32_t look_from(const struct kv_tree *tree, uint32_t life,
                          uint32_t tokens)
{
    const struct kv_life *rule = &tree->options.lives[life];
    uint32_t block_tokens = tree->options.tokens_per_block;
    uint32_t blocks = kv_blocks_of(tokens, block_tokens);
    if (rule->window == 0) {
        return blocks - 1;
    }
    struct kv_range stale = kv_life_stale(rule, block_tokens, tokens);
    return stale.first == blocks ? blocks - 1 : stale.end;
}

static struct end cut_for_life(const struct kv_tree *tree, uint32_t life,
                               struct end end)
{
    uint32_t block_tokens = tree->options.tokens_per_block;
    if (end.tokens == 0) {
        return end;
    }
    uint32_t block = kv_blocks_of(end.tokens, block_tokens);
    uint32_t from = look_from(tree, life, end.tokens);
    kv_node node = end.node;
    while (block > from) {
        block--;
        kv_node parent = tree->nodes[node].parent;
        uint32_t start = block * block_tokens;
        uint32_t left = end.tokens - start;
        uint32_t need = left < block_tokens ? left : block_tokens;
        uint32_t cover = kv_tree_cover(tree, node, life);
        if (cover < need) {
            end.node = cover > 0 ? node : parent;
            end.tokens = start + cover;
            if (end.tokens == 0) {
                break;
            }
            from = look_from(tree, life, end.tokens);
        }
        node = parent;
    }
    return end;
}

static struct end cut(const struct kv_tree *tree, struct end end)
{
    uint32_t before;
    do {
        before = end.tokens;
        for (uint32_t life = 0; life < tree->options.life_count; life++) {
            end = cut_for_life(tree, life, end);
        }
    } while (end.tokens != before);
    return end;
}

/* Is the match up to the end of this full block, or of none, usable? Remembered
 * until any page is lost, so that asking again costs no walk. */
static bool is_proven(const struct kv_tree *tree, kv_node node)
{
    struct node *record = &tree->nodes[node];
    if (record->kind == NODE_SCOPE || record->proven == tree->losses) {
        return true;
    }
    uint32_t tokens = (record->ordinal + 1) * tree->options.tokens_per_block;
    struct end whole = {.node = node, .tokens = tokens};
    if (cut(tree, whole).tokens < tokens) {
        return false;
    }
    record->proven = tree->losses;
    return true;
}

/* A longer match needs no earlier block than a shorter one: with what is before
 * the last block proven, that block is all there is to look at. */
static struct end usable_part(const struct kv_tree *tree, struct end raw)
{
    uint32_t over = raw.tokens % tree->options.tokens_per_block;
    if (raw.tokens == 0) {
        return raw;
    }
    if (over == 0 && is_proven(tree, raw.node)) {
        return raw;
    }
    if (over > 0 && cover_all(tree, raw.node, over) == over &&
        is_proven(tree, tree->nodes[raw.node].parent)) {
        return raw;
    }
    return cut(tree, raw);
}

struct kv_match kv_tree_match(const struct kv_tree *tree,
                              const struct kv_prompt *prompt,
                              kv_node *nodes_out)
{
    struct end raw = match_raw(tree, prompt);
    struct end end = usable_part(tree, raw);
    if (nodes_out != NULL) {
        kv_node node = end.node;
        uint32_t block =
            kv_blocks_of(end.tokens, tree->options.tokens_per_block);
        while (block > 0) {
            nodes_out[--block] = node;
            node = tree->nodes[node].parent;
        }
    }
    return (struct kv_match){
        .raw = raw.tokens,
        .attention = end.tokens,
        .usable = end.tokens,
    };
}
