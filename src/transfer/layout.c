#include "transfer/layout.h"

#include "base/check.h"

/* -------- one layout -------- */

static enum err check_stage(const struct transfer_layers *stage,
                            struct why *why)
{
    if (stage->count == 0) {
        return why_say(why, ERR_INVALID, "no layers");
    }
    for (uint32_t i = 1; i < stage->count; i++) {
        if (stage->ids[i - 1] >= stage->ids[i]) {
            return why_say(why, ERR_INVALID, "layer %u comes after layer %u",
                           stage->ids[i], stage->ids[i - 1]);
        }
    }
    return OK;
}

/* Every layer has its place: no id in two stages. */
static enum err check_stages(const struct transfer_layout *layout,
                             struct why *why)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < layout->pp_size; i++) {
        count += layout->stages[i].count;
    }
    if (count > TRANSFER_LAYER_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "stages: %llu layers are over %u",
                       (unsigned long long)count, TRANSFER_LAYER_COUNT_MAX);
    }
    for (uint32_t i = 0; i < layout->pp_size; i++) {
        enum err err = check_stage(&layout->stages[i], why);
        for (uint32_t j = 0; !err && j < i; j++) {
            if (transfer_layers_meet(&layout->stages[i], &layout->stages[j])) {
                err = why_say(why, ERR_INVALID, "a layer of stage %u too", j);
            }
        }
        if (err) {
            return why_prefix(why, err, "stages[%u]", i);
        }
    }
    return OK;
}

static enum err check_size(const char *name, uint32_t size, uint32_t max,
                           struct why *why)
{
    if (size == 0 || size > max) {
        return why_say(why, ERR_INVALID, "%s: %u is not in 1 to %u", name, size,
                       max);
    }
    return OK;
}

enum err transfer_layout_validate(const struct transfer_layout *layout,
                                  struct why *why)
{
    enum { MAX = TRANSFER_RANK_COUNT_MAX };
    enum err err = check_size("tp_size", layout->tp_size, MAX, why);
    err = err ? err : check_size("cp_size", layout->cp_size, MAX, why);
    err = err ? err
              : check_size("pp_size", layout->pp_size, TRANSFER_STAGE_COUNT_MAX,
                           why);
    err = err ? err : check_size("dp_size", layout->dp_size, MAX, why);
    if (err) {
        return err;
    }
    if (layout->tp_size % layout->dp_size != 0) {
        return why_say(why, ERR_INVALID,
                       "dp_size: %u does not divide tp_size %u",
                       layout->dp_size, layout->tp_size);
    }
    uint64_t count =
        (uint64_t)layout->tp_size * layout->cp_size * layout->pp_size;
    if (count > MAX) {
        return why_say(why, ERR_INVALID, "tp_size: %llu ranks are over %u",
                       (unsigned long long)count, MAX);
    }
    return check_stages(layout, why);
}

uint32_t transfer_layout_rank_count(const struct transfer_layout *layout)
{
    return layout->pp_size * layout->tp_size * layout->cp_size;
}

uint32_t transfer_layout_part_count(const struct transfer_layout *layout)
{
    return layout->tp_size / layout->dp_size;
}

struct transfer_place transfer_layout_place(
    const struct transfer_layout *layout, uint32_t rank)
{
    CHECK(rank < transfer_layout_rank_count(layout));
    uint32_t parts = transfer_layout_part_count(layout);
    uint32_t tp = rank / layout->cp_size % layout->tp_size;
    return (struct transfer_place){
        .pp = rank / (layout->tp_size * layout->cp_size),
        .tp = tp,
        .cp = rank % layout->cp_size,
        .dp = tp / parts,
        .part = tp % parts,
    };
}

uint32_t transfer_layout_rank(const struct transfer_layout *layout,
                              const struct transfer_place *place)
{
    return (place->pp * layout->tp_size + place->tp) * layout->cp_size +
           place->cp;
}

/* -------- two layouts, axis by axis -------- */

bool transfer_axis_divides(uint32_t a, uint32_t b)
{
    return a % b == 0 || b % a == 0;
}

/* Place `index` of `a` meets the places [first, first + count) of `b`. */
static void axis_meet(uint32_t a, uint32_t index, uint32_t b,
                      uint32_t *first_out, uint32_t *count_out)
{
    CHECK(transfer_axis_divides(a, b));
    *count_out = a <= b ? b / a : 1;
    *first_out = a <= b ? index * (b / a) : index / (a / b);
}

bool transfer_layers_meet(const struct transfer_layers *a,
                          const struct transfer_layers *b)
{
    for (uint32_t i = 0, j = 0; i < a->count && j < b->count;) {
        if (a->ids[i] == b->ids[j]) {
            return true;
        }
        if (a->ids[i] < b->ids[j]) {
            i++;
        } else {
            j++;
        }
    }
    return false;
}

bool transfer_layers_have(const struct transfer_layers *layers, uint32_t id)
{
    uint32_t first = 0;
    uint32_t end = layers->count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (layers->ids[middle] < id) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first < layers->count && layers->ids[first] == id;
}

static uint64_t stages_met(const struct transfer_layers *stage,
                           const struct transfer_layout *peer,
                           uint32_t *count_out)
{
    CHECK(peer->pp_size <= TRANSFER_STAGE_COUNT_MAX);
    uint64_t stages = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < peer->pp_size; i++) {
        if (transfer_layers_meet(stage, &peer->stages[i])) {
            stages |= UINT64_C(1) << i;
            count++;
        }
    }
    *count_out = count;
    return stages;
}

struct transfer_overlap transfer_layout_overlap(
    const struct transfer_layout *self, uint32_t rank,
    const struct transfer_layout *peer, uint32_t peer_dp)
{
    CHECK(peer_dp < peer->dp_size);
    struct transfer_place place = transfer_layout_place(self, rank);
    struct transfer_overlap overlap = {
        .peer = peer, .dp_first = peer_dp, .dp_count = 1};
    overlap.stages =
        stages_met(&self->stages[place.pp], peer, &overlap.stage_count);
    axis_meet(transfer_layout_part_count(self), place.part,
              transfer_layout_part_count(peer), &overlap.part_first,
              &overlap.part_count);
    axis_meet(self->cp_size, place.cp, peer->cp_size, &overlap.cp_first,
              &overlap.cp_count);
    return overlap;
}

struct transfer_overlap transfer_layout_broadcast(
    const struct transfer_layout *self, uint32_t rank,
    const struct transfer_layout *peer)
{
    struct transfer_overlap overlap =
        transfer_layout_overlap(self, rank, peer, 0);
    overlap.dp_count = peer->dp_size;
    return overlap;
}

/* -------- the ranks of an overlap -------- */

uint32_t transfer_overlap_expected(const struct transfer_overlap *overlap)
{
    return overlap->stage_count * overlap->part_count * overlap->cp_count;
}

uint32_t transfer_overlap_count(const struct transfer_overlap *overlap)
{
    return transfer_overlap_expected(overlap) * overlap->dp_count;
}

static uint32_t stage_at(uint64_t stages, uint32_t index)
{
    for (; index > 0; index--) {
        stages &= stages - 1;
    }
    return (uint32_t)__builtin_ctzll(stages);
}

uint32_t transfer_overlap_rank(const struct transfer_overlap *overlap,
                               uint32_t index)
{
    CHECK(index < transfer_overlap_count(overlap));
    uint32_t cp = index % overlap->cp_count;
    index /= overlap->cp_count;
    uint32_t part = index % overlap->part_count;
    index /= overlap->part_count;
    uint32_t dp = index % overlap->dp_count;
    index /= overlap->dp_count;
    struct transfer_place place = {
        .pp = stage_at(overlap->stages, index),
        .tp = (overlap->dp_first + dp) *
                  transfer_layout_part_count(overlap->peer) +
              overlap->part_first + part,
        .cp = overlap->cp_first + cp,
    };
    return transfer_layout_rank(overlap->peer, &place);
}

static bool is_among(uint32_t place, uint32_t first, uint32_t count)
{
    return place >= first && place - first < count;
}

bool transfer_overlap_has(const struct transfer_overlap *overlap, uint32_t rank)
{
    struct transfer_place place = transfer_layout_place(overlap->peer, rank);
    return (overlap->stages >> place.pp & 1) != 0 &&
           is_among(place.dp, overlap->dp_first, overlap->dp_count) &&
           is_among(place.part, overlap->part_first, overlap->part_count) &&
           is_among(place.cp, overlap->cp_first, overlap->cp_count);
}

bool transfer_layout_writes_aux(const struct transfer_layout *sender,
                                uint32_t sender_rank,
                                const struct transfer_layout *receiver,
                                uint32_t receiver_rank)
{
    struct transfer_place place = transfer_layout_place(sender, sender_rank);
    struct transfer_overlap senders =
        transfer_layout_overlap(receiver, receiver_rank, sender, place.dp);
    return transfer_overlap_has(&senders, sender_rank) &&
           transfer_overlap_rank(&senders, 0) == sender_rank;
}
