/* The life of a sequence: open, resume, suspend, close. */
#include <string.h>

#include "kv/manager_state.h"

/* -- ranges --------------------------------------------------------------- */

void kv_seq_stale(const struct kv_manager *manager, uint32_t history,
                  struct kv_range stale_out[KV_LIFE_COUNT_MAX])
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        struct kv_range stale = kv_life_stale(
            &manager->options.lives[life], kv_block_tokens(manager), history);
        if (stale.first == stale.end) {
            stale.first = stale.end = manager->sinks[life];
        }
        stale_out[life] = stale;
    }
}

/* The first history at which a life cycle has one stale block more. */
static uint32_t next_stale(const struct kv_manager *manager,
                           const struct kv_range *stale)
{
    uint64_t next = UINT32_MAX;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t window = manager->options.lives[life].window;
        uint64_t at =
            ((uint64_t)stale[life].end + 1) * kv_block_tokens(manager) +
            window - 1;
        if (window > 0 && at < next) {
            next = at;
        }
    }
    return (uint32_t)next;
}

void kv_seq_set_history(struct kv_manager *manager, struct kv_seq *seq,
                        uint32_t history)
{
    struct kv_seq_inside *inside = seq->inside;
    seq->history = history;
    kv_seq_stale(manager, history, inside->stale);
    inside->next_stale = next_stale(manager, inside->stale);
}

/* -- open ----------------------------------------------------------------- */

struct kv_seq *kv_seq_take(struct kv_manager *manager)
{
    struct kv_seq *seq = manager->free_seqs;
    if (seq == NULL) {
        return NULL;
    }
    struct kv_seq_inside *inside = seq->inside;
    struct kv_seq_inside clean = {.manager = manager};
    memcpy(clean.refs, inside->refs, sizeof(clean.refs));
    manager->free_seqs = inside->next_free;
    manager->seq_count++;
    *inside = clean;
    struct kv_seq fresh = {.status = KV_SEQ_SUSPENDED, .inside = inside};
    memcpy(fresh.tables, seq->tables, sizeof(fresh.tables));
    *seq = fresh;
    return seq;
}

/* Calls `visit` for each page that a match of `tokens` needs, in the chain that
 * the manager has just found. */
typedef void visit_page(struct kv_manager *manager, uint32_t life,
                        uint32_t block, kv_ref page, void *context);
static void for_needed(struct kv_manager *manager, uint32_t tokens,
                       visit_page *visit, void *context)
{
    struct kv_range stale[KV_LIFE_COUNT_MAX];
    kv_seq_stale(manager, tokens, stale);
    uint32_t count = kv_blocks_of(tokens, kv_block_tokens(manager));
    for (uint32_t block = 0; block < count; block++) {
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            if (!kv_range_has(stale[life], block)) {
                kv_ref page =
                    kv_tree_page(manager->tree, manager->chain[block], life);
                CHECK(page != KV_REF_NONE);
                visit(manager, life, block, page, context);
            }
        }
    }
}

/* What a claim takes from others' room: pages that were nobody's, those that only
 * a lease keeps from whom they are owed to, and shares of windowed ones that are
 * somebody's. */
static void add_claim(struct kv_manager *manager, uint32_t life, uint32_t block,
                      kv_ref page, void *context)
{
    uint32_t *by_group = context;
    uint32_t users = kv_users(manager, page);
    const struct kv_page *record = kv_manager_page(manager, page);
    bool is_droppable = record->locks == 0 && record->holds == 0;
    bool is_leased = users == 0 && !is_droppable;
    by_group[kv_group_of(manager, life)] +=
        (is_droppable && record->level == 0) ||
        (is_leased && manager->owed > 0) ||
        (users > 0 && kv_is_windowed(manager, life, block));
}

static void hold_page(struct kv_manager *manager, uint32_t life, uint32_t block,
                      kv_ref page, void *context)
{
    struct kv_seq *seq = context;
    kv_room_enter(manager, life, block, page);
    kv_store_hold(manager->store, page);
    seq->inside->refs[life][block] = page;
}

static uint32_t match(struct kv_manager *manager,
                      const struct kv_prompt *prompt, uint32_t limit)
{
    if (!manager->options.enable_reuse) {
        return 0;
    }
    struct kv_prompt part = *prompt;
    uint32_t most = manager->options.block_count_max * kv_block_tokens(manager);
    limit = limit < most ? limit : most;
    part.token_count = part.token_count < limit ? part.token_count : limit;
    struct kv_match found = kv_tree_match(manager->tree, &part, manager->chain);
    manager->totals.tokens_lost_evicted += found.raw - found.usable;
    return found.usable;
}

static void claim(struct kv_manager *manager, struct kv_seq *seq,
                  uint32_t tokens)
{
    uint32_t block_tokens = kv_block_tokens(manager);
    struct kv_seq_inside *inside = seq->inside;
    bool is_partial = tokens % block_tokens > 0;
    for_needed(manager, tokens, hold_page, seq);
    seq->reused = seq->committed = seq->capacity = tokens;
    seq->block_count = kv_blocks_of(tokens, block_tokens);
    inside->claimed = tokens / block_tokens;
    inside->counted = seq->block_count;
    if (is_partial) {
        inside->shared_tail =
            (uint8_t)((1u << manager->options.life_count) - 1);
    }
    kv_seq_set_history(manager, seq, tokens);
    manager->totals.blocks_reused_full += inside->claimed;
    manager->totals.blocks_reused_partial += is_partial;
}

enum err kv_seq_open(struct kv_manager *manager, const struct kv_prompt *prompt,
                     uint32_t limit, struct kv_seq **seq_out)
{
    if (manager->free_seqs == NULL) {
        return ERR_FULL;
    }
    uint32_t tokens = match(manager, prompt, limit);
    uint32_t by_group[KV_LIFE_COUNT_MAX] = {0};
    if (manager->promise_count > 0) {
        for_needed(manager, tokens, add_claim, by_group);
    }
    if (!kv_room_allows(manager, by_group)) {
        return ERR_FULL;
    }
    struct kv_seq *seq = kv_seq_take(manager);
    seq->inside->root = *prompt->root;
    seq->inside->prompt_tokens = prompt->token_count + 1;
    claim(manager, seq, tokens);
    kv_room_settle(manager);
    *seq_out = seq;
    return OK;
}

/* -- pages of a sequence -------------------------------------------------- */

bool kv_seq_is_lost(const struct kv_manager *manager, const struct kv_seq *seq)
{
    /* Only what is still to arrive can be lost. */
    if (seq->inside->is_ready || kv_store_totals(manager->store).lost == 0) {
        return false;
    }
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        for (uint32_t block = 0; block < seq->block_count; block++) {
            kv_ref page = seq->inside->refs[life][block];
            if (page != KV_REF_NONE &&
                !kv_range_has(seq->inside->stale[life], block) &&
                (kv_manager_page(manager, page)->flags & KV_PAGE_LOST) != 0) {
                return true;
            }
        }
    }
    return false;
}

static bool are_ready(const struct kv_manager *manager,
                      const struct kv_seq *seq, uint32_t first)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        for (uint32_t block = first; block < seq->block_count; block++) {
            kv_ref page = seq->inside->refs[life][block];
            if (seq->tables[life][block] == KV_PAGE_NONE) {
                continue;
            }
            kv_ticket ticket = kv_store_ready(manager->store, page);
            if (!kv_store_is_done(manager->store, ticket) ||
                (kv_manager_page(manager, page)->flags & KV_PAGE_LOST) != 0) {
                return false;
            }
        }
    }
    return true;
}

/* What lies behind its history it writes, in a block too that the tree knows the
 * beginning of: somebody may have found that since, and copies it. */
bool kv_seq_is_ready(const struct kv_manager *manager, const struct kv_seq *seq)
{
    if (seq->status != KV_SEQ_ACTIVE) {
        return false;
    }
    uint32_t first =
        seq->inside->is_ready ? seq->history / kv_block_tokens(manager) : 0;
    if (!are_ready(manager, seq, first)) {
        return false;
    }
    seq->inside->is_ready = true;
    return true;
}

static bool is_locked(const struct kv_seq *seq, uint32_t life, uint32_t block)
{
    return seq->tables[life][block] != KV_PAGE_NONE;
}

void kv_seq_drop(struct kv_manager *manager, struct kv_seq *seq, uint32_t life,
                 uint32_t block)
{
    kv_ref page = seq->inside->refs[life][block];
    kv_room_leave(manager, life, block, page);
    seq->inside->refs[life][block] = KV_REF_NONE;
    if (is_locked(seq, life, block)) {
        seq->tables[life][block] = KV_PAGE_NONE;
        kv_store_unlock(manager->store, page);
    } else {
        kv_store_unhold(manager->store, page);
    }
}

void kv_seq_drop_kept(struct kv_manager *manager, struct kv_seq *seq)
{
    uint32_t committed = seq->committed / kv_block_tokens(manager);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        struct kv_range stale = seq->inside->stale[life];
        uint32_t first = stale.first > committed ? stale.first : committed;
        for (uint32_t block = stale.end; block > first; block--) {
            if (seq->inside->refs[life][block - 1] != KV_REF_NONE) {
                kv_seq_drop(manager, seq, life, block - 1);
            }
        }
    }
}

void kv_seq_stop(struct kv_seq *seq)
{
    if (!seq->inside->is_stopped) {
        seq->inside->is_stopped = true;
        kv_seq_drop_kept(seq->inside->manager, seq);
    }
}

/* -- suspend and close ---------------------------------------------------- */

void kv_seq_suspend(struct kv_manager *manager, struct kv_seq *seq)
{
    CHECK(seq->status != KV_SEQ_FREE);
    if (seq->status == KV_SEQ_SUSPENDED) {
        return;
    }
    for (uint32_t block = seq->block_count; block > 0; block--) {
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            if (is_locked(seq, life, block - 1)) {
                seq->tables[life][block - 1] = KV_PAGE_NONE;
                kv_store_unlock_to_hold(manager->store,
                                        seq->inside->refs[life][block - 1]);
            }
        }
    }
    seq->status = KV_SEQ_SUSPENDED;
    seq->inside->is_ready = false;
    manager->active_count--;
    manager->pinned_count += seq->inside->has_promise;
    manager->totals.suspends++;
}

void kv_seq_close(struct kv_manager *manager, struct kv_seq *seq)
{
    CHECK(seq->status != KV_SEQ_FREE);
    kv_room_forget(manager, seq);
    for (uint32_t block = seq->block_count; block > 0; block--) {
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            if (seq->inside->refs[life][block - 1] != KV_REF_NONE) {
                kv_seq_drop(manager, seq, life, block - 1);
            }
        }
    }
    manager->active_count -= seq->status == KV_SEQ_ACTIVE;
    manager->seq_count--;
    seq->status = KV_SEQ_FREE;
    seq->block_count = 0;
    seq->inside->next_free = manager->free_seqs;
    manager->free_seqs = seq;
    kv_room_settle(manager);
}
