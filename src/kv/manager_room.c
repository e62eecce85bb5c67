/* Who pays for a page: promises and what backs them (kv/manager_state.h). */
#include "kv/manager_state.h"

/* -- of a group ----------------------------------------------------------- */

uint32_t kv_room_strict(const struct kv_manager *manager, uint32_t group)
{
    struct kv_store_counts counts = kv_store_counts(manager->store, 0, group);
    return counts.free + counts.droppable;
}

/* Pages of one suspended sequence that lie low and are not counted yet; without
 * `mark`, the marks go away again. */
static uint32_t scan_low(const struct kv_manager *manager,
                         const struct kv_seq *seq, uint32_t group, bool mark)
{
    uint32_t count = 0;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t blocks =
            kv_group_of(manager, life) == group ? seq->block_count : 0;
        for (uint32_t block = 0; block < blocks; block++) {
            kv_ref page = seq->inside->refs[life][block];
            if (page == KV_REF_NONE ||
                kv_manager_page(manager, page)->level == 0) {
                continue;
            }
            struct kv_side *side = kv_side_of(manager, page);
            count += side->is_counted != mark;
            side->is_counted = mark & 1;
        }
    }
    return count;
}

/* Rare: who has a promise is not suspended for long. */
static uint32_t count_low(const struct kv_manager *manager, uint32_t group)
{
    if (manager->pinned_count == 0 || manager->options.level_count == 1) {
        return 0;
    }
    uint32_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < manager->options.seq_count_max; i++) {
            const struct kv_seq *seq = &manager->seqs[i];
            if (seq->status == KV_SEQ_SUSPENDED && seq->inside->has_promise) {
                uint32_t found = scan_low(manager, seq, group, pass == 0);
                count += pass == 0 ? found : 0;
            }
        }
    }
    return count;
}

uint32_t kv_room_demand(const struct kv_manager *manager, uint32_t group)
{
    return manager->promised[group] + manager->shadow[group] +
           count_low(manager, group);
}

uint32_t kv_manager_room(const struct kv_manager *manager, uint32_t group)
{
    uint32_t strict = kv_room_strict(manager, group);
    uint32_t demand = kv_room_demand(manager, group);
    return strict > demand ? strict - demand : 0;
}

bool kv_room_allows(const struct kv_manager *manager,
                    const uint32_t want[KV_LIFE_COUNT_MAX])
{
    if (manager->promise_count == 0) {
        return true;
    }
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        if (want[group] > 0 && want[group] > kv_manager_room(manager, group)) {
            return false;
        }
    }
    return true;
}

/* -- users of a page ------------------------------------------------------ */

void kv_room_enter(struct kv_manager *manager, uint32_t life, uint32_t block,
                   kv_ref page)
{
    if (kv_is_windowed(manager, life, block) && kv_users(manager, page) > 0) {
        manager->shadow[kv_group_of(manager, life)]++;
    }
}

void kv_room_leave(struct kv_manager *manager, uint32_t life, uint32_t block,
                   kv_ref page)
{
    if (kv_is_windowed(manager, life, block) && kv_users(manager, page) > 1) {
        uint32_t group = kv_group_of(manager, life);
        CHECK(manager->shadow[group] > 0);
        manager->shadow[group]--;
    }
}

/* -- of a sequence -------------------------------------------------------- */

void kv_room_charge(struct kv_manager *manager, struct kv_seq *seq,
                    uint32_t life, uint32_t count)
{
    struct kv_seq_inside *inside = seq->inside;
    uint32_t kept = seq->promised[life] < count ? seq->promised[life] : count;
    inside->own[life] += count;
    seq->promised[life] -= kept;
    manager->promised[kv_group_of(manager, life)] -= kept;
    /* What was had beyond that is owed no more. */
    uint32_t left = inside->quota[life] > inside->own[life]
                        ? inside->quota[life] - inside->own[life]
                        : 0;
    if (inside->owed[life] > left) {
        manager->owed -= inside->owed[life] - left;
        inside->owed[life] = left;
    }
}

/* Of `count` and `leased` pages let go, what the quota takes back. */
static uint32_t credit_total(const struct kv_seq *seq, uint32_t life,
                             uint32_t gone)
{
    const struct kv_seq_inside *inside = seq->inside;
    uint32_t taken =
        inside->own[life] - gone + seq->promised[life] + inside->owed[life];
    if (!inside->has_promise || taken >= inside->quota[life]) {
        return 0;
    }
    uint32_t spare = inside->quota[life] - taken;
    return spare < gone ? spare : gone;
}

uint32_t kv_room_credit_of(const struct kv_seq *seq, uint32_t life,
                           uint32_t count, uint32_t leased)
{
    uint32_t total = credit_total(seq, life, count + leased);
    return total < count ? total : count;
}

void kv_room_credit(struct kv_manager *manager, struct kv_seq *seq,
                    uint32_t life, uint32_t count, uint32_t leased)
{
    struct kv_seq_inside *inside = seq->inside;
    CHECK(inside->own[life] >= count + leased);
    uint32_t total = credit_total(seq, life, count + leased);
    uint32_t now = total < count ? total : count;
    inside->own[life] -= count + leased;
    seq->promised[life] += now;
    manager->promised[kv_group_of(manager, life)] += now;
    inside->owed[life] += total - now;
    manager->owed += total - now;
}

static void settle_seq(struct kv_manager *manager, struct kv_seq *seq)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t owed = seq->inside->owed[life];
        if (owed == 0) {
            continue;
        }
        uint32_t group = kv_group_of(manager, life);
        uint32_t room = kv_manager_room(manager, group);
        uint32_t paid = owed < room ? owed : room;
        seq->inside->owed[life] -= paid;
        manager->owed -= paid;
        seq->promised[life] += paid;
        manager->promised[group] += paid;
    }
}

void kv_room_settle(struct kv_manager *manager)
{
    uint32_t count = manager->owed > 0 ? manager->options.seq_count_max : 0;
    for (uint32_t i = 0; i < count; i++) {
        settle_seq(manager, &manager->seqs[i]);
    }
}

void kv_room_set_forks(struct kv_manager *manager, struct kv_seq *seq,
                       uint32_t fork_count)
{
    struct kv_seq_inside *inside = seq->inside;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t *promised = &manager->promised[kv_group_of(manager, life)];
        *promised -= inside->promise.fork_count * inside->fork_each[life];
        *promised += fork_count * inside->fork_each[life];
    }
    inside->promise.fork_count = fork_count;
}

void kv_room_set_promise(struct kv_manager *manager, struct kv_seq *seq,
                         bool has_promise)
{
    CHECK(seq->inside->has_promise != has_promise);
    uint32_t one = has_promise ? 1 : -1u;
    seq->inside->has_promise = has_promise;
    manager->promise_count += one;
    manager->pinned_count += seq->status == KV_SEQ_SUSPENDED ? one : 0;
}

void kv_room_forget(struct kv_manager *manager, struct kv_seq *seq)
{
    struct kv_seq_inside *inside = seq->inside;
    if (!inside->has_promise) {
        return;
    }
    kv_room_set_forks(manager, seq, 0);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        manager->promised[kv_group_of(manager, life)] -= seq->promised[life];
        manager->owed -= inside->owed[life];
        seq->promised[life] = 0;
        inside->owed[life] = 0;
        inside->quota[life] = 0;
    }
    kv_room_set_promise(manager, seq, false);
}

/* -- pages and orders ----------------------------------------------------- */

uint32_t kv_room_orders(const struct kv_manager *manager)
{
    struct kv_store_totals totals = kv_store_totals(manager->store);
    uint64_t made = totals.offloaded + totals.onboarded + totals.copied;
    return manager->options.order_max - (uint32_t)(made - manager->orders_done);
}

enum err kv_room_take(struct kv_manager *manager,
                      const uint32_t want[KV_LIFE_COUNT_MAX], kv_ref *refs_out)
{
    enum err err = kv_store_take(manager->store, want, refs_out);
    if (err == OK) {
        return OK;
    }
    uint32_t by_group[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        by_group[kv_group_of(manager, life)] += want[life];
    }
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        if (kv_room_strict(manager, group) < by_group[group]) {
            return err;
        }
    }
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        kv_watch_drop(manager, 0, group, by_group[group]);
    }
    return kv_store_take(manager->store, want, refs_out);
}
