#include "transfer/hello.h"

#include <stdio.h>
#include <string.h>

#include "transfer/bounce.h"
#include "wire/bytes.h"

/* Writes the list of layers to `layers`, whose memory keeps it. */
static void describe_group(struct wire_group *out,
                           const struct transfer_options *options,
                           const struct transfer_group *group,
                           struct buf *layers)
{
    const struct kv_pool_view *pool = &group->pool;
    *out = (struct wire_group){
        .window = group->life.window,
        .sink_tokens = group->life.sink_tokens,
        .layer_count = pool->layout.layer_count,
        .kv_head_count = pool->layout.kv_head_count,
        .head_dim = pool->layout.head_dim,
        .tokens_per_block = pool->layout.tokens_per_block,
        .element_bytes = pool->layout.element_bytes,
        .page_count = pool->page_count,
        .page_bytes = pool->page_bytes,
        .base_offset = (uint64_t)(pool->base - options->memory),
    };
    buf_init(layers, 2 * WIRE_LAYER_COUNT_MAX);
    uint32_t count = group->layers == NULL ? 0 : pool->layout.layer_count;
    for (uint32_t i = 0; i < count; i++) {
        wire_write_u16(layers, group->layers[i]);
    }
    out->layers = buf_span(layers);
}

static enum err describe_memory(struct hello *hello,
                                const struct transfer_options *options,
                                struct why *why)
{
    struct wire_rank_info *info = &hello->info;
    info->memory_bytes = options->memory_size;
    if (options->bounce.size != 0) {
        info->bounce_offset = options->bounce.offset;
        info->bounce_bytes = bounce_usable(&options->bounce);
        info->bounce_chunk_bytes = bounce_chunk_max(&options->bounce);
    }
    info->group_count = options->group_count;
    for (uint32_t i = 0; i < options->group_count; i++) {
        describe_group(&info->groups[i], options, &options->groups[i],
                       &hello->layers[i]);
        if (buf_error(&hello->layers[i])) {
            return why_say(why, ERR_INVALID, "transfer pool %u: %u layers", i,
                           info->groups[i].layer_count);
        }
    }
    return transfer_backend_export(options->backend, options->memory,
                                   options->memory_size, why, &hello->blob);
}

enum err hello_init(struct hello *hello, const struct transfer_options *options,
                    const char *endpoint, struct why *why)
{
    *hello = (struct hello){0};
    enum err err = OK;
    if (options->identity != NULL) {
        hello->identity = *options->identity;
    } else {
        err = transfer_identity_read(why, &hello->identity);
    }
    if (err) {
        return err;
    }
    hello->marks = options->marks;
    struct wire_rank_info *info = &hello->info;
    *info = (struct wire_rank_info){
        .model_mark = span_of(hello->marks.model, WIRE_MARK_SIZE),
        .tokenizer_mark = span_of(hello->marks.tokenizer, WIRE_MARK_SIZE),
        .incarnation = options->incarnation,
        .instance_size = 1,
        .tp_size = 1,
        .pp_size = 1,
        .dp_size = 1,
        .cp_size = 1,
        .pid = hello->identity.pid,
        .started = hello->identity.started,
    };
    snprintf(info->endpoint, sizeof(info->endpoint), "%s", endpoint);
    memcpy(info->host, hello->identity.host, sizeof(info->host));
    snprintf(info->backend, sizeof(info->backend), "%s",
             transfer_backend_name(options->backend));
    snprintf(info->backend_config, sizeof(info->backend_config), "%s",
             transfer_backend_config(options->backend));
    buf_init(&hello->blob, TRANSFER_BLOB_SIZE_MAX);
    err = describe_memory(hello, options, why);
    if (err) {
        hello_finish(hello);
    }
    return err;
}

void hello_finish(struct hello *hello)
{
    buf_finish(&hello->blob);
    for (uint32_t i = 0; i < hello->info.group_count; i++) {
        buf_finish(&hello->layers[i]);
    }
    hello->info.group_count = 0;
}

struct transfer_identity hello_identity(const struct wire_rank_info *info)
{
    struct transfer_identity identity = {.pid = info->pid,
                                         .started = info->started};
    memcpy(identity.host, info->host, sizeof(identity.host));
    return identity;
}

static enum err check_reach(uint32_t can, const char *backend,
                            const struct wire_rank_info *sender,
                            const struct wire_rank_info *receiver,
                            struct why *why)
{
    bool is_same_host = strcmp(sender->host, receiver->host) == 0;
    if (!is_same_host && !(can & TRANSFER_CAN_HOST)) {
        return why_say(why, ERR_UNSUPPORTED,
                       "host: backend %s stays on one host, '%s' at the "
                       "sender, '%s' at the receiver",
                       backend, sender->host, receiver->host);
    }
    bool is_same_process = is_same_host && sender->pid == receiver->pid;
    if (!is_same_process && !(can & TRANSFER_CAN_PROCESS)) {
        return why_say(why, ERR_UNSUPPORTED,
                       "pid: backend %s stays in one process", backend);
    }
    return OK;
}

enum err hello_check(const struct hello *hello,
                     const struct transfer_backend *backend,
                     const struct wire_rank_info *theirs, bool are_they_sender,
                     struct why *why)
{
    const struct wire_rank_info *ours = &hello->info;
    const struct wire_rank_info *sender = are_they_sender ? theirs : ours;
    const struct wire_rank_info *receiver = are_they_sender ? ours : theirs;
    if (theirs->incarnation == 0) {
        return why_say(why, ERR_UNSUPPORTED, "incarnation: is 0");
    }
    enum err err = wire_rank_info_compare(sender, receiver, why);
    return err ? err
               : check_reach(backend->ops->capabilities, backend->ops->name,
                             sender, receiver, why);
}
