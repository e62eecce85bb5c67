#include "transfer/decorate.h"

#include "base/check.h"
#include "base/mem.h"

/* -------- peers -------- */

static struct transfer_inner_peer *inner_of(struct transfer_backend_peer *peer)
{
    return (struct transfer_inner_peer *)peer;
}

struct transfer_backend_peer *transfer_inner_peer_create(
    struct transfer_backend *backend, struct transfer_backend_peer *inner)
{
    struct transfer_inner_peer *peer = mem_new(sizeof(*peer));
    peer->base.backend = backend;
    peer->base.owner = inner->owner;
    peer->inner = inner;
    return &peer->base;
}

void transfer_inner_peer_close(struct transfer_backend_peer *base)
{
    struct transfer_inner_peer *peer = inner_of(base);
    CHECK(!peer->is_closed);
    peer->is_closed = true;
    transfer_backend_peer_close(peer->inner);
    if (peer->write_count == 0) {
        mem_free(peer);
    }
}

const char *transfer_inner_peer_lane(const struct transfer_backend_peer *base)
{
    return transfer_backend_peer_lane(
        ((const struct transfer_inner_peer *)base)->inner);
}

void transfer_inner_peer_pass(struct transfer_write *write)
{
    struct transfer_inner_peer *peer = inner_of(write->peer);
    CHECK(!peer->is_closed);
    peer->write_count++;
    transfer_backend_pass(peer->inner->backend, write, peer->inner);
}

void transfer_inner_peer_take_back(struct transfer_write *write)
{
    transfer_backend_take_back(write);
    struct transfer_inner_peer *peer = inner_of(write->peer);
    if (--peer->write_count == 0 && peer->is_closed) {
        mem_free(peer);
    }
}

/* -------- the table -------- */

static struct transfer_backend *next_of(const struct transfer_backend *backend)
{
    return ((const struct transfer_decorator *)backend)->next;
}

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    return transfer_backend_alloc(next_of(backend), size, why, memory_out);
}

static void free_pool(struct transfer_backend *backend, void *memory)
{
    transfer_backend_free(next_of(backend), memory);
}

static enum err adopt(struct transfer_backend *backend, void *memory,
                      size_t size, struct why *why)
{
    return transfer_backend_adopt(next_of(backend), memory, size, why);
}

static const char *config(const struct transfer_backend *backend)
{
    return transfer_backend_config(next_of(backend));
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    return transfer_backend_export(next_of(backend), memory, size, why,
                                   blob_out);
}

static enum transfer_toucher lane_toucher(
    const struct transfer_backend *backend, const char *lane)
{
    return transfer_backend_toucher(next_of(backend), lane);
}

static enum err authorise(struct transfer_backend *backend, uint64_t sender,
                          struct transfer_token token,
                          const struct transfer_range *ranges, size_t count)
{
    return transfer_backend_authorise(next_of(backend), sender, token, ranges,
                                      count);
}

static void revoke(struct transfer_backend *backend, uint64_t sender,
                   struct transfer_token token)
{
    transfer_backend_revoke(next_of(backend), sender, token);
}

static int fd(const struct transfer_backend *backend)
{
    return transfer_backend_fd(next_of(backend));
}

static enum err arm(struct transfer_backend *backend)
{
    return transfer_backend_arm(next_of(backend));
}

void transfer_decorator_init(struct transfer_decorator *decorator,
                             struct transfer_backend *next)
{
    decorator->next = next;
    decorator->ops = (struct transfer_backend_ops){
        .name = next->ops->name,
        .toucher = next->ops->toucher,
        .capabilities = next->ops->capabilities,
        .alloc = alloc,
        .free = free_pool,
        .adopt = adopt,
        .config = config,
        .export_pool = export_pool,
        .lane_toucher = lane_toucher,
        .authorise = authorise,
        .revoke = revoke,
        .fd = fd,
        .arm = arm,
    };
}

void transfer_decorator_begin(struct transfer_decorator *decorator)
{
    transfer_backend_init(&decorator->base, &decorator->ops);
}
