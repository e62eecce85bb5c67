#pragma once
/* transfer/layout: how an instance lays a model out over its ranks, and which
 * ranks of two instances meet in a transfer (transfer.md 4.1, 4.3, 4.8). Pure.
 *
 *   rank = pp * (TP * CP) + tp * CP + cp                      CP goes fastest
 *
 *   tp   |  0  1  |  2  3  |     TP 4, DP 2: two groups of attention DP, each
 *        | dp 0   | dp 1   |     has whole requests and cuts them in TP / DP
 *
 * On an axis that has `a` places here and `b` there, one of a and b divides the
 * other, and a place meets those that hold a part of what it holds. On the axis
 * of stages those meet that have a layer in common, by global id: counts would
 * shift where one side alone has draft layers. Ranks meet that meet on all
 * axes, also where they then have no byte to exchange: a receiver counts the
 * results of all senders it meets.
 *
 * What is asked here of two layouts assumes that layout_check passed them. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    TRANSFER_STAGE_COUNT_MAX = 64,
    TRANSFER_LAYER_COUNT_MAX = 4096, /* of all stages */
    TRANSFER_RANK_COUNT_MAX = 65536 /* of an instance, and of each axis */
};

/* Global ids, each once, ascending. */
struct transfer_layers {
    const uint16_t *ids; /* (count) */
    uint32_t count;
};

struct transfer_layout {
    uint32_t tp_size, pp_size, cp_size;
    uint32_t dp_size; /* groups of attention DP among the tp_size; 1: none */
    const struct transfer_layers *stages; /* (pp_size), none empty */
};

/* Where a rank stands. */
struct transfer_place {
    uint32_t pp, tp, cp;
    uint32_t dp; /* its group of attention DP, */
    uint32_t part; /* and its place in there: 0 .. TP / DP - 1 */
};

/* ERR_INVALID names the field: sizes in range, DP divides TP, layers ascend. */
MUST_USE enum err transfer_layout_validate(const struct transfer_layout *layout,
                                           struct why *why);
uint32_t transfer_layout_rank_count(const struct transfer_layout *layout);
/* Ranks among which one request's heads are cut: TP / DP. */
uint32_t transfer_layout_part_count(const struct transfer_layout *layout);
struct transfer_place transfer_layout_place(
    const struct transfer_layout *layout, uint32_t rank);
/* Of the pp, tp and cp of the place. */
uint32_t transfer_layout_rank(const struct transfer_layout *layout,
                              const struct transfer_place *place);

/* Of `a` places here and `b` there: may they meet at all? */
bool transfer_axis_divides(uint32_t a, uint32_t b);
/* Have the two an id in common? */
bool transfer_layers_meet(const struct transfer_layers *a,
                          const struct transfer_layers *b);
bool transfer_layers_have(const struct transfer_layers *layers, uint32_t id);

/* The ranks of a peer that one rank meets: a product of three axes, for one or
 * for all of the peer's groups of attention DP. */
struct transfer_overlap {
    const struct transfer_layout *peer; /* the caller's */
    uint64_t stages; /* a bit a stage */
    uint32_t stage_count;
    uint32_t dp_first, dp_count;
    uint32_t part_first, part_count; /* within a group */
    uint32_t cp_first, cp_count;
};

/* For a request that group `peer_dp` of the peer serves: the receivers of a
 * sender, or the senders of a receiver. */
struct transfer_overlap transfer_layout_overlap(
    const struct transfer_layout *self, uint32_t rank,
    const struct transfer_layout *peer, uint32_t peer_dp);
/* While nobody knows which group of the peer will serve it: all of them
 * (transfer.md 2.4, ADP broadcast). */
struct transfer_overlap transfer_layout_broadcast(
    const struct transfer_layout *self, uint32_t rank,
    const struct transfer_layout *peer);

/* Ranks in it: who is told. */
uint32_t transfer_overlap_count(const struct transfer_overlap *overlap);
/* Results to wait for: one group's, since one will serve the request. */
uint32_t transfer_overlap_expected(const struct transfer_overlap *overlap);
/* The index-th in ascending order, index < count. */
uint32_t transfer_overlap_rank(const struct transfer_overlap *overlap,
                               uint32_t index);
bool transfer_overlap_has(const struct transfer_overlap *overlap,
                          uint32_t rank);

/* Does this sender write the first tokens to that receiver (transfer.md 4.8)?
 * Exactly one does of those that a receiver meets: the first of the fan-in
 * group, in the first stage that shares a layer, of CP rank 0. */
bool transfer_layout_writes_aux(const struct transfer_layout *sender,
                                uint32_t sender_rank,
                                const struct transfer_layout *receiver,
                                uint32_t receiver_rank);
