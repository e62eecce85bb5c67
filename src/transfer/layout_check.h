#pragma once
/* transfer/layout_check: may two ranks exchange pages (transfer.md 4.1, 4.4,
 * 4.6)? Asked at both sides when they meet, before anything is promised. Every
 * reason against it is named, with both sides' values, in one line. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/view.h"
#include "transfer/layout.h"
#include "transfer/layout_view.h"

/* What a rank says of itself and of the model it serves. */
struct transfer_party {
    const struct transfer_layout *layout;
    uint32_t rank;
    /* A window that no request outgrows is written as none. */
    uint32_t life_count;
    const struct kv_life *lives;
    uint32_t view_count;
    const struct transfer_view *views;
    /* Of the whole model, whichever layers this rank has. */
    bool is_mla, is_recurrent;
    uint32_t beam_width, draft_length_max; /* of an aux row */
    bool is_pipelined, has_bounce;
};

/* ERR_INVALID names the field: the layout, each view, and that they tell the
 * same: shares as the rank stands, layers of its stage, each role of a layer
 * once, one block size a life cycle. */
MUST_USE enum err transfer_party_validate(const struct transfer_party *party,
                                          struct why *why);

/* What is legal and worth a warning. */
struct transfer_check {
    uint32_t sender_only_layers, receiver_only_layers; /* not transferred */
    bool cuts_tokens; /* heads are cut in a view with tokens first: a run a
                         token, many small ones */
};

/* Of two valid ones. ERR_UNSUPPORTED: all blockers. `can_regrain`: blocks of
 * unequal size, of which one divides the other, are cut by somebody else. */
MUST_USE enum err transfer_parties_check(const struct transfer_party *sender,
                                         const struct transfer_party *receiver,
                                         bool can_regrain, struct why *why,
                                         struct transfer_check *check_out);
