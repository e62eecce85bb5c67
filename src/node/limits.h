#pragma once
/* node/limits: what a worker will hold, derived once from its config, the model
 * and the host; printed by `baton inspect`. Pure.
 *
 * Each life cycle of the model has a pool. One that keeps all tokens has
 * kv_tokens of them; a windowed one never more, and no more than a full batch
 * sees, twice over. The second level is divided as the first. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/worker.h"
#include "model/model.h"

/* Pages of one life cycle (kv/view.h). */
struct node_pool {
    uint64_t page_bytes;
    uint32_t page_count;
    uint32_t host_page_count; /* of the second level; 0: there is none */
    uint32_t window; /* tokens; 0: all of the sequence */
};

struct node_limits {
    uint32_t max_seq; /* tokens of prompt and answer together */
    uint32_t life_count;
    struct node_pool pools[KV_LIFE_COUNT_MAX];
    uint64_t pool_bytes; /* of all of them */
    uint64_t host_bytes;
    uint64_t bounce_bytes; /* behind the pools: transfer/bounce.h; 0: none */
    uint64_t kv_tokens; /* of a life cycle that keeps all; others keep less */
    uint32_t row_count_max; /* tokens of one batch */
    uint64_t logit_bytes; /* of a full batch */
    uint64_t history_bytes; /* tokens of all running sequences */
    uint32_t request_count_max;
    uint32_t event_count_max; /* places in the mailbox towards serve */
    uint64_t metadata_bytes; /* of the cache; 0: not measured */
};

/* Tokens of one batch: the model reserves for them before the rest is known. */
uint32_t node_limits_row_count(const struct config_worker *config);
/* `memory_bytes` of the host. ERR_INVALID: the field and the sums. */
MUST_USE enum err node_limits_of(const struct config_worker *config,
                                 const struct model_info *info,
                                 uint64_t memory_bytes, struct why *why,
                                 struct node_limits *limits_out);
/* Sets metadata_bytes. ERR_FULL: the pools hold no request, with the sums. */
MUST_USE enum err node_limits_measure(const struct config_worker *config,
                                      const struct kv_shape *shape,
                                      struct why *why,
                                      struct node_limits *limits);
void node_limits_describe(const struct node_limits *limits, struct buf *out);
/* Memory that this process may have: the host's, or less by its control group. */
uint64_t node_host_memory(void);
