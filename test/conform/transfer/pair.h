#pragma once
/* Two backends of any body and decorator, a pool each, and a peer from the one
 * to the other: what the suites over all bodies stand on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "io/clock.h"
#include "io/thread.h"
#include "transfer/backend.h"
#include "transfer/backend_auto.h"
#include "transfer/backend_fault.h"
#include "transfer/backend_inproc.h"
#include "transfer/backend_rdma.h"
#include "transfer/backend_tcp.h"
#include "transfer/backend_trace.h"
#include "transfer/backend_ucx.h"

enum { PAGE = 12288, PAGE_COUNT = 64, POOL_SIZE = PAGE * PAGE_COUNT };
enum { SENDER = 11, RECEIVER = 22 };

/* AUTO and AUTO_FAR: ucx and tcp; AUTO_RDMA and AUTO_RDMA_FAR: ucx and rdma. */
enum body {
    INPROC,
    UCX,
    TCP,
    TCP_V6,
    AUTO,
    RDMA,
    AUTO_RDMA,
    AUTO_FAR,
    AUTO_RDMA_FAR,
    BODY_COUNT
};
enum decorator { PLAIN, FAULT, TRACE, TRACE_FAULT, DECORATOR_COUNT };
struct kind {
    enum body body;
    enum decorator decorator;
};

struct side {
    struct transfer_backend *backend;
    uint8_t *pool;
};

struct pair {
    struct transfer_inproc_hub *hub;
    struct transfer_fault fault;
    struct transfer_trace *trace;
    struct side sender, receiver;
    struct transfer_backend_peer *peer;
};

static inline struct transfer_backend *make_tcp(uint64_t incarnation,
                                                const char *host)
{
    struct transfer_backend *backend;
    struct why why = {{0}};
    struct transfer_backend_tcp_options options = {
        .incarnation = incarnation,
        .host = host,
        .key = span_of_string("the key of all"),
    };
    enum err err = transfer_backend_tcp_create(&options, &why, &backend);
    if (err) {
        fprintf(stderr, "%s\n", why.text);
    }
    assert_int_equal(err, OK);
    return backend;
}

static inline struct transfer_backend *make_ucx(uint64_t incarnation)
{
    struct transfer_backend *backend;
    struct why why = {{0}};
    struct transfer_backend_ucx_options options = {incarnation};
    assert_int_equal(transfer_backend_ucx_create(&options, &why, &backend), OK);
    return backend;
}

/* Over a transport that any host has: what it does with it is the same. */
static inline struct transfer_backend *make_rdma(uint64_t incarnation)
{
    struct transfer_backend *backend;
    struct why why = {{0}};
    struct transfer_backend_rdma_options options = {
        .incarnation = incarnation,
        .key = span_of_string("the key of all"),
        .test_transport = "tcp",
    };
    enum err err = transfer_backend_rdma_create(&options, &why, &backend);
    if (err) {
        fprintf(stderr, "%s\n", why.text);
    }
    assert_int_equal(err, OK);
    return backend;
}

/* ..._FAR: the receiver has no shared memory to offer. */
static inline struct transfer_backend *make_auto(enum body body,
                                                 uint64_t incarnation)
{
    struct transfer_backend *backend;
    struct why why = {{0}};
    bool is_rdma = body == AUTO_RDMA || body == AUTO_RDMA_FAR;
    bool has_near =
        body == AUTO || body == AUTO_RDMA || incarnation != RECEIVER;
    struct transfer_backend *far =
        is_rdma ? make_rdma(incarnation) : make_tcp(incarnation, "127.0.0.1");
    assert_int_equal(
        transfer_backend_auto_create(has_near ? make_ucx(incarnation) : NULL,
                                     far, &why, &backend),
        OK);
    return backend;
}

static inline struct transfer_backend *make_body(struct pair *pair,
                                                 enum body body,
                                                 uint64_t incarnation)
{
    struct transfer_backend *backend = NULL;
    switch (body) {
    case INPROC:
        assert_int_equal(
            transfer_backend_inproc_create(pair->hub, incarnation, &backend),
            OK);
        break;
    case UCX:
        backend = make_ucx(incarnation);
        break;
    case TCP:
        backend = make_tcp(incarnation, "127.0.0.1");
        break;
    case TCP_V6:
        backend = make_tcp(incarnation, "::1");
        break;
    case RDMA:
        backend = make_rdma(incarnation);
        break;
    default:
        backend = make_auto(body, incarnation);
        break;
    }
    return backend;
}

static inline struct transfer_backend *make(struct pair *pair, struct kind kind,
                                            uint64_t incarnation)
{
    struct transfer_backend *backend = make_body(pair, kind.body, incarnation);
    if (kind.decorator == FAULT || kind.decorator == TRACE_FAULT) {
        backend = transfer_backend_fault_create(backend, &pair->fault);
    }
    if (kind.decorator == TRACE || kind.decorator == TRACE_FAULT) {
        backend = transfer_backend_trace_create(backend, pair->trace);
    }
    return backend;
}

static inline struct side open_side(struct pair *pair, struct kind kind,
                                    uint64_t incarnation)
{
    struct side side = {.backend = make(pair, kind, incarnation)};
    struct why why;
    void *pool;
    assert_int_equal(
        transfer_backend_alloc(side.backend, POOL_SIZE, &why, &pool), OK);
    side.pool = pool;
    return side;
}

static inline void export_side(const struct side *side, struct buf *blob)
{
    struct why why = {{0}};
    buf_init(blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(transfer_backend_export(side->backend, side->pool,
                                             POOL_SIZE, &why, blob),
                     OK);
}

static inline struct transfer_backend_peer *open_peer(
    struct transfer_backend *backend, const struct side *target)
{
    struct why why = {{0}};
    struct buf blob;
    export_side(target, &blob);
    struct transfer_backend_peer *peer = NULL;
    enum err err = transfer_backend_peer_open(backend, buf_span(&blob),
                                              POOL_SIZE, &why, &peer);
    if (err) {
        fprintf(stderr, "%s\n", why.text);
    }
    assert_int_equal(err, OK);
    buf_finish(&blob);
    return peer;
}

/* The token of a write of rid 1, whose whole pool is allowed. */
static const struct transfer_token WHOLE = {1, 1};

static inline void allow(const struct side *receiver, uint64_t sender,
                         struct transfer_token token, uint64_t offset,
                         uint64_t size)
{
    struct transfer_range range = {offset, size};
    assert_int_equal(
        transfer_backend_authorise(receiver->backend, sender, token, &range, 1),
        OK);
}

static inline struct transfer_write *poll_until(struct pair *pair);

/* UCX 1.13 ends a process that sees its peer's end in the middle of getting
 * connected over its tcp: nothing is closed before an empty write was done. */
static inline void connect_pair(struct pair *pair,
                                struct transfer_backend_peer *peer)
{
    struct transfer_write write = {.peer = peer};
    transfer_backend_write(pair->sender.backend, &write);
    assert_ptr_equal(poll_until(pair), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
}

static inline void open_pair(struct pair *pair, struct kind kind)
{
    memset(pair, 0, sizeof(*pair));
    pair->hub = transfer_inproc_hub_create();
    pair->trace = transfer_trace_create();
    pair->sender = open_side(pair, kind, SENDER);
    pair->receiver = open_side(pair, kind, RECEIVER);
    pair->peer = open_peer(pair->sender.backend, &pair->receiver);
    allow(&pair->receiver, SENDER, WHOLE, 0, POOL_SIZE);
    if (kind.body == RDMA || kind.body == AUTO_RDMA_FAR) {
        connect_pair(pair, pair->peer);
    }
}

static inline void close_side(struct side *side)
{
    transfer_backend_free(side->backend, side->pool);
    transfer_backend_destroy(side->backend);
}

static inline void close_pair(struct pair *pair)
{
    if (pair->peer != NULL) {
        transfer_backend_peer_close(pair->peer);
    }
    close_side(&pair->sender);
    if (pair->receiver.backend != NULL) {
        close_side(&pair->receiver);
    }
    transfer_inproc_hub_destroy(pair->hub);
    transfer_trace_destroy(pair->trace);
}

static inline bool is_self_copy(const struct pair *pair)
{
    return transfer_backend_toucher(pair->receiver.backend,
                                    transfer_backend_peer_lane(pair->peer)) ==
           TRANSFER_SELF_COPY;
}

/* One turn of the receiver: its own writes are nobody's here. */
static inline void turn_receiver(struct pair *pair)
{
    bool is_busy;
    if (pair->receiver.backend != NULL) {
        assert_null(transfer_backend_poll(pair->receiver.backend, &is_busy));
    }
}

/* Turns both ends until a write comes back to the sender. */
static inline struct transfer_write *poll_until(struct pair *pair)
{
    uint64_t end = io_clock_now_ns() + 20000000000u;
    while (io_clock_now_ns() < end) {
        bool is_busy;
        struct transfer_write *write =
            transfer_backend_poll(pair->sender.backend, &is_busy);
        if (write != NULL) {
            return write;
        }
        turn_receiver(pair);
    }
    fail_msg("the write never came back");
    return NULL;
}

static inline void fill(uint8_t *data, size_t size, uint64_t seed)
{
    struct rng rng = rng_from_seed(seed);
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)rng_next(&rng);
    }
}

/* A UCX context takes its time: over it the two decorators come together. */
static inline bool is_of_the_suite(struct kind kind)
{
    bool has_ucx =
        kind.body != INPROC && kind.body != TCP && kind.body != TCP_V6;
    return !has_ucx || kind.decorator == PLAIN || kind.decorator == TRACE_FAULT;
}

/* Runs each case over all bodies under all decorators. */
#define FOR_ALL_KINDS(name)                                             \
    static void test_##name(void **state)                               \
    {                                                                   \
        (void)state;                                                    \
        for (int i = 0; i < BODY_COUNT * DECORATOR_COUNT; i++) {        \
            struct kind kind = {(enum body)(i / DECORATOR_COUNT),       \
                                (enum decorator)(i % DECORATOR_COUNT)}; \
            if (is_of_the_suite(kind)) {                                \
                name(kind);                                             \
            }                                                           \
        }                                                               \
    }
