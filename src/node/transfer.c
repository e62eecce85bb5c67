#include "node/transfer.h"

#include <string.h>

#include "io/allow.h"
#include "io/loop.h"
#include "io/thread.h"
#include "transfer/peers.h"

enum err node_transfer_allow(const struct config_worker *config,
                             struct why *why,
                             struct node_transfer *transfer_out)
{
    enum err err =
        config->allowed_peer_hosts[0] == 0
            ? OK
            : io_allow_create(span_of_string(config->allowed_peer_hosts), why,
                              &transfer_out->allow);
    return err ? why_prefix(why, err,
                            "`cache_transceiver_config.allowed_peer_hosts`")
               : OK;
}

static struct transfer_options options_of(const struct config_worker *config,
                                          const struct node_pools *pools,
                                          const struct node_model_file *file)
{
    struct kv_pool_view views[KV_LIFE_COUNT_MAX] = {0};
    struct kv_pool_view host_views[KV_LIFE_COUNT_MAX];
    const struct kv_shape *shape = &file->model->info.shape;
    node_pools_views(pools, &file->limits, shape, views, host_views);
    struct transfer_options options = {
        .memory = pools->memory.base,
        .memory_size = pools->memory.size,
        .group_count = shape->life_count,
        .host = config->host,
        .advertise = config->advertise[0] == 0 ? NULL : config->advertise,
        .listen_port = (uint16_t)config->transfer_port,
        .grace_ns = config->kv_transfer_timeout_ms * 1000000u,
    };
    node_pools_bounce(&file->limits, &options.bounce.offset,
                      &options.bounce.size);
    options.bounce.is_forced = config->bounce_forced;
    const struct node_marks *marks = &file->marks;
    memcpy(options.marks.model, marks->model, sizeof(marks->model));
    memcpy(options.marks.tokenizer, marks->tokenizer, sizeof(marks->tokenizer));
    for (uint32_t i = 0; i < shape->life_count; i++) {
        options.groups[i] =
            (struct transfer_group){.pool = views[i], .life = shape->lives[i]};
    }
    return options;
}

static void run(void *context)
{
    io_loop_run(context);
}

enum err node_transfer_open(const struct config_worker *config,
                            uint64_t incarnation, struct span key,
                            struct transfer_backend *backend,
                            const struct node_pools *pools,
                            const struct node_model_file *file,
                            const struct node_mailboxes *boxes, struct why *why,
                            struct node_transfer *transfer_out)
{
    struct node_transfer *self = transfer_out;
    struct transfer_options options = options_of(config, pools, file);
    enum err code = io_loop_create(&self->loop);
    self->peers = transfer_peers_create();
    options.peers = self->peers;
    options.allow = self->allow;
    options.loop = self->loop;
    options.backend = backend;
    options.incarnation = incarnation;
    options.key = key;
    options.port =
        (struct transfer_port){boxes->transfer_commands, boxes->reports};
    options.commands_waker = boxes->transfer_waker;
    code = code ? code : transfer_create(&options, why, &self->transfer);
    return code ? code
                : io_thread_start("transfer", run, self->loop, &self->thread);
}

bool node_transfer_stop(struct node_transfer *transfer)
{
    if (transfer->thread != NULL) {
        io_loop_stop(transfer->loop);
        io_thread_join(transfer->thread);
    }
    return transfer_destroy(transfer->transfer) == OK;
}

void node_transfer_close(struct node_transfer *transfer)
{
    if (transfer->loop != NULL) {
        io_loop_destroy(transfer->loop);
    }
    io_allow_destroy(transfer->allow);
    transfer_peers_destroy(transfer->peers);
}
