#pragma once
/* transfer/backend: what moves KV bytes into a peer's pool, one table for all
 * bodies (inproc, ucx, rdma, tcp, auto) and decorators (fault, trace).
 *
 *   receiver: alloc pool -> export blob ---- hello ----> sender: peer_open(blob)
 *             authorise(token, ranges) ---- request ---> it may write them
 *   sender:   write(pieces) -> poll -> poll -> the write comes back, DONE
 *             then it tells the receiver over the control connection
 *
 * A backend belongs to the thread that polls it; alloc, free and export may be
 * called before that thread starts. It never calls back and never waits: what
 * is done comes out of poll. Whoever holds a write back keeps its memory and
 * both pools' pages alive until poll returns it (transfer.md 1.6.4). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "device/memory.h"

/* Who puts the bytes into the target decides what proves quiet. */
enum transfer_toucher {
    TRANSFER_PEER_MAPPED, /* the sender's own thread: its answer, or its death */
    TRANSFER_SELF_COPY, /* the receiver's own thread */
    TRANSFER_NIC /* an adapter: only a flush at the sender */
};

enum {
    TRANSFER_CAN_SLEEP = 1, /* fd and arm */
    TRANSFER_CAN_PROCESS = 2, /* peers in other processes of this host */
    TRANSFER_CAN_HOST = 4 /* peers on other hosts */
};

enum transfer_outcome {
    TRANSFER_DONE, /* all bytes are there, visible to whoever is told */
    /* Not all are there; nobody touches the source now, nor the target, which
     * over SELF_COPY is the receiver's to say: after its revoke. */
    TRANSFER_STOPPED,
    TRANSFER_IN_DOUBT /* unknown; source and target must be kept */
};

/* Offsets count from the pool's base on either side. */
struct transfer_piece {
    uint64_t source_offset;
    uint64_t target_offset;
    uint64_t size;
    uint32_t crc32c; /* of the bytes as read; set when DONE */
};

/* A part of the receiver's pool. */
struct transfer_range {
    uint64_t offset;
    uint64_t size;
};

/* Which transfer a write belongs to; both ends know it by the same name. */
struct transfer_token {
    int64_t rid;
    uint32_t attempt; /* the receiver's */
};

struct transfer_backend_peer;
enum { TRANSFER_DECORATOR_COUNT_MAX = 6 };

/* One ordered list of pieces. Open: embedded by the caller, zero but for what
 * he sets; the backend's from write until poll returns it. */
struct transfer_write {
    struct transfer_backend_peer *peer;
    struct transfer_piece *pieces; /* (piece_count) */
    size_t piece_count;
    struct transfer_token token; /* what the receiver authorised */
    bool without_digest; /* crc32c is left alone: nobody will compare */
    void *context;
    enum transfer_outcome outcome; /* set by poll */
    /* private to the backend */
    struct transfer_write *next;
    size_t cursor;
    void *hold;
    /* Decorators it went through, and what each of them calls the peer. */
    struct transfer_backend_peer *outer[TRANSFER_DECORATOR_COUNT_MAX];
    uint32_t outer_count;
};

struct transfer_backend;

struct transfer_backend_ops {
    const char *name;
    enum transfer_toucher toucher;
    uint32_t capabilities;
    void (*destroy)(struct transfer_backend *backend);
    enum err (*alloc)(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out);
    void (*free)(struct transfer_backend *backend, void *memory);
    /* NULL: only memory of its own alloc can be its pool. */
    enum err (*adopt)(struct transfer_backend *backend, void *memory,
                      size_t size, struct why *why);
    const char *(*config)(const struct transfer_backend *backend);
    enum err (*export_pool)(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out);
    enum err (*peer_open)(struct transfer_backend *backend, struct span blob,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out);
    void (*peer_close)(struct transfer_backend_peer *peer);
    const char *(*peer_lane)(const struct transfer_backend_peer *peer);
    /* NULL: `toucher`, whatever the lane. */
    enum transfer_toucher (*lane_toucher)(
        const struct transfer_backend *backend, const char *lane);
    /* Both or none: a body that cannot refuse a write needs none. */
    enum err (*authorise)(struct transfer_backend *backend, uint64_t sender,
                          struct transfer_token token,
                          const struct transfer_range *ranges, size_t count);
    void (*revoke)(struct transfer_backend *backend, uint64_t sender,
                   struct transfer_token token);
    void (*write)(struct transfer_backend *backend,
                  struct transfer_write *write);
    struct transfer_write *(*poll)(struct transfer_backend *backend,
                                   bool *is_busy_out);
    int (*fd)(const struct transfer_backend *backend); /* CAN_SLEEP only */
    enum err (*arm)(struct transfer_backend *backend); /* CAN_SLEEP only */
};

/* First member of each body. */
struct transfer_backend {
    const struct transfer_backend_ops *ops;
};
struct transfer_backend_peer {
    struct transfer_backend *backend;
    uint64_t owner; /* the incarnation whose pool it is, as its blob says */
};

/* For bodies: CHECKs that the table holds what its capability bits say. */
void transfer_backend_init(struct transfer_backend *backend,
                           const struct transfer_backend_ops *ops);

/* All peers closed and given back, all pool memory freed. NULL is fine. */
void transfer_backend_destroy(struct transfer_backend *backend);
const char *transfer_backend_name(const struct transfer_backend *backend);
/* What both peers must have alike, as text; stands in the hello. */
const char *transfer_backend_config(const struct transfer_backend *backend);

/* Zeroed pool memory that peers may write. One pool a backend: ERR_EXISTS for
 * a second one. ERR_NO_MEMORY, ERR_IO. */
MUST_USE enum err transfer_backend_alloc(struct transfer_backend *backend,
                                         size_t size, struct why *why,
                                         void **memory_out);
void transfer_backend_free(struct transfer_backend *backend, void *memory);
/* The same as an allocator for device/memory.h; holds `backend`. */
struct device_allocator transfer_backend_allocator(
    struct transfer_backend *backend);
/* Makes memory of somebody else the pool, instead of alloc; `free` then only
 * forgets it. ERR_UNSUPPORTED: the body needs its own; ERR_EXISTS. */
MUST_USE enum err transfer_backend_adopt(struct transfer_backend *backend,
                                         void *memory, size_t size,
                                         struct why *why);

/* Adds what a peer needs to reach `memory`, at most
 * TRANSFER_BLOB_SIZE_MAX bytes. */
enum { TRANSFER_BLOB_SIZE_MAX = 16384 };
MUST_USE enum err transfer_backend_export(struct transfer_backend *backend,
                                          void *memory, size_t size,
                                          struct why *why,
                                          struct buf *blob_out);

/* Maps a peer's pool. ERR_INVALID: not a blob; ERR_UNSUPPORTED: its memory
 * cannot be reached from here, refuse the peer; ERR_FULL, ERR_IO. */
MUST_USE enum err transfer_backend_peer_open(
    struct transfer_backend *backend, struct span blob, size_t pool_size,
    struct why *why, struct transfer_backend_peer **peer_out);
/* Writes under way come back STOPPED from later polls, or as they ended; those
 * that an adapter was given parts of are flushed first, within a time, and else
 * IN_DOUBT. The peer is gone when the last one did, at once if there is none.
 * Never a new write to it. */
void transfer_backend_peer_close(struct transfer_backend_peer *peer);
/* Whose pool it is: not more than the blob says, so a hello compares it. */
uint64_t transfer_backend_peer_owner(const struct transfer_backend_peer *peer);
/* "sysv", "posix", "memory", "tcp", "rdma": static text. */
const char *transfer_backend_peer_lane(
    const struct transfer_backend_peer *peer);
/* Who writes at the receiver when its sender says that this is the lane. */
enum transfer_toucher transfer_backend_toucher(
    const struct transfer_backend *backend, const char *lane);

/* Receiver: from here on writes of the process `sender` that carry this token
 * may reach `ranges` of our pool and no other byte; before the request that
 * tells the sender. The ranges are copied. ERR_EXISTS: there is such a token;
 * ERR_FULL, ERR_NO_MEMORY: refuse the transfer. Bodies whose senders write by
 * themselves cannot hold anybody back: there it is OK and means nothing. */
MUST_USE enum err transfer_backend_authorise(
    struct transfer_backend *backend, uint64_t sender,
    struct transfer_token token, const struct transfer_range *ranges,
    size_t count);
/* Ends that; unknown tokens are fine. On lanes whose toucher is SELF_COPY no
 * byte of such a write lands after this call, so the pages are quiet at once,
 * whatever the sender does; what still comes is read and thrown away, and the
 * write comes back STOPPED at the sender. */
void transfer_backend_revoke(struct transfer_backend *backend, uint64_t sender,
                             struct transfer_token token);

/* Starts a write; its result comes by poll only. Pieces must lie inside both
 * pools (CHECKed: the caller has validated what the peer said). */
void transfer_backend_write(struct transfer_backend *backend,
                            struct transfer_write *write);
/* For decorators: the same write to `next`, which calls the peer `peer`; and
 * back, when a poll of `next` returned it. */
void transfer_backend_pass(struct transfer_backend *next,
                           struct transfer_write *write,
                           struct transfer_backend_peer *peer);
void transfer_backend_take_back(struct transfer_write *write);
/* One bounded step (about 1 MiB): a finished write, or NULL. `is_busy_out`
 * says whether another step would find work now. */
MUST_USE struct transfer_write *transfer_backend_poll(
    struct transfer_backend *backend, bool *is_busy_out);
/* -1 when the backend cannot sleep on a descriptor. */
int transfer_backend_fd(const struct transfer_backend *backend);
/* Before sleeping on fd. ERR_BUSY: poll again instead. */
MUST_USE enum err transfer_backend_arm(struct transfer_backend *backend);
