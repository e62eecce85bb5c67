#pragma once
/* engine/engine: the thread that computes. It takes commands from serve and
 * reports from the transfer loop at the head of each turn, has the core
 * (engine/core.h) decide, runs the model, samples, and posts what came of it
 * in one post a turn.
 *
 *   serve ---- commands ---> [ engine thread: core, model, sampler ] --- events
 * ---> serve transfer -- reports ---> [                                     ]
 * --- commands -> transfer
 *
 * Life: start, post ENGINE_STOP, join, end the transfer loop, destroy: a peer
 * may still be writing into leased pages after the thread has ended, and the
 * page lists of running sessions are the engine's memory. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/port.h"
#include "engine/schedule.h"
#include "io/mailbox.h"
#include "kv/view.h"
#include "model/model.h"
#include "transfer/port.h"

enum { ENGINE_END_TOKEN_COUNT_MAX = 16, ENGINE_SESSION_COUNT_MAX = 256 };

struct engine;

struct engine_options {
    /* All outlive the engine. The pools are set on the model by engine_start. */
    struct model *model;
    /* One a life cycle of the model's shape; the layout gives tokens a block. */
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX];
    /* The level below, where suspended and cached pages go; page_count 0: none. */
    struct kv_pool_view host_pools[KV_LIFE_COUNT_MAX];
    struct engine_port port;
    /* Both mailboxes NULL: no transfer, disaggregated kinds are refused. Live
     * sessions are at most a quarter of the reports mailbox's capacity (of one
     * session at most four reports lie there at a time), and
     * ENGINE_SESSION_COUNT_MAX. */
    struct transfer_port transfer;
    struct io_waker *waker; /* of port.commands and transfer.reports */
    struct engine_stats_cell *stats;

    uint32_t max_batch; /* choices that run at the same time */
    uint32_t max_seq; /* tokens of prompt and answer together */
    uint32_t row_count_max; /* tokens of one batch; at least max_batch + 16,
                           * and no more than the model was made for */
    uint32_t chunk_tokens; /* tokens a turn; 0: adapts to turn_ns_max */
    uint64_t turn_ns_max;
    uint32_t queue_limit; /* requests that wait */
    uint64_t kv_transfer_timeout_ns;
    bool is_mixed; /* sends and receives: each leaves the other room */

    uint32_t vocab_size;
    const int32_t *end_tokens; /* copied */
    uint32_t end_token_count; /* <= ENGINE_END_TOKEN_COUNT_MAX */
    bool enable_block_reuse;
    bool enable_partial_reuse; /* of a block, too */
    bool is_reuse_per_request; /* only a prompt's end is worth keeping */
    uint8_t offload_priority_min; /* below: dropped, not moved down */
    uint32_t cache_event_max; /* kept until asked for; 0: none */
    enum sched_policy policy;
    bool is_shortest_first; /* pending prompts; else by arrival */
    bool enable_prefix_waits; /* for a prefix that is being computed */
    /* A turn is decided while the model computes the one before (engine.md 5.3),
     * on a thread of its own. */
    bool is_overlapped;
    /* Where several ranks run together: asked once a turn by each, may a batch
     * run? NULL: nobody else is asked. */
    bool (*vote)(void *context, bool can_run);
    void *vote_context;
};

/* ERR_INVALID names the field. The thread runs when this returns OK. */
MUST_USE enum err engine_start(const struct engine_options *options,
                               struct why *why, struct engine **engine_out);
/* Waits for the thread's end: an ENGINE_STOP was or will be posted. The last
 * event is ENGINE_EVENT_STOPPED. */
void engine_join(struct engine *engine);
/* After join, and after the transfer loop has ended. NULL is fine. */
void engine_destroy(struct engine *engine);
