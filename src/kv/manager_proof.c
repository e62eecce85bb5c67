/* Invariants of engine.md 7.1 that need the whole, and those of promises, page by
 * page: for tests and checkers. It allocates. */
#include "base/mem.h"
#include "kv/manager_state.h"

/* What the sequences say of the pages, counted anew. */
struct census {
    const struct kv_manager *manager;
    uint16_t *users; /* (page_count) sequences */
    uint16_t *locks; /* (page_count) of them, active */
    uint32_t shadow[KV_LIFE_COUNT_MAX];
    uint32_t promised[KV_LIFE_COUNT_MAX];
    uint32_t owed[KV_LIFE_COUNT_MAX];
    uint32_t leased[KV_LIFE_COUNT_MAX]; /* pages that only leases keep */
    uint32_t seqs, active, promises, pinned;
};

/* -- a sequence ----------------------------------------------------------- */

static bool is_place_valid(struct census *census, const struct kv_seq *seq,
                           uint32_t life, uint32_t block, uint32_t *own)
{
    const struct kv_manager *manager = census->manager;
    const struct kv_seq_inside *inside = seq->inside;
    kv_ref ref = inside->refs[life][block];
    kv_page_id shown = seq->tables[life][block];
    bool is_stale = kv_range_has(inside->stale[life], block);
    if (block >= seq->block_count || ref == KV_REF_NONE) {
        bool is_missing = block < seq->block_count && !is_stale;
        return ref == KV_REF_NONE && shown == KV_PAGE_NONE && !is_missing;
    }
    const struct kv_page *page = kv_manager_page(manager, ref);
    bool is_locked = seq->status == KV_SEQ_ACTIVE && !is_stale;
    uint32_t committed = seq->committed / kv_block_tokens(manager);
    bool is_shared =
        (inside->shared_tail >> life & 1) != 0 && block + 1 == seq->block_count;
    census->users[ref]++;
    census->locks[ref] += is_locked;
    census->shadow[kv_group_of(manager, life)] +=
        census->users[ref] > 1 && kv_is_windowed(manager, life, block);
    *own += !is_stale && block >= inside->claimed && !is_shared;
    if (is_locked) {
        return page->level == 0 && page->locks > 0 && shown == page->slot &&
               page->life == life;
    }
    bool is_kept_well =
        !is_stale || (block >= committed && !inside->is_stopped);
    return shown == KV_PAGE_NONE && page->holds > 0 && is_kept_well &&
           page->life == life;
}

static bool is_promise_valid(struct census *census, const struct kv_seq *seq,
                             uint32_t life, uint32_t own)
{
    const struct kv_seq_inside *inside = seq->inside;
    uint32_t quota = inside->quota[life];
    uint32_t left = quota > own ? quota - own : 0;
    uint32_t given = seq->promised[life] + inside->owed[life];
    census->promised[kv_group_of(census->manager, life)] +=
        seq->promised[life] +
        inside->promise.fork_count * inside->fork_each[life];
    census->owed[kv_group_of(census->manager, life)] += inside->owed[life];
    bool is_empty = given == 0 && quota == 0 && inside->promise.fork_count == 0;
    return inside->own[life] == own && given <= left &&
           (inside->has_promise || is_empty);
}

static bool is_seq_valid(struct census *census, const struct kv_seq *seq)
{
    const struct kv_manager_options *options = &census->manager->options;
    uint32_t blocks = kv_blocks_of(seq->capacity, options->tokens_per_block);
    bool is_open = seq->status != KV_SEQ_FREE;
    for (uint32_t life = 0; life < options->life_count; life++) {
        uint32_t own = 0;
        for (uint32_t i = 0; i < options->block_count_max; i++) {
            if (!is_place_valid(census, seq, life, i, &own)) {
                return false;
            }
        }
        if (is_open && !is_promise_valid(census, seq, life, own)) {
            return false;
        }
    }
    census->seqs += is_open;
    census->active += seq->status == KV_SEQ_ACTIVE;
    census->promises += is_open && seq->inside->has_promise;
    census->pinned +=
        seq->status == KV_SEQ_SUSPENDED && seq->inside->has_promise;
    return !is_open ||
           (seq->committed <= seq->history && seq->history <= seq->capacity &&
            seq->block_count == blocks);
}

/* -- the whole ------------------------------------------------------------ */

/* Users are sequences and leases, and no one else. */
static bool are_users_valid(struct census *census)
{
    const struct kv_manager *manager = census->manager;
    for (kv_ref ref = 0; ref < manager->page_count; ref++) {
        const struct kv_page *page = kv_manager_page(manager, ref);
        const struct kv_side *side = &manager->sides[ref];
        uint32_t users = census->users[ref] + side->leases;
        uint32_t locks = census->locks[ref] + side->leases;
        bool is_used = page->locks > 0 || page->holds > 0;
        if (!is_used && users == 0) {
            continue;
        }
        census->leased[kv_group_of(manager, page->life)] +=
            census->users[ref] == 0;
        if ((uint32_t)page->locks + page->holds != users ||
            page->locks != locks || side->is_counted) {
            return false;
        }
    }
    return true;
}

static bool are_sums_valid(const struct census *census)
{
    const struct kv_manager *manager = census->manager;
    uint32_t owed = 0;
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        owed += census->owed[group];
        if (census->shadow[group] != manager->shadow[group] ||
            census->promised[group] != manager->promised[group] ||
            census->owed[group] > census->leased[group]) {
            return false;
        }
        if (manager->promise_count > 0 &&
            kv_room_demand(manager, group) > kv_room_strict(manager, group)) {
            return false;
        }
    }
    return owed == manager->owed && census->seqs == manager->seq_count &&
           census->active == manager->active_count &&
           census->promises == manager->promise_count &&
           census->pinned == manager->pinned_count;
}

/* No page that others stand on ranks below theirs. */
static bool is_rank_valid(const struct kv_manager *manager, kv_node node)
{
    kv_node parent = kv_tree_parent(manager->tree, node);
    uint32_t lives = manager->options.life_count;
    for (uint32_t life = 0; life < lives && parent != KV_NODE_NONE; life++) {
        kv_ref page = kv_tree_page(manager->tree, node, life);
        for (uint32_t i = 0; page != KV_REF_NONE && i < lives; i++) {
            kv_ref above = kv_tree_page(manager->tree, parent, i);
            uint32_t block = kv_tree_ordinal(manager->tree, parent);
            if (!kv_is_windowed(manager, i, block) &&
                kv_manager_page(manager, above)->priority <
                    kv_manager_page(manager, page)->priority) {
                return false;
            }
        }
    }
    return true;
}

static bool are_ranks_valid(const struct kv_manager *manager)
{
    for (kv_node node = kv_tree_first(manager->tree); node != KV_NODE_NONE;
         node = kv_tree_next(manager->tree, node)) {
        if (!is_rank_valid(manager, node)) {
            return false;
        }
    }
    return true;
}

static bool take_census(struct census *census)
{
    const struct kv_manager *manager = census->manager;
    for (uint32_t i = 0; i < manager->options.seq_count_max; i++) {
        if (!is_seq_valid(census, &manager->seqs[i])) {
            return false;
        }
    }
    return are_users_valid(census) && are_sums_valid(census);
}

bool kv_manager_is_valid(const struct kv_manager *manager)
{
    struct census census = {.manager = manager};
    census.users = mem_new_array(manager->page_count, sizeof(uint16_t));
    census.locks = mem_new_array(manager->page_count, sizeof(uint16_t));
    bool is_valid = kv_store_is_valid(manager->store) &&
                    kv_tree_is_valid(manager->tree) &&
                    are_ranks_valid(manager) && take_census(&census);
    mem_free(census.users);
    mem_free(census.locks);
    return is_valid;
}
