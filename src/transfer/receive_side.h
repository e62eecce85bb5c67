#pragma once
/* transfer/receive_side: this worker as receiver. Holds its rx sessions, checks
 * the digests of what arrived, watches over senders that went silent, and
 * carries out what rx_session decides. Private to transfer. */
#include "transfer/bounce.h"
#include "transfer/control.h"
#include "transfer/transfer.h"

struct receive_side;
struct receive_side_options {
    const struct transfer_options *transfer; /* outlives it */
    struct transfer_stats *stats;
    void (*wake)(void *context); /* there are digests to check */
    void *context;
    struct bounce *bounce; /* NULL: nothing comes packed */
};
struct receive_side *receive_side_create(
    const struct receive_side_options *options);
/* Forgets all sessions, as the end of the process would. */
void receive_side_abandon(struct receive_side *side);
void receive_side_destroy(struct receive_side *side); /* no sessions left */
/* Before the first command. */
void receive_side_set_control(struct receive_side *side,
                              struct control *control);

void receive_side_command(struct receive_side *side,
                          const struct transfer_command *command, uint64_t now);
void receive_side_cancel(struct receive_side *side, uint64_t request,
                         uint8_t reason, uint64_t now);
void receive_side_registered(struct receive_side *side, struct link *link,
                             uint64_t now);
/* KV_RESULT and CANCEL_SESSION of a registered sender. */
void receive_side_frame(struct receive_side *side, struct link *link,
                        const struct wire_header *header, struct span body,
                        uint64_t now);
void receive_side_lost(struct receive_side *side, struct link *link,
                       uint64_t now);
/* What came packed: so much of it is in place, or it cannot be right. */
void receive_side_unpacked(struct receive_side *side,
                           const struct bounce_key *key, uint64_t bytes);
void receive_side_broken(struct receive_side *side,
                         const struct bounce_key *key, uint64_t now);
/* Checks a bounded share of digests; true: there is more to check. */
bool receive_side_verify(struct receive_side *side, uint64_t now);
void receive_side_tick(struct receive_side *side, uint64_t now);
uint32_t receive_side_count(const struct receive_side *side);
