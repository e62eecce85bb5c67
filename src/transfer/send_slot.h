#pragma once
/* transfer/send_slot: what the two halves of send_side share: sessions and
 * commands there (send_side.c), what receivers say here (send_link.c). Private
 * to transfer. */
#include "transfer/advert.h"
#include "transfer/reporter.h"
#include "transfer/send_side.h"
#include "transfer/tombstone.h"
#include "transfer/tx_session.h"

struct send_slot {
    bool is_used, has_ended; /* ended: only its last report is still to go */
    struct tx_session session;
    struct transfer_advert *advert; /* BOUND, or NULL */
    struct link *link; /* of the receiver; NULL: lost */
    struct reporter reporter;
    const char *lane;
    /* The one write under way; arrays keep their memory. */
    struct transfer_write write;
    struct transfer_pair *pairs; /* (capacity) */
    struct transfer_piece *pieces; /* (capacity) */
    uint32_t capacity, pair_count;
};

struct send_side {
    struct send_side_options options;
    uint32_t slot_count;
    struct send_slot *slots;
    struct transfer_adverts *adverts;
    struct transfer_tombstones *tombstones;
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
/* Ends an advertisement with an answer. */
void send_side_refuse(struct send_side *side, struct transfer_advert *advert,
                      uint8_t reason);
