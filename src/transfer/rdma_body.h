#pragma once
/* transfer/rdma_body: what the parts of backend_rdma share. Private to it: the
 * table and its turns (backend_rdma.c), endpoints (rdma_link.c), puts and
 * flushes (rdma_put.c).
 *
 *   peer (ours to write to) -- link -- UCX endpoint
 *     waiting: w1 w2 w3          ops: puts and flushes UCX has
 *
 * A link outlives its peer until UCX has closed the endpoint and given all ops
 * back; nobody waits for that. An op points at the write whose end its flush
 * is, until that write is given back. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/poller.h"
#include "transfer/rdma_blob.h"
#include "transfer/ucx_open.h"
#include "transfer/write_queue.h"

enum {
    RDMA_PEER_COUNT_MAX = 128,
    RDMA_LINK_COUNT_MAX = 2 * RDMA_PEER_COUNT_MAX,
    RDMA_OPS_MAX = 256, /* of a link */
    RDMA_PUT_SIZE = 256 * 1024,
    RDMA_IN_FLIGHT_MAX = 16 * 1024 * 1024, /* bytes of a link */
    RDMA_SECRET_SIZE_MAX = 4096
};

/* No new endpoint to a peer so soon after one: the peer has to notice the end of
 * that one first, which takes UCX up to two intervals of its keepalive. To one
 * that has not the new endpoint never connects. */
static const uint64_t RDMA_RETRY_NS = 3000000000u;

enum rdma_state {
    RDMA_CONNECTING, /* a read of the pool shows when the peer is there */
    RDMA_OPEN,
    RDMA_DRAINING, /* given up by its peer; flushes are to come */
    RDMA_CLOSING
};

enum rdma_op_kind { RDMA_PUT, RDMA_FLUSH, RDMA_PROBE };

struct rdma_op {
    struct rdma_link *link;
    struct rdma_op *next_free;
    enum rdma_op_kind kind;
    bool is_used;
    size_t size; /* of a put */
    struct transfer_write *write; /* that a flush ends; NULL: nobody's */
    bool has_puts, is_cut;
};

struct rdma_link {
    struct rdma_body *body;
    struct rdma_peer *peer; /* NULL: given up */
    enum rdma_state state;
    bool has_failed; /* UCX said so; seen to at the end of the turn */
    uint64_t deadline_ns; /* of CONNECTING and DRAINING */
    ucp_ep_h endpoint; /* NULL: being closed, or closed */
    ucp_rkey_h key;
    void *closing; /* UCX's request; NULL: closed */
    uint64_t probe; /* what was read */
    struct rdma_op ops[RDMA_OPS_MAX];
    struct rdma_op *free_op;
    uint32_t op_count, flush_count; /* with UCX */
    size_t in_flight; /* bytes of puts */
};

struct rdma_peer {
    struct transfer_backend_peer base;
    uint8_t *bytes; /* of the blob */
    struct rdma_blob where;
    size_t pool_size;
    struct rdma_link *link; /* NULL: failed, or nothing to write yet */
    uint64_t retry_ns; /* no new link before */
    struct transfer_write_queue waiting;
    bool is_begun; /* a put of the first one was handed over */
    uint64_t piece_done; /* bytes of the piece at its cursor */
    uint32_t write_count;
    bool is_closed;
};

struct rdma_body {
    struct transfer_backend base;
    uint64_t incarnation, connect_ns, drain_ns;
    uint8_t secret[RDMA_SECRET_SIZE_MAX];
    size_t secret_size;
    char settings[160], config[224];
    ucp_context_h context;
    ucp_worker_h worker;
    struct io_poller *poller;

    ucp_mem_h memory; /* NULL: no pool */
    uint8_t *pool;
    size_t pool_size;
    bool is_pool_ours;
    void *retired; /* of ours, freed once no endpoint is left */

    struct rdma_peer *peers[RDMA_PEER_COUNT_MAX];
    uint32_t peer_count;
    struct rdma_link *links[RDMA_LINK_COUNT_MAX];
    uint32_t link_count;
    struct transfer_write_queue done;
    uint32_t turn;
};

static inline struct rdma_body *rdma_body_of(
    const struct transfer_backend *backend)
{
    return (struct rdma_body *)backend;
}

/* -------- rdma_link.c -------- */

/* For the first write, or the first one after a failure. ERR_FULL;
 * ERR_UNSUPPORTED: UCX finds no way there. */
MUST_USE enum err rdma_link_open(struct rdma_peer *peer, struct why *why);
/* The peer is being closed: what is under way is drained. */
void rdma_link_give_up(struct rdma_link *link);
/* Failures, deadlines, closed ones: each link once. */
void rdma_link_sweep(struct rdma_body *body, uint64_t now);
/* When a deadline passes; 0: none. */
uint64_t rdma_link_next_ns(const struct rdma_body *body);
/* Before the worker's end, without peers: endpoints begin to close. */
void rdma_link_close_all(struct rdma_body *body);
/* Of those that have not: the worker's end closes them. */
void rdma_link_let_go(struct rdma_body *body);
/* The worker is gone. */
void rdma_link_free_all(struct rdma_body *body);

/* -------- rdma_put.c -------- */

void rdma_ops_init(struct rdma_link *link);
bool rdma_put_has_work(const struct rdma_peer *peer);
/* A put, or the flush behind the last one; says what it cost, in bytes. */
size_t rdma_put_step(struct rdma_peer *peer);
/* Reads some bytes of the peer's pool: nothing is put before they are here. */
void rdma_probe(struct rdma_link *link);
/* Flushes what was put so far, as the end of `write`. */
void rdma_flush(struct rdma_link *link, struct transfer_write *write,
                bool has_puts, bool is_cut);
/* All that wait come back: STOPPED, but for a begun one, which is `begun`. */
void rdma_put_stop(struct rdma_peer *peer, enum transfer_outcome begun);
/* Those whose flush has not come back. */
void rdma_put_doubt(struct rdma_link *link);
