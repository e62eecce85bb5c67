#pragma once
/* transfer/bounce: writes of many tiny pieces go packed, through the arenas of
 * both sides (transfer.md 5.1, 5.3). Carries out what bounce_send and
 * bounce_receive decide: copies in steps, writes through the backend, tells the
 * peer over the control connection.
 *
 *   pages --gather--> arena ==write==> arena --scatter--> pages
 *   `----- sender -----'                `----- receiver -----'
 *
 * A session sees one write all the same: taken over by bounce_begin, given back
 * by on_sent. Pages come from our own list at the sender; at the receiver they
 * must be among those that the session lets its sender write. A grant allows
 * the sender the granted region and nothing else (backend.h). The arena is a
 * part of the memory that peers map. The form that packs a whole request into
 * one reserved region (transfer.md 5.2) is not here. The loop's thread owns all
 * of it. Private to transfer. */
#include "transfer/bounce_receive.h"
#include "transfer/bounce_send.h"
#include "transfer/control.h"
#include "transfer/transfer.h"

/* Of an arena of these options: bytes in use, and the largest chunk. */
uint64_t bounce_usable(const struct transfer_bounce_options *options);
uint32_t bounce_chunk_max(const struct transfer_bounce_options *options);
/* There is none, or it is large enough and lies in the memory. ERR_INVALID. */
MUST_USE enum err bounce_check(const struct transfer_options *options,
                               struct why *why);

struct bounce;
struct bounce_options {
    const struct transfer_options *transfer; /* outlives it */
    struct transfer_stats *stats;
    void (*wake)(void *context); /* there is something to copy */
    /* A write that was taken over is over: as TX_WRITTEN, but for UNSERVED,
     * which is to be written the plain way. `bytes`: as packed. */
    void (*on_sent)(void *context, void *owner, enum bounce_outcome outcome,
                    uint64_t now);
    /* So many bytes of a receive are where they belong. */
    void (*on_received)(void *context, const struct bounce_key *key,
                        uint64_t bytes);
    /* What came cannot be right: that receive is to fail. */
    void (*on_broken)(void *context, const struct bounce_key *key,
                      uint64_t now);
    void *context;
};
/* The transfer's options have an arena. ERR_NO_MEMORY. */
MUST_USE enum err bounce_create(const struct bounce_options *options,
                                struct bounce **bounce_out);
/* Before the first frame. */
void bounce_set_control(struct bounce *bounce, struct control *control);
/* Forgets all, as the end of the process would. */
void bounce_abandon(struct bounce *bounce);
void bounce_destroy(
    struct bounce *bounce); /* nothing under way; NULL is fine */

/* -------- as sender -------- */

struct bounce_job {
    struct link *const *link; /* of the receiver; the owner's: NULL: lost */
    struct transfer_token token;
    uint32_t write; /* its number in the session */
    struct transfer_piece *pieces; /* (piece_count), the owner's until on_sent;
                                      their crc32c is set then */
    uint32_t piece_count;
    void *owner;
};
/* False: it does not pay, or cannot be; nothing has happened. */
bool bounce_begin(struct bounce *bounce, const struct bounce_job *job,
                  uint64_t now);
/* on_sent comes as soon as nothing of it is read any more; perhaps at once. */
void bounce_stop(struct bounce *bounce, const void *owner, uint64_t now);
/* True: it was one of ours. */
bool bounce_written(struct bounce *bounce, struct transfer_write *write,
                    uint64_t now);
/* BOUNCE_GRANT and BOUNCE_ACK of a receiver. */
void bounce_hear_receiver(struct bounce *bounce, struct link *link,
                          const struct wire_header *header, struct span body,
                          uint64_t now);

/* -------- as receiver -------- */

/* True: it has been told which pages that receive lets its sender write. */
bool bounce_knows(const struct bounce *bounce, const struct bounce_key *key);
/* BOUNCE_WANT and BOUNCE_DATA for the receive `key`, which lets its sender
 * write `ranges` (struct transfer_range), looked at when it is not known yet.
 * `is_over`: it takes no more. */
void bounce_hear_sender(struct bounce *bounce, struct link *link,
                        const struct wire_header *header, struct span body,
                        const struct bounce_key *key, bool is_over,
                        struct span ranges, uint64_t now);
/* Not a byte is scattered for it any more. */
void bounce_reclaim(struct bounce *bounce, const struct bounce_key *key,
                    uint64_t now);
/* The session is quiet: nobody writes for it any more. */
void bounce_quiet(struct bounce *bounce, const struct bounce_key *key,
                  uint64_t now);

/* -------- both -------- */

/* A bounded step of copying; true: there is more. */
bool bounce_pump(struct bounce *bounce, uint64_t now);
void bounce_tick(struct bounce *bounce, uint64_t now);
