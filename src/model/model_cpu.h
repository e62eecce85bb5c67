#pragma once
/* model/model_cpu: what the files of the CPU body share; nobody else includes
 * it. The model is built once, a plan is made for each batch, and the pass runs
 * the plan on all threads of the team.
 *
 *   batch --plan--> rows, pieces, tail --pass--> logits
 *
 * All memory is reserved at creation for row_count_max rows. */
#include <stdint.h>

#include "io/thread.h"
#include "model/model.h"
#include "model/ops.h"
#include "model/rope.h"
#include "model/weights.h"

/* Matrices that read the same input: at most q, k and v. */
enum { MODEL_CPU_SLOT_COUNT = 3 };

/* One token of the batch. */
struct model_cpu_row {
    int32_t token;
    uint32_t position;
    const struct model_run *run; /* for its block tables */
};

/* Consecutive rows of one run that attend together. */
struct model_cpu_piece {
    uint32_t first_row;
    uint32_t row_count;
};

struct model_cpu_plan {
    uint32_t row_count;
    struct model_cpu_row *rows; /* (row_count), in run order */
    uint32_t piece_count;
    struct model_cpu_piece *pieces; /* all rows */
    /* The last layer is finished only for rows that need logits. */
    uint32_t tail_count;
    uint32_t *tail_rows; /* (tail_count) indices of rows, ascending */
    uint32_t tail_piece_count;
    struct model_cpu_piece *tail_pieces; /* the tail's rows only */
};

/* Activations; all arrays have row_count_max rows. */
struct model_cpu_space {
    float *residual; /* (row, dim) */
    float *delta; /* (row, dim) */
    float *query; /* (row, head, head_dim) */
    float *key; /* (row, kv_head, head_dim) */
    float *value; /* (row, kv_head, head_dim) */
    float *attended; /* (row, head, head_dim) */
    float *gate; /* (row, ffn_dim) */
    float *up; /* (row, ffn_dim) */
    float *angles; /* (row, rope, 2, rope pair) */
    uint8_t *prepared[MODEL_CPU_SLOT_COUNT];
    float *normed; /* (thread, dim) */
    float *scratch; /* (thread, scratch_size) */
};

struct model_cpu {
    struct model base;
    struct model_weights weights;
    struct model_rope ropes[2]; /* [1]: of windowed layers, where they differ */
    uint32_t rope_count;
    const struct ops *ops;
    struct io_team *team;
    uint32_t thread_count;
    uint32_t row_count_max;
    uint32_t context_max;
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX];
    struct model_cpu_plan plan;
    struct model_cpu_space space;
    size_t prepared_bytes[MODEL_CPU_SLOT_COUNT]; /* a row, at most */
    size_t scratch_size; /* floats a thread */
    uint8_t *memory; /* space and plan lie in it */
};

/* Gives each of `count` matrices the slot of its prepared input: those of one
 * type share. Returns the slots used. */
uint32_t model_cpu_assign_slots(const struct ops_matrix *const *matrices,
                                uint32_t count, uint32_t *slots_out);

/* model_cpu_create with a body of arithmetic of the caller's choice; the one
 * named by options is not looked at. For tests of all bodies. */
MUST_USE enum err model_cpu_create_with(const struct model_cpu_options *options,
                                        const struct ops *ops, struct why *why,
                                        struct model **model_out);

/* Reserves plan and space. ERR_NO_MEMORY. */
MUST_USE enum err model_cpu_reserve(struct model_cpu *cpu);

/* Fills cpu->plan. ERR_FULL: more rows than row_count_max. ERR_INVALID: a
 * token outside the vocabulary, a position past context_max, or more logits
 * than tokens. */
MUST_USE enum err model_cpu_make_plan(struct model_cpu *cpu,
                                      const struct model_batch *batch);

/* Runs the plan. ERR_CANCELLED. */
MUST_USE enum err model_cpu_run(struct model_cpu *cpu,
                                const struct model_batch *batch,
                                float *logits_out);
