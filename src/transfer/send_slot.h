#pragma once
/* transfer/send_slot: what the parts of send_side share: sessions and commands
 * (send_side.c), what receivers say (send_link.c), what they are told and
 * written (send_write.c). Private to transfer. */
#include "transfer/advert.h"
#include "transfer/pace.h"
#include "transfer/regrain.h"
#include "transfer/reporter.h"
#include "transfer/send_side.h"
#include "transfer/tombstone.h"
#include "transfer/tx_session.h"

struct send_slot {
    bool is_used, has_ended; /* ended: only its last report is still to go */
    bool is_withdrawn; /* ended before anybody asked, to be offered again */
    struct tx_session session;
    const kv_page_id
        *pages[TRANSFER_GROUP_COUNT_MAX]; /* the engine's, until Q */
    struct transfer_aux *aux; /* ours, or NULL */
    struct transfer_advert *advert; /* BOUND, or NULL */
    struct link *link; /* of the receiver; NULL: lost */
    struct reporter reporter;
    const char *lane;
    /* The one write under way; arrays keep their memory. */
    struct transfer_write write;
    bool is_bounced; /* it goes through the arenas instead */
    uint64_t bounced_bytes; /* so far */
    struct transfer_pair *pairs; /* (capacity), group after group */
    struct transfer_piece *pieces; /* (capacity) */
    uint32_t capacity, pair_count;
    uint32_t pair_counts[TRANSFER_GROUP_COUNT_MAX];
    uint32_t group_blocks[TRANSFER_GROUP_COUNT_MAX]; /* written so far */
    /* A pair is a part of the smaller of both sides' blocks, `grain`. Where it
     * is several pieces, those of a write of the session are made in batches
     * of pairs [batch_pair, next_pair). A batch goes to the backend in steps of
     * pieces [step_piece, next_piece), so that it can be given up between two. */
    struct transfer_grain grain;
    uint32_t piece_capacity, batch_pair, next_pair;
    uint32_t piece_count, step_piece, next_piece; /* of the batch */
    struct pace pace;
    uint64_t step_begun_ns;
    uint32_t *digests; /* (capacity) of pairs that are several pieces */
    uint64_t moved_bytes; /* of this write of the session */
};

struct send_side {
    struct send_side_options options;
    uint32_t slot_count;
    struct send_slot *slots;
    struct transfer_adverts *adverts;
    struct transfer_tombstones *tombstones; /* rids */
    struct transfer_tombstones *answered; /* requests that had their last
                                             report, for slices still coming */
    struct buf body;
};

/* The session of `rid` that has not ended, or NULL. */
struct send_slot *send_side_find(struct send_side *side, int64_t rid);
/* Feeds an event and carries out what follows. */
void send_side_step(struct send_side *side, struct send_slot *slot,
                    const struct tx_event *event);
/* Serves the receiver of `advert`; the slot has none yet. */
void send_side_bind(struct send_side *side, struct send_slot *slot,
                    struct transfer_advert *advert, uint64_t now);
/* No session, and none will come: the receiver is told at once. */
void send_side_abort(struct send_side *side, struct link *link, int64_t rid,
                     uint32_t attempt, int64_t receiver_slice, uint8_t reason);
/* Is it for the same prompt, as far as that is known? */
bool send_side_fits(const struct send_slot *slot,
                    const struct transfer_advert *advert);
/* Ends a waiting advertisement with an answer. */
void send_side_refuse(struct send_side *side, struct transfer_advert *advert,
                      uint8_t reason);

/* Does the life cycle of `group` leave slice by slice? */
bool send_side_streams(const struct send_side *side, uint32_t group,
                       uint32_t prompt_tokens);
/* The blocks of `group` in the engine's `pages` that leave with `run`. What has
 * a window waits for the last one (transfer.md 3.4). */
struct transfer_blocks send_side_blocks(const struct send_side *side,
                                        const struct tx_session *session,
                                        const kv_page_id *const *pages,
                                        const struct tx_run *run,
                                        uint32_t group);
/* Pairs of the run that is to be written, with room for their pieces; the slot
 * has a link. ERR_NO_MEMORY; ERR_FULL: too many for one result. */
MUST_USE enum err send_pieces_plan(struct send_side *side,
                                   struct send_slot *slot);
/* The next batch: pieces of the pairs that come next, all if there is room. */
void send_pieces_next(struct send_side *side, struct send_slot *slot);
/* The next step of the batch: some of its pieces, or all that are left. */
void send_pieces_step(struct send_slot *slot);
void send_pieces_step_all(struct send_slot *slot);
/* Is there more to write, of this batch or another? */
bool send_pieces_have_more(const struct send_slot *slot);
/* The step was written: keeps what the receiver is told of its pieces; says how
 * many bytes they are. */
uint64_t send_pieces_note(struct send_side *side, struct send_slot *slot);
/* What pair `index` holds. */
uint32_t send_pieces_digest(const struct send_slot *slot, uint32_t index);

/* Carries TX_WRITE, TX_RESULT and TX_AUX out. */
void send_side_write(struct send_side *side, struct send_slot *slot,
                     uint64_t now);
void send_side_tell(struct send_side *side, struct send_slot *slot,
                    const struct tx_action *action);
void send_side_tell_aux(struct send_side *side, struct send_slot *slot);
