#pragma once
/* engine/stream: computes batches in order, forward pass and sampling, for the
 * shell. With overlap on a thread of its own, so that the core decides while the
 * model runs; else when the result is asked for, on the asker's.
 *
 *   plan --launch--> [ at most 2, in order ] --collect--> results, or why none
 *
 * Before a batch begins it is fed with what the one before gave, which may not
 * have been collected yet. What follows a batch that failed, launched before that
 * one was collected, is not computed: it would build on it.
 *
 * One owner (the engine's thread). With a thread, that one alone runs the model
 * and the sampler. */
#include "base/err.h"
#include "engine/core.h"

struct engine_stream;

struct engine_stream_options {
    struct model *model; /* outlives it */
    uint32_t vocab_size;
    uint32_t logit_row_max, job_max; /* of one batch */
    bool is_threaded;
};
/* ERR_NO_MEMORY: the logits; what io_thread_start says. */
MUST_USE enum err engine_stream_create(
    const struct engine_stream_options *options, struct why *why,
    struct engine_stream **stream_out);
/* Waits for what runs. NULL is fine. */
void engine_stream_destroy(struct engine_stream *stream);

/* The plan stays as it is until it is collected, and is the caller's. `cancel`
 * (model/model.h) may be NULL. At most 2 between launch and collect, without a
 * thread 1. */
void engine_stream_launch(struct engine_stream *stream,
                          const struct engine_plan *plan,
                          const atomic_bool *cancel);
uint32_t engine_stream_count(const struct engine_stream *stream);

struct engine_computed {
    const struct engine_plan *plan;
    /* (job_count), until the launch after the next one. */
    const struct sampler_result *results;
    enum err err; /* of model->ops->forward; ERR_CANCELLED: skipped, too */
};
/* Waits for the oldest one. */
struct engine_computed engine_stream_collect(struct engine_stream *stream);
