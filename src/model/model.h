#pragma once
/* model/model: a table with two bodies. `cpu` runs a GGUF file; `hash` answers
 * with an integer hash of the tokens that it wrote into and reads back from the
 * pages, so that simulation and tests know each answer beforehand and one wrong
 * page shows at once.
 *
 * A batch is a list of runs: consecutive tokens of one sequence, a prefill
 * chunk or a single decode. `forward` writes each token's K and V into its pages
 * through the run's block tables, attends in place, and gives logits for the
 * last `logit_count` tokens of each run, packed in run order.
 *
 * Layers belong to life cycles (kv/view.h), each with pages and a block table of
 * its own. Of a windowed one's table only the blocks that a query of the run can
 * see are read, and those that its tokens are written to: sinks, and from
 * position + 1 - window on; the rest may be KV_PAGE_NONE.
 *
 * Same bits, whatever the batch: a row of logits depends only on the tokens
 * before it, never on the other rows, the chunking, the pages or the threads.
 *
 * One owner thread (the engine's); the team of compute threads is inside. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf/gguf.h"
#include "kv/view.h"

struct model;

struct model_info {
    char architecture[32];
    uint32_t vocab_size;
    uint32_t context_length; /* what the file says */
    struct kv_shape shape; /* tokens_per_block as asked for */
    uint64_t parameter_count;
    uint64_t weight_bytes;
};

struct model_run {
    const int32_t *tokens; /* token_count ids */
    uint32_t token_count;
    uint32_t position; /* of the first one: 0 is the sequence's start */
    /* Block tables, one a life cycle: each covers position + token_count. */
    const kv_page_id *pages[KV_LIFE_COUNT_MAX];
    uint32_t logit_count; /* 0 .. token_count */
};

struct model_batch {
    const struct model_run *runs;
    uint32_t run_count;
    /* Looked at between layers; when set, forward gives up with ERR_CANCELLED
     * and the pages of this batch's tokens hold nothing of use. May be NULL. */
    const atomic_bool *cancel;
};

struct model_ops {
    const char *name;
    void (*destroy)(struct model *model);
    /* `logits_out`: (sum of logit_count, vocab_size). ERR_CANCELLED, ERR_FULL
     * (more rows than row_count_max). */
    enum err (*forward)(struct model *model, const struct model_batch *batch,
                        float *logits_out);
    /* Where the pages lie, a view a life cycle of info.shape; set once before
     * the first forward. */
    void (*set_pool)(struct model *model, const struct kv_pool_view *pools);
};

/* Base of each body; first member. */
struct model {
    const struct model_ops *ops;
    struct model_info info;
};

struct model_cpu_options {
    const struct gguf *gguf; /* outlives the model; weights stay in its map */
    uint32_t tokens_per_block;
    uint32_t thread_count;
    uint32_t row_count_max; /* tokens in one batch */
    uint32_t context_max; /* longest sequence that will be asked for */
    bool reference_ops; /* --ops ref */
};
/* ERR_UNSUPPORTED names architecture, key or tensor; ERR_INVALID a shape. */
MUST_USE enum err model_cpu_create(const struct model_cpu_options *options,
                                   struct why *why, struct model **model_out);

struct model_hash_options {
    uint32_t vocab_size;
    uint32_t context_length;
    uint32_t layer_count; /* of each life cycle */
    uint32_t tokens_per_block;
    uint64_t seed;
    uint32_t life_count; /* 0: one that sees all */
    struct kv_life lives[KV_LIFE_COUNT_MAX];
};
struct model *model_hash_create(const struct model_hash_options *options);
/* The token the hash body's greedy choice gives after `tokens`: of what every
 * life cycle lets the last of them see. */
int32_t model_hash_next(const struct model_hash_options *options,
                        const int32_t *tokens, uint32_t token_count);

/* The same for a whole answer, without beginning anew at each token: `token_max`
 * at most are added; `next` is what comes after those that were. */
struct model_hash_walk;
struct model_hash_walk *model_hash_walk_create(
    const struct model_hash_options *options, uint32_t token_max);
void model_hash_walk_destroy(struct model_hash_walk *walk);
void model_hash_walk_add(struct model_hash_walk *walk, int32_t token);
int32_t model_hash_walk_next(const struct model_hash_walk *walk);

/* KV bytes that attention copied so far; stays zero (exported as a metric). */
uint64_t model_copied_kv_bytes(void);
