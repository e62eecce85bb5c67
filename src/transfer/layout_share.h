#pragma once
/* transfer/layout_share: which part of a sharded thing a rank holds, and which
 * one of the senders owns the part that a receiver needs (transfer.md 4.2). Pure.
 *
 * The ranks that cut a request's heads are shard_count * replica_count in a row;
 * replicas of a shard are neighbours:
 *
 *   part      0  1  2  3  4  5  6  7      4 heads over 8 ranks
 *   shard     0  0  1  1  2  2  3  3      shard_count 4
 *   replica   0  1  0  1  0  1  0  1      replica_count 2
 *
 * What is not cut at all (a latent, an index key) is one shard with as many
 * replicas as there are ranks. Where several senders that a receiver meets hold
 * the same shard, the one owns it whose turn it is by the receiver's group of
 * attention DP, so that load spreads; the others send nothing.
 *
 * Which replicas those are follows from the ranks that meet, not from the two
 * replica counts alone: with more shards on one side than the other the quotient
 * of the counts names two owners, or none. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "transfer/layout.h"

struct transfer_share {
    uint32_t shard_count, shard_index;
    uint32_t replica_count, replica_index;
};

/* Of the rank at `place`, for what is cut in `shard_count` shards.
 * ERR_INVALID: that does not divide the ranks. */
MUST_USE enum err transfer_share_of(const struct transfer_layout *layout,
                                    const struct transfer_place *place,
                                    uint32_t shard_count, struct why *why,
                                    struct transfer_share *share_out);
/* Of the same rank, for what each rank has whole. */
struct transfer_share transfer_share_whole(const struct transfer_share *share);
/* Its place among the ranks. */
uint32_t transfer_share_part(const struct transfer_share *share);

/* Can each receiver get each byte from exactly one sender that it meets?
 * Counts must divide one another; and where the sender has more shards a
 * receiver needs several, for which its fan-in group must be whole: no replicas
 * there. The reason says which counts fail; all indices are ignored. */
MUST_USE enum err transfer_share_match(const struct transfer_share *sender,
                                       const struct transfer_share *receiver,
                                       struct why *why);

/* Which part of what the sender has goes to which part of what the receiver
 * has; on one side at least it is all of it. */
struct transfer_cut {
    uint32_t source_part, source_parts;
    uint32_t target_part, target_parts;
};

/* Of two shares that match. False: nothing goes from this sender to this
 * receiver; they do not meet, or another one owns it. `receiver_dp`: the
 * receiver's group of attention DP. */
bool transfer_share_cut(const struct transfer_share *sender,
                        const struct transfer_share *receiver,
                        uint32_t receiver_dp, struct transfer_cut *cut_out);
