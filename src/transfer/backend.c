#include "transfer/backend.h"

#include "base/check.h"

void transfer_backend_init(struct transfer_backend *backend,
                           const struct transfer_backend_ops *ops)
{
    CHECK(ops->name != NULL && ops->destroy != NULL);
    CHECK(ops->alloc != NULL && ops->free != NULL);
    CHECK(ops->config != NULL && ops->export_pool != NULL);
    CHECK(ops->peer_open != NULL && ops->peer_close != NULL);
    CHECK(ops->peer_lane != NULL && ops->write != NULL && ops->poll != NULL);
    CHECK((ops->authorise == NULL) == (ops->revoke == NULL));
    CHECK(ops->toucher != TRANSFER_SELF_COPY || ops->revoke != NULL);
    bool can_sleep = ops->fd != NULL && ops->arm != NULL;
    CHECK(can_sleep || !(ops->capabilities & TRANSFER_CAN_SLEEP));
    backend->ops = ops;
}

void transfer_backend_destroy(struct transfer_backend *backend)
{
    if (backend != NULL) {
        backend->ops->destroy(backend);
    }
}

const char *transfer_backend_name(const struct transfer_backend *backend)
{
    return backend->ops->name;
}

const char *transfer_backend_config(const struct transfer_backend *backend)
{
    return backend->ops->config(backend);
}

enum err transfer_backend_alloc(struct transfer_backend *backend, size_t size,
                                struct why *why, void **memory_out)
{
    CHECK(size > 0);
    return backend->ops->alloc(backend, size, why, memory_out);
}

void transfer_backend_free(struct transfer_backend *backend, void *memory)
{
    if (memory != NULL) {
        backend->ops->free(backend, memory);
    }
}

enum err transfer_backend_adopt(struct transfer_backend *backend, void *memory,
                                size_t size, struct why *why)
{
    CHECK(memory != NULL && size > 0);
    return backend->ops->adopt != NULL
               ? backend->ops->adopt(backend, memory, size, why)
               : why_say(why, ERR_UNSUPPORTED,
                         "%s: the pool must be its own memory",
                         backend->ops->name);
}

static enum err take(void *context, size_t size, struct why *why,
                     void **memory_out)
{
    return transfer_backend_alloc(context, size, why, memory_out);
}

static void give(void *context, void *memory, size_t size)
{
    (void)size;
    transfer_backend_free(context, memory);
}

struct device_allocator transfer_backend_allocator(
    struct transfer_backend *backend)
{
    return (struct device_allocator){
        .name = backend->ops->name,
        .kind = DEVICE_KIND_HOST,
        .take = take,
        .give = give,
        .context = backend,
    };
}

enum err transfer_backend_export(struct transfer_backend *backend, void *memory,
                                 size_t size, struct why *why,
                                 struct buf *blob_out)
{
    size_t before = blob_out->size;
    enum err err =
        backend->ops->export_pool(backend, memory, size, why, blob_out);
    CHECK(err || blob_out->size - before <= TRANSFER_BLOB_SIZE_MAX);
    return err;
}

enum err transfer_backend_peer_open(struct transfer_backend *backend,
                                    struct span blob, size_t pool_size,
                                    struct why *why,
                                    struct transfer_backend_peer **peer_out)
{
    return backend->ops->peer_open(backend, blob, pool_size, why, peer_out);
}

uint64_t transfer_backend_peer_owner(const struct transfer_backend_peer *peer)
{
    return peer->owner;
}

void transfer_backend_peer_close(struct transfer_backend_peer *peer)
{
    peer->backend->ops->peer_close(peer);
}

const char *transfer_backend_peer_lane(const struct transfer_backend_peer *peer)
{
    return peer->backend->ops->peer_lane(peer);
}

enum transfer_toucher transfer_backend_toucher(
    const struct transfer_backend *backend, const char *lane)
{
    return backend->ops->lane_toucher != NULL
               ? backend->ops->lane_toucher(backend, lane)
               : backend->ops->toucher;
}

enum err transfer_backend_authorise(struct transfer_backend *backend,
                                    uint64_t sender,
                                    struct transfer_token token,
                                    const struct transfer_range *ranges,
                                    size_t count)
{
    return backend->ops->authorise != NULL
               ? backend->ops->authorise(backend, sender, token, ranges, count)
               : OK;
}

void transfer_backend_revoke(struct transfer_backend *backend, uint64_t sender,
                             struct transfer_token token)
{
    if (backend->ops->revoke != NULL) {
        backend->ops->revoke(backend, sender, token);
    }
}

void transfer_backend_write(struct transfer_backend *backend,
                            struct transfer_write *write)
{
    CHECK(write->peer != NULL && write->peer->backend == backend);
    write->next = NULL;
    write->cursor = 0;
    write->hold = NULL;
    backend->ops->write(backend, write);
}

void transfer_backend_pass(struct transfer_backend *next,
                           struct transfer_write *write,
                           struct transfer_backend_peer *peer)
{
    CHECK(write->outer_count < TRANSFER_DECORATOR_COUNT_MAX);
    write->outer[write->outer_count++] = write->peer;
    write->peer = peer;
    transfer_backend_write(next, write);
}

void transfer_backend_take_back(struct transfer_write *write)
{
    CHECK(write->outer_count > 0);
    write->peer = write->outer[--write->outer_count];
}

struct transfer_write *transfer_backend_poll(struct transfer_backend *backend,
                                             bool *is_busy_out)
{
    return backend->ops->poll(backend, is_busy_out);
}

int transfer_backend_fd(const struct transfer_backend *backend)
{
    bool can_sleep = backend->ops->capabilities & TRANSFER_CAN_SLEEP;
    return can_sleep ? backend->ops->fd(backend) : -1;
}

enum err transfer_backend_arm(struct transfer_backend *backend)
{
    bool can_sleep = backend->ops->capabilities & TRANSFER_CAN_SLEEP;
    return can_sleep ? backend->ops->arm(backend) : OK;
}
