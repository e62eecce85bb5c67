#include "transfer/layout_share.h"

#include "base/check.h"

enum err transfer_share_of(const struct transfer_layout *layout,
                           const struct transfer_place *place,
                           uint32_t shard_count, struct why *why,
                           struct transfer_share *share_out)
{
    uint32_t parts = transfer_layout_part_count(layout);
    if (shard_count == 0 || parts % shard_count != 0) {
        return why_say(why, ERR_INVALID,
                       "shard_count: %u does not divide %u ranks", shard_count,
                       parts);
    }
    uint32_t replicas = parts / shard_count;
    *share_out = (struct transfer_share){
        .shard_count = shard_count,
        .shard_index = place->part / replicas,
        .replica_count = replicas,
        .replica_index = place->part % replicas,
    };
    return OK;
}

uint32_t transfer_share_part(const struct transfer_share *share)
{
    return share->shard_index * share->replica_count + share->replica_index;
}

static uint32_t parts_of(const struct transfer_share *share)
{
    return share->shard_count * share->replica_count;
}

struct transfer_share transfer_share_whole(const struct transfer_share *share)
{
    return (struct transfer_share){
        .shard_count = 1,
        .replica_count = parts_of(share),
        .replica_index = transfer_share_part(share),
    };
}

static enum err match_counts(const char *name, uint32_t sender,
                             uint32_t receiver, struct why *why)
{
    if (!transfer_axis_divides(sender, receiver)) {
        return why_say(why, ERR_UNSUPPORTED,
                       "%s: %u at the sender, %u at the receiver, neither "
                       "divides the other",
                       name, sender, receiver);
    }
    return OK;
}

enum err transfer_share_match(const struct transfer_share *sender,
                              const struct transfer_share *receiver,
                              struct why *why)
{
    enum err err = match_counts("shard_count", sender->shard_count,
                                receiver->shard_count, why);
    err = err ? err
              : match_counts("replica_count", sender->replica_count,
                             receiver->replica_count, why);
    if (err) {
        return err;
    }
    if (sender->shard_count > receiver->shard_count &&
        receiver->replica_count > 1) {
        return why_say(why, ERR_UNSUPPORTED,
                       "replica_count: %u at the receiver, of %u shards, but "
                       "%u shards at the sender: no receiver meets all it "
                       "needs",
                       receiver->replica_count, receiver->shard_count,
                       sender->shard_count);
    }
    return OK;
}

/* How many senders a receiver meets; they are neighbours. */
static uint32_t fan_in(const struct transfer_share *sender,
                       const struct transfer_share *receiver)
{
    uint32_t senders = parts_of(sender);
    uint32_t receivers = parts_of(receiver);
    return senders > receivers ? senders / receivers : 1;
}

static bool do_meet(const struct transfer_share *sender,
                    const struct transfer_share *receiver)
{
    uint32_t senders = parts_of(sender);
    uint32_t receivers = parts_of(receiver);
    uint32_t from = transfer_share_part(sender);
    uint32_t to = transfer_share_part(receiver);
    return senders >= receivers ? from / (senders / receivers) == to
                                : to / (receivers / senders) == from;
}

/* Of the met senders with this shard, is it this one's turn? */
static bool is_owner(const struct transfer_share *sender,
                     const struct transfer_share *receiver,
                     uint32_t receiver_dp)
{
    uint32_t met = fan_in(sender, receiver);
    uint32_t turns = met < sender->replica_count ? met : sender->replica_count;
    return sender->replica_index % turns == receiver_dp % turns;
}

bool transfer_share_cut(const struct transfer_share *sender,
                        const struct transfer_share *receiver,
                        uint32_t receiver_dp, struct transfer_cut *cut_out)
{
    if (!do_meet(sender, receiver) ||
        !is_owner(sender, receiver, receiver_dp)) {
        return false;
    }
    struct transfer_cut cut = {.source_parts = 1, .target_parts = 1};
    if (sender->shard_count <= receiver->shard_count) {
        cut.source_parts = receiver->shard_count / sender->shard_count;
        cut.source_part = receiver->shard_index % cut.source_parts;
    } else {
        cut.target_parts = sender->shard_count / receiver->shard_count;
        cut.target_part = sender->shard_index % cut.target_parts;
    }
    *cut_out = cut;
    return true;
}
