#include "transfer/decorate.h"

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
