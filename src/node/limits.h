#pragma once
/* node/limits: what a worker will hold, derived once from its config, the model
 * and the host; printed by `baton inspect`. Pure. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/worker.h"
#include "model/model.h"

struct node_limits {
    uint32_t max_seq; /* tokens of prompt and answer together */
    uint32_t page_count; /* KV pages */
    uint64_t page_bytes;
    uint64_t pool_bytes;
    uint32_t row_count_max; /* tokens of one batch */
    uint64_t logit_bytes; /* of a full batch */
    uint64_t history_bytes; /* tokens of all running sequences */
    uint32_t request_count_max;
    uint32_t event_count_max; /* places in the mailbox towards serve */
};

/* Tokens of one batch: the model reserves for them before the rest is known. */
uint32_t node_limits_row_count(const struct config_worker *config);
/* `memory_bytes` of the host. ERR_INVALID: the field and the sums. */
MUST_USE enum err node_limits_of(const struct config_worker *config,
                                 const struct model_info *info,
                                 uint64_t memory_bytes, struct why *why,
                                 struct node_limits *limits_out);
void node_limits_describe(const struct node_limits *limits, struct buf *out);
/* Memory of this host. */
uint64_t node_host_memory(void);
