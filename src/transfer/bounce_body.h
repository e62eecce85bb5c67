#pragma once
/* transfer/bounce_body: what the parts of bounce share: life and time
 * (bounce.c), the sender's copies and words (bounce_out.c), the receiver's
 * (bounce_in.c). Private to them. */
#include "transfer/bounce.h"
#include "transfer/tcp_grants.h"
#include "transfer/write_queue.h"
#include "wire/bounce.h"

enum {
    BOUNCE_GRANULE = 1024 * 1024,
    BOUNCE_CHUNK_MAX = 32 * 1024 * 1024,
    BOUNCE_PIECES_MIN = 1024, /* fewer are not worth it */
    BOUNCE_PIECE_MAX = 16 * 1024, /* larger ones on average neither */
    BOUNCE_ACKS_MAX = 32
};

/* A flow of bounce_send, by its index: whose it is and how it is cut. */
struct bounce_out {
    struct bounce_job job;
    uint32_t *firsts; /* (chunk_count + 1): the piece a chunk begins with */
    uint32_t *sizes; /* (chunk_count): payload and runs */
    uint32_t capacity; /* of both; memory stays */
};

/* The write of one chunk, found by where its staging begins. */
struct bounce_move {
    struct transfer_write write;
    uint32_t flow, slot;
    uint32_t payload_size, run_count, run_crc32c;
};

struct bounce_copy {
    bool is_due;
    uint32_t flow, slot;
    uint32_t at; /* the piece or run */
    uint64_t at_done; /* bytes of it */
    uint32_t done; /* bytes of the payload */
};

/* What DATA said of a chunk of bounce_receive. */
struct bounce_arrived {
    uint32_t payload_size, run_count, run_crc32c;
};

/* Words to the same sender that go together. */
struct bounce_acks {
    struct bounce_key key;
    struct wire_bounce_ack ack;
};

struct bounce {
    struct bounce_options options;
    struct control *control;
    struct transfer_arena *arena;
    uint8_t *base; /* of the arena */
    uint32_t granule, chunk_max;
    struct buf body;

    struct bounce_send send;
    struct bounce_out *outs; /* (send flows) */
    struct bounce_move *moves; /* (granules of the lower half) */
    uint32_t move_count;
    struct transfer_piece *parts; /* (move_count, part_max) */
    uint32_t part_max;
    struct bounce_copy gather;

    struct bounce_receive receive;
    struct bounce_arrived *arrived; /* (receive flows, BOUNCE_WINDOW) */
    struct tcp_grants wanted; /* pages that a receive lets its sender write */
    struct bounce_copy scatter;
    struct bounce_acks acks;
};

/* Feeds an event and carries out what follows. */
void bounce_send_event(struct bounce *bounce,
                       const struct bounce_send_event *event);
/* The same; false: the sender said what it must not. */
bool bounce_receive_event(struct bounce *bounce,
                          struct bounce_receive_event *event);

/* A granted region has a token of its own, which no request has. */
static inline struct transfer_token bounce_token(uint64_t handle,
                                                 uint32_t attempt)
{
    return (struct transfer_token){-1 - (int64_t)handle, attempt};
}
/* About a MiB each; true: there is more. */
bool bounce_gather_some(struct bounce *bounce, uint64_t now);
bool bounce_scatter_some(struct bounce *bounce, uint64_t now);
/* What is still to be said goes out. */
void bounce_flush_acks(struct bounce *bounce);
