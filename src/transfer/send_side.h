#pragma once
/* transfer/send_side: this worker as sender. Holds its tx sessions, the
 * advertisements of receivers, the tombstones, and carries out what
 * tx_session decides. Private to transfer. */
#include "transfer/bounce.h"
#include "transfer/control.h"
#include "transfer/transfer.h"
#include "wire/recv_request.h"

struct send_side;
struct send_side_options {
    const struct transfer_options *transfer; /* outlives it */
    struct transfer_stats *stats;
    void (*wake)(void *context); /* there are writes to poll */
    void *context;
    struct bounce *bounce; /* NULL: all writes go the plain way */
};
struct send_side *send_side_create(const struct send_side_options *options);
/* Forgets all sessions, as the end of the process would. */
void send_side_abandon(struct send_side *side);
void send_side_destroy(struct send_side *side); /* no sessions left */

void send_side_command(struct send_side *side,
                       const struct transfer_command *command, uint64_t now);
void send_side_cancel(struct send_side *side, uint64_t request, uint8_t reason,
                      uint64_t now);
/* No effect once its receiver has advertised. */
void send_side_withdraw(struct send_side *side, uint64_t request, uint64_t now);
/* REQUEST_DATA and CANCEL_SESSION of a registered receiver. All commands that
 * were posted before the peer sent it have been given to send_side_command: a
 * context-first request without a session is answered FAILED. */
void send_side_frame(struct send_side *side, struct link *link,
                     const struct wire_header *header, struct span body,
                     uint64_t now);
void send_side_lost(struct send_side *side, struct link *link, uint64_t now);
/* A write of ours that the backend gave back. */
void send_side_written(struct send_side *side, struct transfer_write *write,
                       uint64_t now);
/* A write of ours that went through the arenas; `owner` is what we gave. */
void send_side_bounced(struct send_side *side, void *owner,
                       enum bounce_outcome outcome, uint64_t now);
void send_side_tick(struct send_side *side, uint64_t now);
uint32_t send_side_count(const struct send_side *side);
