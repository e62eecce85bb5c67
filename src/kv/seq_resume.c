/* Back to level 0 (engine.md 1.6): everything is reserved in one step before any
 * of it is done. */
#include "kv/manager_state.h"

/* Compared in integers: 97 of 100 pass, 98 do not. */
static bool is_crowded(const struct kv_manager *manager)
{
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        struct kv_store_counts counts =
            kv_store_counts(manager->store, 0, group);
        uint64_t used = counts.total - counts.free - counts.queued;
        if (100 * used > 97 * (uint64_t)counts.total) {
            return true;
        }
    }
    return false;
}

static bool is_shared(const struct kv_seq *seq, uint32_t life)
{
    return (seq->inside->shared_tail >> life & 1) != 0;
}

/* The pages to lock, how many of them lie low by group, and the copies to come. */
struct batch {
    uint32_t count;
    uint32_t low[KV_LIFE_COUNT_MAX];
    uint32_t want[KV_LIFE_COUNT_MAX];
};

static void gather(const struct kv_manager *manager, const struct kv_seq *seq,
                   struct batch *batch)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        const kv_ref *refs = seq->inside->refs[life];
        for (uint32_t block = 0; block < seq->block_count; block++) {
            if (refs[block] == KV_REF_NONE ||
                kv_range_has(seq->inside->stale[life], block)) {
                continue;
            }
            batch->low[kv_group_of(manager, life)] +=
                kv_manager_page(manager, refs[block])->level > 0;
            manager->batch[batch->count++] = refs[block];
        }
        batch->want[life] = is_shared(seq, life);
    }
}

/* What the step takes that was not promised. */
static bool is_allowed(const struct kv_manager *manager,
                       const struct kv_seq *seq, const struct batch *batch)
{
    uint32_t by_group[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        bool is_promised = seq->promised[life] > 0;
        by_group[kv_group_of(manager, life)] +=
            is_promised ? 0 : batch->want[life];
    }
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        by_group[group] += seq->inside->has_promise ? 0 : batch->low[group];
    }
    return kv_room_allows(manager, by_group);
}

static uint32_t sum(const uint32_t values[KV_LIFE_COUNT_MAX])
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < KV_LIFE_COUNT_MAX; i++) {
        total += values[i];
    }
    return total;
}

/* Copies can be ordered only when the pages are locked, and then it would be late
 * to learn that there are too many: pages that make way are counted in. */
static bool has_orders(const struct kv_manager *manager,
                       const struct batch *batch)
{
    uint32_t copies = sum(batch->want);
    if (copies == 0) {
        return true; /* the store sees to the rest */
    }
    uint32_t evicted = 0;
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        uint32_t need = batch->low[group];
        uint32_t has = kv_store_counts(manager->store, 0, group).free;
        for (uint32_t life = 0; life < manager->options.life_count; life++) {
            need += kv_group_of(manager, life) == group ? batch->want[life] : 0;
        }
        evicted += need > has ? need - has : 0;
    }
    uint32_t lower = manager->options.level_count - 1;
    return copies + sum(batch->low) + evicted * lower <=
           kv_room_orders(manager);
}

/* Orders the copies of the last block; the pages for them are in `fresh`. */
static enum err copy_tail(struct kv_manager *manager, struct kv_seq *seq)
{
    uint32_t at = 0;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        if (!is_shared(seq, life)) {
            continue;
        }
        kv_ref from = seq->inside->refs[life][seq->block_count - 1];
        enum err err = kv_store_copy(manager->store, from, manager->fresh[at]);
        if (err != OK) {
            return err;
        }
        at++;
    }
    return OK;
}

static void take_tail(struct kv_manager *manager, struct kv_seq *seq)
{
    uint32_t last = seq->block_count - 1;
    uint32_t at = 0;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        if (!is_shared(seq, life)) {
            continue;
        }
        kv_ref *ref = &seq->inside->refs[life][last];
        kv_room_leave(manager, life, last, *ref);
        kv_store_unlock(manager->store, *ref);
        *ref = manager->fresh[at++];
        kv_room_charge(manager, seq, life, 1);
        manager->totals.blocks_allocated++;
    }
    seq->inside->shared_tail = 0;
    seq->committed -= seq->committed % kv_block_tokens(manager);
}

/* Of a batch that was locked. */
static void unlock_all(struct kv_manager *manager, const struct batch *batch)
{
    for (uint32_t i = sum(batch->want); i > 0; i--) {
        kv_store_unlock(manager->store, manager->fresh[i - 1]);
    }
    for (uint32_t i = batch->count; i > 0; i--) {
        kv_store_unlock_to_hold(manager->store, manager->batch[i - 1]);
    }
}

void kv_seq_adopt_tail(struct kv_manager *manager, struct kv_seq *seq,
                       uint8_t lives)
{
    struct kv_seq_inside *inside = seq->inside;
    uint32_t last = seq->block_count - 1;
    if (lives == 0) {
        return;
    }
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        if ((lives >> life & 1) == 0) {
            continue;
        }
        kv_ref page = inside->refs[life][last];
        if (kv_is_in_tree(kv_manager_page(manager, page))) {
            kv_watch_forget(manager, page);
        }
        inside->own[life]++;
    }
    inside->shared_tail &= (uint8_t)~lives;
    if (inside->shared_tail == 0) {
        seq->committed -= seq->committed % kv_block_tokens(manager);
    }
}

static void show(struct kv_manager *manager, struct kv_seq *seq)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        const kv_ref *refs = seq->inside->refs[life];
        for (uint32_t block = 0; block < seq->block_count; block++) {
            if (refs[block] != KV_REF_NONE &&
                !kv_range_has(seq->inside->stale[life], block)) {
                seq->tables[life][block] =
                    kv_manager_page(manager, refs[block])->slot;
            }
        }
    }
    manager->pinned_count -= seq->inside->has_promise;
    manager->active_count++;
    manager->totals.resumes++;
    seq->status = KV_SEQ_ACTIVE;
    seq->inside->is_ready = false;
}

/* Nobody else is active, and there is no room for the copy beside its source: the
 * source will do, since nothing would ever change. */
static enum err resume_alone(struct kv_manager *manager, struct kv_seq *seq,
                             const struct batch *batch)
{
    uint32_t last = seq->block_count - 1;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        if (is_shared(seq, life) &&
            !kv_is_sole(manager, seq->inside->refs[life][last])) {
            return ERR_FULL;
        }
    }
    static const uint32_t NONE[KV_LIFE_COUNT_MAX];
    enum err err =
        kv_store_lock(manager->store, manager->batch, batch->count, NONE, NULL);
    if (err == OK) {
        kv_seq_adopt_tail(manager, seq, seq->inside->shared_tail);
        show(manager, seq);
    }
    return err;
}

static enum err resume_batch(struct kv_manager *manager, struct kv_seq *seq,
                             const struct batch *batch)
{
    if (!is_allowed(manager, seq, batch) || !has_orders(manager, batch) ||
        kv_store_lock(manager->store, manager->batch, batch->count, batch->want,
                      manager->fresh) != OK) {
        return ERR_FULL;
    }
    if (copy_tail(manager, seq) != OK) {
        unlock_all(manager, batch);
        return ERR_FULL;
    }
    if (seq->inside->shared_tail != 0) {
        take_tail(manager, seq);
    }
    show(manager, seq);
    return OK;
}

enum err kv_seq_resume(struct kv_manager *manager, struct kv_seq *seq)
{
    CHECK(seq->status != KV_SEQ_FREE);
    if (seq->status == KV_SEQ_ACTIVE) {
        return OK;
    }
    if (kv_seq_is_lost(manager, seq)) {
        return ERR_CORRUPT;
    }
    bool is_alone = manager->active_count == 0;
    if (!seq->inside->has_promise && !is_alone && is_crowded(manager)) {
        manager->totals.resume_refusals++;
        return ERR_BUSY;
    }
    struct batch batch = {0};
    gather(manager, seq, &batch);
    enum err err = resume_batch(manager, seq, &batch);
    bool may_adopt = is_alone && manager->promise_count == 0;
    if (err == ERR_FULL && may_adopt && seq->inside->shared_tail != 0) {
        err = resume_alone(manager, seq, &batch);
    }
    manager->totals.resume_refusals += err != OK;
    return err;
}

/* -- before that ---------------------------------------------------------- */

void kv_seq_prefetch(struct kv_manager *manager, struct kv_seq *seq,
                     uint8_t level)
{
    CHECK(level < manager->options.level_count);
    if (seq->status != KV_SEQ_SUSPENDED) {
        return;
    }
    struct batch batch = {0};
    gather(manager, seq, &batch);
    uint32_t left[KV_LIFE_COUNT_MAX];
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        bool is_free_of_it = manager->promise_count == 0 || level > 0;
        left[group] =
            is_free_of_it ? UINT32_MAX : kv_manager_room(manager, group);
    }
    for (uint32_t i = 0; i < batch.count; i++) {
        const struct kv_page *page =
            kv_manager_page(manager, manager->batch[i]);
        uint32_t group = kv_group_of(manager, page->life);
        if (page->level > level && left[group] > 0) {
            uint32_t raised =
                kv_store_raise(manager->store, &manager->batch[i], 1, level);
            left[group] -= raised;
        }
    }
}
