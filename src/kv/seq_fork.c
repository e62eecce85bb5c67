/* Forks and leases: more than one user of a page. */
#include "kv/manager_state.h"

/* Pages of level 0 a fork takes: copies of a partial last block, one a life. */
struct fork {
    uint32_t full; /* blocks shared */
    bool is_partial;
    uint32_t want[KV_LIFE_COUNT_MAX];
    uint32_t by_group[KV_LIFE_COUNT_MAX]; /* and shares of windowed pages */
};

static void plan(const struct kv_manager *manager, const struct kv_seq *parent,
                 struct fork *fork)
{
    fork->full = parent->history / kv_block_tokens(manager);
    fork->is_partial = parent->history % kv_block_tokens(manager) > 0;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t group = kv_group_of(manager, life);
        fork->want[life] = fork->is_partial;
        fork->by_group[group] += fork->is_partial;
        bool is_windowed = manager->options.lives[life].window > 0;
        uint32_t end = is_windowed ? fork->full : 0;
        for (uint32_t block = manager->sinks[life]; block < end; block++) {
            fork->by_group[group] +=
                parent->tables[life][block] != KV_PAGE_NONE;
        }
    }
}

static void share(struct kv_manager *manager, const struct kv_seq *parent,
                  struct kv_seq *child, uint32_t full)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        for (uint32_t block = 0; block < full; block++) {
            if (parent->tables[life][block] == KV_PAGE_NONE) {
                continue;
            }
            kv_ref page = parent->inside->refs[life][block];
            kv_room_enter(manager, life, block, page);
            kv_store_relock(manager->store, page);
            child->inside->refs[life][block] = page;
            child->tables[life][block] = parent->tables[life][block];
        }
    }
}

static enum err copy_partial(struct kv_manager *manager,
                             const struct kv_seq *parent,
                             const struct fork *fork)
{
    parent->inside->is_ready = false; /* it writes where the copy reads */
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        if (kv_store_copy(manager->store,
                          parent->inside->refs[life][fork->full],
                          manager->fresh[life]) != OK) {
            return ERR_FULL;
        }
    }
    return OK;
}

/* Takes and fills the copies. ERR_FULL: none are left. */
static enum err take_partial(struct kv_manager *manager,
                             const struct kv_seq *parent,
                             const struct fork *fork)
{
    if (!fork->is_partial) {
        return OK;
    }
    uint32_t lives = manager->options.life_count;
    /* Each page taken may send one down a level, and so on. */
    if (kv_room_orders(manager) < lives * manager->options.level_count ||
        kv_room_take(manager, fork->want, manager->fresh) != OK) {
        return ERR_FULL;
    }
    enum err err = copy_partial(manager, parent, fork);
    for (uint32_t life = 0; err != OK && life < lives; life++) {
        kv_store_unlock(manager->store, manager->fresh[life]);
    }
    return err;
}

static struct kv_seq *make_child(struct kv_manager *manager,
                                 struct kv_seq *parent, const struct fork *fork)
{
    uint32_t block_tokens = kv_block_tokens(manager);
    struct kv_seq *child = kv_seq_take(manager);
    struct kv_seq_inside *inside = child->inside;
    share(manager, parent, child, fork->full);
    child->status = KV_SEQ_ACTIVE;
    child->reused = parent->reused;
    child->capacity = parent->history;
    child->block_count = fork->full + fork->is_partial;
    inside->root = parent->inside->root;
    inside->prompt_tokens = parent->inside->prompt_tokens;
    inside->counted = child->block_count;
    inside->claimed = fork->full;
    inside->retention = parent->inside->retention;
    inside->ruled_tokens = parent->inside->ruled_tokens;
    kv_seq_set_history(manager, child, parent->history);
    manager->active_count++;
    /* Blocks that the tree does not know are shared as they are, by two who
     * could both want to publish them. */
    uint32_t committed = parent->committed / block_tokens;
    child->committed = committed * block_tokens;
    if (committed < fork->full) {
        kv_seq_stop(child);
        kv_seq_stop(parent);
    }
    inside->is_stopped |= parent->inside->is_stopped;
    return child;
}

static void place_copies(struct kv_manager *manager, struct kv_seq *child,
                         const struct fork *fork)
{
    for (uint32_t life = 0;
         fork->is_partial && life < manager->options.life_count; life++) {
        kv_ref page = manager->fresh[life];
        child->inside->refs[life][fork->full] = page;
        child->tables[life][fork->full] = kv_manager_page(manager, page)->slot;
        kv_room_charge(manager, child, life, 1);
        manager->totals.blocks_allocated++;
    }
}

/* Room for shares, copies and, if it comes with one, a promise. */
static bool has_room(const struct kv_manager *manager,
                     const struct kv_seq *parent, const struct fork *fork,
                     bool is_promised)
{
    uint32_t by_group[KV_LIFE_COUNT_MAX] = {0};
    uint32_t need[KV_LIFE_COUNT_MAX] = {0};
    if (is_promised) {
        kv_room_need(manager, parent->inside->promise.token_total,
                     parent->history, need);
    }
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t copy = fork->is_partial;
        by_group[kv_group_of(manager, life)] +=
            need[life] > copy ? need[life] - copy : 0;
    }
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        by_group[group] += fork->by_group[group];
    }
    return kv_room_allows(manager, by_group);
}

enum err kv_seq_fork(struct kv_manager *manager, struct kv_seq *parent,
                     struct kv_seq **child_out)
{
    CHECK(parent->status == KV_SEQ_ACTIVE);
    if (manager->free_seqs == NULL) {
        return ERR_FULL;
    }
    struct fork fork = {0};
    plan(manager, parent, &fork);
    uint32_t forks = parent->inside->promise.fork_count;
    if (forks > 0) {
        kv_room_set_forks(manager, parent, forks - 1);
    }
    if (!has_room(manager, parent, &fork, forks > 0) ||
        take_partial(manager, parent, &fork) != OK) {
        kv_room_set_forks(manager, parent, forks);
        return ERR_FULL;
    }
    struct kv_seq *child = make_child(manager, parent, &fork);
    place_copies(manager, child, &fork);
    if (forks > 0) {
        struct kv_promise promise = {.token_total =
                                         parent->inside->promise.token_total};
        /* There is room, as has just been seen. */
        CHECK(kv_seq_promise(manager, child, &promise) == OK);
    }
    *child_out = child;
    return OK;
}

/* -- leases --------------------------------------------------------------- */

void kv_seq_lease(struct kv_manager *manager, const struct kv_seq *seq,
                  uint32_t life, uint32_t first_block, uint32_t block_count,
                  kv_ref *refs_out)
{
    CHECK(seq->status == KV_SEQ_ACTIVE);
    CHECK(life < manager->options.life_count);
    CHECK(first_block <= seq->block_count);
    CHECK(block_count <= seq->block_count - first_block);
    for (uint32_t i = 0; i < block_count; i++) {
        refs_out[i] = KV_REF_NONE;
        if (seq->tables[life][first_block + i] != KV_PAGE_NONE) {
            kv_ref page = seq->inside->refs[life][first_block + i];
            kv_store_relock(manager->store, page);
            struct kv_side *side = kv_side_of(manager, page);
            CHECK(side->leases < KV_LEASE_MAX);
            side->leases++;
            refs_out[i] = page;
        }
    }
}

/* The deepest first, as everywhere. */
void kv_manager_unlease(struct kv_manager *manager, const kv_ref *refs,
                        uint32_t count)
{
    for (uint32_t i = count; i > 0; i--) {
        kv_ref page = refs[i - 1];
        if (page != KV_REF_NONE) {
            struct kv_side *side = kv_side_of(manager, page);
            CHECK(side->leases > 0);
            side->leases--;
            kv_store_unlock(manager->store, page);
        }
    }
    kv_room_settle(manager);
}
