#include "node/backend.h"

#include <string.h>

#include "base/log.h"
#include "transfer/backend_auto.h"
#include "transfer/backend_inproc.h"
#include "transfer/backend_rdma.h"
#include "transfer/backend_tcp.h"
#include "transfer/backend_trace.h"
#include "transfer/backend_ucx.h"

enum { PRINTED_MAX = 64 };

static bool is_rdma(const struct config_worker *config)
{
    return strcmp(config->backend, "rdma") == 0;
}

static enum err name_key(const struct config_worker *config, enum err err,
                         struct why *why)
{
    return err ? why_prefix(why, err, "cache_transceiver_config.backend %s",
                            config->backend)
               : OK;
}

/* Peers of this process only: itself. One mixed worker needs no more. */
static enum err open_inproc(struct node_backend *node, uint64_t incarnation,
                            struct why *why)
{
    node->hub = transfer_inproc_hub_create();
    enum err err =
        transfer_backend_inproc_create(node->hub, incarnation, &node->backend);
    return err ? why_say(why, err, "inproc backend") : OK;
}

static enum err open_ucx(uint64_t incarnation, struct why *why,
                         struct transfer_backend **backend_out)
{
    struct transfer_backend_ucx_options options = {.incarnation = incarnation};
    return transfer_backend_ucx_create(&options, why, backend_out);
}

static enum err open_tcp(const struct config_worker *config,
                         uint64_t incarnation, struct span key, struct why *why,
                         struct transfer_backend **backend_out)
{
    struct transfer_backend_tcp_options options = {
        .incarnation = incarnation,
        .host = config->host,
        .advertise = config->advertise[0] == 0 ? NULL : config->advertise,
        .port = (uint16_t)config->data_port,
        .key = key,
    };
    return transfer_backend_tcp_create(&options, why, backend_out);
}

static enum err open_rdma(uint64_t incarnation, struct span key,
                          struct why *why,
                          struct transfer_backend **backend_out)
{
    struct transfer_backend_rdma_options options = {.incarnation = incarnation,
                                                    .key = key};
    return transfer_backend_rdma_create(&options, why, backend_out);
}

/* Without shared memory a worker still has all the others. */
static enum err open_near_and(struct transfer_backend *far,
                              uint64_t incarnation, struct why *why,
                              struct transfer_backend **backend_out)
{
    struct transfer_backend *near = NULL;
    struct why near_why = {{0}};
    if (open_ucx(incarnation, &near_why, &near)) {
        log_warn("worker", "KV moves by %s only: %s",
                 transfer_backend_name(far), near_why.text);
        near = NULL;
    }
    return transfer_backend_auto_create(near, far, why, backend_out);
}

static enum err open_auto(const struct config_worker *config,
                          uint64_t incarnation, struct span key,
                          struct why *why,
                          struct transfer_backend **backend_out)
{
    struct transfer_backend *far = NULL;
    enum err err = is_rdma(config)
                       ? open_rdma(incarnation, key, why, &far)
                       : open_tcp(config, incarnation, key, why, &far);
    return err ? err : open_near_and(far, incarnation, why, backend_out);
}

static enum err open_body(const struct config_worker *config,
                          uint64_t incarnation, struct span key,
                          struct why *why, struct node_backend *node)
{
    const char *name = config->backend;
    enum err err;
    if (strcmp(name, "inproc") == 0) {
        err = open_inproc(node, incarnation, why);
    } else if (strcmp(name, "ucx") == 0) {
        err = open_ucx(incarnation, why, &node->backend);
    } else if (strcmp(name, "tcp") == 0) {
        err = open_tcp(config, incarnation, key, why, &node->backend);
    } else {
        err = open_auto(config, incarnation, key, why, &node->backend);
    }
    return name_key(config, err, why);
}

enum err node_backend_check(const struct config_worker *config, struct why *why)
{
    return name_key(
        config, is_rdma(config) ? transfer_backend_rdma_look(why) : OK, why);
}

/* Never by accident: only when the config says so, and then loudly. */
static void add_faults(const struct config_worker *config,
                       struct node_backend *node)
{
    if (config->fault_corrupt_ppm == 0 && config->fault_link_bytes == 0) {
        return;
    }
    log_warn("worker",
             "cache_transceiver_config: faults are on: %u of a million writes "
             "corrupted, %llu bytes a second",
             config->fault_corrupt_ppm,
             (unsigned long long)config->fault_link_bytes);
    node->fault.corrupt_ppm = config->fault_corrupt_ppm;
    node->fault.link_bytes_per_second = config->fault_link_bytes;
    node->fault.seed = config->fault_seed;
    node->backend = transfer_backend_fault_create(node->backend, &node->fault);
}

enum err node_backend_open(const struct config_worker *config,
                           uint64_t incarnation, struct span key,
                           struct why *why, struct node_backend *backend_out)
{
    struct node_backend *node = backend_out;
    enum err err = open_body(config, incarnation, key, why, node);
    if (err) {
        return err;
    }
    add_faults(config, node);
    node->trace = transfer_trace_create();
    node->backend = transfer_backend_trace_create(node->backend, node->trace);
    return OK;
}

void node_backend_close(struct node_backend *node)
{
    transfer_backend_destroy(node->backend);
    transfer_trace_destroy(node->trace);
    transfer_inproc_hub_destroy(node->hub);
    node->backend = NULL;
    node->trace = NULL;
    node->hub = NULL;
}

void node_backend_print(const struct node_backend *node, struct buf *out)
{
    if (node->trace == NULL) {
        buf_add_string(out, "[]");
        return;
    }
    transfer_trace_print(node->trace, PRINTED_MAX, out);
}
