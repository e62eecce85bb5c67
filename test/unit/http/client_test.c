#include <stdio.h>
#include <unistd.h>

#include "unit/io/test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "http/client.h"
#include "http/server.h"
#include "io/tcp.h"

/* What a call reported. */
struct seen {
    struct http_call *call;
    int head_count;
    int end_count;
    int status;
    enum http_call_end end;
    bool is_reused;
    bool cancels_at_head;
    struct buf body;
    char text[100];
};

/* A raw worker: one connection at a time, said to what it should say. */
struct worker {
    struct io_listener *listener;
    struct io_stream *stream;
    struct buf got;
    int accept_count;
    int close_count;
};

static struct io_loop *loop;
static struct http_client *client;
static struct worker worker;
static struct seen seen;

static void worker_read(void *context, struct span bytes)
{
    buf_add_span(&((struct worker *)context)->got, bytes);
}

static void worker_close(void *context, enum err reason, const char *text)
{
    (void)reason;
    (void)text;
    ((struct worker *)context)->stream = NULL;
    ((struct worker *)context)->close_count++;
}

static const struct io_stream_handler WORKER = {.on_read = worker_read,
                                                .on_close = worker_close};

static void worker_accept(void *context, struct io_stream *stream)
{
    struct worker *self = context;
    self->accept_count++;
    self->stream = stream;
    io_stream_set_handler(stream, &WORKER, self);
}

static void on_head(void *context, struct http_call *call)
{
    struct seen *self = context;
    self->head_count++;
    self->status = http_call_status(call);
    if (self->cancels_at_head) {
        http_call_cancel(call);
    }
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    (void)call;
    buf_add_span(&((struct seen *)context)->body, bytes);
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct seen *self = context;
    self->end_count++;
    self->end = end;
    self->is_reused = http_call_is_reused(call);
    snprintf(self->text, sizeof(self->text), "%s", text);
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

static int set_up(void **state)
{
    (void)state;
    worker = (struct worker){0};
    seen = (struct seen){0};
    buf_init(&worker.got, 64 << 20);
    buf_init(&seen.body, 64 << 20);
    if (io_loop_create(&loop) != OK) {
        return -1;
    }
    client = http_client_create(loop, &(struct http_client_options){0});
    const struct io_listener_options options = {
        .host = "127.0.0.1", .on_accept = worker_accept, .context = &worker};
    return io_listener_open(loop, &options, NULL, &worker.listener) == OK ? 0
                                                                          : -1;
}

static int tear_down(void **state)
{
    (void)state;
    http_client_destroy(client);
    if (worker.stream != NULL) {
        io_stream_close(worker.stream, false);
    }
    io_listener_close(worker.listener);
    io_loop_destroy(loop);
    buf_finish(&worker.got);
    buf_finish(&seen.body);
    return 0;
}

static struct http_call_options post_of(struct span body)
{
    return (struct http_call_options){
        .host = "127.0.0.1",
        .port = io_listener_port(worker.listener),
        .method = "POST",
        .path = "/v1/x?y=1",
        .content_type = "application/json",
        .body = body,
        .handler = &HANDLER,
        .context = &seen,
    };
}

static void start(struct http_call_options options)
{
    struct seen fresh = {.cancels_at_head = seen.cancels_at_head};
    buf_finish(&seen.body);
    seen = fresh;
    buf_init(&seen.body, 64 << 20);
    buf_reset(&worker.got);
    assert_int_equal(http_call_start(client, &options, &seen.call), OK);
    assert_int_equal(seen.end_count, 0);
}

static void answer(const char *text)
{
    assert_int_equal(io_stream_write(worker.stream, span_of_string(text)), OK);
}

static void start_small_and_wait(void)
{
    start(post_of(span_of_string("{}")));
    TURN_UNTIL(loop,
               worker.got.size > 4 &&
                   memcmp(worker.got.data + worker.got.size - 2, "{}", 2) == 0);
}

#define OK_HI "HTTP/1.1 200 OK\r\nX-Id: 7\r\nContent-Length: 2\r\n\r\nhi"

/* The request byte for byte; the answer's parts. */
static void call_completes(void **state)
{
    (void)state;
    struct http_call_options options = post_of(span_of_string("{}"));
    const struct http_header headers[] = {{"X-A", "b"}, {NULL, NULL}};
    options.headers = headers;
    start(options);
    TURN_UNTIL(loop, worker.got.size > 0);
    char expected[300];
    snprintf(expected, sizeof(expected),
             "POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
             "Content-Type: application/json\r\nContent-Length: 2\r\n"
             "X-A: b\r\n\r\n{}",
             options.port);
    assert_string_equal(buf_string(&worker.got), expected);
    answer("HTTP/1.1 100 Continue\r\n\r\n" OK_HI);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_COMPLETE);
    assert_int_equal(seen.head_count, 1);
    assert_int_equal(seen.status, 200);
    assert_string_equal(buf_string(&seen.body), "hi");
}

/* The second call takes the first one's connection. */
static void idle_connection_is_reused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        start_small_and_wait();
        answer(OK_HI);
        TURN_UNTIL(loop, seen.end_count == 1);
        assert_int_equal(seen.is_reused, i > 0);
    }
    assert_int_equal(worker.accept_count, 1);
}

/* The worker closed the idle connection and our loop has not looked yet: the
 * peek sees it, one request goes out, on a fresh connection. [serve T85] */
static void stale_connection_is_not_reused(void **state)
{
    (void)state;
    start_small_and_wait();
    answer(OK_HI);
    TURN_UNTIL(loop, seen.end_count == 1);
    io_stream_reset(worker.stream);
    while (worker.close_count == 0) {
        io_loop_turn(loop, 0);
    }
    start_small_and_wait();
    assert_int_equal(worker.accept_count, 2);
    answer(OK_HI);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_false(seen.is_reused);
}

/* Bytes behind a complete answer: it counts, its connection does not. */
static void surplus_ends_the_connection(void **state)
{
    (void)state;
    start_small_and_wait();
    answer(OK_HI "surplus");
    TURN_UNTIL(loop, seen.end_count == 1 && worker.close_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_COMPLETE);
    start_small_and_wait();
    answer(OK_HI);
    TURN_UNTIL(loop, seen.end_count == 1);
    answer("stray");
    TURN_UNTIL(loop, worker.close_count == 2);
}

/* Nobody listens. [serve T81] */
static void refused_call_ends_as_refused(void **state)
{
    (void)state;
    struct http_call_options options = post_of(span_of_string("{}"));
    io_listener_close(worker.listener);
    worker.listener = NULL;
    start(options);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_REFUSED);
    options.host = "no-such-host.invalid";
    start(options);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_REFUSED);
}

/* Reset while most of a large body is still ours. [serve T81] */
static void reset_while_writing_ends_as_undelivered(void **state)
{
    (void)state;
    enum { SIZE = 32 << 20 };
    uint8_t *body = mem_new(SIZE);
    start(post_of(span_of(body, SIZE)));
    mem_free(body);
    TURN_UNTIL(loop, worker.got.size > 0);
    io_stream_reset(worker.stream);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_UNDELIVERED);
}

/* End and reset after the whole request was written. [serve T81] */
static void end_after_the_request_ends_as_lost(void **state)
{
    (void)state;
    start_small_and_wait();
    io_stream_close(worker.stream, false);
    TURN_UNTIL(loop, seen.end_count == 1 && worker.close_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_LOST);
    start_small_and_wait();
    io_stream_reset(worker.stream);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_LOST);
    assert_int_equal(worker.accept_count, 2);
}

/* Nonsense, a cut body, a cut head: never taken for undelivered; each request
 * arrived once. [serve T81] */
static void foreign_or_cut_answers_end_as_protocol(void **state)
{
    (void)state;
    static const char *const ANSWERS[] = {
        "HTTP/9 what\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nConte",
    };
    for (int i = 0; i < 4; i++) {
        start_small_and_wait();
        answer(ANSWERS[i]);
        io_stream_close(worker.stream, true);
        TURN_UNTIL(loop, seen.end_count == 1 && worker.stream == NULL);
        assert_int_equal(seen.end, HTTP_CALL_PROTOCOL);
        assert_int_equal(worker.accept_count, i + 1);
    }
}

/* A body without length: whole at an end in order, cut at a reset. */
static void body_until_the_end_needs_an_end_in_order(void **state)
{
    (void)state;
    start_small_and_wait();
    answer("HTTP/1.1 200 OK\r\n\r\nall of it");
    io_stream_close(worker.stream, true);
    TURN_UNTIL(loop, seen.end_count == 1 && worker.stream == NULL);
    assert_int_equal(seen.end, HTTP_CALL_COMPLETE);
    assert_string_equal(buf_string(&seen.body), "all of it");
    start_small_and_wait();
    answer("HTTP/1.1 200 OK\r\n\r\nhalf");
    TURN_UNTIL(loop, seen.body.size == 4);
    io_stream_reset(worker.stream);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_PROTOCOL);
}

/* An answer to half a request counts; its connection is not kept. */
static void early_answer_is_heard(void **state)
{
    (void)state;
    enum { SIZE = 32 << 20 };
    uint8_t *body = mem_new(SIZE);
    start(post_of(span_of(body, SIZE)));
    mem_free(body);
    TURN_UNTIL(loop, worker.got.size > 0);
    io_stream_set_reading(worker.stream, false);
    answer("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_COMPLETE);
    assert_int_equal(seen.status, 413);
    io_stream_set_reading(worker.stream, true);
    TURN_UNTIL(loop, worker.close_count == 1);
}

static void silence_ends_as_timeout(void **state)
{
    (void)state;
    struct http_call_options options = post_of(span_of_string("{}"));
    options.total_ns_max = 10000000;
    start(options);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_TIMEOUT);
    TURN_UNTIL(loop, worker.accept_count == worker.close_count);
    options.total_ns_max = 0;
    options.idle_ns_max = 10000000;
    start(options);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.end, HTTP_CALL_TIMEOUT);
    TURN_UNTIL(loop, worker.accept_count == worker.close_count);
}

/* Cancelled before, at and after the head: no further word, and the worker
 * sees the end. */
static void cancelled_call_is_silent(void **state)
{
    (void)state;
    start_small_and_wait();
    http_call_cancel(seen.call);
    TURN_UNTIL(loop, worker.close_count == 1);
    assert_int_equal(seen.end_count, 0);
    seen.cancels_at_head = true;
    start_small_and_wait();
    answer(OK_HI);
    TURN_UNTIL(loop, worker.close_count == 2);
    assert_int_equal(seen.head_count, 1);
    assert_int_equal(seen.end_count, 0);
    assert_int_equal(seen.body.size, 0);
}

/* HEAD: a length is announced and no body waited for. */
static void head_call_waits_for_no_body(void **state)
{
    (void)state;
    struct http_call_options options = post_of(span_of(NULL, 0));
    options.method = "HEAD";
    options.content_type = NULL;
    for (int i = 0; i < 2; i++) {
        start(options);
        TURN_UNTIL(loop, worker.got.size > 0);
        answer("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        TURN_UNTIL(loop, seen.end_count == 1);
        assert_int_equal(seen.end, HTTP_CALL_COMPLETE);
    }
    assert_int_equal(worker.accept_count, 1);
}

/* A name or value that would begin a line of its own. */
static void injection_is_refused(void **state)
{
    (void)state;
    struct http_call *call;
    struct http_call_options options = post_of(span_of_string("{}"));
    options.path = "/a b";
    assert_int_equal(http_call_start(client, &options, &call), ERR_INVALID);
    options = post_of(span_of_string("{}"));
    const struct http_header value[] = {{"X", "a\r\nY: b"}, {NULL, NULL}};
    options.headers = value;
    assert_int_equal(http_call_start(client, &options, &call), ERR_INVALID);
    const struct http_header name[] = {{"X:", "a"}, {NULL, NULL}};
    options.headers = name;
    assert_int_equal(http_call_start(client, &options, &call), ERR_INVALID);
    options = post_of(span_of_string("{}"));
    options.host = "";
    assert_int_equal(http_call_start(client, &options, &call), ERR_INVALID);
}

/* Paused: nothing more is read, however much was sent; then all of it. */
static void paused_call_pushes_back(void **state)
{
    (void)state;
    enum { SIZE = 8 << 20 };
    start_small_and_wait();
    http_call_set_reading(seen.call, false);
    char head[100];
    snprintf(head, sizeof(head),
             "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", SIZE);
    answer(head);
    uint8_t *body = mem_new(SIZE);
    assert_int_equal(io_stream_write(worker.stream, span_of(body, SIZE)), OK);
    mem_free(body);
    for (int i = 0; i < 20; i++) {
        io_loop_turn(loop, 1000000);
    }
    assert_int_equal(seen.head_count, 0);
    assert_true(io_stream_pending(worker.stream) > 0);
    http_call_set_reading(seen.call, true);
    TURN_UNTIL(loop, seen.end_count == 1);
    assert_int_equal(seen.body.size, SIZE);
}

/* A client destroyed with a call under way says nothing more. */
static void destroy_cancels(void **state)
{
    (void)state;
    start_small_and_wait();
    http_client_destroy(client);
    client = NULL;
    TURN_UNTIL(loop, worker.close_count == 1);
    assert_int_equal(seen.end_count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(call_completes),
        TEST(idle_connection_is_reused),
        TEST(stale_connection_is_not_reused),
        TEST(surplus_ends_the_connection),
        TEST(refused_call_ends_as_refused),
        TEST(reset_while_writing_ends_as_undelivered),
        TEST(end_after_the_request_ends_as_lost),
        TEST(foreign_or_cut_answers_end_as_protocol),
        TEST(body_until_the_end_needs_an_end_in_order),
        TEST(early_answer_is_heard),
        TEST(silence_ends_as_timeout),
        TEST(cancelled_call_is_silent),
        TEST(head_call_waits_for_no_body),
        TEST(injection_is_refused),
        TEST(paused_call_pushes_back),
        TEST(destroy_cancels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
