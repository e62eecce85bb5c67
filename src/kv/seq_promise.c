/* What a sequence may need until its end is set aside (kv/manager_state.h). */
#include "kv/manager_state.h"

/* Pages of the last block that only this sequence keeps from being given up: they
 * can become its own in place of a copy. */
static uint8_t adoptable(const struct kv_manager *manager,
                         const struct kv_seq *seq)
{
    uint8_t lives = 0;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint8_t bit = (uint8_t)(1u << life);
        if ((seq->inside->shared_tail & bit) != 0 &&
            kv_is_sole(manager,
                       seq->inside->refs[life][seq->block_count - 1])) {
            lives |= bit;
        }
    }
    return lives;
}

static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

/* What is set aside for one sequence. */
struct share {
    struct kv_promise promise;
    uint32_t quota[KV_LIFE_COUNT_MAX];
    uint32_t promised[KV_LIFE_COUNT_MAX];
    uint32_t owed[KV_LIFE_COUNT_MAX];
    uint32_t fork_each[KV_LIFE_COUNT_MAX];
};

static struct share share_of(const struct kv_seq *seq)
{
    struct share share = {.promise = seq->inside->promise};
    for (uint32_t life = 0; life < KV_LIFE_COUNT_MAX; life++) {
        share.quota[life] = seq->inside->quota[life];
        share.promised[life] = seq->promised[life];
        share.owed[life] = seq->inside->owed[life];
        share.fork_each[life] = seq->inside->fork_each[life];
    }
    return share;
}

/* Takes the sequence's share out of the sums. */
static void withdraw(struct kv_manager *manager, const struct share *share)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        manager->promised[kv_group_of(manager, life)] -=
            share->promised[life] +
            share->promise.fork_count * share->fork_each[life];
        manager->owed -= share->owed[life];
    }
}

static void deposit(struct kv_manager *manager, struct kv_seq *seq,
                    const struct share *share)
{
    seq->inside->promise = share->promise;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        seq->inside->quota[life] = share->quota[life];
        seq->promised[life] = share->promised[life];
        seq->inside->owed[life] = share->owed[life];
        seq->inside->fork_each[life] = share->fork_each[life];
        manager->promised[kv_group_of(manager, life)] +=
            share->promised[life] +
            share->promise.fork_count * share->fork_each[life];
        manager->owed += share->owed[life];
    }
}

/* `spared`: tails that need no copy, since they will be its own. */
static void set_share(const struct kv_manager *manager,
                      const struct kv_seq *seq,
                      const struct kv_promise *promise, uint8_t spared,
                      struct share *share_out)
{
    const struct kv_seq_inside *inside = seq->inside;
    *share_out = (struct share){.promise = *promise};
    kv_room_need(manager, promise->token_total,
                 inside->claimed * kv_block_tokens(manager), share_out->quota);
    kv_room_fork_need(manager, promise, share_out->fork_each);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        uint32_t own = inside->own[life] + (spared >> life & 1);
        uint32_t left = less(share_out->quota[life], own);
        uint32_t owed = inside->owed[life] < left ? inside->owed[life] : left;
        share_out->owed[life] = owed;
        share_out->promised[life] = left - owed;
    }
}

static bool fits(const struct kv_manager *manager, const struct share *share)
{
    uint64_t by_group[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        by_group[kv_group_of(manager, life)] +=
            share->promised[life] +
            (uint64_t)share->promise.fork_count * share->fork_each[life];
    }
    for (uint32_t group = 0; group < manager->options.group_count; group++) {
        /* With no promise before, others' shares may be over what there is. */
        if (by_group[group] + kv_room_demand(manager, group) >
            kv_room_strict(manager, group)) {
            return false;
        }
    }
    return true;
}

/* Whether it can be met, and if so which tails must do without a copy. */
static bool plan(const struct kv_manager *manager, const struct kv_seq *seq,
                 const struct kv_promise *promise, struct share *share_out,
                 uint8_t *spared_out)
{
    *spared_out = 0;
    set_share(manager, seq, promise, 0, share_out);
    if (fits(manager, share_out)) {
        return true;
    }
    *spared_out = adoptable(manager, seq);
    set_share(manager, seq, promise, *spared_out, share_out);
    return *spared_out != 0 && fits(manager, share_out);
}

enum err kv_seq_promise(struct kv_manager *manager, struct kv_seq *seq,
                        const struct kv_promise *promise)
{
    CHECK(seq->status != KV_SEQ_FREE);
    CHECK(kv_blocks_of(promise->token_total, kv_block_tokens(manager)) <=
          manager->options.block_count_max);
    bool is_first = !seq->inside->has_promise;
    if (is_first) {
        /* Its pages that lie low are to be reckoned with from here on. */
        kv_room_set_promise(manager, seq, true);
    }
    struct share before = share_of(seq);
    struct share after;
    uint8_t spared = 0;
    withdraw(manager, &before);
    if (!plan(manager, seq, promise, &after, &spared)) {
        deposit(manager, seq, &before);
        if (is_first) {
            kv_room_set_promise(manager, seq, false);
        }
        return ERR_FULL;
    }
    deposit(manager, seq, &after);
    kv_seq_drop_kept(manager, seq);
    kv_seq_adopt_tail(manager, seq, spared);
    return OK;
}
