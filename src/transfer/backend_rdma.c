#include "transfer/backend_rdma.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/clock.h"
#include "transfer/rdma_body.h"
#include "transfer/rdma_devices.h"

enum {
    PROGRESS_MAX = 8, /* turns of UCX in a poll */
    DESTROY_TURNS = 10000
};
static const uint64_t CONNECT_NS = 5000000000u;
static const uint64_t DRAIN_NS = 2000000000u;
/* Should the descriptor not tell of something that UCX waits for. */
static const uint64_t LOOK_NS = 10000000u;

/* What both sides must have alike; all of it stands in the hello. Of the
 * transports of RDMA only the reliable connected one writes and flushes by the
 * adapter alone. One that may order its writes as it likes could confirm some
 * before the receiver's processor sees them. */
#define SETTINGS "PROTO_ENABLE=n KEEPALIVE_INTERVAL=1s TLS="
#define RDMA_TRANSPORTS "rc IB_PCI_RELAXED_ORDERING=off"

static struct span secret_of(const struct rdma_body *body)
{
    return span_of(body->secret, body->secret_size);
}

/* -------- our pool -------- */

static enum err set_pool(struct rdma_body *body, void *memory, size_t size,
                         bool is_ours, struct why *why)
{
    ucp_mem_map_params_t params = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = memory,
        .length = size,
    };
    ucs_status_t status = ucp_mem_map(body->context, &params, &body->memory);
    if (status != UCS_OK) {
        body->memory = NULL;
        return ucx_say(why,
                       "rdma: the pool cannot be registered (is the limit of "
                       "locked memory, ulimit -l, as large?)",
                       status);
    }
    body->pool = memory;
    body->pool_size = size;
    body->is_pool_ours = is_ours;
    return OK;
}

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    struct rdma_body *body = rdma_body_of(backend);
    if (body->memory != NULL) {
        return why_say(why, ERR_EXISTS, "rdma: there is a pool already");
    }
    void *memory =
        size <= RDMA_POOL_SIZE_MAX ? mem_try_aligned(4096, size) : NULL;
    if (memory == NULL) {
        return why_say(why, ERR_NO_MEMORY, "rdma: no %zu bytes", size);
    }
    enum err err = set_pool(body, memory, size, true, why);
    if (err) {
        mem_free(memory);
        return err;
    }
    *memory_out = memory;
    return OK;
}

static enum err adopt(struct transfer_backend *backend, void *memory,
                      size_t size, struct why *why)
{
    struct rdma_body *body = rdma_body_of(backend);
    return body->memory != NULL
               ? why_say(why, ERR_EXISTS, "rdma: there is a pool already")
               : set_pool(body, memory, size, false, why);
}

/* A NIC is kept out by the end of the registration. A transport of tests knows
 * none: what still comes over it finds memory, while a connection is left. */
static void free_pool(struct transfer_backend *backend, void *memory)
{
    struct rdma_body *body = rdma_body_of(backend);
    CHECK(memory == body->pool);
    ucp_mem_unmap(body->context, body->memory);
    if (body->is_pool_ours) {
        mem_free(body->retired);
        body->retired = memory;
    }
    body->memory = NULL;
    body->pool = NULL;
    body->pool_size = 0;
}

static const char *config(const struct transfer_backend *backend)
{
    return rdma_body_of(backend)->config;
}

static enum err encode_pool(struct rdma_body *body, struct rdma_blob *blob,
                            struct why *why, struct buf *blob_out)
{
    void *key;
    size_t size;
    ucs_status_t status =
        ucp_rkey_pack(body->context, body->memory, &key, &size);
    if (status != UCS_OK) {
        return ucx_say(why, "memory key", status);
    }
    blob->key = span_of(key, size);
    enum err err = rdma_blob_encode(blob, secret_of(body), why, blob_out);
    ucp_rkey_buffer_release(key);
    return err;
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    struct rdma_body *body = rdma_body_of(backend);
    if (memory != body->pool || size > body->pool_size) {
        return why_say(why, ERR_INVALID, "rdma: not memory of this backend");
    }
    ucp_address_t *address;
    size_t address_size;
    ucs_status_t status =
        ucp_worker_get_address(body->worker, &address, &address_size);
    if (status != UCS_OK) {
        return ucx_say(why, "rdma: own address", status);
    }
    struct rdma_blob blob = {
        .incarnation = body->incarnation,
        .address = (uintptr_t)body->pool,
        .pool_size = body->pool_size,
        .worker = span_of(address, address_size),
    };
    enum err err = encode_pool(body, &blob, why, blob_out);
    ucp_worker_release_address(body->worker, address);
    return err ? why_prefix(why, err, "rdma") : OK;
}

/* -------- peers -------- */

static void free_peer(struct rdma_peer *peer)
{
    mem_free(peer->bytes);
    mem_free(peer);
}

static enum err read_blob(struct rdma_body *body, struct span bytes,
                          size_t pool_size, struct why *why,
                          struct rdma_peer *peer)
{
    if (bytes.size > TRANSFER_BLOB_SIZE_MAX || bytes.size == 0) {
        return why_say(why, ERR_INVALID, "an address of %zu bytes", bytes.size);
    }
    peer->bytes = mem_copy(bytes.data, bytes.size);
    enum err err = rdma_blob_decode(span_of(peer->bytes, bytes.size),
                                    secret_of(body), why, &peer->where);
    if (!err && (peer->where.pool_size < pool_size || pool_size == 0)) {
        err = why_say(why, ERR_INVALID, "the peer's pool is too small");
    }
    return err;
}

static enum err peer_open(struct transfer_backend *backend, struct span bytes,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct rdma_body *body = rdma_body_of(backend);
    if (body->peer_count == RDMA_PEER_COUNT_MAX) {
        return why_say(why, ERR_FULL, "rdma: %d peers already",
                       RDMA_PEER_COUNT_MAX);
    }
    struct rdma_peer *peer = mem_new(sizeof(*peer));
    peer->base.backend = backend;
    peer->pool_size = pool_size;
    enum err err = read_blob(body, bytes, pool_size, why, peer);
    if (err) {
        free_peer(peer);
        return why_prefix(why, err, "rdma");
    }
    peer->base.owner = peer->where.incarnation;
    body->peers[body->peer_count++] = peer;
    *peer_out = &peer->base;
    return OK;
}

static void end_if_unused(struct rdma_body *body, struct rdma_peer *peer)
{
    if (!peer->is_closed || peer->write_count > 0) {
        return;
    }
    uint32_t at = 0;
    while (body->peers[at] != peer) {
        at++;
        CHECK(at < body->peer_count);
    }
    body->peers[at] = body->peers[--body->peer_count];
    free_peer(peer);
}

static void peer_close(struct transfer_backend_peer *base)
{
    struct rdma_peer *peer = (struct rdma_peer *)base;
    CHECK(!peer->is_closed);
    peer->is_closed = true;
    if (peer->link != NULL) {
        rdma_link_give_up(peer->link);
    }
    end_if_unused(rdma_body_of(base->backend), peer);
}

static const char *peer_lane(const struct transfer_backend_peer *base)
{
    (void)base;
    return "rdma";
}

/* -------- writing -------- */

static bool has_link(struct rdma_peer *peer)
{
    struct why why;
    uint64_t now = io_clock_now_ns();
    if (peer->link == NULL && now >= peer->retry_ns) {
        peer->retry_ns = now + RDMA_RETRY_NS;
        if (rdma_link_open(peer, &why)) {
            log_warn_rare("transfer", "rdma: %s", why.text);
        }
    }
    return peer->link != NULL;
}

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    struct rdma_body *body = rdma_body_of(backend);
    struct rdma_peer *peer = (struct rdma_peer *)write->peer;
    CHECK(!peer->is_closed);
    peer->write_count++;
    write->outcome = TRANSFER_STOPPED;
    transfer_write_queue_push(has_link(peer) ? &peer->waiting : &body->done,
                              write);
}

/* -------- turns -------- */

static bool hear_ucx(struct rdma_body *body)
{
    struct io_ready ready;
    IGNORE(io_poller_take(body->poller, &ready, 1) > 0); /* ends the alarm */
    int turns = 0;
    while (turns < PROGRESS_MAX && ucp_worker_progress(body->worker) > 0) {
        turns++;
    }
    return turns > 0;
}

/* Peers take turns, a put each, about a MiB in all. */
static void work(struct rdma_body *body)
{
    size_t moved = 0;
    bool has_moved = true;
    body->turn++;
    while (has_moved && moved < TRANSFER_STEP_SIZE) {
        has_moved = false;
        uint32_t count = body->peer_count;
        for (uint32_t i = 0; i < count && moved < TRANSFER_STEP_SIZE; i++) {
            struct rdma_peer *peer = body->peers[(body->turn + i) % count];
            if (rdma_put_has_work(peer)) {
                moved += rdma_put_step(peer);
                has_moved = true;
            }
        }
    }
}

static bool has_work(const struct rdma_body *body)
{
    bool is_so = body->done.first != NULL;
    for (uint32_t i = 0; i < body->peer_count && !is_so; i++) {
        is_so = rdma_put_has_work(body->peers[i]);
    }
    for (uint32_t i = 0; i < body->link_count && !is_so; i++) {
        const struct rdma_link *link = body->links[i];
        is_so = link->has_failed && link->state != RDMA_CLOSING;
    }
    return is_so;
}

static struct transfer_write *give_back(struct rdma_body *body)
{
    struct transfer_write *write = transfer_write_queue_pop(&body->done);
    if (write != NULL) {
        struct rdma_peer *peer = (struct rdma_peer *)write->peer;
        peer->write_count--;
        end_if_unused(body, peer);
    }
    return write;
}

static void set_alarm(struct rdma_body *body, uint64_t now)
{
    uint64_t next = rdma_link_next_ns(body);
    for (uint32_t i = 0; i < body->link_count; i++) {
        const struct rdma_link *link = body->links[i];
        if (link->op_count > 0 || link->state == RDMA_CLOSING) {
            next = next == 0 || now + LOOK_NS < next ? now + LOOK_NS : next;
            break;
        }
    }
    io_poller_set_alarm(body->poller, next);
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct rdma_body *body = rdma_body_of(backend);
    bool has_heard = hear_ucx(body);
    uint64_t now = io_clock_now_ns();
    rdma_link_sweep(body, now);
    work(body);
    set_alarm(body, now);
    struct transfer_write *write = give_back(body);
    *is_busy_out = has_heard || has_work(body);
    return write;
}

static int fd(const struct transfer_backend *backend)
{
    return io_poller_fd(rdma_body_of(backend)->poller);
}

static enum err arm(struct transfer_backend *backend)
{
    struct rdma_body *body = rdma_body_of(backend);
    set_alarm(body, io_clock_now_ns());
    bool can_sleep = !has_work(body) && ucp_worker_arm(body->worker) == UCS_OK;
    return can_sleep ? OK : ERR_BUSY;
}

/* -------- life -------- */

/* Endpoints close by themselves if their peers answer; the worker's end closes
 * the others. */
static void destroy(struct transfer_backend *backend)
{
    struct rdma_body *body = rdma_body_of(backend);
    CHECK(body->peer_count == 0);
    CHECK(body->done.first == NULL);
    CHECK(body->memory == NULL);
    rdma_link_close_all(body);
    for (int i = 0; i < DESTROY_TURNS && body->link_count > 0; i++) {
        ucp_worker_progress(body->worker);
        rdma_link_sweep(body, io_clock_now_ns());
    }
    rdma_link_let_go(body);
    io_poller_destroy(body->poller);
    ucx_close_worker(body->worker);
    rdma_link_free_all(body);
    ucx_close_context(body->context);
    mem_free(body->retired);
    mem_free(body);
}

static const struct transfer_backend_ops ops = {
    .name = "rdma",
    .toucher = TRANSFER_NIC,
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
    .write = start_write,
    .poll = poll_once,
    .fd = fd,
    .arm = arm,
};

static enum err set_options(struct rdma_body *body,
                            const struct transfer_backend_rdma_options *options,
                            struct why *why)
{
    if (options->key.size == 0 || options->key.size > RDMA_SECRET_SIZE_MAX) {
        return why_say(why, ERR_INVALID,
                       "a key of %zu bytes: whoever may write into memory must "
                       "have proven the internal key, of 1 to %d bytes",
                       options->key.size, RDMA_SECRET_SIZE_MAX);
    }
    memcpy(body->secret, options->key.data, options->key.size);
    body->secret_size = options->key.size;
    body->incarnation = options->incarnation;
    body->connect_ns = options->connect_ns ? options->connect_ns : CONNECT_NS;
    body->drain_ns = options->drain_ns ? options->drain_ns : DRAIN_NS;
    snprintf(body->settings, sizeof(body->settings), "%s%s", SETTINGS,
             options->test_transport != NULL ? options->test_transport
                                             : RDMA_TRANSPORTS);
    char described[sizeof(body->config) - 8];
    ucx_describe(body->settings, described, sizeof(described));
    snprintf(body->config, sizeof(body->config), "rdma 1 %s", described);
    return OK;
}

/* UCX would say so too, at length and to standard output. */
enum err transfer_backend_rdma_look(struct why *why)
{
    struct buf names;
    buf_init(&names, 4096);
    size_t count = rdma_devices_find(&names);
    buf_finish(&names);
    return count > 0 ? OK : why_say(why, ERR_UNSUPPORTED, "no RDMA device");
}

static enum err open_body(struct rdma_body *body, struct why *why)
{
    int ucx_fd = -1;
    enum err err = ucx_open_context(body->settings, why, &body->context);
    err = err ? err
              : ucx_open_worker(body->context, UCP_WAKEUP_RX | UCP_WAKEUP_TX,
                                why, &body->worker, &ucx_fd);
    if (err) {
        return err == ERR_UNSUPPORTED
                   ? why_prefix(why, err, "no RDMA device is up")
                   : err;
    }
    err = io_poller_create(&body->poller);
    /* By edge: it stays readable over what only a peer, or UCX's own thread,
     * can move on. Each edge is followed by turns until there is no more. */
    err = err ? err : io_poller_add(body->poller, ucx_fd, true, body);
    return err ? why_say(why, err, "no descriptor for polling") : OK;
}

enum err transfer_backend_rdma_create(
    const struct transfer_backend_rdma_options *options, struct why *why,
    struct transfer_backend **backend_out)
{
    CHECK(options->incarnation != 0);
    struct rdma_body *body = mem_new(sizeof(*body));
    transfer_backend_init(&body->base, &ops);
    enum err err =
        options->test_transport == NULL ? transfer_backend_rdma_look(why) : OK;
    err = err ? err : set_options(body, options, why);
    err = err ? err : open_body(body, why);
    if (err) {
        destroy(&body->base);
        return why_prefix(why, err, "rdma");
    }
    *backend_out = &body->base;
    return OK;
}
