/* http/client with workers given by name, over a name service of the test's own
 * that hangs until it is released. */
#include <stdlib.h>

#include "unit/io/names.h"

#include "http/client.h"
#include "io/tcp.h"

struct seen {
    struct http_call *call;
    int ends;
    enum http_call_end end;
    char text[100];
};

static struct io_loop *loop;
static struct http_client *client;
static struct io_listener *listener;
static int workers_open;

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct seen *seen = context;
    (void)call;
    seen->ends++;
    seen->end = end;
    snprintf(seen->text, sizeof(seen->text), "%s", text);
}

static const struct http_call_handler HANDLER = {.on_end = on_end};

/* Every worker answers and leaves, whatever is said. */
static void on_read(void *context, struct span bytes)
{
    struct io_stream **stream = context;
    static const char ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
                                 "Connection: close\r\n\r\n";
    (void)bytes;
    assert_int_equal(io_stream_write(*stream, span_of_string(ANSWER)), OK);
    io_stream_close(*stream, true);
}

static void on_close(void *context, enum err reason, const char *text)
{
    (void)reason;
    (void)text;
    free(context);
    workers_open--;
}

static const struct io_stream_handler WORKER = {.on_read = on_read,
                                                .on_close = on_close};

static void on_accept(void *context, struct io_stream *stream)
{
    struct io_stream **held = malloc(sizeof(struct io_stream *));
    (void)context;
    *held = stream;
    workers_open++;
    io_stream_set_handler(stream, &WORKER, held);
}

static int set_up(void **state)
{
    struct io_resolver_options names_of_loop = {.look_up = NAMES};
    struct io_listener_options options = {.host = "127.77.0.1",
                                          .on_accept = on_accept};
    (void)state;
    names_reset();
    assert_int_equal(io_loop_create(&loop), OK);
    assert_int_equal(io_loop_resolve_with(loop, &names_of_loop), OK);
    assert_int_equal(io_listener_open(loop, &options, NULL, &listener), OK);
    client = http_client_create(
        loop, &(struct http_client_options){.connect_timeout_ns = 200000000});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_client_destroy(client);
    io_listener_close(listener);
    TURN_UNTIL(loop, workers_open == 0);
    io_loop_destroy(loop);
    names_release();
    return 0;
}

static void start(struct seen *seen, const char *host, uint64_t total_ns_max)
{
    *seen = (struct seen){0};
    struct http_call_options options = {.host = host,
                                        .port = io_listener_port(listener),
                                        .method = "GET",
                                        .path = "/",
                                        .total_ns_max = total_ns_max,
                                        .handler = &HANDLER,
                                        .context = seen};
    assert_int_equal(http_call_start(client, &options, &seen->call), OK);
    assert_int_equal(seen->ends, 0);
}

/* While one call's name hangs others are answered, by digits and by name. */
static void calls_go_on_while_a_name_hangs(void **state)
{
    struct seen hung, other;
    (void)state;
    start(&hung, "hang-1", 0);
    names_wait_hanging(1);
    for (int i = 0; i < 4; i++) {
        start(&other, i % 2 == 0 ? "127.77.0.1" : "one", 0);
        TURN_UNTIL(loop, other.ends == 1);
        assert_int_equal(other.end, HTTP_CALL_COMPLETE);
    }
    http_call_cancel(hung.call);
    assert_int_equal(hung.ends, 0);
}

/* The limit of the connect: as when the worker cannot be reached, with the name
 * in the reason. That of the call, where it is shorter, says the same. */
static void the_reason_names_the_host(void **state)
{
    struct seen seen;
    (void)state;
    start(&seen, "hang-1", 0);
    TURN_UNTIL(loop, seen.ends == 1);
    assert_int_equal(seen.end, HTTP_CALL_REFUSED);
    assert_string_equal(seen.text,
                        "the name service does not answer: host \"hang-1\"");
    start(&seen, "hang-1", 1000000);
    TURN_UNTIL(loop, seen.ends == 1);
    assert_int_equal(seen.end, HTTP_CALL_TIMEOUT);
    assert_string_equal(seen.text,
                        "the name service does not answer: host \"hang-1\"");
    start(&seen, "nobody", 0);
    TURN_UNTIL(loop, seen.ends == 1);
    assert_int_equal(seen.end, HTTP_CALL_REFUSED);
    assert_string_equal(seen.text, "host \"nobody\": unknown here");
}

/* tear_down ends the client and the loop before it releases the names. */
static void the_client_may_end_while_a_name_hangs(void **state)
{
    static struct seen seen;
    (void)state;
    start(&seen, "hang-1", 0);
    start(&seen, "hang-2", 0);
    names_wait_hanging(2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(calls_go_on_while_a_name_hangs),
        TEST(the_reason_names_the_host),
        TEST(the_client_may_end_while_a_name_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
