/* Lengths (engine.md 1.6). A step lets go of what leaves the window and takes what
 * the new blocks need, as one: all is looked at first, so that what cannot be
 * undone is done only when nothing can fail any more. */
#include "kv/manager_state.h"

/* What happens to the pages of one life cycle that go stale. */
struct leave {
    uint32_t gone; /* nobody else's, no lease: their room is free at once */
    uint32_t shared; /* with other sequences */
    uint32_t leased; /* with a lease alone */
    uint32_t own_gone, own_shared, own_leased; /* of them, of its quota */
    uint32_t spare; /* of gone: not in the tree, so they may be used anew;
                     * counted where any are wanted */
};

struct step {
    struct kv_range stale[KV_LIFE_COUNT_MAX];
    uint32_t block_count;
    struct leave leaves[KV_LIFE_COUNT_MAX];
    uint32_t want[KV_LIFE_COUNT_MAX]; /* pages of new blocks */
    uint32_t reuse[KV_LIFE_COUNT_MAX]; /* of them, spare ones */
    bool is_keeping; /* stale ones wait for a commit */
};

/* The blocks that go stale in this step and have been there before. */
static struct kv_range leaving(const struct kv_seq *seq,
                               const struct step *step, uint32_t life)
{
    struct kv_range before = seq->inside->stale[life];
    struct kv_range after = step->stale[life];
    uint32_t first = before.end > after.first ? before.end : after.first;
    uint32_t end = after.end < seq->block_count ? after.end : seq->block_count;
    return (struct kv_range){first < end ? first : end, end};
}

/* May be used for another block as it is. */
static bool is_spare(const struct kv_manager *manager, kv_ref page)
{
    const struct kv_page *record = kv_manager_page(manager, page);
    return kv_is_sole(manager, page) && !kv_is_in_tree(record) &&
           (record->flags & KV_PAGE_LOST) == 0 && record->tokens == 0;
}

static void look_at(const struct kv_manager *manager, const struct kv_seq *seq,
                    uint32_t life, uint32_t block, bool is_wanted,
                    struct leave *leave)
{
    kv_ref page = seq->inside->refs[life][block];
    bool is_own = block >= seq->inside->claimed;
    if (kv_users(manager, page) > 1) {
        leave->shared++;
        leave->own_shared += is_own;
    } else if (kv_side_of(manager, page)->leases > 0) {
        leave->leased++;
        leave->own_leased += is_own;
    } else {
        leave->gone++;
        leave->own_gone += is_own;
        leave->spare += is_wanted && is_spare(manager, page);
    }
}

static void plan(const struct kv_manager *manager, const struct kv_seq *seq,
                 uint32_t capacity, uint32_t history, struct step *step)
{
    step->block_count = kv_blocks_of(capacity, kv_block_tokens(manager));
    kv_seq_stale(manager, history, step->stale);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        struct kv_range range = leaving(seq, step, life);
        for (uint32_t block = seq->block_count; block < step->block_count;
             block++) {
            step->want[life] += !kv_range_has(step->stale[life], block);
        }
        for (uint32_t block = range.first; block < range.end; block++) {
            look_at(manager, seq, life, block, step->want[life] > 0,
                    &step->leaves[life]);
        }
    }
}

/* Kept pages stay only where there is room beside them. */
static void plan_reuse(const struct kv_manager *manager,
                       const struct kv_seq *seq, struct step *step)
{
    const struct kv_seq_inside *inside = seq->inside;
    step->is_keeping = manager->options.commit == KV_COMMIT_ALL &&
                       manager->options.enable_reuse && !inside->is_stopped &&
                       !inside->has_promise;
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        uint32_t want = 0;
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            want += kv_group_of(manager, life) == group ? step->want[life] : 0;
        }
        bool has_room = want == 0 || want <= kv_manager_room(manager, group);
        step->is_keeping = step->is_keeping && has_room;
    }
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t spare = step->is_keeping ? 0 : step->leaves[life].spare;
        step->reuse[life] = spare < step->want[life] ? spare : step->want[life];
    }
}

/* Of pages that leave, how many are promised again at once. */
static uint32_t credit_of(const struct kv_seq *seq, const struct step *step,
                          uint32_t life)
{
    const struct leave *leave = &step->leaves[life];
    return kv_room_credit_of(seq, life, leave->own_gone + leave->own_shared,
                             leave->own_leased);
}

/* May the step take what was not promised to it? */
static bool is_allowed(const struct kv_manager *manager,
                       const struct kv_seq *seq, const struct step *step)
{
    if (manager->promise_count == 0) {
        return true;
    }
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        uint32_t excess = 0;
        uint64_t has = kv_room_strict(manager, group);
        uint64_t must = kv_room_demand(manager, group);
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            if (kv_group_of(manager, life) != group) {
                continue;
            }
            uint32_t credit = credit_of(seq, step, life);
            uint32_t promised = seq->promised[life] + credit;
            has += step->leaves[life].gone;
            must += credit;
            must -= step->leaves[life].shared;
            excess +=
                step->want[life] > promised ? step->want[life] - promised : 0;
        }
        if (excess > 0 && must + excess > has) {
            return false;
        }
    }
    return true;
}

/* -- doing it ------------------------------------------------------------- */

/* A kept page is a hold: it may be moved down, and is found by the next commit. */
static void let_go(struct kv_manager *manager, struct kv_seq *seq,
                   bool is_keeping, uint32_t life, uint32_t block)
{
    kv_ref page = seq->inside->refs[life][block];
    const struct kv_page *record = kv_manager_page(manager, page);
    bool is_lost = (record->flags & KV_PAGE_LOST) != 0;
    bool is_due = block >= seq->committed / kv_block_tokens(manager);
    if (is_keeping && is_due && !kv_is_in_tree(record) && !is_lost) {
        seq->tables[life][block] = KV_PAGE_NONE;
        kv_store_unlock_to_hold(manager->store, page);
    } else {
        kv_seq_drop(manager, seq, life, block);
    }
}

/* Takes spare pages away from blocks that go stale, into `batch`, by life. */
static void collect(struct kv_manager *manager, struct kv_seq *seq,
                    const struct step *step)
{
    kv_ref *batch = manager->batch;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        struct kv_range range = leaving(seq, step, life);
        uint32_t left = step->reuse[life];
        for (uint32_t block = range.first; left > 0; block++) {
            CHECK(block < range.end);
            kv_ref *ref = &seq->inside->refs[life][block];
            if (is_spare(manager, *ref)) {
                *batch++ = *ref;
                *ref = KV_REF_NONE;
                seq->tables[life][block] = KV_PAGE_NONE;
                left--;
            }
        }
    }
}

static void release(struct kv_manager *manager, struct kv_seq *seq,
                    const struct step *step)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        const struct leave *leave = &step->leaves[life];
        struct kv_range range = leaving(seq, step, life);
        for (uint32_t block = range.end; block > range.first; block--) {
            if (seq->inside->refs[life][block - 1] != KV_REF_NONE) {
                let_go(manager, seq, step->is_keeping, life, block - 1);
            }
        }
        kv_room_credit(manager, seq, life, leave->own_gone + leave->own_shared,
                       leave->own_leased);
    }
}

/* Gives the new blocks their pages: used anew, then fresh ones. */
static void place(struct kv_manager *manager, struct kv_seq *seq,
                  const struct step *step)
{
    const kv_ref *batch = manager->batch;
    const kv_ref *fresh = manager->fresh;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t reuse = step->reuse[life];
        for (uint32_t block = seq->block_count; block < step->block_count;
             block++) {
            if (kv_range_has(step->stale[life], block)) {
                continue;
            }
            kv_ref page = reuse > 0 ? *batch++ : *fresh++;
            reuse -= reuse > 0;
            seq->inside->refs[life][block] = page;
            seq->tables[life][block] = kv_manager_page(manager, page)->slot;
        }
        kv_room_charge(manager, seq, life, step->want[life]);
        manager->totals.blocks_allocated += step->want[life];
    }
}

static void count_missed(struct kv_manager *manager, struct kv_seq *seq,
                         uint32_t block_count)
{
    struct kv_seq_inside *inside = seq->inside;
    uint32_t prompt =
        kv_blocks_of(inside->prompt_tokens, kv_block_tokens(manager));
    uint32_t end = block_count < prompt ? block_count : prompt;
    if (end > inside->counted) {
        manager->totals.blocks_missed += end - inside->counted;
        inside->counted = end;
    }
}

/* Is what the step takes there for sure once it has let go? */
static bool is_sure(const struct kv_manager *manager, const struct step *step,
                    const uint32_t still[KV_LIFE_COUNT_MAX])
{
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        uint64_t has = kv_room_strict(manager, group);
        uint64_t need = 0;
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            if (kv_group_of(manager, life) == group) {
                need += still[life];
                has += step->is_keeping ? 0 : step->leaves[life].gone;
                has -= step->reuse[life];
            }
        }
        if (need > has) {
            return false;
        }
    }
    return true;
}

static enum err do_step(struct kv_manager *manager, struct kv_seq *seq,
                        const struct step *step)
{
    uint32_t still[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        still[life] = step->want[life] - step->reuse[life];
    }
    bool is_last = is_sure(manager, step, still);
    /* Not sure: pages that others hold would have to be moved. Then ours go only
     * when that has worked. */
    if (!is_last && kv_room_take(manager, still, manager->fresh) != OK) {
        return ERR_FULL;
    }
    collect(manager, seq, step);
    release(manager, seq, step);
    if (is_last) {
        CHECK(kv_room_take(manager, still, manager->fresh) == OK);
    }
    place(manager, seq, step);
    return OK;
}

static void shrink(struct kv_manager *manager, struct kv_seq *seq,
                   uint32_t block_count)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t gone = 0;
        uint32_t leased = 0;
        for (uint32_t block = seq->block_count; block > block_count; block--) {
            kv_ref page = seq->inside->refs[life][block - 1];
            if (page == KV_REF_NONE) {
                continue;
            }
            bool is_leased = kv_side_of(manager, page)->leases > 0;
            leased += is_leased;
            gone += !is_leased;
            kv_seq_drop(manager, seq, life, block - 1);
        }
        kv_room_credit(manager, seq, life, gone, leased);
    }
    seq->block_count = block_count;
}

static enum err change(struct kv_manager *manager, struct kv_seq *seq,
                       uint32_t capacity, uint32_t history)
{
    struct step step = {0};
    plan(manager, seq, capacity, history, &step);
    plan_reuse(manager, seq, &step);
    if (!is_allowed(manager, seq, &step)) {
        return ERR_FULL;
    }
    if (do_step(manager, seq, &step) != OK) {
        return ERR_FULL;
    }
    if (step.block_count < seq->block_count) {
        shrink(manager, seq, step.block_count);
    } else if (step.block_count > seq->block_count) {
        count_missed(manager, seq, step.block_count);
        seq->inside->is_ready = false;
        seq->block_count = step.block_count;
    }
    kv_seq_set_history(manager, seq, history);
    if (!step.is_keeping) {
        kv_seq_drop_kept(manager, seq);
    }
    return OK;
}

enum err kv_seq_resize(struct kv_manager *manager, struct kv_seq *seq,
                       uint32_t capacity, uint32_t history,
                       struct kv_mark *mark_out)
{
    CHECK(seq->status == KV_SEQ_ACTIVE);
    CHECK(history >= seq->history);
    CHECK(capacity >= history);
    struct kv_mark mark = {seq->history, seq->capacity};
    uint64_t end = (uint64_t)seq->block_count * kv_block_tokens(manager);
    bool is_same_blocks =
        capacity <= end && (uint64_t)capacity + kv_block_tokens(manager) > end;
    if (is_same_blocks && history < seq->inside->next_stale) {
        seq->history = history;
    } else {
        CHECK(kv_blocks_of(capacity, kv_block_tokens(manager)) <=
              manager->options.block_count_max);
        if (change(manager, seq, capacity, history) != OK) {
            return ERR_FULL;
        }
    }
    seq->capacity = capacity;
    if (mark_out != NULL) {
        *mark_out = mark;
    }
    return OK;
}

void kv_seq_revert(struct kv_manager *manager, struct kv_seq *seq,
                   const struct kv_mark *mark)
{
    CHECK(seq->history <= mark->capacity);
    CHECK(mark->capacity <= seq->capacity);
    /* Only blocks are given back. */
    CHECK(kv_seq_resize(manager, seq, mark->capacity, seq->history, NULL) ==
          OK);
}

void kv_seq_advance(struct kv_manager *manager, struct kv_seq *seq,
                    uint32_t history)
{
    CHECK(kv_seq_resize(manager, seq, seq->capacity, history, NULL) == OK);
}
