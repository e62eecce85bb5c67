#include "transfer/backend_ucx.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "transfer/pool_key.h"
#include "transfer/segment.h"
#include "transfer/ucx_open.h"
#include "transfer/write_queue.h"

enum {
    /* UCX reads a key without being told its size: junk must end in zeros. */
    KEY_BUFFER_SIZE = 32768,
    PEER_COUNT_MAX = 128
};

/* What both sides must have alike; the hello compares this very text. */
#define SETTINGS                                                \
    "TLS=^tcp MM_ERROR_HANDLING=y RESOLVE_REMOTE_EP_ID=y "      \
    "KEEPALIVE_INTERVAL=100ms MM_FIFO_SIZE=512 PROTO_ENABLE=n " \
    "ALLOC_PRIO=md:sysv"

struct peer {
    struct transfer_backend_peer base;
    ucp_rkey_h key; /* NULL: our own pool */
    uint8_t *pool;
    size_t pool_size;
    void *held; /* the segment once more, so that ours is never the last */
    size_t populated; /* bytes of it that no longer cost a first touch */
    size_t dropped; /* of a closed one: bytes of it that are unmapped */
    uint32_t write_count;
    bool is_closed;
};

struct body {
    struct transfer_backend base;
    uint64_t incarnation;
    char config[256];
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h self; /* only a key ring: keys are unpacked at an endpoint */
    int fd;

    ucp_mem_h memory; /* NULL before alloc */
    uint8_t *pool;
    size_t pool_size;
    struct pool_key key;

    struct transfer_write_queue queue;
    struct peer *peers[PEER_COUNT_MAX];
    uint32_t peer_count;
};

static struct body *body_of(const struct transfer_backend *backend)
{
    return (struct body *)backend;
}

static enum err say_status(struct why *why, const char *what,
                           ucs_status_t status)
{
    return why_prefix(why, ucx_say(why, what, status), "ucx");
}

/* -------- context, worker, endpoint -------- */

static enum err open_worker(struct body *body, struct why *why)
{
    enum err err = ucx_open_context(SETTINGS, why, &body->context);
    err = err ? err
              : ucx_open_worker(body->context, UCP_WAKEUP_RX, why,
                                &body->worker, &body->fd);
    return err ? why_prefix(why, err, "ucx") : OK;
}

static enum err open_self(struct body *body, struct why *why)
{
    ucp_address_t *address;
    size_t size;
    ucs_status_t status = ucp_worker_get_address(body->worker, &address, &size);
    if (status != UCS_OK) {
        return say_status(why, "own address", status);
    }
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
        .address = address,
    };
    status = ucp_ep_create(body->worker, &params, &body->self);
    ucp_worker_release_address(body->worker, address);
    return status == UCS_OK ? OK : say_status(why, "own endpoint", status);
}

/* -------- our pool -------- */

static enum err pack_key(struct body *body, struct why *why)
{
    int32_t segment;
    enum err err = segment_find(body->pool, why, &segment);
    if (err) {
        return why_prefix(why, err, "ucx: the pool");
    }
    void *key;
    size_t size;
    ucs_status_t status =
        ucp_rkey_pack(body->context, body->memory, &key, &size);
    if (status != UCS_OK) {
        return say_status(why, "memory key", status);
    }
    err = pool_key_learn(&body->key, span_of(key, size), segment,
                         (uintptr_t)body->pool, why);
    ucp_rkey_buffer_release(key);
    return err ? why_prefix(why, err, "ucx") : OK;
}

static enum err map_memory(struct body *body, size_t size, struct why *why)
{
    ucp_mem_map_params_t params = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = segment_size(size),
        .flags = UCP_MEM_MAP_ALLOCATE,
    };
    ucs_status_t status = ucp_mem_map(body->context, &params, &body->memory);
    if (status != UCS_OK) {
        return say_status(why, "shared memory", status);
    }
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    status = ucp_mem_query(body->memory, &attr);
    if (status != UCS_OK) {
        return say_status(why, "address of shared memory", status);
    }
    body->pool = attr.address;
    body->pool_size = size;
    return OK;
}

static void unmap_memory(struct body *body)
{
    if (body->memory != NULL) {
        ucp_mem_unmap(body->context, body->memory);
    }
    body->memory = NULL;
    body->pool = NULL;
    body->pool_size = 0;
    body->key.size = 0;
}

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    struct body *body = body_of(backend);
    if (body->memory != NULL) {
        return why_say(why, ERR_EXISTS, "ucx: there is a pool already");
    }
    if (size > SEGMENT_POOL_SIZE_MAX) {
        return why_say(why, ERR_NO_MEMORY, "ucx: no %zu bytes", size);
    }
    enum err err = map_memory(body, size, why);
    err = err ? err : pack_key(body, why);
    if (err) {
        unmap_memory(body);
        return err;
    }
    struct segment_seal seal = segment_seal_of(body->incarnation, size);
    segment_write_seal(body->pool, &seal);
    *memory_out = body->pool;
    return OK;
}

static void free_pool(struct transfer_backend *backend, void *memory)
{
    struct body *body = body_of(backend);
    CHECK(memory == body->pool);
    unmap_memory(body);
}

static const char *config(const struct transfer_backend *backend)
{
    return body_of(backend)->config;
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    struct body *body = body_of(backend);
    if (memory != body->pool || size > body->pool_size) {
        return why_say(why, ERR_INVALID, "ucx: not memory of this backend");
    }
    struct pool_blob blob = {
        .incarnation = body->incarnation,
        .address = (uintptr_t)body->pool,
        .pool_size = body->pool_size,
        .key = span_of(body->key.bytes, body->key.size),
    };
    pool_blob_encode(&blob, blob_out);
    return buf_error(blob_out);
}

/* -------- a peer's pool -------- */

static bool map_by_key(struct body *body, const struct pool_blob *blob,
                       struct peer *peer)
{
    uint8_t *key = mem_new(KEY_BUFFER_SIZE);
    memcpy(key, blob->key.data, blob->key.size);
    ucs_status_t status = ucp_ep_rkey_unpack(body->self, key, &peer->key);
    mem_free(key);
    if (status != UCS_OK) {
        peer->key = NULL;
        return false;
    }
    struct segment_seal seal =
        segment_seal_of(blob->incarnation, blob->pool_size);
    void *pool = NULL;
    status = ucp_rkey_ptr(peer->key, blob->address, &pool);
    if (status == UCS_OK && segment_has_seal(pool, &seal)) {
        peer->pool = pool;
        return true;
    }
    ucp_rkey_destroy(peer->key);
    peer->key = NULL;
    return false;
}

/* UCX must not be asked for a segment that may be gone: when it cannot map a
 * key it releases what it never had. So the segment is held meanwhile. */
static enum err map_peer(struct body *body, const struct pool_blob *blob,
                         struct why *why, struct peer *peer)
{
    if (blob->incarnation == body->incarnation &&
        blob->pool_size == body->pool_size) {
        peer->pool = body->pool;
        return OK;
    }
    struct segment_seal seal =
        segment_seal_of(blob->incarnation, blob->pool_size);
    void *held = segment_hold(blob->segment, &seal);
    if (held != NULL && map_by_key(body, blob, peer)) {
        peer->held = held;
        return OK;
    }
    segment_release(held);
    return why_say(why, ERR_UNSUPPORTED,
                   "ucx: the peer's memory cannot be mapped here");
}

static enum err peer_open(struct transfer_backend *backend, struct span bytes,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct body *body = body_of(backend);
    if (body->peer_count == PEER_COUNT_MAX) {
        return why_say(why, ERR_FULL, "ucx: %d peers already", PEER_COUNT_MAX);
    }
    struct pool_blob blob = {0};
    enum err err = pool_blob_decode(bytes, &body->key, why, &blob);
    if (!err && (blob.pool_size < pool_size || pool_size == 0)) {
        err = why_say(why, ERR_INVALID, "the peer's pool is too small");
    }
    if (err) {
        return why_prefix(why, err, "ucx");
    }
    struct peer *peer = mem_new(sizeof(*peer));
    err = map_peer(body, &blob, why, peer);
    if (err) {
        mem_free(peer);
        return err;
    }
    peer->base.backend = backend;
    peer->base.owner = blob.incarnation;
    peer->pool_size = pool_size;
    body->peers[body->peer_count++] = peer;
    *peer_out = &peer->base;
    return OK;
}

/* To take tens of gigabytes out of the tables at once, or to be the last who
 * holds a dead peer's pool, takes seconds: no heartbeat, deadline or write of
 * others may wait for that. So the pages go a few at a time, and the last hold
 * on a thread of its own. */
static bool drop_some(struct body *body, uint32_t at)
{
    struct peer *peer = body->peers[at];
    if (peer->key != NULL && peer->dropped < peer->pool_size) {
        peer->dropped =
            segment_drop(peer->pool, peer->pool_size, peer->dropped);
        return true;
    }
    body->peers[at] = body->peers[--body->peer_count];
    if (peer->key != NULL) {
        ucp_rkey_destroy(peer->key);
        segment_release_aside(peer->held);
    }
    mem_free(peer);
    return body->peer_count > 0;
}

/* Of the peers that are closed and have no write left. True: there is more. */
static bool drop_one(struct body *body)
{
    for (uint32_t i = 0; i < body->peer_count; i++) {
        if (body->peers[i]->is_closed && body->peers[i]->write_count == 0) {
            return drop_some(body, i);
        }
    }
    return false;
}

static void peer_close(struct transfer_backend_peer *base)
{
    struct peer *peer = (struct peer *)base;
    CHECK(!peer->is_closed);
    peer->is_closed = true; /* drop_one does the rest */
}

static const char *peer_lane(const struct transfer_backend_peer *base)
{
    const struct peer *peer = (const struct peer *)base;
    return peer->key != NULL ? "sysv" : "self";
}

/* -------- writing -------- */

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    struct peer *peer = (struct peer *)write->peer;
    CHECK(!peer->is_closed);
    peer->write_count++;
    transfer_write_queue_push(&body_of(backend)->queue, write);
}

static bool step(struct body *body, struct transfer_write *write)
{
    const struct peer *peer = (const struct peer *)write->peer;
    if (peer->is_closed) {
        write->outcome = TRANSFER_STOPPED;
        return true;
    }
    struct transfer_target pools = {body->pool, body->pool_size, peer->pool,
                                    peer->pool_size};
    write->outcome = TRANSFER_DONE;
    return transfer_write_step(write, &pools);
}

/* True: some peer's pages were populated, there may be more. */
static bool populate_one(struct body *body)
{
    for (uint32_t i = 0; i < body->peer_count; i++) {
        struct peer *peer = body->peers[i];
        if (peer->populated < peer->pool_size && !peer->is_closed) {
            peer->populated =
                segment_populate(peer->pool, peer->pool_size, peer->populated);
            return true;
        }
    }
    return false;
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct body *body = body_of(backend);
    bool has_more = ucp_worker_progress(body->worker) > 0;
    has_more |= drop_one(body);
    struct transfer_write *write = transfer_write_queue_pop(&body->queue);
    if (write == NULL) {
        *is_busy_out = populate_one(body) || has_more;
        return NULL;
    }
    if (!step(body, write)) {
        transfer_write_queue_push(&body->queue, write);
        *is_busy_out = true;
        return NULL;
    }
    ((struct peer *)write->peer)->write_count--;
    *is_busy_out = true; /* maybe pages to populate or to drop */
    return write;
}

static int fd(const struct transfer_backend *backend)
{
    return body_of(backend)->fd;
}

static enum err arm(struct transfer_backend *backend)
{
    ucs_status_t status = ucp_worker_arm(body_of(backend)->worker);
    return status == UCS_OK ? OK : ERR_BUSY;
}

static void destroy(struct transfer_backend *backend)
{
    struct body *body = body_of(backend);
    while (drop_one(body)) {
    }
    CHECK(body->peer_count == 0);
    CHECK(body->queue.first == NULL);
    CHECK(body->memory == NULL);
    if (body->self != NULL) {
        ucp_ep_destroy(body->self);
    }
    ucx_close_worker(body->worker);
    ucx_close_context(body->context);
    mem_free(body);
}

static const struct transfer_backend_ops ops = {
    .name = "ucx",
    .toucher = TRANSFER_PEER_MAPPED,
    .capabilities = TRANSFER_CAN_SLEEP | TRANSFER_CAN_PROCESS,
    .destroy = destroy,
    .alloc = alloc,
    .free = free_pool,
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

enum err transfer_backend_ucx_create(
    const struct transfer_backend_ucx_options *options, struct why *why,
    struct transfer_backend **backend_out)
{
    CHECK(options->incarnation != 0);
    struct body *body = mem_new(sizeof(*body));
    transfer_backend_init(&body->base, &ops);
    body->incarnation = options->incarnation;
    ucx_describe(SETTINGS, body->config, sizeof(body->config));
    enum err err = open_worker(body, why);
    err = err ? err : open_self(body, why);
    if (err) {
        destroy(&body->base);
        return err;
    }
    *backend_out = &body->base;
    return OK;
}
