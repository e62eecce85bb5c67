#include "engine/stream.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/mailbox.h"
#include "io/thread.h"

enum { DEPTH = 2, MAILBOX_SIZE = 4, SLEEP_NS = 1000000000 };

/* A batch on its way through; what it gave stays for the next but one. */
struct flight {
    const struct engine_plan *plan; /* NULL: end of the thread */
    const atomic_bool *cancel;
    bool is_first; /* nothing was before it that may still fail */
    uint32_t slot;
    enum err err;
};

struct engine_stream {
    struct engine_stream_options options;
    struct sampler *sampler;
    float *logits; /* (logit_row_max, vocab_size) */
    float *scratch; /* (vocab_size) of a row that several choices share */
    struct sampler_result *results[DEPTH]; /* (job_max) each */
    enum err last_err; /* of the one computed last */

    /* the owner's */
    uint64_t launched, collected;
    struct flight own[DEPTH]; /* without a thread: what waits */

    struct io_thread *thread;
    struct io_waker *work_waker, *done_waker;
    struct io_mailbox *work, *done; /* struct flight */
};

/* Sampling changes its row: whoever shares one works on a copy. */
static void do_job(struct engine_stream *stream, const struct engine_job *job,
                   struct sampler_result *result_out)
{
    size_t vocab = stream->options.vocab_size;
    float *row = stream->logits + job->row * vocab;
    if (job->is_score) {
        sampler_score(stream->sampler, row, job->target,
                      job->input.logprob_count, result_out);
        return;
    }
    struct sampler_input input = job->input;
    input.logits = stream->scratch;
    memcpy(stream->scratch, row, vocab * sizeof(row[0]));
    sampler_run(stream->sampler, job->options, &input, result_out);
}

static enum err compute(struct engine_stream *stream,
                        const struct flight *flight)
{
    const struct engine_plan *plan = flight->plan;
    struct model *model = stream->options.model;
    struct model_batch batch = {.runs = plan->runs,
                                .run_count = plan->run_count,
                                .cancel = flight->cancel};
    if (!flight->is_first && stream->last_err != OK) {
        return ERR_CANCELLED;
    }
    engine_plan_feed(plan, stream->results[(flight->slot + 1) % DEPTH]);
    enum err err = model->ops->forward(model, &batch, stream->logits);
    for (uint32_t i = 0; err == OK && i < plan->job_count; i++) {
        do_job(stream, &plan->jobs[i], &stream->results[flight->slot][i]);
    }
    return err;
}

static void run(void *context)
{
    struct engine_stream *stream = context;
    struct flight flight;
    for (;;) {
        while (!io_mailbox_take(stream->work, &flight)) {
            io_waker_wait(stream->work_waker, SLEEP_NS);
        }
        if (flight.plan == NULL) {
            return;
        }
        flight.err = compute(stream, &flight);
        stream->last_err = flight.err;
        CHECK(io_mailbox_post(stream->done, &flight) == OK);
    }
}

static enum err create_buffers(struct engine_stream *stream, struct why *why)
{
    const struct engine_stream_options *options = &stream->options;
    size_t vocab = options->vocab_size;
    size_t rows = options->logit_row_max;
    stream->sampler = sampler_create(options->vocab_size);
    stream->scratch = mem_new_array(vocab, sizeof(float));
    for (uint32_t i = 0; i < DEPTH; i++) {
        stream->results[i] =
            mem_new_array(options->job_max, sizeof(stream->results[i][0]));
    }
    stream->logits = mem_try_aligned(64, rows * vocab * sizeof(float));
    if (stream->logits == NULL) {
        return why_say(why, ERR_NO_MEMORY,
                       "no memory for the logits of %zu rows of %zu", rows,
                       vocab);
    }
    return OK;
}

static enum err create_mailbox(struct io_waker **waker_out,
                               struct io_mailbox **mailbox_out)
{
    enum err err = io_waker_create(waker_out);
    struct io_mailbox_options options = {.message_size = sizeof(struct flight),
                                         .capacity = MAILBOX_SIZE,
                                         .waker = *waker_out};
    return err == OK ? io_mailbox_create(&options, mailbox_out) : err;
}

static enum err start_thread(struct engine_stream *stream, struct why *why)
{
    enum err err = create_mailbox(&stream->work_waker, &stream->work);
    if (err == OK) {
        err = create_mailbox(&stream->done_waker, &stream->done);
    }
    if (err == OK) {
        err = io_thread_start("compute", run, stream, &stream->thread);
    }
    return err == OK ? OK
                     : why_say(why, err, "no thread for the forward passes");
}

enum err engine_stream_create(const struct engine_stream_options *options,
                              struct why *why,
                              struct engine_stream **stream_out)
{
    struct engine_stream *stream = mem_new(sizeof(*stream));
    stream->options = *options;
    enum err err = create_buffers(stream, why);
    if (err == OK && options->is_threaded) {
        err = start_thread(stream, why);
    }
    if (err != OK) {
        engine_stream_destroy(stream);
        return err;
    }
    *stream_out = stream;
    return OK;
}

void engine_stream_destroy(struct engine_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->thread != NULL) {
        CHECK(io_mailbox_post(stream->work, &(struct flight){0}) == OK);
        io_thread_join(stream->thread);
    }
    io_mailbox_destroy(stream->work);
    io_mailbox_destroy(stream->done);
    io_waker_destroy(stream->work_waker);
    io_waker_destroy(stream->done_waker);
    for (uint32_t i = 0; i < DEPTH; i++) {
        mem_free(stream->results[i]);
    }
    sampler_destroy(stream->sampler);
    mem_free(stream->logits);
    mem_free(stream->scratch);
    mem_free(stream);
}

uint32_t engine_stream_count(const struct engine_stream *stream)
{
    return (uint32_t)(stream->launched - stream->collected);
}

void engine_stream_launch(struct engine_stream *stream,
                          const struct engine_plan *plan,
                          const atomic_bool *cancel)
{
    uint32_t count = engine_stream_count(stream);
    uint32_t slot = (uint32_t)(stream->launched++ % DEPTH);
    CHECK(count < (stream->thread == NULL ? 1 : DEPTH));
    struct flight flight = {
        .plan = plan, .cancel = cancel, .is_first = count == 0, .slot = slot};
    stream->own[slot] = flight;
    if (stream->thread != NULL) {
        CHECK(io_mailbox_post(stream->work, &flight) == OK);
    }
}

struct engine_computed engine_stream_collect(struct engine_stream *stream)
{
    CHECK(stream->collected < stream->launched);
    struct flight flight = stream->own[stream->collected++ % DEPTH];
    if (stream->thread == NULL) {
        flight.err = compute(stream, &flight);
    } else {
        while (!io_mailbox_take(stream->done, &flight)) {
            io_waker_wait(stream->done_waker, SLEEP_NS);
        }
    }
    return (struct engine_computed){.plan = flight.plan,
                                    .results = stream->results[flight.slot],
                                    .err = flight.err};
}
