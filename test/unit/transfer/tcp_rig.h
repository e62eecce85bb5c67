#pragma once
/* A backend_tcp and a bare socket that speaks its protocol, or does not: for
 * the tests of what a peer may do wrong. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/clock.h"
#include "transfer/backend_tcp.h"
#include "transfer/tcp_wire.h"

enum { RIG_POOL = 1 << 20, RIG_OURS = 21, RIG_THEIRS = 22 };
static const struct transfer_token RIG_TOKEN = {3, 4};
#define RIG_KEY span_of_string("secret of the rig")

static inline struct transfer_backend *rig_backend(struct span key)
{
    struct transfer_backend *backend;
    struct transfer_backend_tcp_options options = {
        .incarnation = RIG_OURS, .host = "127.0.0.1", .key = key};
    assert_int_equal(transfer_backend_tcp_create(&options, NULL, &backend), OK);
    return backend;
}

static inline uint8_t *rig_pool(struct transfer_backend *backend)
{
    void *pool;
    assert_int_equal(transfer_backend_alloc(backend, RIG_POOL, NULL, &pool),
                     OK);
    return pool;
}

static inline struct tcp_blob rig_blob(struct transfer_backend *backend,
                                       void *pool)
{
    struct tcp_blob blob;
    struct buf bytes;
    buf_init(&bytes, 1024);
    assert_int_equal(
        transfer_backend_export(backend, pool, RIG_POOL, NULL, &bytes), OK);
    assert_int_equal(tcp_blob_decode(buf_span(&bytes), NULL, &blob), OK);
    buf_finish(&bytes);
    return blob;
}

static inline int rig_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static inline void rig_turn(struct transfer_backend *backend)
{
    bool is_busy;
    assert_null(transfer_backend_poll(backend, &is_busy));
}

/* Reads `size` bytes while the backend turns; false: it closed before. */
static inline bool rig_read(struct transfer_backend *backend, int fd, void *out,
                            size_t size)
{
    uint64_t end = io_clock_now_ns() + 20000000000u;
    for (size_t at = 0; at < size;) {
        assert_true(io_clock_now_ns() < end);
        rig_turn(backend);
        ssize_t got = recv(fd, (uint8_t *)out + at, size - at, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            return false;
        }
        at += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static inline void rig_send(int fd, const void *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

/* As a sender of RIG_THEIRS that knows the key; returns an open connection. */
static inline int rig_greet(struct transfer_backend *backend,
                            const struct tcp_blob *blob)
{
    int fd = rig_connect(blob->port);
    struct tcp_secret secret = tcp_secret_of(RIG_KEY, blob->nonce);
    struct tcp_terms terms = {RIG_THEIRS, RIG_OURS, {5}, {0}};
    uint8_t hello[TCP_HELLO_SIZE], challenge[TCP_CHALLENGE_SIZE];
    uint8_t proof[DIGEST_SHA256_SIZE], answer[TCP_PROOF_SIZE];
    tcp_hello_encode(&terms, hello);
    rig_send(fd, hello, sizeof(hello));
    assert_true(rig_read(backend, fd, challenge, sizeof(challenge)));
    assert_int_equal(tcp_challenge_decode(challenge, NULL, &terms, proof), OK);
    assert_true(tcp_is_proof(&secret, &terms, false, proof));
    tcp_prove(&secret, &terms, true, proof);
    tcp_proof_encode(proof, answer);
    rig_send(fd, answer, sizeof(answer));
    return fd;
}

/* A whole frame with a payload of `fill`. */
static inline void rig_write(int fd, const struct tcp_head *head,
                             const struct tcp_piece *pieces, uint8_t fill)
{
    uint8_t *bytes = malloc(TCP_HEAD_SIZE + TCP_LIST_SIZE_MAX);
    uint8_t *payload = malloc(head->payload_size + 1);
    tcp_head_encode(head, bytes);
    if (head->piece_count > 0) {
        tcp_list_encode(pieces, head->piece_count, bytes + TCP_HEAD_SIZE);
    }
    memset(payload, fill, head->payload_size);
    rig_send(fd, bytes, TCP_HEAD_SIZE + tcp_list_size(head->piece_count));
    rig_send(fd, payload, head->payload_size);
    free(bytes);
    free(payload);
}

static inline void rig_allow(struct transfer_backend *backend, uint64_t offset,
                             uint64_t size)
{
    struct transfer_range range = {offset, size};
    assert_int_equal(
        transfer_backend_authorise(backend, RIG_THEIRS, RIG_TOKEN, &range, 1),
        OK);
}

static inline void rig_end(struct transfer_backend *backend, void *pool)
{
    transfer_backend_free(backend, pool);
    transfer_backend_destroy(backend);
}
