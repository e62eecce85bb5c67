#include "world.h"

#include "serve/text_worker.h"

static int done_count;
static enum err last_error;

static void on_done(void *context, struct serve_text_job *job)
{
    (void)context;
    done_count++;
    last_error = job->error;
}

static void parse(enum openai_route route, const char *body,
                  struct openai_request *request)
{
    const struct openai_limits limits = {.id_count_max = 100};
    struct openai_fault fault;
    if (openai_request_parse(route, span_of_string(body), &limits, &fault,
                             request) != OK) {
        fail_msg("%s", fault.why.text);
    }
}

static void finish(struct serve_text_job *job, struct openai_request *request)
{
    mem_free(job->ids);
    buf_finish(&job->text);
    openai_request_finish(request);
}

/* Proof: the work itself, on this thread: a prompt that has more ids than
 * allowed is refused with the number; one that fits is not. */
static void a_prompt_is_bounded(void **state)
{
    struct world *world = *state;
    struct openai_request request;
    struct serve_text_options options = {.tokenizer = world->tokenizer,
                                         .id_count_max = 4};
    parse(OPENAI_TOKENIZE, "{\"prompt\":\"abc\"}", &request);
    struct serve_text_job job = {.body = &request};
    serve_text_run(&options, &job);
    assert_int_equal(job.error, OK);
    assert_int_equal(job.id_count, 4);
    finish(&job, &request);
    parse(OPENAI_TOKENIZE, "{\"prompt\":\"abcd\"}", &request);
    job = (struct serve_text_job){.body = &request};
    serve_text_run(&options, &job);
    assert_int_equal(job.error, ERR_INVALID);
    assert_non_null(strstr(job.why.text, "4 tokens"));
    finish(&job, &request);
}

/* Proof: posted jobs come back through the loop; those still waiting when the
 * worker closes come back too, each exactly once. */
static void every_job_comes_back(void **state)
{
    struct world *world = *state;
    enum { COUNT = 20 };
    struct openai_request requests[COUNT];
    struct serve_text_job jobs[COUNT];
    struct serve_text_worker *worker;
    const struct serve_text_options options = {
        .loop = world->loop,
        .tokenizer = world->tokenizer,
        .id_count_max = 100,
        .job_count_max = COUNT,
        .on_done = on_done,
    };
    assert_int_equal(serve_text_worker_open(&options, &worker), OK);
    done_count = 0;
    for (int i = 0; i < COUNT; i++) {
        parse(OPENAI_DETOKENIZE, "{\"tokens\":[100]}", &requests[i]);
        jobs[i] = (struct serve_text_job){.body = &requests[i]};
        serve_text_worker_post(worker, &jobs[i]);
        if (i == 0) {
            for (int k = 0; k < 1000 && done_count == 0; k++) {
                io_loop_turn(world->loop, 10000000);
            }
            assert_int_equal(done_count, 1);
            assert_int_equal(last_error, OK);
        }
    }
    serve_text_worker_close(worker);
    assert_int_equal(done_count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        finish(&jobs[i], &requests[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_prompt_is_bounded),
        TEST(every_job_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
