/* transfer/layout_share: every part has one owner, or the pair is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/layout_share.h"

static struct transfer_share share_at(uint32_t shards, uint32_t replicas,
                                      uint32_t part)
{
    return (struct transfer_share){shards, part / replicas, replicas,
                                   part % replicas};
}

/* 4 heads, TP 8 to TP 4: receiver j meets 2j and 2j + 1; for an even group of
 * attention DP the even one sends, for an odd one the odd. */
static void duplicates_take_turns(void **state)
{
    (void)state;
    for (uint32_t part = 0; part < 8; part++) {
        struct transfer_share from = share_at(4, 2, part);
        for (uint32_t to = 0; to < 4; to++) {
            struct transfer_share receiver = share_at(4, 1, to);
            for (uint32_t dp = 0; dp < 4; dp++) {
                struct transfer_cut cut;
                bool owns = transfer_share_cut(&from, &receiver, dp, &cut);
                assert_int_equal(owns, part / 2 == to && part % 2 == dp % 2);
            }
        }
    }
}

/* One latent, TP 8 to TP 2 elects one of four; TP 2 to TP 8 copies four times. */
static void what_all_have_comes_once(void **state)
{
    (void)state;
    struct transfer_cut cut;
    for (uint32_t to = 0; to < 2; to++) {
        struct transfer_share receiver = share_at(1, 2, to);
        uint32_t owners = 0;
        for (uint32_t from = 0; from < 8; from++) {
            struct transfer_share sender = share_at(1, 8, from);
            if (transfer_share_cut(&sender, &receiver, 6, &cut)) {
                assert_int_equal(from, to * 4 + 2);
                owners++;
            }
        }
        assert_int_equal(owners, 1);
    }
    for (uint32_t to = 0; to < 8; to++) {
        struct transfer_share sender = share_at(1, 2, to / 4);
        struct transfer_share receiver = share_at(1, 8, to);
        assert_true(transfer_share_cut(&sender, &receiver, 0, &cut));
        assert_int_equal(cut.source_parts, 1);
        assert_int_equal(cut.target_parts, 1);
    }
}

/* What one sender's part means in units of a 64th of the whole. */
static void count_units(const struct transfer_share *sender,
                        const struct transfer_share *receiver,
                        const struct transfer_cut *cut, uint32_t *counts)
{
    uint32_t has = 64 / sender->shard_count, wants = 64 / receiver->shard_count;
    uint32_t size = has / cut->source_parts;
    uint32_t from = sender->shard_index * has + cut->source_part * size;
    uint32_t to = receiver->shard_index * wants + cut->target_part * size;
    assert_int_equal(size, wants / cut->target_parts);
    assert_int_equal(from, to);
    for (uint32_t i = 0; i < size; i++) {
        counts[from + i]++;
    }
}

/* Do the senders that a receiver meets have all it needs, whoever owns it?
 * Judged by intervals of the whole. */
static bool is_covered(const struct transfer_share *receiver, uint32_t shards,
                       uint32_t replicas)
{
    uint32_t senders = shards * replicas;
    uint32_t receivers = receiver->shard_count * receiver->replica_count;
    uint32_t at = transfer_share_part(receiver);
    uint64_t units = 0;
    for (uint32_t from = 0; from < senders; from++) {
        bool meet = from * receivers < (at + 1) * senders &&
                    at * senders < (from + 1) * receivers;
        uint32_t size = 64 / shards;
        for (uint32_t i = 0; meet && i < size; i++) {
            units |= UINT64_C(1) << (from / replicas * size + i);
        }
    }
    uint32_t wants = 64 / receiver->shard_count;
    for (uint32_t i = 0; i < wants; i++) {
        if ((units >> (receiver->shard_index * wants + i) & 1) == 0) {
            return false;
        }
    }
    return true;
}

static void judge(uint32_t from_shards, uint32_t from_replicas,
                  uint32_t to_shards, uint32_t to_replicas)
{
    struct transfer_share any = share_at(from_shards, from_replicas, 0);
    struct transfer_share other = share_at(to_shards, to_replicas, 0);
    bool is_matched = transfer_share_match(&any, &other, NULL) == OK;
    bool all_covered = true;
    for (uint32_t to = 0; to < to_shards * to_replicas; to++) {
        struct transfer_share receiver = share_at(to_shards, to_replicas, to);
        all_covered &= is_covered(&receiver, from_shards, from_replicas);
        for (uint32_t dp = 0; is_matched && dp < 5; dp++) {
            uint32_t counts[64] = {0};
            for (uint32_t i = 0; i < from_shards * from_replicas; i++) {
                struct transfer_share sender =
                    share_at(from_shards, from_replicas, i);
                struct transfer_cut cut;
                if (transfer_share_cut(&sender, &receiver, dp, &cut)) {
                    count_units(&sender, &receiver, &cut, counts);
                }
            }
            for (uint32_t unit = 0; unit < 64; unit++) {
                assert_int_equal(counts[unit], unit / (64 / to_shards) ==
                                                   receiver.shard_index);
            }
        }
    }
    assert_int_equal(is_matched, all_covered);
}

/* All shard and replica counts that are powers of two up to 8 on both sides:
 * those pass that can be covered, and then each unit has one owner, whichever
 * group's turn it is. [transfer I19] */
static void every_unit_has_one_owner_or_the_pair_is_refused(void **state)
{
    (void)state;
    for (int c = 0; c < 4 * 4 * 4 * 4; c++) {
        judge(1u << c % 4, 1u << c / 4 % 4, 1u << c / 16 % 4, 1u << c / 64);
    }
}

/* Counts that do not divide, and shards that no receiver meets all of. */
static void counts_that_leave_gaps_are_named(void **state)
{
    (void)state;
    struct why why;
    struct transfer_share from = share_at(4, 1, 0), to = share_at(6, 1, 0);
    assert_int_equal(transfer_share_match(&from, &to, &why), ERR_UNSUPPORTED);
    assert_string_equal(why.text, "shard_count: 4 at the sender, 6 at the "
                                  "receiver, neither divides the other");
    from = share_at(1, 6, 0), to = share_at(3, 4, 0);
    assert_int_equal(transfer_share_match(&from, &to, &why), ERR_UNSUPPORTED);
    assert_string_equal(why.text, "replica_count: 6 at the sender, 4 at the "
                                  "receiver, neither divides the other");
    from = share_at(4, 2, 0), to = share_at(2, 2, 0);
    assert_int_equal(transfer_share_match(&from, &to, &why), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "replica_count: 2 at the receiver"));
}

/* By place: TP 8, DP 2, two shards: neighbours are replicas. */
static void a_share_follows_from_the_place(void **state)
{
    (void)state;
    static const uint16_t id = 0;
    static const struct transfer_layers stage = {&id, 1};
    struct transfer_layout layout = {8, 1, 1, 2, &stage};
    struct transfer_place place = transfer_layout_place(&layout, 7);
    struct transfer_share share;
    assert_int_equal(transfer_share_of(&layout, &place, 2, NULL, &share), OK);
    assert_int_equal(share.shard_index, 1);
    assert_int_equal(share.replica_count, 2);
    assert_int_equal(share.replica_index, 1);
    assert_int_equal(transfer_share_part(&share), 3);
    struct transfer_share whole = transfer_share_whole(&share);
    assert_int_equal(whole.shard_count, 1);
    assert_int_equal(whole.replica_count, 4);
    assert_int_equal(whole.replica_index, 3);
    struct why why;
    assert_int_equal(transfer_share_of(&layout, &place, 3, &why, &share),
                     ERR_INVALID);
    assert_string_equal(why.text, "shard_count: 3 does not divide 4 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicates_take_turns),
        cmocka_unit_test(what_all_have_comes_once),
        cmocka_unit_test(every_unit_has_one_owner_or_the_pair_is_refused),
        cmocka_unit_test(counts_that_leave_gaps_are_named),
        cmocka_unit_test(a_share_follows_from_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
