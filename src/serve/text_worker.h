#pragma once
/* serve/text_worker: the thread that turns text into ids and back, so that a
 * long prompt never holds up the streams.
 *
 *   loop --- job ---> [mailbox] ---> worker ---> [mailbox] --- job ---> loop
 *
 * A job belongs to the worker between post and on_done; what it reads must
 * not change meanwhile. Jobs come back in order, each exactly once. */
#include <stdint.h>

#include "api/openai_request.h"
#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct serve_text_job {
    const struct openai_request *body; /* prompt, messages or tokens */
    /* Filled by the worker. */
    enum err error; /* ERR_INVALID: `why` names the field */
    struct why why;
    int32_t *ids; /* heap, the poster's */
    uint32_t id_count;
    struct buf text; /* of tokens; to be finished by the poster */
};

struct serve_text_worker;
struct serve_text_options {
    struct io_loop *loop;
    const struct text_tokenizer *tokenizer;
    const struct text_chat *chat; /* NULL: no job may hold messages */
    uint32_t id_count_max; /* longest prompt, before any cut */
    uint32_t job_count_max; /* out at the same time */
    void (*on_done)(void *context, struct serve_text_job *job);
    void *context;
};
MUST_USE enum err serve_text_worker_open(
    const struct serve_text_options *options,
    struct serve_text_worker **worker_out);
/* The caller keeps within job_count_max: then there is always room. */
void serve_text_worker_post(struct serve_text_worker *worker,
                            struct serve_text_job *job);
/* Waits for the job in work; jobs not done yet come back by on_done with
 * ERR_CLOSED, from inside this call. NULL is fine. */
void serve_text_worker_close(struct serve_text_worker *worker);
/* The work itself, on any thread. */
void serve_text_run(const struct serve_text_options *options,
                    struct serve_text_job *job);
