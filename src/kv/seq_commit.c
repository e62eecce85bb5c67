/* What a sequence makes findable (engine.md 1.8). Nothing is evicted between the
 * look at a parent and the insertion below it: what needs slots takes them first,
 * and then looks the parent up anew. */
#include "kv/manager_state.h"

/* One call's view of it. */
struct act {
    struct kv_manager *manager;
    struct kv_seq *seq;
    const struct prefix_key *keys;
    const int32_t *tokens;
    kv_node parent; /* of the block to come; KV_NODE_NONE: it is the first */
    bool is_ranked; /* not all pages are worth the same */
    bool is_new; /* the block before was: so will those to come */
};

static bool is_stopped(const struct act *act)
{
    return act->seq->inside->is_stopped;
}

static void stop(struct act *act)
{
    act->manager->totals.commits_stopped++;
    kv_seq_stop(act->seq);
}

/* Finds what the next block hangs on; stops when it has left the tree. */
static bool find_parent(struct act *act)
{
    uint32_t block = act->seq->committed / kv_block_tokens(act->manager);
    act->parent = KV_NODE_NONE;
    if (block == 0) {
        return true;
    }
    act->parent = kv_tree_find(act->manager->tree, &act->keys[block - 1]);
    if (act->parent == KV_NODE_NONE) {
        stop(act);
        return false;
    }
    return true;
}

static kv_ref own_page(const struct act *act, uint32_t life, uint32_t block)
{
    return act->seq->inside->refs[life][block];
}

/* Every page that the node will stand on is there, and none was lost. */
static bool is_publishable(const struct act *act, uint32_t block)
{
    const struct kv_manager *manager = act->manager;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        kv_ref page = own_page(act, life, block);
        if (page == KV_REF_NONE) {
            if (!kv_is_windowed(manager, life, block)) {
                return false;
            }
        } else if (kv_manager_page(manager, page)->flags & KV_PAGE_LOST) {
            return false;
        }
    }
    return true;
}

/* -- ranks ---------------------------------------------------------------- */

static struct kv_rank floor_of(const struct act *act, kv_node node)
{
    return act->is_ranked ? kv_rank_floor(act->manager, node)
                          : (struct kv_rank){0, 0};
}

static void rank_node(struct act *act, kv_node node, uint32_t block,
                      struct kv_rank least)
{
    if (act->is_ranked) {
        kv_rank_node(act->manager, act->seq, node, block, least);
    }
}

/* -- pages to nodes ------------------------------------------------------- */

/* `level_before`: where the page lay that readers know of, if they know one. */
static void tell(const struct act *act, kv_node node, uint32_t life,
                 uint8_t level_before)
{
    struct kv_manager *manager = act->manager;
    kv_ref page = kv_tree_page(manager->tree, node, life);
    if (kv_tree_is_announced(manager->tree, node, life)) {
        kv_events_tell_updated(manager->events, manager->tree, manager->store,
                               page, level_before,
                               kv_manager_page(manager, page)->priority);
    } else {
        kv_events_tell_stored(manager->events, manager->tree, manager->store,
                              node, life);
    }
}

/* Puts `page` where the node has one that covers less, lies lower or is not at
 * all. */
static void give(struct act *act, kv_node node, uint32_t life, kv_ref page,
                 uint32_t token_count)
{
    struct kv_manager *manager = act->manager;
    const struct kv_page *record = kv_manager_page(manager, page);
    uint8_t level_before = record->level;
    if (kv_is_in_tree(record) && record->node != node) {
        /* Our tail's page, left in a node by who went on otherwise from there. */
        kv_watch_leave(manager, page);
    }
    kv_ref there = kv_tree_set_page(manager->tree, node, life, page);
    if (there != KV_REF_NONE && there != page) {
        level_before = kv_manager_page(manager, there)->level;
        kv_watch_displace(manager, there);
    }
    kv_store_commit(manager->store, page, node, (uint16_t)token_count);
    if (manager->events != NULL) {
        tell(act, node, life, level_before);
    }
}

static void give_all(struct act *act, kv_node node, uint32_t block,
                     uint32_t token_count)
{
    struct kv_rank least = floor_of(act, node);
    for (uint32_t life = 0; life < act->manager->options.life_count; life++) {
        kv_ref page = own_page(act, life, block);
        if (page != KV_REF_NONE) {
            give(act, node, life, page, token_count);
        }
    }
    rank_node(act, node, block, least);
}

/* -- a block that is there already ---------------------------------------- */

/* The tree's page may stand in for ours: all of it is there, on level 0. */
static bool is_good(const struct kv_manager *manager, kv_ref there)
{
    const struct kv_page *page = kv_manager_page(manager, there);
    kv_ticket ticket = kv_store_ready(manager->store, there);
    return page->level == 0 && page->tokens == kv_block_tokens(manager) &&
           kv_store_is_done(manager->store, ticket);
}

/* A page that a transfer may still touch, or somebody else knows as ours, stays
 * where it is; then the sequence stays private from there on. */
static bool may_join(const struct act *act, kv_node node, uint32_t block)
{
    const struct kv_manager *manager = act->manager;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        kv_ref ours = own_page(act, life, block);
        kv_ref there = kv_tree_page(manager->tree, node, life);
        if (ours != KV_REF_NONE && there != KV_REF_NONE && ours != there &&
            !kv_is_sole(manager, ours)) {
            return false;
        }
    }
    return true;
}

static void rebase(struct act *act, uint32_t life, uint32_t block, kv_ref there)
{
    struct kv_manager *manager = act->manager;
    kv_ref ours = own_page(act, life, block);
    bool is_kept = act->seq->tables[life][block] == KV_PAGE_NONE;
    if (is_kept) {
        kv_seq_drop(manager, act->seq, life, block);
        return;
    }
    kv_room_enter(manager, life, block, there);
    kv_store_lock_here(manager->store, there);
    kv_room_leave(manager, life, block, ours);
    kv_store_unlock(manager->store, ours);
    /* If a lease alone kept that page, ours comes free in its place. */
    kv_room_settle(manager);
    act->seq->inside->refs[life][block] = there;
    act->seq->tables[life][block] = kv_manager_page(manager, there)->slot;
}

static void join(struct act *act, kv_node node, uint32_t block)
{
    struct kv_manager *manager = act->manager;
    struct kv_rank least = floor_of(act, node);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        kv_ref ours = own_page(act, life, block);
        kv_ref there = kv_tree_page(manager->tree, node, life);
        if (ours == KV_REF_NONE || ours == there) {
            continue;
        }
        if (there != KV_REF_NONE && is_good(manager, there)) {
            rebase(act, life, block, there);
        } else {
            give(act, node, life, ours, kv_block_tokens(manager));
        }
    }
    rank_node(act, node, block, least);
}

/* -- full blocks ---------------------------------------------------------- */

/* A page kept for this moment, or left behind by it, is needed no more. */
static void drop_stale(struct act *act, uint32_t block)
{
    for (uint32_t life = 0; life < act->manager->options.life_count; life++) {
        if (kv_range_has(act->seq->inside->stale[life], block) &&
            own_page(act, life, block) != KV_REF_NONE) {
            kv_seq_drop(act->manager, act->seq, life, block);
        }
    }
}

static bool publish_block(struct act *act, uint32_t block)
{
    struct kv_manager *manager = act->manager;
    uint32_t block_tokens = kv_block_tokens(manager);
    if (!is_publishable(act, block)) {
        return false;
    }
    kv_node node = KV_NODE_NONE;
    enum kv_insert insert = kv_tree_insert(
        manager->tree, &act->seq->inside->root, act->parent, &act->keys[block],
        act->tokens + (size_t)block * block_tokens, block_tokens,
        manager->store, &node);
    switch (insert) {
    case KV_INSERT_NEW:
    case KV_INSERT_EXTENDS:
        give_all(act, node, block, block_tokens);
        break;
    case KV_INSERT_EXISTS:
        if (!may_join(act, node, block)) {
            return false;
        }
        join(act, node, block);
        break;
    case KV_INSERT_USELESS:
    case KV_INSERT_FULL:
    default:
        return false;
    }
    act->parent = node;
    act->is_new = insert == KV_INSERT_NEW;
    act->seq->committed = (block + 1) * block_tokens;
    drop_stale(act, block);
    return true;
}

static void expect(const struct act *act, uint32_t block, uint32_t end)
{
    uint32_t count = end - block < KV_EXPECT_MAX ? end - block : KV_EXPECT_MAX;
    if (count > 1) {
        kv_tree_expect(act->manager->tree, &act->keys[block], count);
    }
}

static void publish_full(struct act *act, uint32_t position)
{
    uint32_t block_tokens = kv_block_tokens(act->manager);
    uint32_t block = act->seq->committed / block_tokens;
    uint32_t end = position / block_tokens;
    if (block >= end || !find_parent(act)) {
        return;
    }
    for (uint32_t first = block; block < end; block++) {
        if (act->is_new && (block - first) % KV_EXPECT_MAX == 0) {
            expect(act, block, end);
        }
        if (!publish_block(act, block)) {
            stop(act);
            break;
        }
    }
}

/* Where all life cycles have windows, a node may have come out with no page. */
static void trim(const struct act *act)
{
    struct kv_tree *tree = act->manager->tree;
    uint32_t full = act->seq->committed / kv_block_tokens(act->manager);
    kv_node last =
        full > 0 ? kv_tree_find(tree, &act->keys[full - 1]) : KV_NODE_NONE;
    if (last != KV_NODE_NONE) {
        kv_tree_trim(tree, last);
    }
}

/* -- the tail ------------------------------------------------------------- */

/* Inserts the partial block; the node to give pages to, or none. */
static kv_node insert_tail(struct act *act, uint32_t position,
                           const struct prefix_key *tail_key)
{
    struct kv_manager *manager = act->manager;
    uint32_t count = position % kv_block_tokens(manager);
    kv_node node = KV_NODE_NONE;
    if (!find_parent(act)) {
        return KV_NODE_NONE;
    }
    enum kv_insert insert = kv_tree_insert(
        manager->tree, &act->seq->inside->root, act->parent, tail_key,
        act->tokens + (position - count), count, manager->store, &node);
    if (insert == KV_INSERT_NEW || insert == KV_INSERT_EXTENDS) {
        return node;
    }
    stop(act);
    return KV_NODE_NONE;
}

/* The sequence's own pages become the tree's; it alone goes on writing behind
 * what they cover. */
static void move_tail(struct act *act, uint32_t position,
                      const struct prefix_key *tail_key)
{
    uint32_t block = position / kv_block_tokens(act->manager);
    kv_node node = insert_tail(act, position, tail_key);
    if (node != KV_NODE_NONE) {
        give_all(act, node, block, position % kv_block_tokens(act->manager));
        act->seq->committed = position;
    }
}

/* A page for each life cycle, on which nobody was promised anything. */
static bool take_copies(struct kv_manager *manager)
{
    uint32_t want[KV_LIFE_COUNT_MAX] = {0};
    uint32_t by_group[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        want[life] = 1;
        by_group[kv_group_of(manager, life)]++;
    }
    return kv_room_allows(manager, by_group) &&
           kv_room_take(manager, want, manager->fresh) == OK;
}

/* The copies are the tree's alone, whatever became of them. */
static void end_copies(struct kv_manager *manager)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        kv_store_unlock(manager->store, manager->fresh[life]);
    }
}

static bool copy_pages(struct act *act, uint32_t block)
{
    struct kv_manager *manager = act->manager;
    act->seq->inside->is_ready = false; /* it writes where the copy reads */
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        if (kv_store_copy(manager->store, own_page(act, life, block),
                          manager->fresh[life]) != OK) {
            return false;
        }
    }
    return true;
}

/* The tree gets copies, and the sequence goes on with its own. */
static void copy_tail(struct act *act, uint32_t position,
                      const struct prefix_key *tail_key)
{
    struct kv_manager *manager = act->manager;
    uint32_t count = position % kv_block_tokens(manager);
    uint32_t block = position / kv_block_tokens(manager);
    if (!take_copies(manager)) {
        manager->totals.commits_stopped++;
        return;
    }
    if (!copy_pages(act, block)) {
        manager->totals.commits_stopped++;
        end_copies(manager);
        return;
    }
    kv_node node = insert_tail(act, position, tail_key);
    if (node != KV_NODE_NONE) {
        struct kv_rank least = floor_of(act, node);
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            give(act, node, life, manager->fresh[life], count);
        }
        rank_node(act, node, block, least);
        act->seq->committed = position;
    }
    end_copies(manager);
}

static void publish_tail(struct act *act, uint32_t position, bool is_final,
                         const struct prefix_key *tail_key)
{
    const struct kv_manager_options *options = &act->manager->options;
    uint32_t block_tokens = options->tokens_per_block;
    uint32_t block = position / block_tokens;
    bool is_due = is_final || options->commit != KV_COMMIT_ALL;
    if (!options->enable_partial || tail_key == NULL || !is_due ||
        position % block_tokens == 0 ||
        act->seq->committed != block * block_tokens) {
        return;
    }
    if (!is_publishable(act, block)) {
        stop(act);
    } else if (is_final) {
        move_tail(act, position, tail_key);
    } else {
        copy_tail(act, position, tail_key);
    }
}

void kv_seq_commit_to(struct kv_manager *manager, struct kv_seq *seq,
                      uint32_t position, const struct prefix_key *keys,
                      const int32_t *tokens, bool is_final,
                      const struct prefix_key *tail_key)
{
    CHECK(seq->status == KV_SEQ_ACTIVE);
    CHECK(position >= seq->history);
    CHECK(position <= seq->capacity);
    bool is_all = manager->options.commit == KV_COMMIT_ALL;
    bool is_point = is_all || is_final || tail_key != NULL;
    uint32_t committed_before = seq->committed;
    struct act act = {
        .manager = manager,
        .seq = seq,
        .keys = keys,
        .tokens = tokens,
        .parent = KV_NODE_NONE,
        .is_ranked = kv_rank_is_used(manager, seq),
        .is_new = true,
    };
    /* All: what leaves the window now is published on its way out. Else only
     * what is needed at the new end counts. */
    if (!is_all) {
        kv_seq_advance(manager, seq, position);
    }
    if (manager->options.enable_reuse && is_point && !is_stopped(&act)) {
        publish_full(&act, position);
    }
    if (manager->options.enable_reuse && is_point && !is_stopped(&act)) {
        publish_tail(&act, position, is_final, tail_key);
    }
    if (manager->is_all_windowed && seq->committed > committed_before) {
        trim(&act);
    }
    if (is_all) {
        kv_seq_advance(manager, seq, position);
    }
}
