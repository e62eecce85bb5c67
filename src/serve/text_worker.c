#include "serve/text_worker.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/mailbox.h"
#include "io/thread.h"

enum { TEXT_SIZE_MAX = 256 << 20 };

struct serve_text_worker {
    struct serve_text_options options;
    struct io_waker *job_waker, *done_waker;
    struct io_mailbox *jobs, *done; /* struct serve_text_job * */
    struct io_thread *thread;
};

/* A prompt has hardly ever more ids than bytes; a few for BOS and a space. */
static enum err encode(const struct serve_text_options *options,
                       struct span text, const struct text_encode_options *how,
                       struct serve_text_job *job)
{
    size_t count = 0;
    size_t room = text.size + 16;
    room = room < options->id_count_max ? room : options->id_count_max;
    int32_t *ids = mem_try_array(room, sizeof(*ids));
    if (ids == NULL) {
        return why_say(&job->why, ERR_NO_MEMORY, "no memory for the prompt");
    }
    enum err err =
        text_encode(options->tokenizer, text, how, ids, room, &count);
    if (err != OK) {
        mem_free(ids);
        return why_say(&job->why, ERR_INVALID,
                       "prompt: has more than %zu tokens", room);
    }
    job->ids = ids;
    job->id_count = (uint32_t)count;
    return OK;
}

static enum err encode_prompt(const struct serve_text_options *options,
                              struct serve_text_job *job)
{
    const struct text_encode_options how = {
        .add_special = job->body->add_special_tokens,
        .parse_special = true,
    };
    return encode(options, openai_text(job->body, job->body->prompt), &how,
                  job);
}

static enum err render_chat(const struct serve_text_options *options,
                            struct serve_text_job *job, struct buf *out)
{
    const struct openai_request *body = job->body;
    const struct text_chat_options how = {
        .add_generation_prompt = body->add_generation_prompt,
        .disable_thinking = body->disable_thinking,
    };
    struct text_chat_message *messages =
        mem_new_array(body->message_count, sizeof(*messages));
    for (uint32_t i = 0; i < body->message_count; i++) {
        messages[i].role = openai_text(body, body->messages[i].role);
        messages[i].content = openai_text(body, body->messages[i].content);
    }
    enum err err = text_chat_render(options->chat, messages,
                                    body->message_count, &how, &job->why, out);
    mem_free(messages);
    return err;
}

static enum err encode_chat(const struct serve_text_options *options,
                            struct serve_text_job *job)
{
    /* BOS is in the text where the template prints one. */
    const struct text_encode_options how = {
        .add_special =
            job->body->route == OPENAI_CHAT && job->body->add_special_tokens,
        .parse_special = true,
    };
    struct buf text;
    buf_init(&text, TEXT_SIZE_MAX);
    enum err err = render_chat(options, job, &text);
    if (err == OK) {
        err = encode(options, buf_span(&text), &how, job);
    }
    buf_finish(&text);
    return err;
}

static enum err decode_tokens(const struct serve_text_options *options,
                              struct serve_text_job *job)
{
    uint32_t vocab_size = text_vocab_size(options->tokenizer);
    for (uint32_t i = 0; i < job->body->id_count; i++) {
        if ((uint32_t)job->body->ids[i] >= vocab_size) {
            return why_say(&job->why, ERR_INVALID,
                           "tokens[%" PRIu32 "]: id %" PRId32
                           " is not below the vocabulary size %" PRIu32,
                           i, job->body->ids[i], vocab_size);
        }
        text_token_bytes(options->tokenizer, job->body->ids[i], true,
                         &job->text);
    }
    return buf_error(&job->text) == OK
               ? OK
               : why_say(&job->why, ERR_INVALID, "tokens: text is too long");
}

void serve_text_run(const struct serve_text_options *options,
                    struct serve_text_job *job)
{
    const struct openai_request *body = job->body;
    buf_init(&job->text, TEXT_SIZE_MAX);
    if (body->route == OPENAI_DETOKENIZE) {
        job->error = decode_tokens(options, job);
    } else if (body->has_messages) {
        job->error = encode_chat(options, job);
    } else {
        job->error = encode_prompt(options, job);
    }
}

static void run_thread(void *context)
{
    struct serve_text_worker *worker = context;
    for (;;) {
        struct serve_text_job *job;
        if (!io_mailbox_take(worker->jobs, &job)) {
            io_waker_wait(worker->job_waker, UINT64_MAX);
            continue;
        }
        if (job == NULL) {
            return;
        }
        serve_text_run(&worker->options, job);
        enum err err = io_mailbox_post(worker->done, &job);
        CHECK(err == OK);
    }
}

static void deliver(void *context)
{
    struct serve_text_worker *worker = context;
    struct serve_text_job *job;
    while (io_mailbox_take(worker->done, &job)) {
        worker->options.on_done(worker->options.context, job);
    }
}

static enum err make_mailbox(struct io_waker *waker, uint32_t capacity,
                             struct io_mailbox **mailbox_out)
{
    const struct io_mailbox_options options = {
        .message_size = sizeof(struct serve_text_job *),
        .capacity = capacity,
        .waker = waker,
    };
    return io_mailbox_create(&options, mailbox_out);
}

static void free_worker(struct serve_text_worker *worker)
{
    if (worker->jobs != NULL) {
        io_mailbox_destroy(worker->jobs);
    }
    if (worker->done != NULL) {
        io_mailbox_destroy(worker->done);
    }
    if (worker->job_waker != NULL) {
        io_waker_destroy(worker->job_waker);
    }
    if (worker->done_waker != NULL) {
        io_waker_destroy(worker->done_waker);
    }
    mem_free(worker);
}

enum err serve_text_worker_open(const struct serve_text_options *options,
                                struct serve_text_worker **worker_out)
{
    struct serve_text_worker *worker = mem_new(sizeof(*worker));
    worker->options = *options;
    /* One more place for the word that ends the thread. */
    uint32_t capacity = options->job_count_max + 1;
    enum err err = io_waker_create(&worker->job_waker);
    if (err == OK) {
        err = io_waker_create(&worker->done_waker);
    }
    if (err == OK) {
        err = make_mailbox(worker->job_waker, capacity, &worker->jobs);
    }
    if (err == OK) {
        err = make_mailbox(worker->done_waker, capacity, &worker->done);
    }
    if (err == OK) {
        err =
            io_waker_attach(worker->done_waker, options->loop, deliver, worker);
    }
    if (err == OK) {
        err = io_thread_start("text", run_thread, worker, &worker->thread);
    }
    if (err != OK) {
        free_worker(worker);
        return err;
    }
    *worker_out = worker;
    return OK;
}

void serve_text_worker_post(struct serve_text_worker *worker,
                            struct serve_text_job *job)
{
    enum err err = io_mailbox_post(worker->jobs, &job);
    CHECK(err == OK);
}

void serve_text_worker_close(struct serve_text_worker *worker)
{
    struct serve_text_job *job = NULL;
    if (worker == NULL) {
        return;
    }
    serve_text_worker_post(worker, NULL);
    io_thread_join(worker->thread);
    deliver(worker);
    while (io_mailbox_take(worker->jobs, &job)) {
        buf_init(&job->text, 1);
        job->error = why_say(&job->why, ERR_CLOSED, "the server stops");
        worker->options.on_done(worker->options.context, job);
    }
    free_worker(worker);
}
