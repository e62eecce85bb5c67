#include "transfer/backend_inproc.h"

#include "base/check.h"
#include "base/mem.h"
#include "io/thread.h"
#include "transfer/write_queue.h"
#include "wire/bytes.h"

enum { BACKEND_COUNT_MAX = 256, BLOB_MAGIC = 0x50494e42 };

struct body {
    struct transfer_backend base;
    struct transfer_inproc_hub *hub;
    uint64_t incarnation;
    uint8_t *pool; /* heap; NULL before alloc */
    size_t pool_size;
    struct transfer_write_queue queue;
    uint32_t peer_count;
};

/* The lock guards the slots and keeps a target pool there during a copy. */
struct transfer_inproc_hub {
    struct io_lock *lock;
    struct body *slots[BACKEND_COUNT_MAX];
};

struct peer {
    struct transfer_backend_peer base;
    size_t pool_size;
    uint32_t write_count;
    bool is_closed;
};

struct transfer_inproc_hub *transfer_inproc_hub_create(void)
{
    struct transfer_inproc_hub *hub = mem_new(sizeof(*hub));
    hub->lock = io_lock_create();
    return hub;
}

void transfer_inproc_hub_destroy(struct transfer_inproc_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    for (int i = 0; i < BACKEND_COUNT_MAX; i++) {
        CHECK(hub->slots[i] == NULL);
    }
    io_lock_destroy(hub->lock);
    mem_free(hub);
}

/* Under the lock. Incarnation 0 finds a free slot. */
static int find_slot(const struct transfer_inproc_hub *hub,
                     uint64_t incarnation)
{
    for (int i = 0; i < BACKEND_COUNT_MAX; i++) {
        const struct body *body = hub->slots[i];
        if ((body != NULL ? body->incarnation : 0) == incarnation) {
            return i;
        }
    }
    return -1;
}

static struct body *body_of(struct transfer_backend *backend)
{
    return (struct body *)backend;
}

static void destroy(struct transfer_backend *backend)
{
    struct body *body = body_of(backend);
    CHECK(body->peer_count == 0);
    CHECK(body->queue.first == NULL);
    CHECK(body->pool == NULL);
    io_lock_take(body->hub->lock);
    body->hub->slots[find_slot(body->hub, body->incarnation)] = NULL;
    io_lock_give(body->hub->lock);
    mem_free(body);
}

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    struct body *body = body_of(backend);
    if (body->pool != NULL) {
        return why_say(why, ERR_EXISTS, "inproc: there is a pool already");
    }
    uint8_t *pool = mem_try_aligned(4096, size);
    if (pool == NULL) {
        return why_say(why, ERR_NO_MEMORY, "inproc: no %zu bytes", size);
    }
    io_lock_take(body->hub->lock);
    body->pool = pool;
    body->pool_size = size;
    io_lock_give(body->hub->lock);
    *memory_out = pool;
    return OK;
}

static void free_pool(struct transfer_backend *backend, void *memory)
{
    struct body *body = body_of(backend);
    CHECK(memory == body->pool);
    io_lock_take(body->hub->lock);
    body->pool = NULL;
    body->pool_size = 0;
    io_lock_give(body->hub->lock);
    mem_free(memory);
}

static const char *config(const struct transfer_backend *backend)
{
    (void)backend;
    return "inproc 1";
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    struct body *body = body_of(backend);
    if (memory != body->pool || size > body->pool_size) {
        return why_say(why, ERR_INVALID, "inproc: not memory of this backend");
    }
    wire_write_u32(blob_out, BLOB_MAGIC);
    wire_write_u64(blob_out, body->incarnation);
    wire_write_u64(blob_out, size);
    return buf_error(blob_out);
}

static enum err read_blob(struct span blob, struct why *why,
                          uint64_t *incarnation_out, uint64_t *size_out)
{
    struct wire_reader reader = wire_reader_of(blob);
    uint32_t magic = wire_read_u32(&reader);
    uint64_t incarnation = wire_read_u64(&reader);
    uint64_t size = wire_read_u64(&reader);
    if (!wire_reader_is_done(&reader) || magic != BLOB_MAGIC) {
        return why_say(why, ERR_INVALID, "inproc: not an address of inproc");
    }
    *incarnation_out = incarnation;
    *size_out = size;
    return OK;
}

static enum err peer_open(struct transfer_backend *backend, struct span blob,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct body *body = body_of(backend);
    uint64_t incarnation = 0, size = 0;
    enum err err = read_blob(blob, why, &incarnation, &size);
    if (err) {
        return err;
    }
    io_lock_take(body->hub->lock);
    int slot = incarnation != 0 ? find_slot(body->hub, incarnation) : -1;
    size_t real = slot >= 0 ? body->hub->slots[slot]->pool_size : 0;
    io_lock_give(body->hub->lock);
    if (size < pool_size || real < pool_size || real == 0) {
        return why_say(why, ERR_UNSUPPORTED,
                       "inproc: the peer's pool is not in this process");
    }
    struct peer *peer = mem_new(sizeof(*peer));
    peer->base.backend = backend;
    peer->base.owner = incarnation;
    peer->pool_size = pool_size;
    body->peer_count++;
    *peer_out = &peer->base;
    return OK;
}

static void end_if_unused(struct body *body, struct peer *peer)
{
    if (peer->is_closed && peer->write_count == 0) {
        body->peer_count--;
        mem_free(peer);
    }
}

static void peer_close(struct transfer_backend_peer *base)
{
    struct peer *peer = (struct peer *)base;
    CHECK(!peer->is_closed);
    peer->is_closed = true;
    end_if_unused(body_of(base->backend), peer);
}

static const char *peer_lane(const struct transfer_backend_peer *base)
{
    (void)base;
    return "memory";
}

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    struct peer *peer = (struct peer *)write->peer;
    CHECK(!peer->is_closed);
    peer->write_count++;
    transfer_write_queue_push(&body_of(backend)->queue, write);
}

/* True when the write is over, one way or the other. */
static bool step(struct body *body, struct transfer_write *write)
{
    const struct peer *peer = (const struct peer *)write->peer;
    io_lock_take(body->hub->lock);
    int slot = find_slot(body->hub, peer->base.owner);
    struct body *target = slot >= 0 ? body->hub->slots[slot] : NULL;
    bool is_gone = target == NULL || target->pool_size < peer->pool_size;
    bool is_over = true;
    write->outcome = TRANSFER_STOPPED;
    if (!peer->is_closed && !is_gone) {
        struct transfer_target pools = {body->pool, body->pool_size,
                                        target->pool, peer->pool_size};
        is_over = transfer_write_step(write, &pools);
        write->outcome = TRANSFER_DONE;
    }
    io_lock_give(body->hub->lock);
    return is_over;
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct body *body = body_of(backend);
    struct transfer_write *write = transfer_write_queue_pop(&body->queue);
    if (write != NULL && !step(body, write)) {
        transfer_write_queue_push(&body->queue, write);
        write = NULL;
    }
    *is_busy_out = body->queue.first != NULL;
    if (write != NULL) {
        struct peer *peer = (struct peer *)write->peer;
        peer->write_count--;
        end_if_unused(body, peer);
    }
    return write;
}

static const struct transfer_backend_ops ops = {
    .name = "inproc",
    .toucher = TRANSFER_PEER_MAPPED,
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
};

enum err transfer_backend_inproc_create(struct transfer_inproc_hub *hub,
                                        uint64_t incarnation,
                                        struct transfer_backend **backend_out)
{
    CHECK(incarnation != 0);
    struct body *body = mem_new(sizeof(*body));
    transfer_backend_init(&body->base, &ops);
    body->hub = hub;
    body->incarnation = incarnation;
    io_lock_take(hub->lock);
    enum err err = find_slot(hub, incarnation) >= 0 ? ERR_EXISTS : OK;
    int slot = find_slot(hub, 0);
    err = !err && slot < 0 ? ERR_FULL : err;
    if (!err) {
        hub->slots[slot] = body;
    }
    io_lock_give(hub->lock);
    if (err) {
        mem_free(body);
        return err;
    }
    *backend_out = &body->base;
    return OK;
}
