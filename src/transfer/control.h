#pragma once
/* transfer/control: the control connections of a worker (transfer.md 2).
 *
 *   receiver -- connect --> sender's listener
 *     both prove that they hold the internal key (wire/greeting.h), the
 *     receiver first: a stranger there until then (strangers.h)
 *     REGISTER(rank info, address of its pool)  ->  compares, maps the pool
 *     <- REGISTERED(rank info)   or   REFUSED(field and both values), end
 *     REQUEST_DATA, CANCEL_SESSION  ->     <- KV_RESULT, AUX_RESULT,
 *                                             CANCEL_SESSION
 *     HEARTBEAT both ways
 *
 * A receiver has one link to a sender; a sender takes as many of a receiver as
 * come, since the old one may be dead without a sign yet. Nothing a
 * peer sends does more than end its link with a log line. The loop's thread
 * owns all of it; callbacks come from the loop. Private to transfer. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "io/loop.h"
#include "io/tcp.h"
#include "transfer/backend.h"
#include "transfer/process.h"
#include "transfer/state.h"
#include "transfer/transfer.h"
#include "wire/frame.h"
#include "wire/greeting.h"
#include "wire/rank_info.h"

struct control;

/* Open to transfer's files; only control writes it. */
struct link {
    struct control *control;
    bool is_used, is_outgoing, is_closing;
    uint8_t state; /* enum peer_state */
    uint64_t incarnation; /* 0 until registered */
    uint64_t wanted; /* outgoing: whom the caller asked for; 0, until it is
                        registered: whoever it is */
    char endpoint[280]; /* incoming: until it registers, where it came from */
    /* Of its memory; when registered. */
    uint32_t group_count, tokens_per_block;
    struct link_group { /* by our own index */
        uint64_t base_offset;
        uint64_t page_bytes;
        uint32_t page_count;
        uint32_t index; /* the peer's, which messages count by */
    } groups[TRANSFER_GROUP_COUNT_MAX];
    struct link_bounce { /* its arena; bytes 0: none */
        uint64_t offset, bytes;
        uint32_t chunk_bytes;
    } bounce;
    struct transfer_backend_peer *backend_peer; /* incoming, registered */
    const char *lane; /* static; when registered */
    struct transfer_process *process; /* when registered, else NULL */
    char text[384]; /* why it ended */
    bool is_refused;
    /* private */
    struct io_stream *stream; /* NULL: it comes again at `retry_ns` */
    uint32_t tries; /* outgoing: how often it did */
    uint64_t retry_ns;
    struct wire_greeting greeting; /* outgoing */
    uint64_t proven; /* whose incarnation the other end has proven; 0: none */
    struct buf input;
    uint64_t opened_ns, heard_ns, said_ns;
};

struct control_handler {
    void (*on_registered)(void *context, struct link *link);
    /* `body` is valid during the call; only from registered peers. */
    void (*on_frame)(void *context, struct link *link,
                     const struct wire_header *header, struct span body);
    /* Once for a link; it and its backend peer are closed after the call. */
    void (*on_end)(void *context, struct link *link);
};

struct control_options {
    struct io_loop *loop;
    struct transfer_backend *backend;
    const struct transfer_options *transfer; /* outlives the control */
    struct transfer_stats *stats;
    const struct control_handler *handler;
    void *context;
};

MUST_USE enum err control_open(const struct control_options *options,
                               struct why *why, struct control **control_out);
/* Asks all links to end; `control_is_closed` tells when they have. */
void control_shut(struct control *control);
bool control_is_closed(const struct control *control);
void control_destroy(struct control *control); /* closed; NULL is fine */
const char *control_endpoint(const struct control *control);

/* The outgoing link to `endpoint` as `wanted` (0: whoever answers there), opened
 * if there is none; not registered yet perhaps. ERR_INVALID: not an endpoint;
 * ERR_DENIED: a host that is not allowed; ERR_FULL. */
MUST_USE enum err control_connect(struct control *control, const char *endpoint,
                                  uint64_t wanted, struct why *why,
                                  struct link **link_out);
/* The outgoing link to that peer, registered and not closing, or NULL. */
struct link *control_find_sender(struct control *control, uint64_t incarnation);
/* Drops the link and says ERR_CLOSED when it cannot take the frame. */
enum err control_send(struct link *link, uint16_t type, int64_t rid,
                      uint32_t attempt, struct span body);
/* The same, but it leaves with the frame that is sent on this link next, which
 * must follow at once: one packet, and the peer is woken once. */
void control_hold(struct link *link, uint16_t type, int64_t rid,
                  uint32_t attempt, struct span body);
/* Ends it with a log line. */
void control_drop(struct link *link, const char *format, ...) PRINTF_LIKE(2, 3);
/* Heartbeats and limits of silence. */
void control_tick(struct control *control, uint64_t now);
uint32_t control_link_count(const struct control *control);
