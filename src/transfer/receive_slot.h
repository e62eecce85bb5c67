#pragma once
/* transfer/receive_slot: what the parts of receive_side share: sessions and
 * commands (receive_side.c), what senders say (receive_link.c), digests
 * (receive_verify.c), what comes packed (receive_bounce.c). Private to
 * transfer. */
#include "transfer/mourner.h"
#include "transfer/receive_side.h"
#include "transfer/reporter.h"
#include "transfer/rx_session.h"

struct receive_slot {
    bool is_used, has_ended; /* ended: only its last report is still to go */
    struct rx_session session;
    uint32_t prompt_tokens;
    uint32_t style; /* enum wire_schedule_style */
    char endpoint[280];
    struct reporter reporter;
    const char *lane;
    char text[96]; /* why, when a peer or the system said so */
    struct transfer_aux *aux; /* ours until it is reported; or NULL */
    uint32_t sender_tokens; /* a block */
    uint32_t part_tokens; /* the smaller of that and our own */
    struct rx_block *seen; /* (seen_capacity), group after group; stays */
    uint32_t seen_capacity;
    uint64_t bounced_bytes; /* so far */
    bool is_authorised; /* the sender's token is in force at the backend */
    bool is_verifying;
    uint32_t verify_group, verify_next; /* the next part to look at */
};

struct receive_side {
    struct receive_side_options options;
    struct control *control;
    uint32_t attempt; /* grows with each receive: no two of a rid are alike */
    uint32_t slot_count;
    struct receive_slot *slots;
    struct mourners mourners;
    uint32_t verify_slot; /* whose turn it is */
    struct buf list, body, ranges;
};

/* Tokens of one of our blocks. */
static inline uint32_t receive_side_block(const struct receive_side *side)
{
    return side->options.transfer->groups[0].pool.layout.tokens_per_block;
}

static inline bool receive_slot_is_live(const struct receive_slot *slot)
{
    return slot->is_used && !slot->has_ended;
}

/* Nothing of it has left this process yet. */
static inline bool receive_slot_is_waiting(const struct receive_slot *slot)
{
    return receive_slot_is_live(slot) &&
           slot->session.exposure == EXPOSURE_NONE;
}

/* The parts of the groups, their marks cleared, for a sender with blocks of
 * `sender_tokens`; nothing was said yet. ERR_UNSUPPORTED, ERR_FULL: too many
 * parts; ERR_NO_MEMORY. */
MUST_USE enum err receive_parts(struct receive_side *side,
                                struct receive_slot *slot,
                                uint32_t sender_tokens);

static inline struct bounce_key receive_slot_key(
    const struct receive_slot *slot)
{
    return (struct bounce_key){slot->session.sender_incarnation,
                               slot->session.rid, slot->session.attempt};
}

/* Lets the sender write the pages that are wanted. ERR_FULL, ERR_NO_MEMORY. */
MUST_USE enum err receive_grant(struct receive_side *side,
                                struct receive_slot *slot);
/* Those pages (struct transfer_range); valid until the next call of this file.
 * ERR_NO_MEMORY. */
MUST_USE enum err receive_grant_ranges(struct receive_side *side,
                                       const struct receive_slot *slot,
                                       struct span *ranges_out);
/* True: that is proof, nobody writes any more. Where the sender writes by
 * itself it is none. */
bool receive_grant_revoke(struct receive_side *side, struct receive_slot *slot);

/* BOUNCE_WANT and BOUNCE_DATA; also of a receive that has failed, whose sender
 * says that it has drained. */
void receive_bounce_frame(struct receive_side *side, struct link *link,
                          const struct wire_header *header, struct span body,
                          uint64_t now);
/* Not a byte more of what came packed lands in its pages. `is_quiet`: nor in
 * the arena. */
void receive_bounce_end(struct receive_side *side, struct receive_slot *slot,
                        uint64_t now, bool is_quiet);

struct receive_slot *receive_side_find(struct receive_side *side,
                                       uint64_t incarnation, int64_t rid);
/* Feeds an event and carries out what follows. */
void receive_side_step(struct receive_side *side, struct receive_slot *slot,
                       const struct rx_event *event);
void receive_side_simple_step(struct receive_side *side,
                              struct receive_slot *slot,
                              enum rx_event_kind kind, uint64_t now);
/* The sender cannot be reached, for a reason to be told. */
void receive_side_fail(struct receive_side *side, struct receive_slot *slot,
                       uint8_t reason, const char *text, uint64_t now);
/* The sender is registered. Who did not know whom it would meet knows now; it
 * fails if that one serves its rid already. */
void receive_side_connected(struct receive_side *side,
                            struct receive_slot *slot, const struct link *link,
                            uint64_t now);
/* Senders that were lost: is one gone, does one answer again? */
void receive_side_tick_mourner(struct receive_side *side,
                               struct mourner *mourner, uint64_t now);
