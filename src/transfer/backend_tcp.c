#include "transfer/backend_tcp.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/clock.h"
#include "io/socket.h"
#include "transfer/tcp_body.h"

enum { RECEIVE_COUNT_MAX = 1024, EVENTS_MAX = 64 };

static struct tcp_body *body_of(const struct transfer_backend *backend)
{
    return (struct tcp_body *)backend;
}

static void destroy(struct transfer_backend *backend)
{
    struct tcp_body *body = body_of(backend);
    CHECK(body->peer_count == 0);
    CHECK(body->done.first == NULL);
    CHECK(body->pool == NULL);
    for (uint32_t i = 0; i < body->link_count; i++) {
        tcp_link_break(body->links[i], NULL);
    }
    tcp_link_sweep(body);
    if (body->listener >= 0) {
        io_socket_reset(body->listener);
    }
    tcp_dial_finish(body);
    io_poller_destroy(body->poller);
    tcp_grants_finish(&body->grants);
    mem_free(body);
}

/* -------- our pool -------- */

static enum err set_pool(struct tcp_body *body, void *memory, size_t size,
                         bool is_ours)
{
    body->pool = memory;
    body->pool_size = size;
    body->is_pool_ours = is_ours;
    return OK;
}

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    struct tcp_body *body = body_of(backend);
    if (body->pool != NULL) {
        return why_say(why, ERR_EXISTS, "tcp: there is a pool already");
    }
    void *pool = mem_try_aligned(4096, size);
    if (pool == NULL) {
        return why_say(why, ERR_NO_MEMORY, "tcp: no %zu bytes", size);
    }
    *memory_out = pool;
    return set_pool(body, pool, size, true);
}

static enum err adopt(struct transfer_backend *backend, void *memory,
                      size_t size, struct why *why)
{
    struct tcp_body *body = body_of(backend);
    return body->pool != NULL
               ? why_say(why, ERR_EXISTS, "tcp: there is a pool already")
               : set_pool(body, memory, size, false);
}

/* What still comes over connections finds no grant. */
static void free_pool(struct transfer_backend *backend, void *memory)
{
    struct tcp_body *body = body_of(backend);
    CHECK(memory == body->pool);
    tcp_grants_clear(&body->grants);
    if (body->is_pool_ours) {
        mem_free(memory);
    }
    body->pool = NULL;
    body->pool_size = 0;
}

static const char *config(const struct transfer_backend *backend)
{
    (void)backend;
    return "tcp 1";
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    struct tcp_body *body = body_of(backend);
    if (memory != body->pool || size > body->pool_size) {
        return why_say(why, ERR_INVALID, "tcp: not memory of this backend");
    }
    struct tcp_blob blob = {
        .incarnation = body->incarnation,
        .pool_size = size,
        .port = io_socket_port(body->listener),
    };
    memcpy(blob.host, body->host, sizeof(blob.host));
    memcpy(blob.nonce, body->nonce, sizeof(blob.nonce));
    tcp_blob_encode(&blob, blob_out);
    return buf_error(blob_out);
}

static enum err authorise(struct transfer_backend *backend, uint64_t sender,
                          struct transfer_token token,
                          const struct transfer_range *ranges, size_t count)
{
    struct tcp_body *body = body_of(backend);
    for (size_t i = 0; i < count; i++) {
        CHECK(ranges[i].offset <= body->pool_size);
        CHECK(ranges[i].size <= body->pool_size - ranges[i].offset);
    }
    return tcp_grants_add(&body->grants, sender, token, ranges, count);
}

static void revoke(struct transfer_backend *backend, uint64_t sender,
                   struct transfer_token token)
{
    tcp_grants_remove(&body_of(backend)->grants, sender, token);
}

/* -------- peers -------- */

static enum err peer_open(struct transfer_backend *backend, struct span bytes,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct tcp_body *body = body_of(backend);
    struct tcp_blob blob;
    enum err err = tcp_blob_decode(bytes, why, &blob);
    if (!err && (blob.pool_size < pool_size || pool_size == 0)) {
        err = why_say(why, ERR_INVALID, "the peer's pool is too small");
    }
    if (!err && body->peer_count == TCP_PEER_COUNT_MAX) {
        err = why_say(why, ERR_FULL, "%d peers already", TCP_PEER_COUNT_MAX);
    }
    if (err) {
        return why_prefix(why, err, "tcp");
    }
    struct tcp_peer *peer = mem_new(sizeof(*peer));
    peer->base.backend = backend;
    peer->base.owner = blob.incarnation;
    peer->where = blob;
    peer->pool_size = pool_size;
    err = tcp_dial_start(body, peer, why);
    if (err) {
        mem_free(peer);
        return why_prefix(why, err, "tcp");
    }
    body->peer_count++;
    *peer_out = &peer->base;
    return OK;
}

static void end_if_unused(struct tcp_body *body, struct tcp_peer *peer)
{
    if (peer->is_closed && peer->write_count == 0) {
        body->peer_count--;
        mem_free(peer);
    }
}

static void peer_close(struct transfer_backend_peer *base)
{
    struct tcp_peer *peer = (struct tcp_peer *)base;
    struct tcp_body *body = body_of(base->backend);
    CHECK(!peer->is_closed);
    peer->is_closed = true;
    if (peer->link != NULL) {
        tcp_link_break(peer->link, NULL);
        tcp_link_sweep(body);
    }
    end_if_unused(body, peer);
}

static const char *peer_lane(const struct transfer_backend_peer *base)
{
    (void)base;
    return "tcp";
}

/* -------- writing -------- */

static bool is_reachable(struct tcp_body *body, struct tcp_peer *peer)
{
    if (peer->link != NULL) {
        return true;
    }
    struct why why;
    uint64_t now = io_clock_now_ns();
    if (now < peer->retry_ns) {
        return false;
    }
    peer->retry_ns = now + 1; /* the link's end sets it further */
    return tcp_dial_start(body, peer, &why) == OK;
}

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    struct tcp_body *body = body_of(backend);
    struct tcp_peer *peer = (struct tcp_peer *)write->peer;
    CHECK(!peer->is_closed);
    peer->write_count++;
    write->outcome = TRANSFER_STOPPED;
    transfer_write_queue_push(
        is_reachable(body, peer) ? &peer->waiting : &body->done, write);
}

/* -------- turns -------- */

static void hear_kernel(struct tcp_body *body)
{
    struct io_ready ready[EVENTS_MAX];
    size_t count = io_poller_take(body->poller, ready, EVENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (ready[i].context == &body->listener) {
            tcp_link_accept(body);
            continue;
        }
        if (ready[i].context == &body->waker) {
            tcp_dial_hear(body);
            continue;
        }
        struct tcp_link *link = ready[i].context;
        link->has_ended |= ready[i].has_ended;
        link->is_readable |= (ready[i].ready & IO_READABLE) != 0;
        link->is_writable |= (ready[i].ready & IO_WRITABLE) != 0;
    }
}

/* Everybody in turn, about a MiB in all: a slow or greedy one holds nobody up.
 */
static void work(struct tcp_body *body)
{
    size_t moved = 0;
    bool has_moved = true;
    body->turn++;
    while (has_moved && moved < TRANSFER_STEP_SIZE) {
        has_moved = false;
        uint32_t count = body->link_count;
        for (uint32_t i = 0; i < count && moved < TRANSFER_STEP_SIZE; i++) {
            size_t step = tcp_link_step(body->links[(body->turn + i) % count]);
            moved += step;
            has_moved |= step > 0;
        }
    }
}

static bool is_busy(const struct tcp_body *body)
{
    bool has_work = body->done.first != NULL;
    for (uint32_t i = 0; i < body->link_count && !has_work; i++) {
        has_work = tcp_link_has_work(body->links[i]);
    }
    return has_work;
}

static struct transfer_write *give_back(struct tcp_body *body)
{
    struct transfer_write *write = transfer_write_queue_pop(&body->done);
    if (write != NULL) {
        struct tcp_peer *peer = (struct tcp_peer *)write->peer;
        peer->write_count--;
        end_if_unused(body, peer);
    }
    return write;
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct tcp_body *body = body_of(backend);
    hear_kernel(body);
    tcp_link_expire(body, io_clock_now_ns());
    work(body);
    tcp_link_sweep(body);
    io_poller_set_alarm(body->poller, tcp_link_next_ns(body));
    struct transfer_write *write = give_back(body);
    *is_busy_out = is_busy(body);
    return write;
}

static int fd(const struct transfer_backend *backend)
{
    return io_poller_fd(body_of(backend)->poller);
}

static enum err arm(struct transfer_backend *backend)
{
    struct tcp_body *body = body_of(backend);
    io_poller_set_alarm(body->poller, tcp_link_next_ns(body));
    return is_busy(body) ? ERR_BUSY : OK;
}

static const struct transfer_backend_ops ops = {
    .name = "tcp",
    .toucher = TRANSFER_SELF_COPY,
    .capabilities =
        TRANSFER_CAN_SLEEP | TRANSFER_CAN_PROCESS | TRANSFER_CAN_HOST,
    .destroy = destroy,
    .alloc = alloc,
    .free = free_pool,
    .adopt = adopt,
    .config = config,
    .export_pool = export_pool,
    .peer_open = peer_open,
    .peer_close = peer_close,
    .peer_lane = peer_lane,
    .authorise = authorise,
    .revoke = revoke,
    .write = start_write,
    .poll = poll_once,
    .fd = fd,
    .arm = arm,
};

/* -------- life -------- */

static enum err set_options(struct tcp_body *body,
                            const struct transfer_backend_tcp_options *options,
                            struct why *why)
{
    const char *host =
        options->advertise != NULL ? options->advertise : options->host;
    size_t host_size = strlen(host);
    if (host_size == 0 || host_size >= sizeof(body->host)) {
        return why_say(why, ERR_INVALID, "tcp: host '%.64s': too short or long",
                       host);
    }
    if (options->key.size > sizeof(body->key)) {
        return why_say(why, ERR_INVALID, "tcp: a key of over %d bytes",
                       TCP_KEY_SIZE_MAX);
    }
    memcpy(body->host, host, host_size);
    if (options->key.size > 0) {
        memcpy(body->key, options->key.data, options->key.size);
    }
    body->key_size = options->key.size;
    return OK;
}

static enum err open_listener(
    struct tcp_body *body, const struct transfer_backend_tcp_options *options,
    struct why *why)
{
    struct io_socket_listen at = {.host = options->host, .port = options->port};
    enum err err = io_socket_listen(&at, why, &body->listener);
    if (err) {
        return why_prefix(why, err, "tcp");
    }
    err = io_poller_create(&body->poller);
    err = err ? err
              : io_poller_add(body->poller, body->listener, false,
                              &body->listener);
    return err ? why_say(why, err, "tcp: no descriptor for polling") : OK;
}

enum err transfer_backend_tcp_create(
    const struct transfer_backend_tcp_options *options, struct why *why,
    struct transfer_backend **backend_out)
{
    CHECK(options->incarnation != 0);
    struct tcp_body *body = mem_new(sizeof(*body));
    transfer_backend_init(&body->base, &ops);
    body->incarnation = options->incarnation;
    body->listener = -1;
    body->look_up = options->look_up;
    tcp_grants_init(&body->grants, options->receive_count_max != 0
                                       ? options->receive_count_max
                                       : RECEIVE_COUNT_MAX);
    rng_system_bytes(body->nonce, TCP_NONCE_SIZE);
    enum err err = set_options(body, options, why);
    err = err ? err : open_listener(body, options, why);
    if (err) {
        destroy(&body->base);
        return err;
    }
    *backend_out = &body->base;
    return OK;
}
